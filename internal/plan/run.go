package plan

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
)

// Run is one execution of a plan.
type Run struct {
	id      string
	session string // the id of its Session
	of      *Runs
	x       *entity
	wake    chan struct{} // something happened that whoever drives has to look at

	// The lock of the entity guards the rest.
	held    *entity // as it was locked
	state   *State
	writing bool                       // an event is being written here
	changed chan struct{}              // closed and made anew with each event
	busy    map[at]context.CancelFunc  // calls and questions under way
	halt    context.CancelFunc         // ends who drives it; nil if nobody does
	gone    bool                       // it is forgotten
	told    bool                       // it was begun by another hub while this one ran
	cache   map[string]json.RawMessage // results of steps for each item
	lists   map[string][][]byte        // what steps for each item go through
}

// at is a call of a step.
type at struct {
	step string
	item int
}

// ID is the run's.
func (r *Run) ID() string { return r.id }

// poke makes whoever drives the run look again.
func (r *Run) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// lock locks the run, and with it its entity in the journal: nothing happens to
// it but what the holder of the lock does.
func (r *Run) lock() {
	x := r.x.Lock()
	r.held = x
}

func (r *Run) unlock() { r.held.Unlock() }

// record writes an event and takes it in. The run is locked. errStale means that
// nothing was written, since somebody else was quicker.
func (r *Run) record(ctx context.Context, e Event) error {
	if r.gone {
		return errGone
	}
	e.N, e.Time = r.state.N+1, time.Now().UTC()
	r.writing = true
	err := r.held.Append(ctx, &e, nil)
	r.writing = false
	switch {
	case !errors.Is(err, journal.ErrAgain):
		return err
	case r.gone:
		return errGone
	case r.halt != nil && r.state.Holder != r.of.name:
		return errTaken
	}
	return errStale
}

// took makes of an event what it means here. The run is locked.
func (r *Run) took(e *Event, s *State) {
	r.state = s
	switch e.Type {
	case StepPinned, StepAgain:
		clear(r.cache)
		clear(r.lists)
	case RunStopping:
		r.cut()
	}
	r.announce()
	if !r.writing { // who writes looks anyway
		r.poke()
	}
	r.emit(*e)
}

// announce wakes those who wait for the run. The run is locked.
func (r *Run) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// cut cancels what is under way. The run is locked.
func (r *Run) cut() {
	for _, cancel := range r.busy {
		cancel()
	}
}

// leave makes a run one that is forgotten: nothing more is written or called.
// The run is locked.
func (r *Run) leave() {
	r.gone = true
	if r.halt != nil {
		r.halt()
	}
	r.announce()
}

// emit tells those who watch.
func (r *Run) emit(e Event) {
	if r.of.o.Events == nil {
		return
	}
	c := &r.state.Created
	rec := event.Record{Type: "step." + string(e.Type), Session: c.Session, Principal: c.Owner, Trace: c.Trace.Trace(), Run: r.id, Step: e.Step}
	switch e.Type {
	case RunCreated, RunTaken, RunBreaks, RunPaused, RunContinue, RunStopping, RunEnded:
		rec.Type = "run." + string(e.Type)
		rec.Data = map[string]any{"status": r.state.Status}
	case StepKept, CallAsked, CallDecided:
		return // told by others
	default:
		if !slices.Contains(eventTypes, e.Type) {
			return // of a later version
		}
	}
	if f := e.Failure; f != nil {
		rec.Level, rec.Kind = "error", f.Kind
	}
	r.of.o.Events.Emit(rec)
}

// Summary is the run at a glance.
func (r *Run) Summary() Summary {
	r.lock()
	defer r.unlock()
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
// it is not nil. It does not outlast a hub that stops, save where stay says so:
// such a run goes on in the next hub.
func (r *Run) Wait(ctx context.Context, stay bool, seen func(Summary)) (Status, error) {
	for {
		r.lock()
		status, changed, gone, quiet := r.state.Status, r.changed, r.gone, r.of.going.Done()
		settled := status.Over() || status == Paused && len(r.busy) == 0
		busy := len(r.busy) > 0
		r.unlock()
		switch {
		case settled:
			return status, nil
		case gone:
			return status, &fault.Error{Kind: fault.Cancelled, Subject: r.id, Msg: "the run is forgotten, since its session has ended"}
		case !stay && !busy && r.of.Closing():
			return status, &fault.Error{Kind: fault.Unreachable, Subject: r.id, Msg: "the hub is stopping; the run goes on when it is started again", Hint: "plan_status tells how it stands."}
		}
		if seen != nil {
			seen(r.Summary())
		}
		if stay || r.of.Closing() {
			quiet = nil // it was looked at
		}
		select {
		case <-changed:
		case <-quiet:
		case <-ctx.Done():
			return status, context.Cause(ctx)
		}
	}
}

// Await waits until the run has more than n events, or is over or paused.
func (r *Run) Await(ctx context.Context, n int) error {
	for {
		r.lock()
		status, changed := r.state.Status, r.changed
		met := r.state.N > n || r.gone || status.Over() || status == Paused && len(r.busy) == 0
		r.unlock()
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
