package plan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
)

// Run is one execution of a plan.
type Run struct {
	id   string
	of   *Runs
	wake chan struct{} // something happened that whoever drives has to look at

	mu      sync.Mutex
	journal journal
	state   *State
	changed chan struct{}                 // closed and made anew with each event
	busy    map[string]context.CancelFunc // calls and questions under way
	driven  bool
}

// ID is the run's.
func (r *Run) ID() string { return r.id }

func busyKey(step string, item int) string { return fmt.Sprintf("%s/%d", step, item) }

// poke makes whoever drives the run look again.
func (r *Run) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// record writes an event, then takes it in, then tells of it. r.mu is held.
func (r *Run) record(ctx context.Context, e Event) error {
	e.N, e.Time = r.state.N+1, time.Now().UTC()
	// What cannot follow must not be written.
	if err := r.state.possible(e); err != nil {
		return fault.New(fault.InvalidArguments, r.id, "%s", err.Error())
	}
	if err := r.journal.append(ctx, e); err != nil {
		return err
	}
	if err := r.state.Apply(e); err != nil {
		return fault.New(fault.Internal, r.id, "the run cannot go on").Because(err)
	}
	close(r.changed)
	r.changed = make(chan struct{})
	r.emit(e)
	return nil
}

// emit tells those who watch.
func (r *Run) emit(e Event) {
	if r.of.o.Events == nil {
		return
	}
	c := &r.state.Created
	rec := event.Record{Type: "step." + string(e.Type), Session: c.Session, Principal: c.Owner, Run: r.id, Step: e.Step}
	switch e.Type {
	case RunCreated, RunTaken, RunBreaks, RunPaused, RunContinue, RunStopping, RunEnded:
		rec.Type = "run." + string(e.Type)
		rec.Data = map[string]any{"status": r.state.Status}
	case StepKept, CallAsked, CallDecided:
		return // told by others
	}
	if f := e.Failure; f != nil {
		rec.Level, rec.Kind = "error", f.Kind
	}
	r.of.o.Events.Emit(rec)
}

// Summary is the run at a glance.
func (r *Run) Summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	out := Summary{ID: r.id, Title: s.Created.Plan.Title, Session: s.Created.Session, Principal: s.Created.Owner, Status: s.status(),
		Steps: len(s.planned), Events: s.N, Began: s.Began, From: s.Created.From, Reason: s.Reason}
	if s.Pause != nil {
		out.Reason = s.Pause.Reason
	}
	if !s.Ended.IsZero() {
		out.Ended = &s.Ended
	}
	for _, st := range s.Steps {
		if st.Phase.Over() {
			out.Done++
		}
	}
	return out
}

// status is Waiting if only a person can make the run go on.
func (s *State) status() Status {
	if s.Status != Running {
		return s.Status
	}
	asked := false
	for _, st := range s.Steps {
		for i := range st.Items {
			switch st.Items[i].Phase {
			case ItemRunning, ItemRetry:
				return Running
			case ItemAsked:
				asked = true
			}
		}
	}
	if asked {
		return Waiting
	}
	return Running
}

// Wait waits until the run is over or paused, calling seen after each event if
// it is not nil.
func (r *Run) Wait(ctx context.Context, seen func(Summary)) (Status, error) {
	for {
		r.mu.Lock()
		status, changed := r.state.Status, r.changed
		settled := status.Over() || status == Paused && len(r.busy) == 0
		r.mu.Unlock()
		if settled {
			return status, nil
		}
		if seen != nil {
			seen(r.Summary())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status, context.Cause(ctx)
		}
	}
}

// Await waits until the run has more than n events, or is over or paused.
func (r *Run) Await(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		status, changed := r.state.Status, r.changed
		met := r.state.N > n || status.Over() || status == Paused && len(r.busy) == 0
		r.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drive starts to drive a run, unless that is being done.
func (r *Runs) drive(run *Run) {
	run.mu.Lock()
	defer run.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.driven || r.closing {
		return
	}
	run.driven = true
	r.wg.Go(func() { run.drive(r.ctx) })
}

// drive does what a run needs done until it is over, another hub has it, or the
// hub ends.
func (r *Run) drive(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		r.mu.Lock()
		r.driven = false
		r.mu.Unlock()
	}()
	l, err := r.lease(ctx)
	if err != nil {
		return
	}
	defer l.release()
	release := r.hold()
	defer release()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, over, err := r.turn(ctx, &calls)
		switch {
		case errors.Is(err, errTaken):
			r.of.o.Logger.Warn("another hub drives the run", "run", r.id)
			return
		case err != nil && ctx.Err() == nil:
			r.of.o.Logger.Warn("a run cannot go on for now", "run", r.id, "err", err)
			wait = time.Second // the store may come back
		case over:
			return
		}
		timer.Reset(wait)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-l.lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

// hold keeps the Session from expiring while the run is alive.
func (r *Run) hold() (release func()) {
	r.mu.Lock()
	c := r.state.Created
	r.mu.Unlock()
	if s, err := r.of.session(c.Owner, c.Session); err == nil {
		return s.Hold()
	}
	return func() {}
}

// who is the principal of the run as it is now.
func (r *Run) who() (*auth.Principal, error) {
	if who := r.of.o.Principal(r.state.Created.Owner); who != nil {
		return who, nil
	}
	return nil, fault.New(fault.Denied, r.id, "the token of %q is not valid any more", r.state.Created.Owner)
}

// turn does what is to be done now. It says how long to wait for something to
// happen, and whether the run is over.
func (r *Run) turn(ctx context.Context, calls *sync.WaitGroup) (wait time.Duration, over bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		todo := r.state.Next(r.env(ctx))
		acted := false
		wait = time.Hour
		for _, d := range todo {
			if d.What == DoWait {
				wait = max(time.Until(d.Until), 0)
				continue
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
		Now:        time.Now().UTC(),
		Busy:       func(step string, item int) bool { return r.busy[busyKey(step, item)] != nil },
		Repeatable: func(step string, kind CallKind) bool { return r.repeatable(ctx, step, kind) },
		Breaks: func(b Breakpoint) bool {
			ok, err := b.If.Holds(r.maybe(ctx))
			return ok || err != nil // one that cannot be answered is for a person to see
		},
	}
}

// repeatable says whether a call may be made again when nobody knows what
// became of it.
func (r *Run) repeatable(ctx context.Context, id string, kind CallKind) bool {
	s := r.state.Created.Plan.Step(id)
	name := s.Called()
	switch {
	case kind == FallbackCall:
		name = s.Fallback.Tool
	case kind == UndoCall:
		name = s.Compensate.Tool
	case s.Idempotent != nil:
		return *s.Idempotent
	}
	who, err := r.who()
	if err != nil {
		return false
	}
	t, err := r.of.o.Find(ctx, who, r.state.Created.Session, name)
	return err == nil && (t.ReadOnly || t.Idempotent)
}

// do does one thing. It says whether the state has changed by it. r.mu is held.
func (r *Run) do(ctx context.Context, d Do, calls *sync.WaitGroup) (bool, error) {
	switch d.What {
	case DoOpen:
		return true, r.open(ctx, d.Step)
	case DoSkip:
		return true, r.record(ctx, Event{Type: StepSkipped, Step: d.Step, Reason: d.Reason})
	case DoAsk:
		return false, r.ask(ctx, d, calls)
	case DoCall:
		return true, r.call(ctx, d, calls)
	case DoUnknown:
		f := &Failure{Kind: fault.OutcomeUnknown.String(), Step: d.Step, Message: "the hub ended while the tool was at work; whether the call took effect is not known", Hint: "Check, then retry the step, skip it, or set its result."}
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
	if err := r.record(ctx, Event{Type: RunStopping, Status: as, Reason: reason, Failure: f}); err != nil {
		return err
	}
	for _, cancel := range r.busy {
		cancel()
	}
	return nil
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
