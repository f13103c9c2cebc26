package plan

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/actor"
)

// State is that of a run: a pure function of its journal.
type State struct {
	Created  Created
	N        int // the last event
	Status   Status
	Steps    map[string]*StepState
	Breaks   []Breakpoint
	Pause    *Pause          // nil unless it is paused
	Stopping Status          // what it will end as; empty while it goes on
	Reason   string          // why it is stopping
	Failure  *Failure        // why it failed
	Began    time.Time       // when it was created
	Ended    time.Time       // zero while it is not over
	Rested   time.Duration   // how long it was paused, or in no hub, in all
	Holder   string          // the hub that drives it
	Steered  []*actor.Record // those who moved it on besides its actor

	last    time.Time // of the last event
	mode    Mode
	to      string          // of RunTo
	single  string          // of OneStep: the step that was begun
	passed  map[string]bool // breakpoints that were gone on from
	order   []completed     // calls that may have to be undone, as they were completed
	links   map[string]links
	planned []string         // the steps, in their order
	steps   map[string]*Step // the plan's

	flaw   error  // why the journal cannot be used from some entry on
	flawed uint64 // the sequence of that entry
}

// Pause is where and why a run is paused.
type Pause struct {
	Step   string
	After  bool // after the step, not before it
	Reason string
	Since  time.Time
}

// completed is a call of a step that was made.
type completed struct {
	step string
	item int
}

// links are the steps that one waits for. Without those it refers to in its
// arguments it cannot be called; of the others it is enough that they are over.
type links struct{ hard, soft []string }

// Replay makes the state that a journal leads to.
func Replay(events []Event) (*State, error) {
	s := &State{}
	for _, e := range events {
		if err := s.Apply(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Apply takes in the next event. It refuses one that cannot follow, and then
// changes nothing.
func (s *State) Apply(e Event) error {
	var err error
	switch {
	case s.flaw != nil:
		return fmt.Errorf("the journal of the run cannot be used: %w", s.flaw)
	case e.N != s.N+1:
		return fmt.Errorf("event %d cannot follow event %d", e.N, s.N)
	case !e.known() && s.N > 0: // of a later version
	case (e.Type == RunCreated) != (s.N == 0):
		err = errors.New("a run is created once, first")
	case s.Status.Over() && e.Type != StepKept && e.Type != RunTaken:
		err = errors.New("the run is over")
	default:
		err = s.apply(e)
	}
	if err != nil {
		return fmt.Errorf("event %d, %s %s: %w", e.N, e.Type, e.Step, err)
	}
	s.N, s.last = e.N, e.Time
	return nil
}

// possible says whether an event can follow, and changes nothing.
func (s *State) possible(e Event) error {
	c := *s
	c.Steps, c.passed = maps.Clone(s.Steps), maps.Clone(s.passed)
	if st := s.Steps[e.Step]; st != nil {
		one := *st
		one.Items = slices.Clone(st.Items)
		c.Steps[e.Step] = &one
	}
	return c.Apply(e)
}

func (s *State) apply(e Event) error {
	switch e.Type {
	case RunCreated:
		return s.create(e)
	case RunTaken:
		s.Holder = e.By
		if away := e.Time.Sub(s.last); s.Pause == nil && !s.Status.Over() && away > 0 {
			s.Rested += away // nobody could go on with it
		}
	case RunBreaks:
		s.rearm(e.Breaks)
	case RunPaused:
		if s.Pause != nil || s.Stopping != "" {
			return errors.New("it is not going on")
		}
		s.Status, s.Pause = Paused, &Pause{Step: e.Step, After: e.After, Reason: e.Reason, Since: e.Time}
	case RunSteered:
		if e.Actor == nil {
			return errors.New("nobody is said to have done it")
		}
		s.Steered = append(slices.Clip(s.Steered), e.Actor)
	case RunContinue:
		return s.goOn(e)
	case RunStopping:
		if s.Stopping != "" {
			return errors.New("it is stopping already")
		}
		s.leave(e.Time)
		s.Stopping, s.Reason, s.Failure, s.Status = e.Status, e.Reason, e.Failure, Undoing
	case RunEnded:
		s.Status, s.Ended = e.Status, e.Time
		if e.Failure != nil {
			s.Failure = e.Failure
		}
	default:
		return s.applyStep(e)
	}
	return nil
}

func (s *State) create(e Event) error {
	if e.Created == nil {
		return errors.New("it says nothing of the run")
	}
	s.Created, s.Began, s.Status, s.mode = *e.Created, e.Time, Running, ToBreak
	s.Steps, s.passed, s.links, s.steps = map[string]*StepState{}, map[string]bool{}, map[string]links{}, map[string]*Step{}
	s.Holder, s.Breaks = e.By, e.Created.Breaks
	p := &s.Created.Plan
	own := p.owners()
	for i := range p.Steps {
		step := &p.Steps[i]
		s.planned, s.steps[step.ID] = append(s.planned, step.ID), step
		s.Steps[step.ID] = &StepState{Phase: StepPending, each: step.ForEach != nil, fallback: step.Fallback != nil}
		if d, ok := e.Created.Pinned[step.ID]; ok {
			s.Steps[step.ID].Phase, s.Steps[step.ID].Pinned = StepDone, &d
		}
		s.links[step.ID] = p.linksOf(own, step)
	}
	if e.Created.Paused {
		s.Status, s.Pause = Paused, &Pause{Reason: "it has not begun", Since: e.Time}
	}
	return nil
}

// linksOf tells what a step cannot do without from what it only waits for.
func (p *Plan) linksOf(own map[string]string, s *Step) links {
	bare := *s
	bare.After, bare.When = nil, nil
	l := links{hard: p.needs(own, &bare)}
	for _, id := range p.needs(own, s) {
		if !slices.Contains(l.hard, id) {
			l.soft = append(l.soft, id)
		}
	}
	return l
}

// leave ends a pause.
func (s *State) leave(now time.Time) {
	if s.Pause != nil {
		s.Rested += now.Sub(s.Pause.Since)
		s.passed[breakKey(s.Pause.Step, s.Pause.After)] = true
		s.Pause = nil
	}
}

// rearm sets the breakpoints. Those that stay as they are keep that they were
// gone on from: a run that is past a step does not pause after it once more
// because another breakpoint came or went.
func (s *State) rearm(breaks []Breakpoint) {
	kept := map[string]bool{}
	for _, b := range breaks {
		if key := breakKey(b.Step, b.After); s.passed[key] && slices.ContainsFunc(s.Breaks, func(o Breakpoint) bool { return reflect.DeepEqual(o, b) }) {
			kept[key] = true
		}
	}
	s.Breaks, s.passed = breaks, kept
}

func breakKey(step string, after bool) string {
	if after {
		return step + " after"
	}
	return step
}

func (s *State) goOn(e Event) error {
	switch {
	case s.Stopping != "":
		return errors.New("it is stopping")
	case e.Mode == RunTo && s.Steps[e.To] == nil:
		return fmt.Errorf("there is no step %s", e.To)
	}
	s.leave(e.Time)
	s.Status, s.mode, s.to, s.single = Running, e.Mode, e.To, ""
	if e.Mode == RunTo {
		delete(s.passed, e.To)
	}
	return nil
}

func (s *State) applyStep(e Event) error {
	st := s.Steps[e.Step]
	if st == nil {
		return errors.New("there is no such step")
	}
	s.decided(e)
	switch e.Type {
	case StepOpened:
		if s.mode == OneStep && s.single == "" {
			s.single = e.Step
		}
		return st.open(e)
	case StepSkipped:
		return st.skip(e)
	case StepPinned:
		if st.busy() {
			return errors.New("it is at work")
		}
		st.Phase, st.Pinned, st.Kept = StepDone, e.Result, false
		return nil
	case StepAgain:
		return st.again()
	case StepKept:
		st.Kept = true
		return nil
	}
	if e.Item < 0 || e.Item >= len(st.Items) {
		return fmt.Errorf("there is no item %d", e.Item)
	}
	it := &st.Items[e.Item]
	if e.Kind == UndoCall {
		return it.undo(e)
	}
	if err := it.apply(e); err != nil {
		return err
	}
	if e.Type == CallDone && e.Kind == OwnCall {
		s.order = append(s.order, completed{e.Step, e.Item})
	}
	st.settle()
	return nil
}

// decided says why a run is paused still whose question a person has answered.
func (s *State) decided(e Event) {
	p := s.Pause
	if p == nil || p.Step != e.Step || !slices.ContainsFunc(s.Steps[e.Step].Items, func(it ItemState) bool { return it.Phase == ItemUnknown }) {
		return
	}
	what := map[EventType]string{StepAgain: "is to be called again", StepSkipped: "is skipped", StepPinned: "has the result that was set"}[e.Type]
	if what != "" {
		one := *p
		one.Reason = e.Step + " " + what + ", as a person decided; continue the run"
		s.Pause = &one
	}
}

// Spent is how long a run has taken by now, pauses not counted.
func (s *State) Spent(now time.Time) time.Duration {
	if !s.Ended.IsZero() {
		now = s.Ended
	}
	d := now.Sub(s.Began) - s.Rested
	if s.Pause != nil {
		d -= now.Sub(s.Pause.Since)
	}
	return d
}

// step is that of the plan.
func (s *State) step(id string) *Step { return s.steps[id] }

// Order is the ids of the steps, as the plan has them.
func (s *State) Order() []string { return s.planned }
