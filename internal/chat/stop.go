package chat

import (
	"context"
	"errors"
	"sync"
)

// calls are the calls of a conversation that run, or wait to.
type calls struct {
	mu   sync.Mutex
	stop map[string]context.CancelCauseFunc // by the id of the call
}

var errCallAborted = errors.New("the call was aborted")

// open makes the context of a call, which can be aborted by itself until over is
// called.
func (c *calls) open(ctx context.Context, id string) (_ context.Context, over func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c == nil {
		return ctx, func() { cancel(nil) }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.stop = map[string]context.CancelCauseFunc{}
	}
	c.stop[id] = cancel
	return ctx, func() {
		c.mu.Lock()
		delete(c.stop, id)
		c.mu.Unlock()
		cancel(nil)
	}
}

// AbortCall ends one call of the turn that runs; the turn goes on. It reports
// whether there was such a call, and does not wait until it has ended.
func (c *Conversation) AbortCall(id string) bool {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	cancel := c.calls.stop[id]
	if cancel == nil {
		return false
	}
	cancel(errCallAborted)
	return true
}

// stopped is the result of a call that was aborted by itself. ctx is that of the
// turn.
func (m *making) stopped(ctx context.Context) (*Result, error) {
	r := &Result{IsError: true, Status: Cancelled, Content: "cancelled: the user stopped this call before it was made; go on without it"}
	if m.started {
		r.Content = "cancelled: the user stopped this call while it ran; whether it took effect is not known; go on without it"
	}
	now := m.t.b.now()
	for _, c := range now.open() {
		if c.ID == m.call.ID && c.Approval != nil {
			// Whoever sees the question has to see that it is over.
			return r, m.t.note(ctx, aborted(m.t.id, &c))
		}
	}
	return r, nil
}
