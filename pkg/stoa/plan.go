package stoa

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/search"
)

// Plan is a DAG of tool calls, whose arguments refer to inputs and to what
// other steps yield. docs/plans.md describes its form. It does not change.
type Plan struct{ plan plan.Plan }

// ParsePlan reads a plan, written as JSON (with comments if need be) or as
// YAML. Whether its tools exist is for [Hub.CheckPlan] to say. The error is an
// *Error with Problems.
func ParsePlan(data []byte) (*Plan, error) {
	doc, err := config.ParseDocument("plan", data)
	if err != nil {
		return nil, &Error{Kind: "invalid_arguments", Message: err.Error(), Hint: "Correct the plan at this place.", cause: err}
	}
	p, problems := plan.Examine(doc.JSON, func(string) bool { return true }, nil)
	if problems != nil {
		return nil, wrap(&plan.Problems{List: problems})
	}
	return &Plan{*p}, nil
}

// PlanSchema returns the JSON Schema of plans.
func PlanSchema() json.RawMessage { return clone(plan.Schema()) }

// MarshalJSON writes the plan in the form that ParsePlan reads.
func (p *Plan) MarshalJSON() ([]byte, error) { return json.Marshal(&p.plan) }

// Title is what the plan is called; may be empty.
func (p *Plan) Title() string { return p.plan.Title }

// Steps are the ids of its steps, in the order in which they are written.
func (p *Plan) Steps() []string {
	out := make([]string, len(p.plan.Steps))
	for i := range p.plan.Steps {
		out[i] = p.plan.Steps[i].ID
	}
	return out
}

// Assumptions are what was supposed when CreatePlan found the plan: things that
// were taken for each other though their names differ.
func (p *Plan) Assumptions() []string { return append([]string(nil), p.plan.Assumptions...) }

// Mermaid draws the plan as a Mermaid flow chart.
func (p *Plan) Mermaid() string { return plan.Mermaid(&p.plan, nil) }

// Goal is what a plan is looked for: from what there is to what is wanted.
type Goal struct {
	Title       string
	Description string
	Actions     []Action // what the plan may do
	Tools       []string // tools that it may use besides, by globs such as "files__*"
	Inputs      []string // names of what there is
	Outputs     []string // names of what is wanted
}

// Action is something that a plan may do.
type Action struct {
	Type    string   // its name
	Tool    string   // what is called, such as "files__read"; "": the tool that is called as Type
	Inputs  []string // names of what it needs, which are its arguments
	Outputs []string // names of what it yields
	Cost    float64  // plans of low cost are preferred; 0: 1
}

// CreatePlan finds a plan: a deterministic search over what actions need and
// yield. If none leads to the goal, the error says what is missing.
func (h *Hub) CreatePlan(ctx context.Context, g Goal) (*Plan, error) {
	goal := plan.Goal{Find: h.hub.PlanTools(ctx), Title: g.Title, Description: g.Description, Inputs: facts(g.Inputs), Outputs: facts(g.Outputs)}
	for _, a := range g.Actions {
		goal.Actions = append(goal.Actions, plan.Action{Type: a.Type, Tool: a.Tool, Inputs: facts(a.Inputs), Outputs: facts(a.Outputs), Cost: a.Cost})
	}
	if len(g.Tools) > 0 {
		more, err := h.hub.Actions(ctx, g.Tools)
		if err != nil {
			return nil, wrap(err)
		}
		goal.Actions = append(goal.Actions, more...)
	}
	p, err := plan.Create(goal)
	if none, ok := errors.AsType[*search.Impossible](err); ok {
		return nil, &Error{Kind: "invalid_arguments", Message: none.Error(), Hint: "Give what is missing as an input, or allow an action that yields it.", cause: err}
	}
	if err != nil {
		return nil, &Error{Kind: "invalid_arguments", Message: err.Error(), cause: err}
	}
	return &Plan{*p}, nil
}

func facts(names []string) []plan.Fact {
	out := make([]plan.Fact, len(names))
	for i, name := range names {
		out[i] = plan.Fact{Name: name}
	}
	return out
}

// CheckPlan says everything that would keep a plan from being run, as an *Error
// with Problems; nothing is called. inputs is anything that encodes to a JSON
// object; nil means that they are not known yet.
func (h *Hub) CheckPlan(ctx context.Context, p *Plan, inputs any) error {
	st, err := h.start(p, RunOptions{Inputs: inputs})
	if err != nil {
		return err
	}
	st.Open = inputs == nil
	_, err = h.hub.Runs().Check(ctx, st)
	return wrap(err)
}

// RunOptions say how a plan is run. The zero value is what is usual.
type RunOptions struct {
	Inputs      any           // anything that encodes to a JSON object; nil: none
	Session     string        // the session whose values it may refer to, and in which its outputs are kept; "": "plans"
	GoOn        bool          // a step that fails does not stop those that do not need it
	Timeout     time.Duration // 0: 5 minutes
	Retries     int           // of calls that may be repeated; 0: 3, negative: none
	MaxParallel int           // calls under way at once; 0: 4
	Breakpoints []Breakpoint
	Paused      bool // it waits to be told to begin
}

// Breakpoint is where a run pauses.
type Breakpoint struct {
	Step  string
	After bool            // after the step, not before it
	If    json.RawMessage // a condition, in the form that a step's when has; nil: always
}

func (b Breakpoint) internal() (plan.Breakpoint, error) {
	out := plan.Breakpoint{Step: b.Step, After: b.After}
	if b.If == nil {
		return out, nil
	}
	out.If = &plan.Condition{}
	if err := json.Unmarshal(b.If, out.If); err != nil {
		return out, &Error{Kind: "invalid_arguments", Message: "the condition of the breakpoint at " + b.Step + " cannot be read: " + err.Error(), cause: err}
	}
	return out, nil
}

// start is what a run begins with.
func (h *Hub) start(p *Plan, o RunOptions) (plan.Start, error) {
	inputs := map[string]json.RawMessage{}
	raw, err := encode(o.Inputs)
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &inputs)
	}
	if err != nil {
		return plan.Start{}, &Error{Kind: "invalid_arguments", Message: "the inputs cannot be used: " + err.Error(), Hint: "Pass something that encodes to a JSON object.", cause: err}
	}
	if o.Session == "" {
		o.Session = "plans"
	}
	st := h.hub.NewRun(&p.plan, o.Session, inputs)
	st.Options.StopOnError, st.Paused = !o.GoOn, o.Paused
	if o.Timeout > 0 {
		st.Options.TimeoutMS = int(max(o.Timeout.Milliseconds(), 1))
	}
	if o.Retries != 0 {
		st.Options.Retries = max(o.Retries, 0)
	}
	if o.MaxParallel > 0 {
		st.Options.MaxParallel = o.MaxParallel
	}
	for _, b := range o.Breakpoints {
		one, err := b.internal()
		if err != nil {
			return st, err
		}
		st.Breaks = append(st.Breaks, one)
	}
	return st, nil
}

// StartPlan begins a run of a plan, after everything that can be checked has
// been: an error means that nothing was called. The run goes on by itself; ctx
// has no meaning for it after StartPlan has returned.
func (h *Hub) StartPlan(ctx context.Context, p *Plan, o RunOptions) (*Run, error) {
	st, err := h.start(p, o)
	if err != nil {
		return nil, err
	}
	run, err := h.hub.Runs().Start(ctx, st)
	if err != nil {
		return nil, wrap(err)
	}
	return &Run{h, run}, nil
}

// RunPlan runs a plan and waits until the run is over or paused. If ctx ends
// before, the run is stopped. That a step failed is no error: State of the
// status says it.
func (h *Hub) RunPlan(ctx context.Context, p *Plan, o RunOptions) (*RunStatus, error) {
	run, err := h.StartPlan(ctx, p, o)
	if err != nil {
		return nil, err
	}
	status, err := run.Wait(ctx)
	if err != nil && ctx.Err() != nil {
		_ = run.Stop(context.WithoutCancel(ctx)) // it may be over by now
	}
	return status, err
}
