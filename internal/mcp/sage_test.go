package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// sage is the Handler behind the transcripts. Its tools do the things that a
// face has to carry: answer at once, speak while they run, ask, and wait.
type sage struct {
	audience Audience

	mu    sync.Mutex
	gate  chan struct{}
	notes []string
	ended []string // why waiting calls ended
}

func (s *sage) Handle(ctx context.Context, req *Request) (Response, error) {
	if req.IsNote {
		s.mu.Lock()
		s.notes = append(s.notes, req.Method+" "+string(req.Params))
		s.mu.Unlock()
		return Response{}, nil
	}
	switch req.Method {
	case "initialize", "server/discover":
		return Introduce(req.Client, []byte(`{"tools":{"listChanged":true}}`), []byte(`{"name":"sage","version":"1"}`), "")
	case "logging/setLevel":
		return Response{Result: []byte("{}")}, nil
	case "tools/list":
		return s.result(req, `{"tools":[]}`)
	case "tools/call":
		return s.call(ctx, req)
	}
	return Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

func (s *sage) result(req *Request, result string) (Response, error) {
	if req.Client.Era == Modern {
		return Response{Result: Complete(req.Method, []byte(result))}, nil
	}
	return Response{Result: []byte(result)}, nil
}

func (s *sage) say(req *Request, format string, args ...any) (Response, error) {
	return s.result(req, `{"content":[{"type":"text","text":`+string(wire.Quote(fmt.Sprintf(format, args...)))+`}]}`)
}

func (s *sage) call(ctx context.Context, req *Request) (Response, error) {
	name, _ := req.Text("name")
	switch name {
	case "echo":
		return s.say(req, "%s", req.Param("arguments"))
	case "who":
		c := req.Client
		return s.say(req, "%s %s of %s, connected %t, info %s, capabilities %s, token %s, level %q %q",
			c.Era, c.Version, c.Actor.Name(), c.Connection != "", c.Info, c.Capabilities, req.Token, req.LogLevel, c.LogLevel())
	case "speak":
		for i := range 2 {
			req.Stream.Notify(NoteProgress, fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, orNull(req.Token), i+1))
		}
		return s.say(req, "spoken")
	case "wait":
		return s.wait(ctx, req)
	case "release":
		s.mu.Lock()
		if s.gate != nil {
			close(s.gate)
			s.gate = nil
		}
		s.mu.Unlock()
		return s.say(req, "released")
	case "ask", "ask_briefly":
		return s.ask(ctx, req, name == "ask_briefly")
	case "announce":
		// After the answer, so that a transcript has one order only.
		time.AfterFunc(moment, func() {
			s.audience.Tell(NoteToolsChanged, func(*Listener) bool { return true })
			s.audience.Updated("mem://a", []byte(`{"uri":"mem://a"}`), nil)
		})
		return s.say(req, "announced")
	case "recall":
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.say(req, "notes %q, ended %q", s.notes, s.ended)
	case "big":
		return s.say(req, "%s", strings.Repeat("x", 17<<10))
	case "refuse":
		return Response{Error: []byte(`{"code":-32602,"message":"no"}`)}, nil
	case "fail":
		return Response{}, fault.New(fault.Timeout, "sage", "no answer in time")
	}
	return Response{}, fault.New(fault.UnknownTool, name, "unknown tool")
}

func orNull(raw []byte) []byte {
	if raw == nil {
		return []byte("null")
	}
	return raw
}

func (s *sage) wait(ctx context.Context, req *Request) (Response, error) {
	s.mu.Lock()
	if s.gate == nil {
		s.gate = make(chan struct{})
	}
	gate := s.gate
	s.mu.Unlock()
	select {
	case <-gate:
		<-time.After(moment) // the one who opened the gate is answered first
		return s.say(req, "waited")
	case <-ctx.Done():
		s.mu.Lock()
		s.ended = append(s.ended, context.Cause(ctx).Error())
		s.mu.Unlock()
		return Response{}, context.Cause(ctx)
	}
}

func (s *sage) ask(ctx context.Context, req *Request, brief bool) (Response, error) {
	if !req.Stream.CanAsk() {
		return s.say(req, "you cannot be asked")
	}
	if brief {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	answer, err := req.Stream.Ask(ctx, "elicitation/create", []byte(`{"message":"why?"}`))
	if err != nil {
		return s.say(req, "no answer: %v", err)
	}
	return s.say(req, "result %s, error %s", answer.Result, answer.Error)
}

func (s *sage) Attach(l *Listener) func() {
	l.Filter.Prompts = false // it has none to tell of
	s.audience.Add(l)
	return func() { s.audience.Remove(l) }
}

func (s *sage) Subscribe(_ context.Context, l *Listener, uri string) error {
	if !strings.HasPrefix(uri, "mem://") {
		return fault.New(fault.ResourceNotFound, uri, "no such resource")
	}
	s.audience.Subscribe(l, uri, uri)
	return nil
}

func (s *sage) Unsubscribe(_ context.Context, l *Listener, uri string) error {
	s.audience.Unsubscribe(l, uri)
	return nil
}

var _ Handler = (*sage)(nil)
