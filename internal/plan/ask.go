package plan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
)

// ask asks a person whether a call may be made. It says whether the state has
// changed by it.
func (r *Run) ask(ctx context.Context, d Do, calls *sync.WaitGroup) (bool, error) {
	tool, args, err := r.arguments(ctx, d)
	if flawed(err) {
		if r.state.Steps[d.Step].Items[d.Item].Phase == ItemAsked { // what it refers to is gone since
			return true, r.record(ctx, Event{Type: CallDecided, Step: d.Step, Item: d.Item, Reason: failure(err).Message})
		}
		return true, r.refuse(ctx, d, failure(err))
	}
	if err != nil {
		return false, err
	}
	c := &r.state.Created
	a := policy.Approval{Kind: policy.KindTool, Session: c.Session, Principal: c.Owner, Call: r.id + "/" + d.Step, Tool: tool, Args: args, Reason: "the plan wants an approval before " + d.Step}
	if who, err := r.who(); err == nil {
		if t, err := r.of.o.Find(ctx, who, c.Session, tool); err == nil {
			a.Upstream, a.Tool = t.Upstream, t.Name
		}
	}
	askCtx, cancel := context.WithCancel(ctx)
	r.busy[at{d.Step, d.Item}] = cancel
	calls.Go(func() {
		defer cancel()
		defer r.caught(d)
		dec, err := r.of.o.Desk.Ask(askCtx, a, func(a policy.Approval) { r.noted(askCtx, d, a.ID) })
		r.decided(ctx, d, dec, err)
	})
	return false, nil
}

// noted records which approval is waited for.
func (r *Run) noted(ctx context.Context, d Do, id string) {
	_ = r.until(ctx, func() error { // if it is not, the decision is recorded all the same
		return r.record(ctx, Event{Type: CallAsked, Step: d.Step, Item: d.Item, Ask: id})
	})
}

// decided records what a person said, or that nobody did. A question that ended
// with the hub is put again by the next one.
func (r *Run) decided(ctx context.Context, d Do, dec policy.Decision, err error) {
	stopping := ctx.Err() != nil || r.of.Closing() && (err != nil || dec.Reason == policy.ReasonAborted)
	if !stopping {
		_ = r.until(ctx, func() error { return r.decide(ctx, d, dec, err) }) // else it is asked again
	}
	r.leaveBusy(d)
}

// decide is decided, once. r.mu is held.
func (r *Run) decide(ctx context.Context, d Do, dec policy.Decision, failed error) error {
	it := &r.state.Steps[d.Step].Items[d.Item]
	if it.Phase == ItemPending { // nobody was asked, or that could not be noted
		if err := r.record(ctx, Event{Type: CallAsked, Step: d.Step, Item: d.Item}); err != nil {
			return err
		}
	}
	e := Event{Type: CallDecided, Step: d.Step, Item: d.Item, Approve: dec.Approve && failed == nil, By: dec.By, Reason: clip(dec.Tell())}
	if e.Approve {
		e.Reason = clip(dec.Reason)
		if dec.Args != nil {
			var err error
			if e.Args, err = r.journal.put(ctx, dec.Args); err != nil {
				return err
			}
		}
	}
	return r.record(ctx, e)
}

// until tries to record something until it is, cannot be, or ctx ends. do is
// called with r.mu held.
func (r *Run) until(ctx context.Context, do func() error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := r.locked(do)
		switch {
		case errors.Is(err, errStale):
			continue
		case err == nil, ctx.Err() != nil, errors.Is(err, errTaken), errors.Is(err, errGone), fault.Is(err, fault.InvalidArguments):
			return err
		}
		r.of.o.Logger.Warn("what a person is asked cannot be recorded for now", "run", r.id, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}
