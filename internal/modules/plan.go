package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
	"github.com/stoahub/stoa/internal/plan/search"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// PlanName is the name of the module of plans.
const PlanName = "plan"

// PlanOptions are what the module of plans works with.
type PlanOptions struct {
	Runs     *plan.Runs
	Sessions *session.Registry
	// Actions makes actions of the tools that a client may call and whose names
	// match one of the globs.
	Actions func(ctx context.Context, req *mcp.Request, globs []string) ([]plan.Action, error)
	// Propose makes a plan for a goal in words, by a model; nil where there is
	// none.
	Propose func(ctx context.Context, req *mcp.Request, p plan.Proposal) (*plan.Plan, error)
	// Publish offers a plan as a tool, or does so no longer if it is nil.
	Publish func(ctx context.Context, req *mcp.Request, name string, p *plan.Plan) (tool string, err error)
	// Principal returns who has a name now, or nil: a plan runs with no more
	// rights than who published it has.
	Principal call.Lookup
	// Published are the plans that are offered as tools.
	Published []published.Plan
}

const (
	planArg    = `"plan":{"description":"A plan, the reference of one that was saved (@name), or the id of a run whose plan is meant.","anyOf":[{"type":"object"},{"type":"string"}]}`
	planOwner  = `"session":{"type":"string","description":"The session that the run belongs to. Left out, that of the connection."}`
	sessionArg = `"session":{"type":"string"}`
	factSchema = `{"anyOf":[{"type":"string"},{"type":"object","required":["name"],"additionalProperties":false,"properties":{"name":{"type":"string"},"type":{"type":"string"},"schema":{"type":"object"},"optional":{"type":"boolean"}}}]}`
)

// Plan returns the module of plans.
func Plan(o PlanOptions) *Module {
	return New(PlanName, "A plan is a DAG of tool calls. plan_create finds one from what actions need and yield, or checks a ready one; plan_execute runs it durably; plan_status tells how it stands; plan_debug stops it at steps, looks into it, changes values and goes on.", nil, o.Tools()...)
}

// Tools are those of the module of plans: its own, and the published plans.
func (o PlanOptions) Tools() []Tool {
	m := planModule{o}
	var tools []Tool
	for _, p := range o.Published {
		tools = append(tools, m.tool(p))
	}
	return append(tools,
		Tool{Name: "plan_create", Title: "Create a plan", Run: m.create, Idempotent: true,
			Description: "Find a plan that leads from the inputs to the required outputs by the allowable actions, or check and keep a plan that is given as plan. Says what is missing if there is none.",
			Input: `{"type":"object","additionalProperties":false,"properties":{
				"title":{"type":"string"},"description":{"type":"string"},
				"allowableActions":{"type":"array","description":"What the plan may do: {type, tool, inputs, outputs, args, cost}. An action names its tool, or is called as one. Inputs and outputs are names, or {name, type, schema, optional}.","items":{"type":"object"}},
				"tools":{"type":"array","description":"Tools that may be used as actions too, by globs such as fs__*."},
				"inputs":{"type":"array"},"requiredOutputs":{"type":"array"},
				"goal":{"type":"string","description":"What is wanted, in words, for a model to propose a plan."},
				"plan":{"type":"object","description":"A ready plan."},
				"saveAs":{"type":"string","description":"Keep the plan in the session under this name."},
				"publish":{"type":"string","description":"Offer the plan to you as a tool of this name."},` + sessionArg + `}}`,
			Strict: `{"type":"object","additionalProperties":false,"properties":{
				"title":{"type":"string"},"description":{"type":"string"},
				"allowableActions":{"type":"array","maxItems":20000,"description":"What the plan may do. An action names its tool, or is called as one.","items":{"type":"object","required":["type"],"additionalProperties":false,"properties":{
					"type":{"type":"string"},"tool":{"type":"string"},"inputs":{"type":"array","items":` + factSchema + `},"outputs":{"type":"array","items":` + factSchema + `},"args":{"type":"object"},"cost":{"type":"number","exclusiveMinimum":0}}}},
				"tools":{"type":"array","items":{"type":"string"},"description":"Tools that may be used as actions too, by globs such as fs__*."},
				"inputs":{"type":"array","items":` + factSchema + `},
				"requiredOutputs":{"type":"array","items":` + factSchema + `},
				"goal":{"type":"string","description":"What is wanted, in words, for a model to propose a plan. Every proposal is checked."},
				"plan":{"type":"object","description":"A ready plan, to be checked and kept."},
				"saveAs":{"type":"string","description":"Keep the plan in the session under this name."},
				"publish":{"type":"string","description":"Offer the plan to you as a tool of this name."},` + planOwner + `}}`},
		Tool{Name: "plan_execute", Title: "Run a plan", Run: m.execute, Destructive: true,
			Description: "Run a plan and wait for its end. Everything that can be checked is checked before the first call. Outputs of steps become values of the session.",
			Input: `{"type":"object","required":["plan"],"additionalProperties":false,"properties":{"plan":{"description":"A plan, @name, or the id of a run whose plan is meant."},
				"inputs":{"type":"object","description":"The plan's inputs by name; a string @name is a value of the session."},
				"options":{"type":"object","description":"stopOnError (true), timeout (300000 ms), retries (3)"},
				"maxParallel":{"type":"integer"},"dryRun":{"type":"boolean"},` + sessionArg + `}}`,
			Strict: `{"type":"object","required":["plan"],"additionalProperties":false,"properties":{` + planArg + `,
				"inputs":{"type":"object","description":"The plan's inputs by name; a string @name is a value of the session."},
				"options":{"type":"object","additionalProperties":false,"properties":{"stopOnError":{"type":"boolean"},"timeout":{"type":"integer","minimum":1,"maximum":86400000,"description":"Milliseconds; 300000 if left out."},"retries":{"type":"integer","minimum":0,"maximum":100,"description":"3 if left out."},"maxParallel":{"type":"integer","minimum":1,"maximum":64},"dryRun":{"type":"boolean"}}},
				"maxParallel":{"type":"integer","minimum":1,"maximum":64,"description":"How many calls may be under way at once; 4 if left out."},
				"dryRun":{"type":"boolean","description":"Check only; nothing is called."},` + planOwner + `}}`},
		Tool{Name: "plan_status", Title: "How a run stands", Run: m.status, ReadOnly: true,
			Description: "Tell how a run of the session stands, step by step.",
			Input: `{"type":"object","additionalProperties":false,"properties":{
				"sessionId":{"type":"string","description":"The id of a run, or current for the last one of the session."},
				"includeResults":{"type":"boolean"},"includeContext":{"type":"boolean"},"whole":{"type":"boolean","description":"Show long values whole."},` + sessionArg + `}}`},
		Tool{Name: "plan_debug", Title: "Debug a run", Run: m.debug, Destructive: true,
			Description: "Run a plan step by step: start, step, continue, run_to and pause move it; inspect shows what a step would be called with; set changes the result of a step or an input, in a fork of the run; skip and retry are about one step; fork does all again from a step on; compare tells in what two runs differ; stop ends the run.",
			Input: `{"type":"object","additionalProperties":false,"properties":{"plan":{"description":"A plan, or @name."},
				"run":{"type":"string","description":"The last one of the session if left out."},
				"inputs":{"type":"object"},
				"breakpoints":{"type":"array","description":"Ids of steps, or {step, after, if}."},
				"action":{"enum":["start","step","continue","run_to","pause","inspect","set","skip","retry","fork","stop","compare"]},
				"step":{"type":"string"},"input":{"type":"string","description":"The input to set."},"value":{},
				"with":{"type":"string","description":"The run to compare with."},
				"inspectVariables":{"type":"boolean"},` + sessionArg + `}}`,
			Strict: `{"type":"object","additionalProperties":false,"properties":{` + planArg + `,
				"run":{"type":"string","description":"The run; the last one of the session if left out."},
				"inputs":{"type":"object"},
				"breakpoints":{"type":"array","maxItems":1000,"description":"Where to pause: ids of steps, or objects.","items":{"anyOf":[{"type":"string"},{"type":"object","required":["step"],"additionalProperties":false,"properties":{"step":{"type":"string"},"after":{"type":"boolean"},"if":{"type":"object"}}}]}},
				"action":{"enum":["start","step","continue","run_to","pause","inspect","set","skip","retry","fork","stop","compare"]},
				"step":{"type":"string","description":"The step that the action is about."},
				"input":{"type":"string","description":"The input to set."},
				"value":{"description":"What to set it to."},
				"with":{"type":"string","description":"The run to compare with."},
				"inspectVariables":{"type":"boolean"},` + planOwner + `}}`},
	)
}

type planModule struct{ o PlanOptions }

type planArgs struct {
	Title, Description string
	AllowableActions   []plan.Action
	Tools              []string
	Inputs             json.RawMessage
	RequiredOutputs    []plan.Fact
	Goal               string
	Plan               json.RawMessage
	SaveAs             string
	Publish            string
	Session            string
	SessionID          string
	Options            RunOptions
	MaxParallel        int
	DryRun             bool
	IncludeResults     bool
	IncludeContext     bool
	Whole              bool
	Run                string
	Breakpoints        []plan.Breakpoint
	Action             string
	Step               string
	Input              string
	Value              json.RawMessage
	With               string
	InspectVariables   bool
}

// bound returns the arguments and the Session; nil if the request is bound to
// none.
func (m planModule) bound(req *mcp.Request, raw json.RawMessage) (planArgs, *session.Session, error) {
	a, err := decode[planArgs](raw)
	if err != nil {
		return a, nil, err
	}
	s, err := call.Bind(m.o.Sessions, req.Client, cmp.Or(a.Session, req.Session))
	return a, s, err
}

// refused makes a fault of what is wrong with a plan.
func refused(problems []plan.Problem) error {
	text := make([]string, len(problems))
	for i, p := range problems {
		text[i] = p.String()
	}
	return (&fault.Error{Kind: fault.InvalidArguments, Subject: "plan", Msg: strings.Join(text, "; "), Hint: "Repair every problem that is listed."}).With("problems", problems)
}

// AsFault makes a fault of why a plan could not be made or run.
func AsFault(err error) error {
	var problems *plan.Problems
	var none *search.Impossible
	switch {
	case errors.As(err, &problems):
		return refused(problems.List)
	case errors.As(err, &none):
		return (&fault.Error{Kind: fault.InvalidArguments, Subject: "plan", Msg: none.Error(), Hint: "Give what is missing as an input, or allow an action that yields it."}).With("goals", none.Goals).With("missing", none.Missing)
	}
	return err
}

func (m planModule) create(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	p, err := m.made(ctx, req, a, s)
	if err != nil {
		return nil, AsFault(err)
	}
	data := map[string]any{"plan": p}
	text := fmt.Sprintf("a plan of %d steps", len(p.Steps))
	if len(p.Assumptions) > 0 {
		text += "; assumed: " + strings.Join(p.Assumptions, "; ")
	}
	if lacks := plan.Preflight(p, m.o.tools(ctx, req.Client.Actor, s), nil); lacks != nil {
		data["problems"] = lacks // actions need not be tools yet
		text += "; it cannot be run yet: " + (&plan.Problems{List: lacks}).Error()
	}
	if a.SaveAs != "" {
		if s == nil {
			s = m.o.Sessions.Mint(req.Client.Actor.Name())
			data["session"] = s.Name()
		}
		encoded, err := json.Marshal(p)
		if err != nil {
			return nil, fault.New(fault.Internal, "plan", "the plan cannot be written").Because(err)
		}
		if _, _, err := s.Put(ctx, session.New{Name: a.SaveAs, Data: encoded, Description: cmp.Or(p.Title, "a plan"), By: who(req.Client), Author: req.Client.Actor.Record()}); err != nil {
			return nil, err
		}
		data["reference"] = "@" + a.SaveAs
		text += "; saved as @" + a.SaveAs
	}
	if a.Publish != "" {
		tool, err := m.o.Publish(ctx, req, a.Publish, p)
		if err != nil {
			return nil, err
		}
		data["tool"] = tool
		text += "; published as " + tool
	}
	return Answer{Data: data, Message: text}, nil
}

// made is the plan that is asked for: the one that is given, one that a model
// proposes, or one that is found.
func (m planModule) made(ctx context.Context, req *mcp.Request, a planArgs, s *session.Session) (*plan.Plan, error) {
	if a.Plan != nil {
		p, err := m.o.Examine(ctx, req.Client.Actor, s, a.Plan, known(s))
		if err != nil {
			return nil, err
		}
		p.Title, p.Description = cmp.Or(a.Title, p.Title), cmp.Or(a.Description, p.Description)
		return p, nil
	}
	g := plan.Goal{Title: a.Title, Description: a.Description, Actions: a.AllowableActions, Outputs: a.RequiredOutputs, Find: m.o.tools(ctx, req.Client.Actor, s)}
	if a.Inputs != nil {
		if err := json.Unmarshal(a.Inputs, &g.Inputs); err != nil {
			return nil, fault.New(fault.InvalidArguments, "inputs", "inputs must be an array of names or of facts: %v", err)
		}
	}
	if len(a.Tools) > 0 {
		more, err := m.o.Actions(ctx, req, a.Tools)
		if err != nil {
			return nil, err
		}
		g.Actions = append(g.Actions, more...)
	}
	if a.Goal == "" {
		if len(g.Outputs) == 0 {
			return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: "plan_create", Msg: "nothing is wanted", Hint: "Give requiredOutputs with allowableActions or tools, a ready plan, or a goal in words."}
		}
		p, err := plan.Create(g)
		if none, ok := errors.AsType[*search.Impossible](err); err != nil && !ok {
			return nil, fault.New(fault.InvalidArguments, "plan_create", "%v", err)
		} else if ok {
			return nil, none
		}
		return p, nil
	}
	if m.o.Propose == nil {
		return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: "goal", Msg: "no model is configured that could propose a plan", Hint: "Configure one under models, or give requiredOutputs and allowableActions."}
	}
	return m.o.Propose(ctx, req, plan.Proposal{Goal: g, Text: a.Goal, Known: known(s)})
}

// Examine reads a plan that is to be kept or published. One that could not be run
// is refused, with everything that is wrong with it. The error is *plan.Problems.
func (o PlanOptions) Examine(ctx context.Context, by actor.Actor, s *session.Session, raw []byte, known func(string) bool) (*plan.Plan, error) {
	p, problems := plan.Examine(raw, known, o.tools(ctx, by, s))
	if !by.Principal().Scopes.All() {
		problems = plan.Known(problems)
	}
	if len(problems) > 0 {
		return nil, &plan.Problems{List: problems}
	}
	return p, nil
}

func known(s *session.Session) func(string) bool {
	return func(name string) bool {
		if s == nil {
			return false
		}
		_, err := s.Value(name)
		return err == nil
	}
}

// find is the plan that an argument means: a plan, a reference to one that was
// saved, or the id of a run, which is returned too, as is who wrote one that was
// saved, unless that is the principal itself. s is nil where there is no Session.
func (o PlanOptions) find(ctx context.Context, by actor.Actor, s *session.Session, raw json.RawMessage) (p *plan.Plan, again *plan.Run, author *actor.Actor, err error) {
	data := []byte(raw)
	if text, ok := wire.String(raw); ok {
		ref, isRef := session.ParseReference(text)
		switch {
		case isRef && s == nil && ref.Session == "":
			return nil, nil, nil, &fault.Error{Kind: fault.SessionRequired, Subject: "plan", Msg: "a reference is to a value of a session, and this request is bound to none", Hint: "Name one: the argument session, or the header Stoa-Session."}
		case isRef:
			quoted := wire.Quote(text)
			full, used, err := o.Sessions.Resolve(ctx, by.Name(), s, quoted, o.Runs.ArgBytes(), nil)
			if err != nil {
				return nil, nil, nil, err
			}
			data = full
			if author, err = o.author(by, s, used); err != nil {
				return nil, nil, nil, err
			}
		default:
			run, err := o.Runs.Find(by.Name(), "", text)
			if err != nil {
				return nil, nil, nil, err
			}
			v, err := run.View(ctx, plan.Look{Plan: true})
			return v.Plan, run, nil, err
		}
	}
	p, problems := plan.Read(bare(data))
	if problems != nil {
		return nil, nil, author, &plan.Problems{List: problems, Rest: p}
	}
	return p, nil, author, nil
}

// author is who wrote the value that was referred to, unless that is the principal
// itself. What an older release kept does not say; then it counts as a model's.
func (o PlanOptions) author(by actor.Actor, s *session.Session, used []session.Used) (*actor.Actor, error) {
	for _, u := range used { // a reference stands for one
		wrote := o.Sessions.Author(by.Name(), s, u)
		if wrote != nil && wrote.Own(by.Name()) {
			continue
		}
		a, err := actor.Restore(wrote, by.Name(), o.Principal)
		if errors.Is(err, actor.ErrUnsure) {
			return nil, err
		}
		if err != nil {
			return nil, fault.New(fault.Denied, "@"+u.Name, "who wrote the plan may not call any more: %v", err)
		}
		return &a, nil
	}
	return nil, nil
}

// tools finds tools as a run of a plan by an actor would.
func (o PlanOptions) tools(ctx context.Context, by actor.Actor, s *session.Session) plan.Lookup {
	name := ""
	if s != nil {
		name = s.Name()
	}
	return o.Runs.Tools(ctx, by, name)
}

// bare is the plan in what plan_create answered, which is as good as the plan
// itself.
func bare(data []byte) []byte {
	if inner := wire.Get(data, "plan"); inner != nil && wire.Get(data, "steps") == nil {
		return inner
	}
	return data
}

// PlanIn is the plan that a value holds; nil if it holds none.
func PlanIn(data []byte) *plan.Plan {
	if p, problems := plan.Decode(bare(data)); problems == nil {
		return p
	}
	return nil
}
