// Package ollama owns how models of an Ollama server are asked: its native
// API, whose answers are lines of JSON.
//
// Without a size told, the server takes a small context and drops the front of
// what does not fit, system prompt and tools first, and says nothing. So the
// size is always told, a request that cannot fit is refused here, and an answer
// to less than what was sent comes with a warning. A model that cannot call
// functions is given tools by blocks in its text (llm.Fenced).
package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/exchange"
	"github.com/stoahub/stoa/internal/llm/shape"
	"github.com/stoahub/stoa/internal/wire"
)

const (
	provider       = "ollama"
	defaultBase    = "http://127.0.0.1:11434"
	defaultContext = 8192 // more may not fit the memory of a small machine
	maxLine        = 10 << 20
)

var nameRule = shape.Rule{Max: 64, Also: ".-:"}

// Model asks an Ollama server.
type Model struct {
	o      llm.Options
	client *exchange.Client
	meter  llm.Meter

	mu    sync.Mutex
	known map[string]about
}

// about is what the server tells of a model.
type about struct {
	context int  // its largest context; 0 if not told
	fenced  bool // it cannot call functions
}

// New makes a model. It needs the model's name, and no key.
func New(o llm.Options) (*Model, error) {
	if o.Model == "" {
		return nil, errors.New("ollama: no model: name one that `ollama list` shows")
	}
	o = o.Defaults()
	if o.BaseURL == "" {
		o.BaseURL = defaultBase
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	return &Model{o: o, client: exchange.New(provider, o), known: map[string]about{}}, nil
}

// Stream implements llm.Model.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	req = m.o.Fill(req)
	return func(yield func(llm.Delta, error) bool) {
		a, ok := m.about(ctx, req.Model, yield)
		if !ok {
			return
		}
		var inner llm.Model = direct{m, a}
		if a.fenced {
			inner = llm.Fenced(inner)
		}
		for d, err := range inner.Stream(ctx, req) {
			if !yield(d, err) {
				return
			}
		}
	}
}

// header goes with every request; a server behind a proxy may want a key.
func (m *Model) header() http.Header {
	if key := m.o.APIKey.Reveal(); key != "" {
		return http.Header{"Authorization": {"Bearer " + key}}
	}
	return nil
}

// about asks the server about a model, once. A server that does not answer
// that question is taken as it is; retries and failures go to yield.
func (m *Model) about(ctx context.Context, model string, yield func(llm.Delta, error) bool) (about, bool) {
	m.mu.Lock()
	a, ok := m.known[model]
	m.mu.Unlock()
	if ok {
		return a, true
	}
	done, gone := false, false
	m.client.Stream(ctx, exchange.Ask{
		Model:  model,
		URL:    m.o.BaseURL + "/api/show",
		Header: m.header(),
		Body:   func(*llm.Error) ([]byte, error) { return json.Marshal(map[string]string{"model": model}) },
		Read: func(r io.Reader, _ exchange.Emit) (err error) {
			a, err = readAbout(r)
			done = err == nil
			return err
		},
		Fail: fail,
	}, func(d llm.Delta, err error) bool {
		if e := (*llm.Error)(nil); errors.As(err, &e) && e.Cause == llm.BadRequest {
			return true // an older server, or one that only looks like it
		}
		gone = !yield(d, err) || err != nil
		return !gone
	})
	if done {
		m.mu.Lock()
		m.known[model] = a
		m.mu.Unlock()
	}
	return a, !gone
}

func readAbout(r io.Reader) (about, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxLine))
	if err != nil {
		return about{}, err
	}
	var show struct {
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
	}
	if err := json.Unmarshal(b, &show); err != nil {
		return about{}, &llm.Error{Cause: llm.BadRequest, Err: err}
	}
	a := about{fenced: len(show.Capabilities) > 0 && !slices.Contains(show.Capabilities, "tools")}
	for k, v := range show.Info {
		if n, ok := v.(float64); ok && strings.HasSuffix(k, ".context_length") {
			a.context = int(n)
		}
	}
	return a, nil
}

// direct asks a model of which everything is known.
type direct struct {
	m     *Model
	about about
}

func (d direct) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		m := d.m
		size := m.o.MaxTokenCount
		if size == 0 {
			size = defaultContext
		}
		if d.about.context > 0 {
			size = min(size, d.about.context)
		}
		estimate := m.meter.Estimate(req)
		if estimate >= size {
			yield(llm.Delta{}, &llm.Error{Cause: llm.ContextTooLong, Provider: provider, Model: req.Model,
				Detail: fmt.Sprintf("about %d tokens for a context of %d; raise maxTokenCount if the model and the memory allow it", estimate, size)})
			return
		}
		names := shape.NewNames(nameRule, req)
		body, missing := newBody(req, names, size)
		for _, d := range missing {
			if !yield(d, nil) {
				return
			}
		}
		m.client.Stream(ctx, exchange.Ask{
			Model:  req.Model,
			Tried:  req.Tried,
			URL:    m.o.BaseURL + "/api/chat",
			Header: m.header(),
			Body:   func(*llm.Error) ([]byte, error) { return json.Marshal(body) },
			Read: func(r io.Reader, emit exchange.Emit) error {
				a := answer{emit: emit, estimate: estimate, size: size, calls: exchange.Calls{Emit: emit, IDs: llm.NewIDs(req.Messages), Name: names.Back}}
				err := a.read(r)
				if err == nil && !a.cut {
					m.meter.Learn(req, *a.usage)
				}
				return exchange.Spent(err, a.usage)
			},
			Fail: fail,
		}, yield)
	}
}

type line struct {
	Message struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done       bool            `json:"done"`
	DoneReason string          `json:"done_reason"`
	Prompt     int             `json:"prompt_eval_count"`
	Eval       int             `json:"eval_count"`
	Error      json.RawMessage `json:"error"`
}

// answer reads one answer.
type answer struct {
	emit           exchange.Emit
	calls          exchange.Calls
	estimate, size int
	thinking       bool
	said           bool // text, or a call
	cut            bool // the server read less than was sent
	usage          *llm.Usage
}

func (a *answer) read(r io.Reader) error {
	lines := wire.NewLineReader(r, maxLine)
	for {
		b, err := lines.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the last line says that it is
			}
			return err
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return &llm.Error{Cause: llm.BadAnswer, Detail: "a line is no JSON", Err: err}
		}
		if len(l.Error) > 0 {
			return fail(http.StatusInternalServerError, b)
		}
		if err := a.take(l); err != nil || l.Done {
			return err
		}
	}
}

func (a *answer) take(l line) error {
	if l.Message.Thinking != "" {
		a.thinking = true
		if err := a.emit(llm.Delta{Kind: llm.Reason, Text: l.Message.Thinking}); err != nil {
			return err
		}
	}
	if a.thinking && (l.Message.Content != "" || len(l.Message.ToolCalls) > 0 || l.Done) {
		a.thinking = false
		if err := a.emit(llm.Delta{Kind: llm.ReasonEnd, Opaque: &llm.Opaque{Provider: provider, Data: json.RawMessage("true")}}); err != nil {
			return err
		}
	}
	if l.Message.Content != "" {
		a.said = true
		if err := a.emit(llm.Delta{Kind: llm.Text, Text: l.Message.Content}); err != nil {
			return err
		}
	}
	for _, c := range l.Message.ToolCalls {
		// Each comes whole. Indexes are not to be trusted: some servers give
		// all calls the same.
		i, err := a.calls.Start(c.ID, c.Function.Name)
		if err != nil {
			return err
		}
		args, isText := wire.String(c.Function.Arguments)
		if !isText {
			args = string(c.Function.Arguments)
		}
		if err = a.calls.Args(i, args); err != nil {
			return err
		}
		if err = a.calls.End(i, nil); err != nil {
			return err
		}
	}
	if !l.Done {
		return nil
	}
	return a.end(l)
}

// wasCut reports whether a server read less than it was sent: far less than the
// estimate, which is not that wrong, or the half of its context that is left
// when a prompt fills more than all of it (ollama#17427).
func wasCut(read, estimate, size int) bool {
	if read <= 0 || estimate < 1000 {
		return false
	}
	half := read >= size/2 && read <= size/2+8 && float64(estimate) > 0.75*float64(size)
	return half || float64(read) < 0.4*float64(estimate)
}

func (a *answer) end(l line) error {
	a.usage = &llm.Usage{Input: l.Prompt, Output: l.Eval}
	if !a.said && a.calls.Len() == 0 && l.DoneReason != "length" {
		return &llm.Error{Cause: llm.BadAnswer, Detail: "the answer is empty"}
	}
	if a.cut = wasCut(l.Prompt, a.estimate, a.size); a.cut {
		text := fmt.Sprintf("the model read %d tokens of about %d: the server seems to have dropped the beginning; its context should be %d", l.Prompt, a.estimate, a.size)
		if err := a.emit(llm.Delta{Kind: llm.Warned, Text: text}); err != nil {
			return err
		}
	}
	if err := a.emit(llm.Delta{Kind: llm.Used, Usage: *a.usage}); err != nil {
		return err
	}
	stop := llm.Done
	switch {
	case l.DoneReason == "length":
		stop = llm.CutOff
	case a.calls.Len() > 0:
		stop = llm.Calls
	}
	return a.emit(llm.Delta{Kind: llm.Stopped, Stop: stop})
}

var _ llm.Model = (*Model)(nil)
