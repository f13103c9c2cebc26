package plan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
)

// ask asks a person whether a call may be made. It says whether the state has
// changed by it.
func (r *Run) ask(ctx context.Context, d Do, calls *sync.WaitGroup) (bool, error) {
	tool, args, err := r.arguments(ctx, d)
	if flawed(err) {
		return true, r.unasked(ctx, d, err)
	}
	if err != nil {
		return false, err
	}
	c := &r.state.Created
	by, err := r.actor()
	if errors.Is(err, actor.ErrUnsure) {
		return false, err
	}
	if err != nil {
		return true, r.unasked(ctx, d, err)
	}
	t, err := r.of.o.Find(ctx, by, c.Session, tool)
	if err != nil {
		return true, r.unasked(ctx, d, err)
	}
	a := call.Question(by)
	a.Kind, a.Session, a.Call, a.Args, a.Reason = policy.KindTool, c.Session, r.id+"/"+d.Step, args, wants(d.Step)
	a.Tool, a.Upstream, a.Ref, a.Definition, a.Registered = t.Name, t.Upstream, t.Ref, t.Defined, t.Registered
	askCtx, cancel := context.WithCancel(ctx)
	r.busy[at{d.Step, d.Item}] = cancel
	calls.Go(func() {
		defer cancel()
		defer r.caught(d)
		dec, err := r.of.o.Desk.Ask(askCtx, a, func(a policy.Approval) { r.noted(askCtx, d, a.ID) })
		r.decided(ctx, d, a, dec, err)
	})
	return false, nil
}

// wants is why a person is asked although the policy may allow the call.
func wants(step string) string { return "the plan wants an approval before " + step }

// unasked records why nobody is asked about a call: it could not be made.
func (r *Run) unasked(ctx context.Context, d Do, why error) error {
	if r.state.Steps[d.Step].Items[d.Item].Phase == ItemAsked { // it could when it was asked for first
		return r.record(ctx, Event{Type: CallDecided, Step: d.Step, Item: d.Item, Reason: failure(why).Message})
	}
	return r.refuse(ctx, d, failure(why))
}

// inquire has a person decide about a call that the policy wants to be asked
// for. What they say is recorded: a hub that takes the run over asks again
// unless they have said yes, and then makes the call once.
func (r *Run) inquire(ctx context.Context, d Do, a policy.Approval) (policy.Decision, error) {
	a.Call = r.id + "/" + d.Step
	dec, err := r.of.o.Desk.Ask(ctx, a, func(asked policy.Approval) { r.noted(ctx, d, asked.ID) })
	if ctx.Err() != nil || r.of.Closing() && (err != nil || dec.Reason == policy.ReasonAborted) {
		return dec, errors.Join(err, context.Cause(ctx)) // the next hub asks again
	}
	if failed := r.until(ctx, func() error { return r.decide(ctx, d, a, dec, err) }); failed != nil {
		return policy.Decision{Reason: policy.ReasonFailed}, failed
	}
	return dec, err
}

// noted records which approval is waited for.
func (r *Run) noted(ctx context.Context, d Do, id string) {
	_ = r.until(ctx, func() error { // if it is not, the decision is recorded all the same
		return r.record(ctx, Event{Type: CallAsked, Step: d.Step, Item: d.Item, Ask: id})
	})
}

// Waits says what the run waits for, by the ids of the approvals, to those who
// wait for the run.
func (r *Run) Waits() map[string]string {
	r.lock()
	asked := map[string]bool{}
	for _, st := range r.state.Steps {
		for i := range st.Items {
			if it := &st.Items[i]; it.Phase == ItemAsked && it.Ask != "" {
				asked[it.Ask] = true
			}
		}
	}
	owner := r.state.Created.Owner
	r.unlock()
	if len(asked) == 0 || r.of.o.Desk == nil {
		return nil
	}
	out := map[string]string{}
	for _, a := range r.of.o.Desk.Pending(owner) {
		if asked[a.ID] {
			out[a.ID] = r.of.o.Desk.Announce(&a)
		}
	}
	return out
}

// decided records what a person said, or that nobody did. A question that ended
// with the hub is put again by the next one.
func (r *Run) decided(ctx context.Context, d Do, a policy.Approval, dec policy.Decision, err error) {
	stopping := ctx.Err() != nil || r.of.Closing() && (err != nil || dec.Reason == policy.ReasonAborted)
	if !stopping {
		_ = r.until(ctx, func() error { return r.decide(ctx, d, a, dec, err) }) // else it is asked again
	}
	r.leaveBusy(d)
}

// decide is decided, once. What was shown is recorded with a yes: it is good for
// a call with these arguments, whatever has become of the values meanwhile. The run
// is locked.
func (r *Run) decide(ctx context.Context, d Do, a policy.Approval, dec policy.Decision, failed error) error {
	it := &r.state.Steps[d.Step].Items[d.Item]
	if it.Phase == ItemPending || it.Phase == ItemRunning { // nobody was asked, or that could not be noted
		if err := r.record(ctx, Event{Type: CallAsked, Step: d.Step, Item: d.Item}); err != nil {
			return err
		}
	}
	e := Event{Type: CallDecided, Step: d.Step, Item: d.Item, Approve: dec.Approve && failed == nil, By: dec.By, Reason: clip(dec.Tell())}
	if e.Approve {
		e.Defined = a.Digest
		e.Reason = clip(dec.Reason)
		args := dec.Args
		if e.Shown = args == nil; e.Shown {
			args = a.Args
		}
		var err error
		if e.Args, err = r.put(ctx, args); err != nil {
			return err
		}
	}
	return r.record(ctx, e)
}

// until tries to record something until it is, cannot be, or ctx ends. do is
// called with the run locked.
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
