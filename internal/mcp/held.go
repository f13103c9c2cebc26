package mcp

import (
	"context"
	"net/http"
	"sync"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// gate lets connections in until it is shut, and can be waited for to be empty.
type gate struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Add(1)
	return true
}

func (g *gate) leave() { g.wg.Done() }

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait waits, after Close, until the sockets are closed or ctx ends. net/http
// does not wait for them.
func (e *Endpoint) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.sockets.wg.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		// Their sessions are ended next, which ends them too.
	}
}

// hold counts a connection that lasts among the sessions, so that all of them
// are bounded together. It ends early when its over channel is closed. inbox is
// where its messages go if they come by POST, else nil.
func (e *Endpoint) hold(path actor.Path, who *auth.Principal, scope string, inbox chan *buffer) (*session, error) {
	s := &session{id: newSessionID(), scope: scope, client: &Client{Era: Legacy, Actor: actor.New(path, who)},
		inbox: inbox, detach: func() {}, over: make(chan struct{})}
	s.streams.Add(1)
	s.touch()
	if err := e.opts.Sessions.add(s); err != nil {
		return nil, err
	}
	return s, nil
}

// full answers a request for a connection that cannot be had.
func full(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	writeJSON(w, http.StatusServiceUnavailable, wire.AppendError(nil, nil, fault.Of(err).Wire(false)))
}

func (e *Endpoint) pipeOptions(path actor.Path, r *http.Request) PipeOptions {
	return PipeOptions{path: path, Header: r.Header, MessageBytes: e.opts.MessageBytes, Depth: e.opts.Depth, Panicked: e.opts.Panicked, Witness: e.opts.Witness}
}
