package plan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// drive starts to drive a run, unless that is being done.
func (r *Runs) drive(run *Run) {
	run.lock()
	defer run.unlock()
	run.launch()
}

// launch is drive of a run that is locked.
func (r *Run) launch() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.halt != nil || r.gone || r.of.closing {
		return
	}
	ctx, cancel := context.WithCancel(r.of.ctx)
	r.halt = cancel
	r.of.wg.Go(func() { r.drive(ctx) })
}

// drive does what a run needs done until it is over or the hub ends. What
// another hub takes over is waited for: that hub may end too.
func (r *Run) drive(ctx context.Context) {
	for r.guarded(ctx) {
		select {
		case <-time.After(r.of.patience / 8):
		case <-ctx.Done():
		}
	}
	r.lock()
	defer r.unlock()
	r.halt()
	r.halt = nil
	clear(r.cache)
	clear(r.lists)
}

// guarded is a shift whose mistakes must not take the hub down. A run that made
// one is left alone until somebody does something to it, or the next start.
func (r *Run) guarded(ctx context.Context) (later bool) {
	defer func() {
		if p := recover(); p != nil {
			_ = obs.Stumbled(r.of.o.Logger, p, "a run stumbled", obs.KeyRun, r.id)
			later = false
		}
	}()
	return r.shift(ctx)
}

// fate is how a run has ended; "" if it has not.
func (r *Run) fate() string {
	r.lock()
	defer r.unlock()
	if !r.state.Status.Over() {
		return ""
	}
	return string(r.state.Status)
}

// shift drives a run for as long as it is this hub's. It says whether there may
// be more to do later.
func (r *Run) shift(ctx context.Context) (later bool) {
	l, err := r.lease(ctx)
	if err != nil || l == nil {
		return ctx.Err() == nil && err != nil && !errors.Is(err, errGone)
	}
	defer l.Release()
	held := func() {}
	defer func() { held() }()
	r.lock()
	from := r.state.Created.Trace
	r.unlock()
	ctx, span := r.of.o.Tracer.Start(ctx, "run", from, "stoa.run", r.id)
	defer func() { span.End("", "stoa.status", r.fate()) }()
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		held = r.hold(held)
		wait, over, err := r.turn(ctx, &calls)
		switch {
		case errors.Is(err, errGone):
			return false
		case errors.Is(err, errTaken):
			r.of.o.Logger.Warn("another hub drives the run", "run", r.id)
			return true
		case errors.Is(err, errStale):
			continue
		case err != nil && ctx.Err() == nil:
			r.of.o.Logger.Warn("a run cannot go on for now", "run", r.id, "err", err)
			wait = time.Second // the store may come back
		case over:
			return false
		}
		held = r.hold(held)
		timer.Reset(wait)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-l.Lost():
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// hold keeps the Session from expiring while the run goes on. One that is paused
// waits for a person, who may never come: it does not keep the Session for ever.
// It takes the place of what held the Session so far.
func (r *Run) hold(before func()) (release func()) {
	defer before()
	r.lock()
	c, rests := r.state.Created, r.state.Pause != nil && len(r.busy) == 0
	r.unlock()
	if rests {
		return func() {}
	}
	if s, err := r.of.session(c.Owner, c.Session); err == nil {
		return s.Hold()
	}
	return func() {}
}

// nobody is why nothing is done for those on whose behalf a run is. Whether they
// may still come in may be what is not known.
func nobody(run, what string, err error) error {
	if errors.Is(err, actor.ErrUnsure) {
		return err
	}
	return fault.New(fault.Denied, run, "%s: %v", what, err)
}

// actor is on whose behalf the run makes its calls, as they are now. Where its
// error is actor.ErrUnsure, the run waits. The run is locked.
func (r *Run) actor() (actor.Actor, error) {
	c := &r.state.Created
	gone := func(err error) (actor.Actor, error) {
		return actor.Actor{}, nobody(r.id, "the run cannot go on", err)
	}
	a, err := actor.Restore(c.Actor, c.Owner, r.of.o.Principal)
	if err != nil {
		return gone(err)
	}
	var publisher *actor.Actor
	if c.Publisher != nil {
		p, err := actor.Restore(c.Publisher, c.Owner, r.of.o.Principal)
		if err != nil {
			return gone(err)
		}
		publisher = &p
	}
	a = a.By(actor.ByRun(r.id, publisher))
	for _, list := range [][]*actor.Record{c.Steered, r.state.Steered} {
		for _, one := range list {
			b, err := actor.Restore(one, c.Owner, r.of.o.Principal)
			if err != nil {
				return gone(err)
			}
			a = a.Steered(b)
		}
	}
	return a, nil
}

// steer notes who moves the run on, where that bounds what it may do.
func (r *Run) steer(ctx context.Context, by actor.Actor) error {
	r.lock()
	now, err := r.actor()
	over := r.state.Status.Over()
	r.unlock()
	switch {
	case errors.Is(err, actor.ErrUnsure) && !over:
		// It goes on later. What adds nothing then is passed over then.
	case err != nil || over || now.Steered(by).Equal(now):
		return nil // a run of which nobody is left makes no calls, and can be stopped
	}
	return r.tell(ctx, Event{Type: RunSteered, Actor: by.Record()})
}

// turn does what is to be done now. It says how long to wait for something to
// happen, and whether the run is over.
func (r *Run) turn(ctx context.Context, calls *sync.WaitGroup) (wait time.Duration, over bool, err error) {
	r.lock()
	defer r.unlock()
	for {
		todo := r.state.Next(r.env(ctx))
		acted := false
		wait = time.Hour
		for _, d := range todo {
			if d.What == DoWait {
				wait = max(time.Until(d.Until), 0)
				continue
			}
			if r.state.Holder != r.of.name {
				return 0, false, errTaken // nobody need have been in the way of writing: it was heard
			}
			if r.of.Closing() && (d.What == DoCall || d.What == DoAsk || d.What == DoOpen) {
				continue // the next hub does it
			}
			did, err := r.do(ctx, d, calls)
			if err != nil {
				return 0, false, err
			}
			if acted = acted || did; d.What == DoPause || d.What == DoStop {
				break // what follows was decided before it
			}
		}
		if r.state.Status.Over() && len(r.state.Next(r.env(ctx))) == 0 {
			return 0, true, nil
		}
		if !acted {
			return wait, r.of.Closing() && len(r.busy) == 0, nil
		}
	}
}

// env is what the pure part has to know of this process.
func (r *Run) env(ctx context.Context) Env {
	return Env{
		Now:  time.Now().UTC(),
		Busy: func(step string, item int) bool { return r.busy[at{step, item}] != nil },
		Breaks: func(b Breakpoint) bool {
			ok, err := b.If.Holds(r.maybe(ctx))
			return ok || err != nil // one that cannot be answered is for a person to see
		},
	}
}

// repeatable says whether a call that is going to be made may be made again if
// nobody knows what became of it. That is written down with it: later the tool
// may not be there to be asked.
func (r *Run) repeatable(ctx context.Context, id string, kind CallKind) bool {
	s := r.state.step(id)
	name := s.Called()
	switch {
	case kind == FallbackCall:
		name = s.Fallback.Tool
	case kind == UndoCall:
		name = s.Compensate.Tool
	case s.Idempotent != nil:
		return *s.Idempotent
	}
	by, err := r.actor()
	if err != nil {
		return false
	}
	t, err := r.of.o.Find(ctx, by, r.state.Created.Session, name)
	return err == nil && (t.ReadOnly || t.Idempotent)
}

// do does one thing. It says whether the state has changed by it. The run is locked.
func (r *Run) do(ctx context.Context, d Do, calls *sync.WaitGroup) (bool, error) {
	switch d.What {
	case DoOpen:
		return true, r.open(ctx, d.Step)
	case DoSkip:
		return true, r.record(ctx, Event{Type: StepSkipped, Step: d.Step, Reason: d.Reason})
	case DoAsk:
		return r.ask(ctx, d, calls)
	case DoCall:
		return true, r.call(ctx, d, calls)
	case DoUnknown:
		again := ""
		if it := r.state.Steps[d.Step].Items[d.Item]; it.Cuts >= maxCuts || it.UndoCuts >= maxCuts {
			again = fmt.Sprintf(" %d times", maxCuts+1)
		}
		f := &Failure{Kind: fault.OutcomeUnknown.String(), Step: d.Step, Message: "the hub ended" + again + " while the tool was at work; whether the call took effect is not known", Hint: "Check, then retry the step, skip it, or set its result."}
		return true, r.record(ctx, Event{Type: CallUnknown, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: f})
	case DoKeep:
		return true, r.keep(ctx, d.Step)
	case DoPause:
		return true, r.record(ctx, Event{Type: RunPaused, Step: d.Step, After: d.After, Reason: d.Reason})
	case DoStop:
		return true, r.stop(ctx, d.Status, d.Reason, r.failureOf(d.Step, d.Reason))
	case DoEnd:
		var f *Failure
		if d.Status == Failed && r.state.Failure == nil {
			f = r.failureOf(d.Step, d.Reason)
		}
		return true, r.record(ctx, Event{Type: RunEnded, Status: d.Status, Failure: f})
	}
	return false, fmt.Errorf("nothing is known of %d", d.What)
}

// stop begins nothing more and ends what is under way.
func (r *Run) stop(ctx context.Context, as Status, reason string, f *Failure) error {
	return r.record(ctx, Event{Type: RunStopping, Status: as, Reason: reason, Failure: f})
}

// failureOf is why a step failed, or that the run did.
func (r *Run) failureOf(step, reason string) *Failure {
	if st := r.state.Steps[step]; st != nil {
		for i := range st.Items {
			if f := st.Items[i].Failure; f != nil && st.Items[i].Phase == ItemFailed {
				return &Failure{Kind: f.Kind, Message: f.Message, Hint: f.Hint, Step: step}
			}
		}
	}
	return &Failure{Message: reason, Step: step}
}
