// Package openai owns how OpenAI and every server that speaks its chat
// completions is asked, by base URL, with the answer as server-sent events.
//
// Such servers differ in how they stream calls: ids come once, always or never,
// and so do indexes. A call is told by its id, and only without one by its
// index; another id under the same index is another call.
package openai

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
	"github.com/stoahub/stoa/internal/wire"
)

const (
	provider     = "openai"
	defaultBase  = "https://api.openai.com/v1"
	defaultModel = "gpt-4.1-mini"
	maxEvent     = 10 << 20
)

var nameRule = shape.Rule{Max: 64, Also: "-"}

// Model asks a server for chat completions.
type Model struct {
	o      llm.Options
	own    bool // OpenAI itself
	client *exchange.Client
}

// New makes a model. OpenAI itself needs a key; other servers may not.
func New(o llm.Options) (*Model, error) {
	o = o.Defaults()
	own := o.BaseURL == "" || o.BaseURL == defaultBase
	if own && o.APIKey.Reveal() == "" {
		return nil, errors.New("openai: no key: set OPENAI_API_KEY, or the base URL of a server that needs none")
	}
	if o.BaseURL == "" {
		o.BaseURL = defaultBase
	}
	if o.Model == "" {
		if !own {
			return nil, errors.New("openai: no model: say which one the server at the base URL has")
		}
		o.Model = defaultModel
	}
	return &Model{o: o, own: own, client: exchange.New(provider, o)}, nil
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
		header := http.Header{"Accept": {"text/event-stream"}}
		if key := m.o.APIKey.Reveal(); key != "" {
			header.Set("Authorization", "Bearer "+key)
		}
		m.client.Stream(ctx, exchange.Ask{
			Model:  req.Model,
			Tried:  req.Tried,
			URL:    strings.TrimRight(m.o.BaseURL, "/") + "/chat/completions",
			Header: header,
			Body:   func(*llm.Error) ([]byte, error) { return json.Marshal(body) },
			Read: func(r io.Reader, emit exchange.Emit) error {
				a := answer{
					emit: emit, byID: map[string]int{}, byIndex: map[int]int{}, last: -1,
					calls: exchange.Calls{Emit: emit, IDs: llm.NewIDs(req.Messages), Name: names.Back},
				}
				return exchange.Spent(a.read(r), a.usage)
			},
			Fail: fail,
		}, yield)
	}
}

type chunk struct {
	Choices []struct {
		Delta struct {
			Content          string      `json:"content"`
			Refusal          string      `json:"refusal"`
			ReasoningContent string      `json:"reasoning_content"`
			Reasoning        string      `json:"reasoning"`
			ToolCalls        []callPiece `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt        int `json:"prompt_tokens"`
		Completion    int `json:"completion_tokens"`
		PromptDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type callPiece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// answer reads one answer.
type answer struct {
	emit      exchange.Emit
	calls     exchange.Calls
	byID      map[string]int
	byIndex   map[int]int
	last      int
	reasoning string // the field that reasoning comes in, while it does
	finish    string
	said      bool // text, or a call
	refused   strings.Builder
	usage     *llm.Usage
}

func (a *answer) read(r io.Reader) error {
	events := exchange.Events(r, maxEvent)
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) || err != nil && a.finish != "" || err == nil && string(ev.Data) == "[DONE]" {
			return a.end() // what follows the reason to finish is usage at most
		}
		if err != nil {
			return err
		}
		if text, ok := plainText(ev.Data); ok {
			if err := a.text(text); err != nil {
				return err
			}
			continue
		}
		var c chunk
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			return &llm.Error{Cause: llm.BadAnswer, Detail: "an event is no JSON", Err: err}
		}
		if len(c.Error) > 0 && string(c.Error) != "null" {
			return failMid(ev.Data)
		}
		if err := a.take(c); err != nil {
			return err
		}
	}
}

func (a *answer) take(c chunk) error {
	if u := c.Usage; u != nil {
		a.usage = &llm.Usage{Input: u.Prompt, Output: u.Completion, CacheRead: u.PromptDetails.Cached, Reasoning: u.CompletionDetails.Reasoning}
	}
	if len(c.Choices) == 0 {
		return nil
	}
	d := c.Choices[0].Delta
	field, thought := "reasoning_content", d.ReasoningContent
	if thought == "" { // servers that send both say the same in both
		field, thought = "reasoning", d.Reasoning
	}
	if thought != "" {
		a.reasoning = field
		if err := a.emit(llm.Delta{Kind: llm.Reason, Text: thought}); err != nil {
			return err
		}
	}
	if err := a.text(d.Content); err != nil {
		return err
	}
	if len(d.ToolCalls) > 0 || c.Choices[0].FinishReason != "" {
		if err := a.endReasoning(); err != nil {
			return err
		}
	}
	a.refused.WriteString(d.Refusal)
	for _, p := range d.ToolCalls {
		if err := a.call(p); err != nil {
			return err
		}
	}
	if f := c.Choices[0].FinishReason; f != "" {
		a.finish = f
	}
	return nil
}

func (a *answer) text(s string) error {
	if s == "" {
		return nil
	}
	if err := a.endReasoning(); err != nil {
		return err
	}
	a.said = true
	return a.emit(llm.Delta{Kind: llm.Text, Text: s})
}

func (a *answer) endReasoning() error {
	if a.reasoning == "" {
		return nil
	}
	field := wire.Quote(a.reasoning)
	a.reasoning = ""
	return a.emit(llm.Delta{Kind: llm.ReasonEnd, Opaque: &llm.Opaque{Provider: provider, Data: field}})
}

// call finds the call that a piece belongs to, or begins one.
func (a *answer) call(p callPiece) error {
	at, known := -1, false
	switch {
	case p.ID != "":
		if at, known = a.byID[p.ID]; !known && p.Index != nil {
			// The id may come after the first piece of its call.
			if i, ok := a.byIndex[*p.Index]; ok && !a.hasID(i) {
				at, known = i, true
			}
		}
	case p.Index != nil:
		at, known = a.byIndex[*p.Index]
	case p.Function.Name == "" && a.last >= 0:
		at, known = a.last, true
	}
	if !known {
		var err error
		if at, err = a.calls.Start(p.ID, p.Function.Name); err != nil {
			return err
		}
	}
	if p.ID != "" {
		a.byID[p.ID] = at
	}
	if p.Index != nil {
		a.byIndex[*p.Index] = at
	}
	a.last = at
	a.calls.Named(at, p.Function.Name)
	args, isText := wire.String(p.Function.Arguments)
	if !isText && string(p.Function.Arguments) != "null" {
		args = string(p.Function.Arguments) // some send the object itself
	}
	return a.calls.Args(at, args)
}

func (a *answer) hasID(at int) bool {
	for _, i := range a.byID {
		if i == at {
			return true
		}
	}
	return false
}

func (a *answer) end() error {
	if a.finish == "" {
		return io.ErrUnexpectedEOF
	}
	if s := a.refused.String(); s != "" {
		return &llm.Error{Cause: llm.Blocked, Detail: s}
	}
	if a.finish == "content_filter" {
		return &llm.Error{Cause: llm.Blocked}
	}
	if !a.said && a.calls.Len() == 0 && a.finish != "length" {
		return &llm.Error{Cause: llm.BadAnswer, Detail: "the answer is empty"}
	}
	if err := a.endReasoning(); err != nil {
		return err
	}
	if err := a.calls.Finish(); err != nil {
		return err
	}
	if a.usage != nil {
		if err := a.emit(llm.Delta{Kind: llm.Used, Usage: *a.usage}); err != nil {
			return err
		}
	}
	stop := llm.Done
	switch {
	case a.finish == "length":
		stop = llm.CutOff
	case a.calls.Len() > 0: // some say "stop" then
		stop = llm.Calls
	}
	return a.emit(llm.Delta{Kind: llm.Stopped, Stop: stop})
}

var _ llm.Model = (*Model)(nil)
