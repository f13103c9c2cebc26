package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/wire"
)

// Runner does the work of a Task and says what came of it. ctx ends when the
// Task is cancelled, when its time is over, or when the hub stops.
type Runner func(ctx context.Context, r *Run) Outcome

// Outcome is what came of a run: a result, or an error object of JSON-RPC, raw.
type Outcome struct {
	Result  []byte
	Error   []byte
	Message string // says in short what went wrong
}

// maxAttempts is how often work that bears repetition is begun: it may be what
// takes the hub down.
const maxAttempts = 5

// Run is a Task under way, for its Runner.
type Run struct {
	t *Task
}

// ID is the Task's.
func (r *Run) ID() string { return r.t.ID() }

// Work is what is to be done.
func (r *Run) Work() Work { return r.t.State().Work }

// Params are those of the request, as the client sent them.
func (r *Run) Params(ctx context.Context) ([]byte, error) {
	return r.t.data(ctx, r.t.State().params)
}

// Input is what the last round of input brought: what the upstream demanded,
// and the answers by the upstream's own names; nil if there was none.
func (r *Run) Input(ctx context.Context) (demand, answers []byte, err error) {
	s := r.t.State()
	if s.demand == (journal.Place{}) {
		return nil, nil, nil
	}
	if demand, err = r.t.data(ctx, s.demand); err != nil {
		return nil, nil, err
	}
	given := map[string][]byte{}
	for _, p := range s.answers {
		b, err := r.t.data(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		for _, f := range wire.Members(b) {
			given[string(f.Name)] = f.Value
		}
	}
	var changes []wire.Change
	for _, k := range s.round {
		if value := given[k.Name()]; value != nil {
			changes = append(changes, wire.Change{Name: k.Own, Value: value})
		}
	}
	return demand, wire.Edit(nil, []byte("{}"), changes...), nil
}

// Starting notes that the upstream may have the request from now on.
func (r *Run) Starting(ctx context.Context) error { return r.t.Starting(ctx) }

// Starting is that of its Run, for calls that were begun before they were
// tasks.
func (t *Task) Starting(ctx context.Context) error {
	if t.r.leaving.Load() { // it is the next hub's
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
	_, err := t.commit(ctx, func(s State) (*Event, []byte, error) {
		if err := t.foreign(s); err != nil {
			return nil, nil, err
		}
		return &Event{Kind: started}, nil, nil
	})
	return err
}

// Ask puts what an upstream demands, an input_required result, to the client
// and waits until all of it has been answered.
func (r *Run) Ask(ctx context.Context, demand []byte) error {
	var names []string
	for _, f := range wire.Members(wire.Get(demand, "inputRequests")) {
		names = append(names, string(f.Name))
	}
	_, err := r.t.commit(ctx, func(s State) (*Event, []byte, error) {
		if err := r.t.foreign(s); err != nil {
			return nil, nil, err
		}
		return &Event{Kind: asked, Keys: s.keys(names)}, demand, nil
	})
	if err != nil {
		return err
	}
	return r.Answered(ctx)
}

// Answered waits until nothing is asked any more.
func (r *Run) Answered(ctx context.Context) error {
	for {
		changed := r.t.Changed()
		switch s := r.t.State(); {
		case s.Status.Final():
			return errFinal
		case s.Status == Working:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Say notes what the upstream says of its progress, in words and as the raw
// object of its numbers. It is not kept.
func (r *Run) Say(message, reached string) {
	t := r.t
	t.mu.Lock()
	if message == t.note && reached == t.reached || t.state.Status != Working {
		t.mu.Unlock()
		return
	}
	now := time.Now()
	quiet := now.Sub(t.noted) < sayEvery
	t.note, t.reached = message, reached
	if !quiet {
		t.noted = now
		t.announce()
	}
	t.mu.Unlock()
	if !quiet {
		t.r.opts.Changed(t)
	}
}

// sayEvery bounds how often listeners hear of progress.
const sayEvery = 200 * time.Millisecond

// guarded runs a Runner, whose mistakes must not take the hub down.
func guarded(ctx context.Context, run Runner, r *Run) (out Outcome) {
	defer func() {
		if p := recover(); p != nil {
			f := fault.New(fault.Internal, "task", "the task stumbled").Because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			r.t.r.opts.Logger.Error("a task stumbled", "task", r.ID(), "err", f.Err)
			out = Failure(f)
		}
	}()
	return run(ctx, r)
}

// Failure is the Outcome of work that could not be done.
func Failure(err error) Outcome {
	f := fault.Of(err)
	return Outcome{Error: f.Wire(true), Message: f.Text()}
}

// unknown is the Outcome of work that may or may not have been done.
func unknown(w *Work, why string) Outcome {
	return Failure(fault.New(fault.OutcomeUnknown, w.Shown, "%s, and whether the call took effect is not known", why))
}

// end records the outcome. It is tried until the store takes it: it may be all
// that is left of what the tool did. A Task that was interrupted because the
// hub stops is left as it is, and one that another hub has taken over is that hub's.
func (t *Task) end(ctx context.Context, out Outcome) {
	if (t.r.ctx.Err() != nil || errors.Is(context.Cause(ctx), errTaken)) && out.Result == nil {
		return
	}
	ev := Event{Kind: ended, Status: Completed, Message: out.Message}
	data := out.Result
	if out.Result == nil {
		ev.Status, data = Failed, out.Error
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		// Also when the hub stops: then once, with the store's own time-out.
		_, err := t.commit(t.ctx, func(s State) (*Event, []byte, error) {
			if err := t.foreign(s); err != nil {
				return nil, nil, err
			}
			next := ev
			return &next, data, nil
		})
		if err == nil || errors.Is(err, errFinal) || errors.Is(err, errTaken) {
			return
		}
		t.r.opts.Logger.Warn("the end of a task could not be kept", "task", t.ID(), "err", err)
		select {
		case <-time.After(wait):
		case <-t.r.ctx.Done():
			return
		}
	}
}

// Lost is the Outcome of a run whose upstream has forgotten it between two
// rounds of input, for work that does not bear repetition.
func Lost(w *Work) Outcome {
	return unknown(w, "the upstream has forgotten the call that waited for input")
}
