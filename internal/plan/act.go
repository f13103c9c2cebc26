package plan

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
)

// Act is what a person does to a run, whichever way they say it.
type Act struct {
	By     actor.Actor                // who does it: what the run does then is bounded by their rights too
	Action string                     // one of Actions; "": only the breakpoints are set
	Step   string                     // the step that it is about
	Input  string                     // of set: the input to change
	Inputs map[string]json.RawMessage // of fork: new values of inputs
	Value  json.RawMessage            // of set: as it was written; null is a value too
	Breaks []Breakpoint               // in place of those before; nil leaves these
}

// Actions are what can be done to a run that exists.
var Actions = []string{"start", "step", "continue", "run_to", "pause", "inspect", "set", "skip", "retry", "fork", "stop"}

// Moves says whether the run may go on by an act, so that it is worth waiting
// for where it comes to.
func (a Act) Moves() bool {
	return slices.Contains([]string{"start", "step", "continue", "run_to", "stop", "pause"}, a.Action)
}

// check says what an act lacks.
func (a Act) check() error {
	switch {
	case a.Action != "" && !slices.Contains(Actions, a.Action):
		f := fault.New(fault.InvalidArguments, "action", "there is no action %q", a.Action).With("allowed", Actions)
		f.Hint = cmp.Or(near(a.Action, Actions), "There are: "+strings.Join(Actions, ", ")+".")
		return f
	case len(a.Inputs) > 0 && a.Action != "fork":
		return &fault.Error{Kind: fault.InvalidArguments, Subject: "inputs", Msg: "inputs are given to a fork only", Hint: "Use the action fork."}
	case slices.Contains([]string{"run_to", "skip", "retry", "fork"}, a.Action) && a.Step == "" && len(a.Inputs) == 0:
		return &fault.Error{Kind: fault.InvalidArguments, Subject: a.Action, Msg: "it is about a step, and none is named", Hint: "Give step."}
	case a.Action == "set" && (a.Value == nil || (a.Step == "") == (a.Input == "")):
		return &fault.Error{Kind: fault.InvalidArguments, Subject: "set", Msg: "set needs a value, and either a step or an input", Hint: `For example {"action":"set","step":"step_2","value":{"ok":true}}.`}
	}
	return nil
}

// Act does something to a run. It returns the run that is looked at from then
// on, which is another where the act makes a fork, and what a person may want
// to know of it.
func (r *Runs) Act(ctx context.Context, run *Run, a Act) (*Run, string, error) {
	if err := a.check(); err != nil {
		return run, "", err
	}
	if a.By.Principal() == nil {
		return run, "", fault.New(fault.Internal, run.ID(), "nobody is said to act on the run")
	}
	forks := a.Action == "fork" || a.Action == "set"
	switch a.Action {
	case "", "inspect", "pause", "fork": // they make the run itself do nothing
	default:
		if err := run.steer(ctx, a.By); err != nil {
			return run, "", err
		}
	}
	if a.Breaks != nil && !forks {
		if err := run.Break(ctx, a.Breaks); err != nil {
			return run, "", err
		}
	}
	next, note, err := r.act(ctx, run, a)
	if err == nil && a.Breaks != nil && forks {
		err = next.Break(ctx, a.Breaks) // the old run, which may be over, stays as it is
	}
	return next, note, err
}

func (r *Runs) act(ctx context.Context, run *Run, a Act) (*Run, string, error) {
	switch a.Action {
	case "start", "continue":
		return run, "", run.Continue(ctx, ToBreak, "")
	case "step":
		return run, "", run.Continue(ctx, OneStep, "")
	case "run_to":
		return run, "", run.Continue(ctx, RunTo, a.Step)
	case "pause":
		return run, "", run.Pause(ctx, "a person paused it")
	case "stop":
		return run, "", run.Stop(ctx, "a person stopped it")
	case "skip":
		return run, a.Step + " is skipped", run.Skip(ctx, a.Step)
	case "retry":
		if err := run.Retry(ctx, a.Step); err != nil {
			return run, "", err
		}
		return run, run.again(a.Step), nil
	case "fork":
		return r.branch(ctx, run, a)
	case "set":
		return r.set(ctx, run, a)
	}
	return run, "", nil // inspect, or breakpoints only
}

// again says when a step that is to be called again will be.
func (r *Run) again(step string) string {
	r.lock()
	defer r.unlock()
	if r.state.Pause != nil {
		return step + " will be called again when the run goes on: continue it"
	}
	return step + " is called again"
}

// branch forks a run: from a step on, with other inputs, or both.
func (r *Runs) branch(ctx context.Context, run *Run, a Act) (*Run, string, error) {
	ch, note := Change{By: a.By, From: a.Step, Inputs: a.Inputs}, ""
	switch names := strings.Join(slices.Sorted(maps.Keys(a.Inputs)), ", "); {
	case len(a.Inputs) == 0:
		ch.Reason, note = "from "+a.Step+" on", "all from "+a.Step+" on is to be done again"
	case a.Step == "":
		ch.Reason, note = "other inputs: "+names, "what comes of "+names+" is to be done again"
	default:
		ch.Reason = "from " + a.Step + " on, other inputs: " + names
		note = "all from " + a.Step + " on, and what comes of " + names + ", is to be done again"
	}
	fork, err := r.Fork(ctx, run, ch)
	return fork, fmt.Sprintf("a fork of %s, in which %s", run.ID(), note), err
}

// set changes a value. That of a step of which nobody knows what became of it
// is said, not changed; else the run is forked.
func (r *Runs) set(ctx context.Context, run *Run, a Act) (*Run, string, error) {
	if a.Step != "" && run.Unsure(a.Step) {
		return run, "the result of " + a.Step + " is set", run.Pin(ctx, a.Step, a.Value)
	}
	ch := Change{By: a.By, Reason: cmp.Or(a.Step, a.Input) + " is set"}
	if a.Step != "" {
		ch.Pins = map[string]json.RawMessage{a.Step: a.Value}
	} else {
		ch.Inputs = map[string]json.RawMessage{a.Input: a.Value}
	}
	fork, err := r.Fork(ctx, run, ch)
	return fork, fmt.Sprintf("a fork of %s, in which %s; the old run stays as it is", run.ID(), ch.Reason), err
}

// Next is what would be called next: the step that is asked for, or the one
// before which the run is paused. It is nil if neither is there.
func (r *Run) Next(ctx context.Context, step string) (*Inspection, error) {
	if step == "" {
		r.lock()
		if p := r.state.Pause; p != nil && !p.After {
			step = p.Step
		}
		r.unlock()
	}
	if step == "" {
		return nil, nil
	}
	in, err := r.Inspect(ctx, step)
	return &in, err
}

// UnmarshalJSON reads a breakpoint, or the id of the step before which to
// pause. A member that means nothing is refused: a misspelt condition would
// pause always.
func (b *Breakpoint) UnmarshalJSON(raw []byte) error {
	*b = Breakpoint{}
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &b.Step)
	}
	type plain Breakpoint
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(b)); err != nil {
		return fmt.Errorf("a breakpoint is the id of a step, or an object with step, after and if: %w", err)
	}
	return nil
}
