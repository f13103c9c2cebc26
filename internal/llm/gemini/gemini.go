// Package gemini owns how Google's Gemini models are asked: the REST method
// streamGenerateContent, with its answer as server-sent events.
//
// Signatures of thoughts go back on the very part they came with, and the
// calls of one answer go back as one content. A call that the model got wrong
// comes as a success with nothing in it; it is asked again with a note, and is
// never taken for an answer.
package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/exchange"
	"github.com/stoahub/stoa/internal/llm/shape"
)

const (
	provider     = "gemini"
	defaultBase  = "https://generativelanguage.googleapis.com"
	defaultModel = "gemini-2.5-flash"
	maxEvent     = 10 << 20
)

var nameRule = shape.Rule{Max: 64, Also: ".-", Letter: true}

// Model asks Gemini.
type Model struct {
	o      llm.Options
	client *exchange.Client
}

// New makes a model. It needs a key.
func New(o llm.Options) (*Model, error) {
	if o.APIKey.Reveal() == "" {
		return nil, errors.New("gemini: no key: set GEMINI_API_KEY")
	}
	o = o.Defaults()
	if o.BaseURL == "" {
		o.BaseURL = defaultBase
	}
	if o.Model == "" {
		o.Model = defaultModel
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
			URL:    strings.TrimRight(m.o.BaseURL, "/") + "/v1beta/models/" + url.PathEscape(strings.TrimPrefix(req.Model, "models/")) + ":streamGenerateContent?alt=sse",
			Header: http.Header{"X-Goog-Api-Key": {m.o.APIKey.Reveal()}},
			Body: func(last *llm.Error) ([]byte, error) {
				if last != nil && last.Cause == llm.BadAnswer {
					body.correct()
				}
				return json.Marshal(body)
			},
			Read: func(r io.Reader, emit exchange.Emit) error {
				a := answer{emit: emit, calls: exchange.Calls{Emit: emit, IDs: llm.NewIDs(req.Messages), Name: names.Back}}
				return exchange.Spent(a.read(r), a.usage)
			},
			Fail: fail,
		}, yield)
	}
}

type chunk struct {
	Candidates []struct {
		Content       content `json:"content"`
		FinishReason  string  `json:"finishReason"`
		FinishMessage string  `json:"finishMessage"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int `json:"promptTokenCount"`
		Tool       int `json:"toolUsePromptTokenCount"`
		Candidates int `json:"candidatesTokenCount"`
		Thoughts   int `json:"thoughtsTokenCount"`
		Cached     int `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
	Error json.RawMessage `json:"error"`
}

// answer reads one answer.
type answer struct {
	emit      exchange.Emit
	calls     exchange.Calls
	said      bool
	reasoning bool // a block of it is open
	finish    string
	message   string
	usage     *llm.Usage
}

func (a *answer) read(r io.Reader) error {
	events := exchange.Events(r, maxEvent)
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			return a.end()
		}
		if err != nil {
			return err
		}
		var c chunk
		if err := json.Unmarshal(ev.Data, &c); err != nil {
			return &llm.Error{Cause: llm.BadAnswer, Detail: "an event is no JSON", Err: err}
		}
		if len(c.Error) > 0 {
			return fail(0, ev.Data)
		}
		if err := a.take(c); err != nil {
			return err
		}
	}
}

func (a *answer) take(c chunk) error {
	if b := c.PromptFeedback.BlockReason; b != "" {
		return &llm.Error{Cause: llm.Blocked, Detail: "the question was refused: " + b}
	}
	if u := c.Usage; u != nil {
		a.usage = &llm.Usage{Input: u.Prompt + u.Tool, Output: u.Candidates + u.Thoughts, CacheRead: u.Cached, Reasoning: u.Thoughts}
	}
	if len(c.Candidates) == 0 {
		return nil
	}
	first := c.Candidates[0]
	for _, p := range first.Content.Parts {
		if err := a.part(p); err != nil {
			return err
		}
	}
	if first.FinishReason != "" {
		a.finish, a.message = first.FinishReason, first.FinishMessage
	}
	return nil
}

func (a *answer) part(p part) error {
	var opaque *llm.Opaque
	if kept := (keep{Signature: p.ThoughtSignature}); p.FunctionCall != nil {
		kept.ID = p.FunctionCall.ID
		opaque = kept.opaque()
	} else if p.ThoughtSignature != "" {
		opaque = kept.opaque()
	}
	if a.reasoning && !p.Thought {
		a.reasoning = false
		if err := a.emit(llm.Delta{Kind: llm.ReasonEnd}); err != nil {
			return err
		}
	}
	switch {
	case p.FunctionCall != nil:
		a.said = true
		i, err := a.calls.Start(p.FunctionCall.ID, p.FunctionCall.Name)
		if err != nil {
			return err
		}
		if err = a.calls.Args(i, string(p.FunctionCall.Args)); err != nil {
			return err
		}
		return a.calls.End(i, opaque)
	case p.Thought:
		a.reasoning = true
		if err := a.emit(llm.Delta{Kind: llm.Reason, Text: p.Text}); err != nil || opaque == nil {
			return err
		}
		a.reasoning = false
		return a.emit(llm.Delta{Kind: llm.ReasonEnd, Opaque: opaque})
	case p.Text != "" || opaque != nil:
		a.said = a.said || p.Text != ""
		return a.emit(llm.Delta{Kind: llm.Text, Text: p.Text, Opaque: opaque})
	}
	return nil
}

// end says how the answer ended, once there are no more events.
func (a *answer) end() error {
	stop := llm.Done
	switch a.finish {
	case "":
		return io.ErrUnexpectedEOF
	case "STOP":
	case "MAX_TOKENS":
		stop = llm.CutOff
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER":
		return &llm.Error{Cause: llm.BadAnswer, Detail: strings.TrimSpace(a.finish + " " + a.message)}
	default:
		if blocking[a.finish] || !a.said {
			return &llm.Error{Cause: llm.Blocked, Detail: strings.TrimSpace(a.finish + " " + a.message)}
		}
	}
	if !a.said && stop == llm.Done {
		return &llm.Error{Cause: llm.BadAnswer, Detail: "the answer is empty"}
	}
	if a.calls.Len() > 0 && stop == llm.Done {
		stop = llm.Calls
	}
	if a.usage != nil {
		if err := a.emit(llm.Delta{Kind: llm.Used, Usage: *a.usage}); err != nil {
			return err
		}
	}
	return a.emit(llm.Delta{Kind: llm.Stopped, Stop: stop})
}

var blocking = map[string]bool{
	"SAFETY": true, "RECITATION": true, "LANGUAGE": true, "BLOCKLIST": true, "PROHIBITED_CONTENT": true, "SPII": true,
	"IMAGE_SAFETY": true, "IMAGE_PROHIBITED_CONTENT": true, "IMAGE_RECITATION": true,
}

// fail reads {"error":{code,status,message,details}}, of an HTTP answer or, with
// status 0, in the midst of a stream.
func fail(status int, body []byte) *llm.Error {
	// Outside an event stream the object comes in an array.
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var b struct {
		Error struct {
			Code    int    `json:"code"`
			Status  string `json:"status"`
			Message string `json:"message"`
			Details []struct {
				Reason     string `json:"reason"`
				RetryDelay string `json:"retryDelay"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &b) // what is no such object is told by Words
	if status == 0 {
		status = b.Error.Code
	}
	e := exchange.Failed(status, exchange.Words(body))
	for _, d := range b.Error.Details {
		if d.Reason == "API_KEY_INVALID" {
			e.Cause = llm.Auth
		}
		if w, err := time.ParseDuration(d.RetryDelay); err == nil && w > 0 {
			e.Wait = w
		}
	}
	if status == 504 || b.Error.Status == "DEADLINE_EXCEEDED" {
		e.Cause = llm.TimedOut
	}
	return e
}

var _ llm.Model = (*Model)(nil)
