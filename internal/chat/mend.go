package chat

import (
	"context"
	"errors"

	"github.com/stoahub/stoa/internal/fault"
)

// leftover is the result of a call that the end of its turn left open.
func (b *book) leftover(c *TurnCall, reason string) *Result {
	r := &Result{Call: c.ID, Name: c.Name, IsError: true, Status: Cancelled}
	began := c.Status == CallIsStarted
	switch {
	case reason == ReasonInterrupted && began:
		r.Status, r.Content = Interrupted, "the hub stopped while this ran; whether it took effect is not known"
	case reason == ReasonInterrupted:
		r.Status, r.Content = Interrupted, "not called: the hub stopped before"
	case reason == ReasonAborted && began:
		r.Content = "cancelled: the user stopped this while it ran; whether it took effect is not known"
	case reason == ReasonAborted:
		r.Content = "cancelled: not called, the user stopped before"
	case began:
		r.Content = "the turn ended while this ran; whether it took effect is not known"
	default:
		r.Content = "not called: the turn ended before"
	}
	return r
}

// mend closes what a hub that is no more left open.
func (b *book) mend(ctx context.Context) error {
	now := b.now()
	if now.Turn == nil {
		return nil
	}
	end := End{Reason: ReasonInterrupted, Model: now.Turn.Model, Text: "The hub was stopped before I came to an end.", Kind: fault.Cancelled.String(),
		Steps: now.Turn.Steps, Usage: now.Turn.Usage, Cost: now.Turn.Cost}
	var err error
	if len(now.open()) == 0 {
		// Somebody may have seen words live that were never kept, and comes
		// back with how many. They are told that these are gone, by an event
		// that takes the number of the part; no event with words of its own
		// must.
		err = b.record(ctx, &Event{Type: Noted, Turn: now.Turn.ID, Note: &Note{Kind: NoteLost, Text: "The hub was stopped in the middle of an answer. What it had said last may be missing here."}})
	}
	if err == nil {
		err = b.conclude(ctx, now.Turn.ID, end, func(c *TurnCall) *Result { return b.leftover(c, ReasonInterrupted) })
	}
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// resume takes up what the log has unfinished.
func (c *Conversation) resume() {
	who, name := c.owner()
	if who == nil {
		k := c.key()
		// Who keeps tokens may be slow to answer, and others need the engine.
		found, _ := c.e.principal(k.Principal, "") // if that cannot be found out, there is nobody to be attended to
		c.e.mu.Lock()
		if c.who == nil {
			c.who, c.name = found, k.Session
		}
		who, name = c.who, c.name
		c.e.mu.Unlock()
	}
	if who != nil && c.e.opts.Desk != nil {
		// Whoever was there when the hub went has a moment to come back, as
		// one whose socket broke has.
		c.e.opts.Desk.Attend(who.Name, name)()
	}
	c.work()
}
