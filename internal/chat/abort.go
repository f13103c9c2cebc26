package chat

import (
	"context"
	"errors"
	"sync"
)

// Abort ends the turn of that name ("" means the one that runs), and takes back
// the inputs that wait if queued says so. It does not wait until it has ended. A
// turn of another hub is ended there when that reads what is written here.
func (c *Conversation) Abort(turn string, queued bool) (aborted bool, err error) {
	if queued {
		if aborted, err = c.drop(); err != nil {
			return aborted, err
		}
	}
	here, stopped := c.abortHere(turn)
	if here {
		return aborted || stopped, nil
	}
	asked, err := c.abortThere(turn, "")
	return aborted || asked, err
}

// abortHere ends a turn of this hub. here is false if another hub may answer.
func (c *Conversation) abortHere(turn string) (here, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil || c.book == nil {
		return false, false
	}
	c.book.mu.Lock()
	runs, waiting := "", len(c.book.state.Queue) > 0
	if t := c.book.state.Turn; t != nil {
		runs = t.ID
	}
	c.book.mu.Unlock()
	switch {
	case c.trying && runs != "":
		return false, false
	case turn != "" && turn != runs, runs == "" && !waiting:
		return true, false
	case runs == "" && c.turn != "":
		// The turn before has ended and the next one not begun.
		c.early = true
	default:
		c.cancel(errAborted)
	}
	return true, true
}

// abortThere asks the hub whose turn it is to end it, or one call of it.
func (c *Conversation) abortThere(turn, call string) (asked bool, err error) {
	if c.e.alone {
		return false, nil
	}
	b, err := c.take(c.e.ctx)
	if err != nil {
		return false, err
	}
	defer c.free()
	if err := b.latest(c.e.ctx); err != nil {
		return false, err
	}
	now := b.now()
	if now.Turn == nil || turn != "" && turn != now.Turn.ID {
		return false, nil
	}
	ev := &Event{Type: AbortAsked, Turn: now.Turn.ID}
	if call != "" {
		ev.Call = &Call{ID: call}
	}
	if err = b.record(c.e.ctx, ev); errors.Is(err, errTaken) {
		return false, nil // it has ended meanwhile
	}
	return err == nil, err
}

// drop takes back the inputs that wait.
func (c *Conversation) drop() (dropped bool, err error) {
	b, err := c.take(c.e.ctx)
	if err != nil {
		return false, err
	}
	defer c.free()
	for _, in := range b.now().Queue {
		err := b.recordIf(c.e.ctx, &Event{Type: InputDropped, Input: &Input{ID: in.ID}}, func(now *State) error {
			if !now.waits(in.ID) {
				return errDropped
			}
			return nil
		})
		if errors.Is(err, errDropped) {
			continue // its turn has begun, or somebody else took it back
		}
		if err != nil {
			return dropped, err
		}
		dropped = true
	}
	return dropped, nil
}

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
func (c *Conversation) AbortCall(id string) (aborted bool, err error) {
	if c.calls.abort(id) {
		return true, nil
	}
	c.mu.Lock()
	here := c.looped && !c.trying
	c.mu.Unlock()
	if st, err := c.State(); here || err != nil || !st.calls(id) {
		return false, err
	}
	return c.abortThere("", id)
}

// abort ends a call if it is one of this hub.
func (c *calls) abort(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.stop[id]
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
