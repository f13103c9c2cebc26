// Package anthropic owns how Anthropic's models are asked: the Messages API,
// with the answer as server-sent events.
//
// In what is sent, calls stand last in their message, their results first in
// the next, and signed reasoning before both, as the API demands.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/exchange"
	"github.com/stoahub/stoa/internal/llm/shape"
)

const (
	provider     = "anthropic"
	defaultBase  = "https://api.anthropic.com"
	defaultModel = "claude-sonnet-4-5"
	version      = "2023-06-01"
	defaultMax   = 8192 // the API has none of its own
	maxEvent     = 10 << 20
)

var nameRule = shape.Rule{Max: 64, Also: "-"}

// Model asks Anthropic.
type Model struct {
	o      llm.Options
	client *exchange.Client
}

// New makes a model. It needs a key.
func New(o llm.Options) (*Model, error) {
	if o.APIKey.Reveal() == "" {
		return nil, errors.New("anthropic: no key: set ANTHROPIC_API_KEY")
	}
	o = o.Defaults()
	if o.BaseURL == "" {
		o.BaseURL = defaultBase
	}
	if o.Model == "" {
		o.Model = defaultModel
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = defaultMax
	}
	return &Model{o: o, client: exchange.New(provider, o)}, nil
}

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	req = m.o.Fill(req)
	return func(yield func(llm.Delta, error) bool) {
		names := shape.NewNames(nameRule, req)
		body, missing := m.body(req, names)
		for _, d := range missing {
			if !yield(d, nil) {
				return
			}
		}
		m.client.Stream(ctx, exchange.Ask{
			Model:  req.Model,
			Tried:  req.Tried,
			URL:    strings.TrimSuffix(strings.TrimRight(m.o.BaseURL, "/"), "/v1") + "/v1/messages",
			Header: http.Header{"X-Api-Key": {m.o.APIKey.Reveal()}, "Anthropic-Version": {version}},
			Body:   func(*llm.Error) ([]byte, error) { return json.Marshal(body) },
			Read: func(r io.Reader, emit exchange.Emit) error {
				a := answer{emit: emit, open: map[int]*block{}, calls: exchange.Calls{Emit: emit, IDs: llm.NewIDs(req.Messages), Name: names.Back}}
				return exchange.Spent(a.read(r), a.usage())
			},
			Fail: func(status int, body []byte) *llm.Error { return fail(status, body) },
		}, yield)
	}
}

type usage struct {
	Input      *int `json:"input_tokens"`
	Output     *int `json:"output_tokens"`
	CacheRead  *int `json:"cache_read_input_tokens"`
	CacheWrite *int `json:"cache_creation_input_tokens"`
}

type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	Block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage `json:"usage"`
}

// block is a content block that is open.
type block struct {
	kind  string
	call  int
	whole string // the input of a call that came at its start
	said  bool   // arguments came in pieces
	think thinkingBlock
}

// answer reads one answer.
type answer struct {
	emit  exchange.Emit
	calls exchange.Calls
	open  map[int]*block
	stop  string
	seen  usage
}

func (a *answer) read(r io.Reader) error {
	events := exchange.Events(r, maxEvent)
	for {
		ev, err := events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // message_stop ends an answer
			}
			return err
		}
		var e event
		if err := json.Unmarshal(ev.Data, &e); err != nil {
			return &llm.Error{Cause: llm.BadAnswer, Detail: "an event is no JSON", Err: err}
		}
		switch e.Type {
		case "error":
			return fail(0, ev.Data)
		case "message_stop":
			return a.end()
		}
		if err := a.take(e); err != nil {
			return err
		}
	}
}

// take passes over events that it does not know, as the API asks of clients.
func (a *answer) take(e event) error {
	switch e.Type {
	case "message_start":
		a.count(e.Message.Usage)
	case "message_delta":
		a.count(e.Usage)
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
	case "content_block_start":
		if err := a.close(e.Index); err != nil { // an index that is used twice
			return err
		}
		return a.begin(e)
	case "content_block_delta":
		return a.piece(e)
	case "content_block_stop":
		return a.close(e.Index)
	}
	return nil
}

func (a *answer) count(u usage) {
	for _, f := range []struct{ to, from **int }{{&a.seen.Input, &u.Input}, {&a.seen.Output, &u.Output}, {&a.seen.CacheRead, &u.CacheRead}, {&a.seen.CacheWrite, &u.CacheWrite}} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

func (a *answer) begin(e event) error {
	b := &block{kind: e.Block.Type}
	a.open[e.Index] = b
	switch b.kind {
	case "text":
		if e.Block.Text != "" {
			return a.emit(llm.Delta{Kind: llm.Text, Text: e.Block.Text})
		}
	case "tool_use":
		if in := string(e.Block.Input); in != "{}" && in != "null" {
			b.whole = in
		}
		var err error
		b.call, err = a.calls.Start(e.Block.ID, e.Block.Name)
		return err
	case "thinking":
		b.think = thinkingBlock{Type: b.kind, Thinking: new(e.Block.Thinking), Signature: e.Block.Signature}
		if e.Block.Thinking != "" {
			return a.emit(llm.Delta{Kind: llm.Reason, Text: e.Block.Thinking})
		}
	case "redacted_thinking":
		b.think = thinkingBlock{Type: b.kind, Data: e.Block.Data}
	}
	return nil
}

func (a *answer) piece(e event) error {
	b := a.open[e.Index]
	if b == nil {
		return &llm.Error{Cause: llm.BadAnswer, Detail: "a piece of a block that did not begin"}
	}
	switch d := e.Delta; d.Type {
	case "text_delta":
		if d.Text != "" {
			return a.emit(llm.Delta{Kind: llm.Text, Text: d.Text})
		}
	case "input_json_delta":
		if b.kind == "tool_use" && d.PartialJSON != "" {
			b.said = true
			return a.calls.Args(b.call, d.PartialJSON)
		}
	case "thinking_delta":
		if b.think.Thinking != nil && d.Thinking != "" {
			*b.think.Thinking += d.Thinking
			return a.emit(llm.Delta{Kind: llm.Reason, Text: d.Thinking})
		}
	case "signature_delta":
		b.think.Signature += d.Signature
	}
	return nil
}

func (a *answer) close(index int) error {
	b := a.open[index]
	if b == nil {
		return nil
	}
	delete(a.open, index)
	switch b.kind {
	case "tool_use":
		if !b.said {
			if err := a.calls.Args(b.call, b.whole); err != nil {
				return err
			}
		}
		return a.calls.End(b.call, nil)
	case "thinking", "redacted_thinking":
		data, err := json.Marshal(b.think)
		if err != nil {
			return err
		}
		return a.emit(llm.Delta{Kind: llm.ReasonEnd, Opaque: &llm.Opaque{Provider: provider, Data: data}})
	}
	return nil
}

func (a *answer) end() error {
	stop := llm.Done
	switch a.stop {
	case "":
		return &llm.Error{Cause: llm.BadAnswer, Detail: "the answer has no reason to stop"}
	case "max_tokens", "model_context_window_exceeded":
		stop = llm.CutOff
	case "refusal":
		return &llm.Error{Cause: llm.Blocked}
	}
	if err := a.calls.Finish(); err != nil {
		return err
	}
	if a.calls.Len() > 0 && stop == llm.Done {
		stop = llm.Calls
	}
	if u := a.usage(); u != nil {
		if err := a.emit(llm.Delta{Kind: llm.Used, Usage: *u}); err != nil {
			return err
		}
	}
	return a.emit(llm.Delta{Kind: llm.Stopped, Stop: stop})
}

// usage is what was counted so far, nil if nothing was. The API counts what was
// cached apart from its input.
func (a *answer) usage() *llm.Usage {
	if a.seen == (usage{}) {
		return nil
	}
	of := func(n *int) int {
		if n == nil {
			return 0
		}
		return *n
	}
	read, write := of(a.seen.CacheRead), of(a.seen.CacheWrite)
	return &llm.Usage{Input: of(a.seen.Input) + read + write, Output: of(a.seen.Output), CacheRead: read, CacheWrite: write}
}

var _ llm.Model = (*Model)(nil)
