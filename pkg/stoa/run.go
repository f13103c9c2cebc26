package stoa

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/plan"
)

// Run is one execution of a plan.
type Run struct {
	hub *Hub
	run *plan.Run
}

// RunState is what a run is.
type RunState string

// The states of a run.
const (
	RunRunning RunState = "running"
	RunPaused  RunState = "paused"
	RunWaiting RunState = "waiting" // for a person's approval
	RunUndoing RunState = "undoing" // what was done is taken back
	RunDone    RunState = "done"
	RunFailed  RunState = "failed"
	RunStopped RunState = "stopped"
)

// Over says whether nothing more can happen to the run.
func (s RunState) Over() bool { return plan.Status(s).Over() }

// RunStatus is how a run stands.
type RunStatus struct {
	ID        string
	State     RunState
	Reason    string // why it is paused, failed or stopped
	Before    string // the step before which it is paused; "" if there is none
	After     string // the step after which it is paused; "" if there is none
	From      string // the run that it was forked from; "" if it was not
	Took      time.Duration
	Steps     []StepStatus
	Outputs   map[string]json.RawMessage // of the plan, as far as there are any
	Variables map[string]json.RawMessage // what references stand for: inputs, results of steps and outputs
}

// StepStatus is what has become of a step.
type StepStatus struct {
	ID        string
	Tool      string
	State     string // pending, waiting, running, done, failed, skipped, unknown
	Calls     int
	Took      time.Duration
	Error     string          // why it failed
	NextRetry time.Time       // zero if it is not tried again
	Result    json.RawMessage // nil if there is none
}

// Runs returns the runs of the hub, the newest first.
func (h *Hub) Runs() []*Run {
	var out []*Run
	for _, r := range h.hub.Runs().All(func(plan.Summary) bool { return true }) {
		out = append(out, &Run{h, r})
	}
	return out
}

// Run returns the run with an id.
func (h *Hub) Run(id string) (*Run, error) {
	for _, r := range h.Runs() {
		if r.ID() == id {
			return r, nil
		}
	}
	return nil, wrap(fault.New(fault.ResourceNotFound, id, "there is no such run"))
}

// ID is the run's.
func (r *Run) ID() string { return r.run.ID() }

// Status looks at the run.
func (r *Run) Status(ctx context.Context) (*RunStatus, error) {
	v, err := r.run.View(ctx, plan.Look{Results: true, Context: true})
	if err != nil {
		return nil, wrap(err)
	}
	s := &RunStatus{ID: v.ID, State: RunState(v.Status), Reason: v.Reason, Took: time.Duration(v.TookMS) * time.Millisecond, Outputs: v.Outputs, Variables: v.Context}
	if v.Paused != nil {
		if s.Before = v.Paused.Step; v.Paused.After {
			s.Before, s.After = "", v.Paused.Step
		}
	}
	if v.From != nil {
		s.From = v.From.Run
	}
	for _, st := range v.Steps {
		one := StepStatus{ID: st.ID, Tool: st.Tool, State: st.State, Calls: st.Attempts, Took: time.Duration(st.TookMS) * time.Millisecond, Result: st.Result}
		if st.Error != nil {
			one.Error = st.Error.Message
		}
		if st.Retry != nil {
			one.NextRetry = *st.Retry
		}
		s.Steps = append(s.Steps, one)
	}
	return s, nil
}

// Wait waits until the run is over, or paused with nothing under way.
func (r *Run) Wait(ctx context.Context) (*RunStatus, error) {
	if _, err := r.run.Wait(ctx, false, nil); err != nil {
		return nil, wrap(err)
	}
	return r.Status(ctx)
}

// act does something to the run. It returns the fork, where that makes one.
func (r *Run) act(ctx context.Context, a plan.Act) (*Run, error) {
	next, err := r.hub.hub.Act(ctx, r.run, a)
	if err != nil {
		return nil, wrap(err)
	}
	return &Run{r.hub, next}, nil
}

func (r *Run) do(ctx context.Context, action, step string) error {
	_, err := r.act(ctx, plan.Act{Action: action, Step: step})
	return err
}

// Continue lets a run that is paused go on to its next breakpoint, or to its
// end. It does not wait for it.
func (r *Run) Continue(ctx context.Context) error { return r.do(ctx, "continue", "") }

// Step lets a run that is paused do one more step.
func (r *Run) Step(ctx context.Context) error { return r.do(ctx, "step", "") }

// RunTo lets a run that is paused go on until before a step.
func (r *Run) RunTo(ctx context.Context, step string) error { return r.do(ctx, "run_to", step) }

// Pause begins nothing more until the run is told to go on.
func (r *Run) Pause(ctx context.Context) error { return r.do(ctx, "pause", "") }

// Stop ends the run. What is under way is cancelled, and what was done is
// undone if the plan says so.
func (r *Run) Stop(ctx context.Context) error { return r.do(ctx, "stop", "") }

// Skip goes on without a step.
func (r *Run) Skip(ctx context.Context, step string) error { return r.do(ctx, "skip", step) }

// Retry calls a step again that failed, or of which nobody knows whether it
// took effect.
func (r *Run) Retry(ctx context.Context, step string) error { return r.do(ctx, "retry", step) }

// Break sets the breakpoints, in place of those before.
func (r *Run) Break(ctx context.Context, at ...Breakpoint) error {
	breaks := []plan.Breakpoint{}
	for _, b := range at {
		one, err := b.internal()
		if err != nil {
			return err
		}
		breaks = append(breaks, one)
	}
	_, err := r.act(ctx, plan.Act{Breaks: breaks})
	return err
}

// Inspect returns the tool and the arguments that a step would be called with
// now. Nothing is called. For a step for each item they are those of the first.
func (r *Run) Inspect(ctx context.Context, step string) (tool string, args json.RawMessage, err error) {
	in, err := r.run.Inspect(ctx, step)
	if err != nil {
		return "", nil, wrap(err)
	}
	if in.Error != "" {
		return in.Tool, nil, &Error{Kind: "bad_reference", Message: step + ": " + in.Error}
	}
	return in.Tool, in.Args, nil
}

// Set sets the result of a step, which is then not called. That makes a fork,
// which is paused, and in which what comes of the step is done again; the run
// stays as it is. Only where nobody knows whether the step took effect is it
// the run itself that is changed and returned.
func (r *Run) Set(ctx context.Context, step string, value any) (*Run, error) {
	raw, err := encodeValue(value)
	if err != nil {
		return nil, err
	}
	return r.act(ctx, plan.Act{Action: "set", Step: step, Value: raw})
}

// SetInput is Set for an input.
func (r *Run) SetInput(ctx context.Context, name string, value any) (*Run, error) {
	raw, err := encodeValue(value)
	if err != nil {
		return nil, err
	}
	return r.act(ctx, plan.Act{Action: "set", Input: name, Value: raw})
}

func encodeValue(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, &Error{Kind: "invalid_arguments", Message: "the value cannot be used: " + err.Error(), cause: err}
	}
	return raw, nil
}

// Fork makes a run like this one, paused, in which all from a step on is to be
// done again.
func (r *Run) Fork(ctx context.Context, step string) (*Run, error) {
	return r.act(ctx, plan.Act{Action: "fork", Step: step})
}

// Difference is an input or a step that is not the same in two runs.
type Difference struct {
	Kind   string // input or step
	Name   string
	States [2]string          // of a step
	Values [2]json.RawMessage // nil where there is none
}

// Compare tells in what the run differs from another.
func (r *Run) Compare(ctx context.Context, other *Run) ([]Difference, error) {
	c, err := plan.Compare(ctx, r.run, other.run, 0)
	if err != nil {
		return nil, wrap(err)
	}
	var out []Difference
	for _, d := range c.Differences {
		out = append(out, Difference{d.Kind, d.Name, d.States, d.Values})
	}
	return out, nil
}

// Journal calls fn with each event of the run as JSON, in their order.
func (r *Run) Journal(ctx context.Context, fn func(event json.RawMessage) error) error {
	return wrap(r.run.Journal(ctx, func(e plan.Event) error {
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return fn(raw)
	}))
}
