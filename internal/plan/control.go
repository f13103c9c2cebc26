package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
)

// tell records what a person wants and makes whoever drives look at it. What
// somebody else writes meanwhile may change what can be done.
func (r *Run) tell(ctx context.Context, e Event) error {
	for range 8 {
		err := r.latest(ctx)
		if err == nil {
			err = r.locked(func() error { return r.order(ctx, e) })
		}
		switch {
		case errors.Is(err, errStale), errors.Is(err, errTaken):
			continue
		case errors.Is(err, errGone):
			return r.forgotten()
		case err == nil:
			r.of.drive(r)
			r.poke()
		}
		return err
	}
	return &fault.Error{Kind: fault.Unreachable, Subject: r.id, Msg: "the run is being changed", Hint: "Try again in a moment."}
}

func (r *Run) forgotten() error {
	return fault.New(fault.InvalidArguments, r.id, "the run is forgotten, since its session has ended")
}

// order records what a person wants if it can be done. The run is locked.
func (r *Run) order(ctx context.Context, e Event) error {
	if r.gone {
		return errGone
	}
	if r.state.Status.Over() {
		return &fault.Error{Kind: fault.InvalidArguments, Subject: r.id, Msg: fmt.Sprintf("the run is over: %s", r.state.Status), Hint: "Fork it to go on from one of its steps."}
	}
	if e.Type == RunContinue && e.Mode == OneStep && r.state.Status == Running {
		// Of two who press at once the second would else get a step or none, as it happens.
		return &fault.Error{Kind: fault.InvalidArguments, Subject: r.id, Msg: "the run is going on already",
			Hint: "Somebody else may have moved it. Wait until it pauses, or pause it, before the next step."}
	}
	if e.Step != "" {
		if err := r.has(e.Step); err != nil {
			return err
		}
	}
	return r.record(ctx, e)
}

// latest makes sure that what is known is what the journal says, where another
// hub may be driving the run.
func (r *Run) latest(ctx context.Context) error {
	r.lock()
	ours := r.state.Holder == r.of.name || r.gone
	r.unlock()
	if ours {
		return nil
	}
	_, err := r.x.Latest(ctx)
	return err
}

func (r *Run) has(step string) error {
	if r.state.Steps[step] != nil {
		return nil
	}
	f := fault.New(fault.InvalidArguments, step, "the plan has no step %s", step).With("allowed", r.state.planned)
	f.Hint = near(step, r.state.planned)
	return f
}

// Continue lets a run that is paused go on.
func (r *Run) Continue(ctx context.Context, mode Mode, to string) error {
	return r.tell(ctx, Event{Type: RunContinue, Mode: mode, To: to})
}

// Pause begins nothing more until the run is told to go on. What is under way
// ends.
func (r *Run) Pause(ctx context.Context, reason string) error {
	return r.tell(ctx, Event{Type: RunPaused, Reason: reason})
}

// Stop ends a run. What is under way is cancelled, and what was done is undone
// if the plan says so.
func (r *Run) Stop(ctx context.Context, reason string) error {
	return r.tell(ctx, Event{Type: RunStopping, Status: Stopped, Reason: reason})
}

// Break sets the breakpoints, in place of those before.
func (r *Run) Break(ctx context.Context, breaks []Breakpoint) error {
	r.lock()
	problems := checkBreaks(&r.state.Created.Plan, breaks)
	r.unlock()
	if len(problems) > 0 {
		return &Problems{List: problems}
	}
	return r.tell(ctx, Event{Type: RunBreaks, Breaks: breaks})
}

// checkBreaks says what is wrong with breakpoints of a plan.
func checkBreaks(p *Plan, breaks []Breakpoint) []Problem {
	var out []Problem
	for i, b := range breaks {
		at := fmt.Sprintf("/breakpoints/%d", i)
		if p.Step(b.Step) == nil {
			var ids []string
			for _, s := range p.Steps {
				ids = append(ids, s.ID)
			}
			out = append(out, Problem{Pointer: at, Message: "there is no step " + b.Step, Hint: near(b.Step, ids)})
		}
		out = append(out, b.If.check(at+"/if", 0)...)
		b.If.references(at+"/if", func(pointer, text string) {
			if _, ok := session.ParseReference(text); !ok {
				out = append(out, Problem{Pointer: pointer, Message: fmt.Sprintf("%q is no reference", text), Hint: "A reference is @name, @name.member or @name[0]."})
			}
		})
	}
	return out
}

// Skip goes on without a step.
func (r *Run) Skip(ctx context.Context, step string) error {
	return r.tell(ctx, Event{Type: StepSkipped, Step: step, Reason: "a person skipped it"})
}

// Retry makes the failed or unsure calls of a step once more.
func (r *Run) Retry(ctx context.Context, step string) error {
	return r.tell(ctx, Event{Type: StepAgain, Step: step})
}

// Pin sets the result of a step of which nobody knows what became of it, or
// that was not begun.
func (r *Run) Pin(ctx context.Context, step string, value json.RawMessage) error {
	r.lock()
	d, err := r.put(ctx, value)
	r.unlock()
	if err != nil {
		return err
	}
	return r.tell(ctx, Event{Type: StepPinned, Step: step, Result: d})
}

// Inspection is what a step would be called with now.
type Inspection struct {
	Step  string          `json:"step"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	When  *bool           `json:"when,omitempty"`  // whether its condition holds
	Items *int            `json:"items,omitempty"` // of forEach
	Error string          `json:"error,omitempty"`
}

// Inspect resolves the arguments of a step as they would be sent now; nothing
// is called. For a step for each item those of the first are shown.
func (r *Run) Inspect(ctx context.Context, step string) (Inspection, error) {
	r.lock()
	defer r.unlock()
	if err := r.has(step); err != nil {
		return Inspection{}, err
	}
	s := r.state.Created.Plan.Step(step)
	out := Inspection{Step: step, Tool: s.Called()}
	if s.When != nil {
		holds, err := s.When.Holds(r.maybe(ctx))
		if err == nil {
			out.When = &holds
		}
	}
	var item map[string][]byte
	if s.ForEach != nil {
		list, n, flaw, err := r.list(ctx, s.ForEach)
		if err != nil || flaw != nil {
			if flaw != nil {
				out.Error = flaw.Message
			}
			return out, err
		}
		out.Items = &n
		if n == 0 {
			return out, nil
		}
		raw, err := r.get(ctx, list)
		if err != nil {
			return out, err
		}
		first, err := session.Dig(raw, []session.Step{session.At(0)})
		if err != nil {
			return out, err
		}
		item = map[string][]byte{s.ForEach.As: first}
	}
	args := s.Args
	if len(args) == 0 {
		args = []byte("{}")
	}
	full, _, err := session.Resolve(args, r.of.ArgBytes(), r.values(ctx, item))
	if err != nil {
		out.Error = fault.Of(err).Text()
		return out, nil
	}
	out.Args = full
	return out, nil
}

// Variables are what the references of a run stand for: its inputs and the
// results of its steps.
func (r *Run) Variables(ctx context.Context) (map[string]json.RawMessage, error) {
	r.lock()
	defer r.unlock()
	out := map[string]json.RawMessage{}
	for name, d := range r.state.Created.Inputs {
		raw, err := r.get(ctx, &d)
		if err != nil {
			return nil, err
		}
		out[name] = raw
	}
	for _, id := range r.state.planned {
		raw, err := r.result(ctx, id)
		if err != nil {
			return nil, err
		}
		if raw == nil {
			continue
		}
		out[id] = raw
		for _, name := range r.state.Created.Plan.Step(id).Outputs {
			if part, err := r.output(ctx, id, name); err == nil {
				out[name] = part
			}
		}
	}
	return out, nil
}

// Change is what a fork does otherwise than its run.
type Change struct {
	By     actor.Actor                // who makes the fork
	Inputs map[string]json.RawMessage // new values of inputs
	Pins   map[string]json.RawMessage // results of steps, which are then not called
	From   string                     // the step from which on all is done again; empty: none
	Reason string
}

// Fork makes a new run of the same plan: what is not changed, and does not come
// of what is, is taken over; the rest is done again. The old run stays as it
// is. The new one is paused.
func (r *Runs) Fork(ctx context.Context, run *Run, ch Change) (*Run, error) {
	if ch.By.Principal() == nil {
		return nil, fault.New(fault.Internal, run.ID(), "nobody is said to make the fork")
	}
	if err := run.latest(ctx); err != nil {
		return nil, err
	}
	run.lock()
	created, inputs, pins, err := run.fork(ctx, ch)
	run.unlock()
	if err != nil {
		return nil, err
	}
	return r.begin(ctx, created, inputs, pins)
}

// fork makes what a fork begins with, and the results that it takes over. The run
// is locked.
func (r *Run) fork(ctx context.Context, ch Change) (c *Created, inputs, pins map[string]json.RawMessage, err error) {
	if r.gone {
		return nil, nil, nil, r.forgotten()
	}
	changed := map[string]bool{}
	for _, step := range slices.Sorted(maps.Keys(ch.Pins)) {
		if err := r.has(step); err != nil {
			return nil, nil, nil, err
		}
		changed[step] = true
	}
	if ch.From != "" {
		if err := r.has(ch.From); err != nil {
			return nil, nil, nil, err
		}
	}
	if _, problems := CheckInputs(&Plan{Inputs: changedInputs(&r.state.Created.Plan, ch.Inputs)}, ch.Inputs); len(problems) > 0 {
		return nil, nil, nil, &Problems{List: problems}
	}
	again := r.affected(ch, changed)
	created := r.state.Created
	c = &created
	c.Steered = append(slices.Clip(c.Steered), r.state.Steered...)
	if now, err := r.actor(); err != nil {
		return nil, nil, nil, err
	} else if !now.Steered(ch.By).Equal(now) {
		c.Steered = append(c.Steered, ch.By.Record())
	}
	inputs = map[string]json.RawMessage{}
	for name, d := range c.Inputs { // the fork has its own: that of the run goes with it
		if inputs[name], err = r.get(ctx, &d); err != nil {
			return nil, nil, nil, err
		}
	}
	maps.Copy(inputs, ch.Inputs)
	c.Run, c.Paused, c.Key, c.Inputs = newID(), true, "", map[string]Data{}
	c.From = &Origin{Run: r.id, At: r.state.N, Reason: ch.Reason}
	c.Breaks, c.Pinned = r.state.Breaks, nil
	pins = map[string]json.RawMessage{}
	for _, id := range r.state.planned {
		if value, ok := ch.Pins[id]; ok {
			pins[id] = value
			continue
		}
		if again[id] || r.state.Steps[id].Phase != StepDone {
			continue
		}
		raw, err := r.result(ctx, id)
		if err != nil {
			return nil, nil, nil, err
		}
		pins[id] = raw
	}
	return c, inputs, pins, nil
}

// changedInputs are the inputs of a plan that are given anew; names that it
// does not have are told of by the check.
func changedInputs(p *Plan, given map[string]json.RawMessage) []Input {
	var out []Input
	for _, in := range p.Inputs {
		if _, ok := given[in.Name]; ok {
			out = append(out, in)
		}
	}
	return out
}

// affected are the steps that a change makes be done again: those that come of
// what is changed, and the one from which on all is.
func (r *Run) affected(ch Change, changed map[string]bool) map[string]bool {
	p := &r.state.Created.Plan
	before := p.ancestors()
	again := map[string]bool{}
	for i := range p.Steps {
		id := p.Steps[i].ID
		if id == ch.From || ch.From != "" && before[id][ch.From] {
			again[id] = true
		}
		for step := range changed {
			if before[id][step] {
				again[id] = true
			}
		}
		if usesInput(&p.Steps[i], ch.Inputs) {
			again[id] = true
		}
	}
	for i := range p.Steps { // what comes of what is done again
		for step := range before[p.Steps[i].ID] {
			if again[step] {
				again[p.Steps[i].ID] = true
			}
		}
	}
	return again
}

func usesInput(s *Step, inputs map[string]json.RawMessage) (uses bool) {
	s.used("", func(_, text string, _ bool) {
		name := strings.TrimPrefix(text, "@")
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		if _, ok := inputs[name]; ok {
			uses = true
		}
	})
	return uses
}

// Unsure says whether nobody knows what became of a call of a step.
func (r *Run) Unsure(step string) bool {
	r.lock()
	defer r.unlock()
	st := r.state.Steps[step]
	return st != nil && st.Phase == StepOpen && slices.ContainsFunc(st.Items, func(it ItemState) bool { return it.Phase == ItemUnknown })
}

// Runs says whether the run is one of a plan.
func (r *Run) Runs(p *Plan) bool {
	r.lock()
	defer r.unlock()
	a, err := json.Marshal(p)
	b, err2 := json.Marshal(&r.state.Created.Plan)
	return err == nil && err2 == nil && string(a) == string(b)
}
