package sample

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
)

// Model is a model that the hub can ask.
type Model struct {
	llm.Model
	Name string // its name in the config
	Says string // what servers are told that it is, as its provider names it; empty means Name
	// Unready models lack something that has to be configured first: who would
	// like one is given another.
	Unready bool
}

// Request is what a server asks of a model.
type Request struct {
	Server  string
	Model   string      // the name of the one that the server is to have; empty for what it would like, or else the default
	Client  *mcp.Client // on whose behalf the server works
	Session string      // of the call that it works on; empty for none
	Call    string      // what was called, for people
	Params  []byte      // valid until Answer returns
}

// Options are what a Host works with. Models and Allow are needed.
type Options struct {
	// Models returns the models that are configured, the default one first.
	Models func() []Model
	// Allow decides whether a server that works on a client's call may have an
	// answer. The approval says what a person is to be shown.
	Allow func(ctx context.Context, c *mcp.Client, server string, a policy.Approval) (policy.Decision, error)

	MaxTokens int           // of an answer; 0 means 4096
	MaxBytes  int           // of a request; 0 means 1 MiB
	Timeout   time.Duration // for the model, once it may be asked; 0 means 2 min
	Logger    *slog.Logger  // nil discards
}

// Host answers servers by the hub's own models. It may be used by several
// goroutines.
type Host struct{ o Options }

// New returns a host.
func New(o Options) *Host {
	o.MaxTokens = cmp.Or(o.MaxTokens, 4096)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Host{o}
}

// Answer returns the CreateMessageResult for a server. An error of kind Denied
// says that it was not allowed.
func (h *Host) Answer(ctx context.Context, r Request) ([]byte, error) {
	if len(r.Params) > h.o.MaxBytes {
		return nil, fault.New(fault.Limit, mcp.MethodSample, "the request of %d bytes is over the limit of %d", len(r.Params), h.o.MaxBytes)
	}
	// Before anybody is asked: what cannot be answered needs no leave.
	p, req, err := read(r.Params, h.o.MaxTokens)
	if err != nil {
		return nil, err
	}
	m, err := h.choose(r.Model, p)
	if err != nil {
		return nil, err
	}
	edited, err := h.allowed(ctx, m, r)
	if err != nil {
		return nil, err
	}
	if edited != nil {
		if p, req, err = read(edited, h.o.MaxTokens); err != nil {
			return nil, err
		}
	}
	return h.answer(ctx, r.Server, m, p, req)
}

// choose finds the model to ask.
func (h *Host) choose(name string, p *params) (Model, error) {
	models := h.o.Models()
	if len(models) == 0 {
		return Model{}, fault.New(fault.Unreachable, mcp.MethodSample, "the hub has no model")
	}
	if name != "" {
		for _, m := range models {
			if m.Name == name {
				return m, nil
			}
		}
		return Model{}, &fault.Error{Kind: fault.Unreachable, Subject: mcp.MethodSample, Msg: "the hub has no model of the name that this server is to have",
			Hint: "Set samplingModel of the server to one of models in the config."}
	}
	for _, hint := range p.Preferences.Hints {
		want := strings.ToLower(hint.Name)
		for _, m := range models {
			if want != "" && !m.Unready && (strings.Contains(strings.ToLower(m.Name), want) || strings.Contains(strings.ToLower(m.Says), want)) {
				return m, nil
			}
		}
	}
	return models[0], nil
}

// allowed asks whoever is to allow the request. It returns the request as a
// person changed it, or nil.
func (h *Host) allowed(ctx context.Context, m Model, r Request) (edited json.RawMessage, err error) {
	dec, err := h.o.Allow(ctx, r.Client, r.Server, policy.Approval{
		Session: r.Session, Tool: mcp.MethodSample, Args: bytes.Clone(r.Params),
		Reason: "the server asks the model " + m.Name + " while it works on " + r.Call,
	})
	switch {
	case err != nil:
		return nil, err
	case !dec.Approve:
		return nil, denied(dec.Tell())
	}
	return dec.Args, nil
}

func denied(why string) error {
	return &fault.Error{Kind: fault.Denied, Subject: mcp.MethodSample, Msg: "User rejected sampling request: " + why,
		Hint: "A person can allow it while the call runs, or a rule of policy for the server."}
}

// answer asks the model.
func (h *Host) answer(ctx context.Context, server string, m Model, p *params, req llm.Request) ([]byte, error) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	a, stopped, err := ask(bounded, m.Model, req, p.StopSequences)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		h.o.Logger.Warn("a model gave a server no answer", "upstream", server, "model", m.Name, "took", time.Since(began), "err", err)
		// The server need not know whom the hub pays and how.
		cause := llm.TimedOut
		if e, ok := errors.AsType[*llm.Error](err); ok && bounded.Err() == nil {
			cause = e.Cause
		}
		return nil, fault.New(fault.Unreachable, mcp.MethodSample, "the hub's model gave no answer (%s)", cause).Because(err)
	}
	for _, t := range a.LeftOut {
		h.o.Logger.Warn("a model was not told of a server's tool", "upstream", server, "model", m.Name, "tool", t.Tool, "err", t.Reason)
	}
	h.o.Logger.Info("a model answered a server", "upstream", server, "model", m.Name, "took", time.Since(began), "input", a.Usage.Input, "output", a.Usage.Output)
	return result(a, cmp.Or(m.Says, m.Name), stopped)
}
