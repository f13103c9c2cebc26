package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// levels are the log levels from low to high.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// loggable reports whether an info message passes a threshold; an unset one
// lets all pass.
func loggable(threshold string) bool {
	return threshold == "" || slices.Index(levels, threshold) <= slices.Index(levels, "info")
}

// session is a legacy session, or a stdio connection in either era.
type session struct {
	id    string
	ctx   context.Context // ends with the session
	end   context.CancelFunc
	calls calls

	mu    sync.Mutex
	who   client
	level string
	uris  map[string]bool
	// push writes on the stream that belongs to no request: stdout, or the
	// GET stream; nil while there is none, and then messages are lost.
	push func(line []byte) error
}

func newSession(ctx context.Context, id string) *session {
	ctx, end := context.WithCancel(ctx)
	return &session{id: id, ctx: ctx, end: end, uris: map[string]bool{}, calls: calls{
		running: map[string]context.CancelFunc{}, asked: map[string]chan message{}}}
}

func (s *session) client() client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.who
}

// initialize reports whether this was the first.
func (s *session) initialize(c client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.who.version != "" {
		return false
	}
	s.who = c
	return true
}

func (s *session) setLevel(l string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = l
}

func (s *session) logs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return loggable(s.level)
}

func (s *session) subscribe(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.uris[uri] = true
	} else {
		delete(s.uris, uri)
	}
}

// attach sets the standalone stream unless there is one already; nil removes it.
func (s *session) attach(push func([]byte) error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if push != nil && s.push != nil {
		return false
	}
	s.push = push
	return true
}

// listener hears, for an initialized legacy session, every change of a list
// and the updates of the resources it subscribed to.
func (s *session) listener() *listener {
	open := func() (push func([]byte) error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.who.version == "" {
			return nil
		}
		return s.push
	}
	return &listener{
		wants: func(c change) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return c.uri == "" || s.uris[c.uri]
		},
		deliver: func(c change) {
			if push := open(); push != nil {
				// A stream that broke meanwhile loses the message, as real ones do.
				_ = push(notification(c.method(), c.params()))
			}
		},
	}
}

// calls are the requests under way on a session, in both directions.
type calls struct {
	mu      sync.Mutex
	running map[string]context.CancelFunc // the client's, by raw id
	asked   map[string]chan message       // the peer's own, by raw id
	next    int
}

// start returns the context of the client's request; done must be called.
func (c *calls) start(parent context.Context, id json.RawMessage) (ctx context.Context, done func(), err error) {
	ctx, cancel := context.WithCancel(parent)
	key := string(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[key] != nil {
		cancel()
		return nil, nil, fmt.Errorf("id %s is in use by a request under way", id)
	}
	c.running[key] = cancel
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, key)
		cancel()
	}, nil
}

// cancel ends the client's request, if it runs.
func (c *calls) cancel(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.running[string(id)]; stop != nil {
		stop()
	}
}

// ask sends a request to the client and waits for its response. Ids count from
// zero as those of common SDKs do, so they collide with the client's own.
func (c *calls) ask(ctx context.Context, send func([]byte) error, method string, params []byte) (message, error) {
	answer := make(chan message, 1)
	c.mu.Lock()
	id := strconv.Itoa(c.next)
	c.next++
	c.asked[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, id)
	}()
	line := join(`{"jsonrpc":"2.0","id":`, id, `,"method":`, string(encode(method)), `,"params":`, string(params), "}")
	if err := send(line); err != nil {
		return message{}, fmt.Errorf("send %s: %w", method, err)
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		return message{}, ctx.Err()
	}
}

// answered hands a response of the client to the request that waits for it.
func (c *calls) answered(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.asked[string(m.ID)]
	if answer == nil {
		return errors.New("response to no request: id " + string(m.ID))
	}
	delete(c.asked, string(m.ID))
	answer <- m
	return nil
}
