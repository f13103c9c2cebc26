package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan"
)

// runStart is what a run is begun with.
type runStart struct {
	Session     string             `json:"session"`
	Plan        json.RawMessage    `json:"plan"`
	Inputs      json.RawMessage    `json:"inputs"`
	Options     modules.RunOptions `json:"options"`
	Breakpoints []plan.Breakpoint  `json:"breakpoints"`
	Paused      bool               `json:"paused"`
	DryRun      bool               `json:"dryRun"`
}

// asCall is the call of a tool that begins the same run.
func (a *runStart) asCall(session string) (tool string, args map[string]any) {
	tool, args = "plan_execute", map[string]any{"plan": a.Plan}
	if a.Paused || len(a.Breakpoints) > 0 {
		tool, args["action"] = "plan_debug", "start"
	}
	if a.Inputs != nil {
		args["inputs"] = a.Inputs
	}
	if a.DryRun || a.Options.DryRun {
		args["dryRun"] = true
	}
	if session != "" {
		args["session"] = session
	}
	return tool, args
}

// decodeBody reads the body of a request into v. A member that v does not have
// is a mistake.
func (h *Hub) decodeBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &fault.Error{Kind: fault.InvalidArguments, Msg: fmt.Sprintf("the body cannot be used: %v", err), Hint: "docs/api.md says what it may have."}
	}
	return nil
}

func (h *Hub) startRun(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, slices.DeleteFunc(slices.Clone(lookNames), func(n string) bool { return n == "session" || n == "principal" })...)
	if err != nil {
		return err
	}
	var a runStart
	if err := h.decodeBody(w, r, &a); err != nil {
		return err
	}
	if a.Plan == nil {
		return &fault.Error{Kind: fault.InvalidArguments, Subject: "plan", Msg: "no plan is given", Hint: "Give a plan, @name, or the id of a run."}
	}
	name := cmp.Or(a.Session, r.Header.Get(mcp.HeaderSession))
	tool, args := a.asCall(name)
	if err := h.permit(r, who, name, tool, args); err != nil {
		return err
	}
	s, err := call.Bind(h.state.sessions, apiClient(who), name)
	if err != nil {
		return err
	}
	o := modules.PlanOptions{Runs: h.plans.runs, Sessions: h.state.sessions, Principal: h.principal}
	st, _, err := o.Start(r.Context(), actor.New(actor.API, who), s, a.Plan, a.Inputs, a.Options)
	if err != nil {
		return modules.AsFault(err)
	}
	st.Breaks, st.Paused = a.Breakpoints, a.Paused
	if a.DryRun || a.Options.DryRun {
		st.Open = a.Inputs == nil // a plan is checked before anybody has its inputs
		if _, err := h.plans.runs.Check(r.Context(), st); err != nil {
			return modules.AsFault(err)
		}
		return say(w, map[string]any{"valid": true, "plan": st.Plan, "order": st.Plan.Levels()})
	}
	st.Trace = obs.ParentOf(r.Header)
	run, err := h.plans.runs.Start(r.Context(), st)
	if err != nil {
		return modules.AsFault(err)
	}
	return h.sayRun(w, r, q, run, "", "")
}

// runAct is what is to be done to a run.
type runAct struct {
	Step        string                     `json:"step"`
	Input       string                     `json:"input"`
	Inputs      map[string]json.RawMessage `json:"inputs"`
	Value       json.RawMessage            `json:"value"`
	Breakpoints []plan.Breakpoint          `json:"breakpoints"`
}

// actOnRun does something to a run. The answer is about the fork, where the act
// makes one.
func (h *Hub) actOnRun(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, run, err := h.namedRun(r, who)
	if err != nil {
		return err
	}
	var a runAct
	if err := h.decodeBody(w, r, &a); err != nil {
		return err
	}
	act := plan.Act{By: actor.New(actor.API, who), Action: r.PathValue("action"), Step: a.Step, Input: a.Input, Inputs: a.Inputs, Value: a.Value, Breaks: a.Breakpoints}
	if act.Action == "break" {
		act.Action = ""
		if act.Breaks == nil {
			act.Breaks = []plan.Breakpoint{}
		}
	}
	if err := h.permitAct(r, who, run, act); err != nil {
		return err
	}
	run, note, err := h.plans.runs.Act(r.Context(), run, act)
	if err != nil {
		return modules.AsFault(err)
	}
	if act.Action != "inspect" && act.Action != "" {
		h.log.Info("a run was acted on", obs.KeyAction, act.Action, "run", run.ID(), "by", who.Name)
	}
	at := ""
	if act.Action == "inspect" {
		at = a.Step
	}
	return h.sayRun(w, r, q, run, note, at)
}

// permitAct decides about an act as about plan_debug. Whoever may see a run may
// end it.
func (h *Hub) permitAct(r *http.Request, who *auth.Principal, run *plan.Run, act plan.Act) error {
	if act.Action == "stop" {
		return nil
	}
	session, args := "", map[string]any{"run": run.ID()}
	if s := run.Summary(); s.Principal == who.Name {
		session = s.Session
	}
	for name, text := range map[string]string{"action": act.Action, "step": act.Step, "input": act.Input} {
		if text != "" {
			args[name] = text
		}
	}
	return h.permit(r, who, session, "plan_debug", args)
}
