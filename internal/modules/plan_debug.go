package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

func (m planModule) debug(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	a.Value = wire.Get(raw, "value") // as it was written; null is a value too
	breaks, err := breakpoints(a.Breakpoints)
	if err != nil {
		return nil, err
	}
	run, begun, err := m.debugged(ctx, req, a, s, breaks)
	if err != nil {
		return nil, asFault(err)
	}
	if a.Breakpoints != nil && !begun {
		if err := run.Break(ctx, breaks); err != nil {
			return nil, err
		}
	}
	run, note, err := m.act(ctx, a, run)
	if err != nil {
		return nil, asFault(err)
	}
	if moves[a.Action] {
		if err := m.wait(ctx, req, run); err != nil {
			return nil, err
		}
	}
	return m.shown(ctx, a, run, note)
}

// moves are the actions after which it is waited where the run comes to.
var moves = map[string]bool{"start": true, "step": true, "continue": true, "run_to": true, "stop": true, "pause": true}

func breakpoints(raw []json.RawMessage) ([]plan.Breakpoint, error) {
	var out []plan.Breakpoint
	for i, r := range raw {
		if id, ok := wire.String(r); ok {
			out = append(out, plan.Breakpoint{Step: id})
			continue
		}
		var b plan.Breakpoint
		if err := json.Unmarshal(r, &b); err != nil {
			return nil, fault.New(fault.InvalidArguments, "breakpoints", "breakpoints[%d] cannot be read: %v", i, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// debugged is the run that is meant: the one that is named, a new one of the
// plan that is given, or the last of the Session.
func (m planModule) debugged(ctx context.Context, req *mcp.Request, a planArgs, s *session.Session, breaks []plan.Breakpoint) (run *plan.Run, begun bool, err error) {
	who := req.Client.Principal
	if text, ok := wire.String(a.Plan); ok && a.Run == "" {
		if _, isRef := session.ParseReference(text); !isRef { // the id of a run
			a.Run, a.Plan = text, nil
		}
	}
	name := ""
	if s != nil {
		name = s.Name()
	}
	switch {
	case a.Run != "":
		run, err = m.o.Runs.Find(who, name, a.Run)
		return run, false, err
	case a.Plan == nil && s == nil:
		return nil, false, &fault.Error{Kind: fault.SessionRequired, Subject: "plan_debug", Msg: "this request is bound to no session, so that it has no current run", Hint: "Give run or plan, or name a session."}
	case a.Plan == nil:
		run, err = m.o.Runs.Find(who, name, "current")
		return run, false, err
	}
	st, _, err := m.start(ctx, req, a, s)
	if err != nil {
		return nil, false, err
	}
	// The plan names the run that was begun of it, as long as that one is not
	// over; start always begins another.
	if s != nil && a.Action != "start" {
		for _, r := range m.o.Runs.Of(who.Name, name) {
			if !r.Summary().Status.Over() && r.Runs(st.Plan) {
				return r, false, nil
			}
		}
	}
	st.Paused, st.Breaks = true, breaks
	run, err = m.o.Runs.Start(ctx, st)
	return run, true, err
}

// act does what is asked for. It returns the run that is looked at from then
// on: a fork, where there is one.
func (m planModule) act(ctx context.Context, a planArgs, run *plan.Run) (*plan.Run, string, error) {
	step := func() error {
		if a.Step == "" {
			return &fault.Error{Kind: fault.InvalidArguments, Subject: a.Action, Msg: a.Action + " is about a step, and none is named", Hint: "Give step."}
		}
		return nil
	}
	switch a.Action {
	case "start", "continue":
		return run, "", run.Continue(ctx, plan.ToBreak, "")
	case "step":
		return run, "", run.Continue(ctx, plan.OneStep, "")
	case "run_to":
		if err := step(); err != nil {
			return run, "", err
		}
		return run, "", run.Continue(ctx, plan.RunTo, a.Step)
	case "pause":
		return run, "", run.Pause(ctx, "a person paused it")
	case "stop":
		return run, "", run.Stop(ctx, "a person stopped it")
	case "skip":
		if err := step(); err != nil {
			return run, "", err
		}
		return run, a.Step + " is skipped", run.Skip(ctx, a.Step)
	case "retry":
		if err := step(); err != nil {
			return run, "", err
		}
		return run, a.Step + " is done again", run.Retry(ctx, a.Step)
	case "fork":
		if err := step(); err != nil {
			return run, "", err
		}
		fork, err := m.o.Runs.Fork(ctx, run, plan.Change{From: a.Step, Reason: "from " + a.Step + " on"})
		return fork, fmt.Sprintf("a fork of %s, in which all from %s on is to be done again", run.ID(), a.Step), err
	case "set":
		return m.set(ctx, a, run)
	}
	return run, "", nil // inspect, or breakpoints only
}

// set changes a value. That of a step of which nobody knows what became of it
// is said, not changed; else the run is forked.
func (m planModule) set(ctx context.Context, a planArgs, run *plan.Run) (*plan.Run, string, error) {
	if a.Value == nil || (a.Step == "") == (a.Input == "") {
		return run, "", &fault.Error{Kind: fault.InvalidArguments, Subject: "set", Msg: "set needs a value, and either a step or an input", Hint: `For example {"action":"set","step":"step_2","value":{"ok":true}}.`}
	}
	if a.Step != "" && run.Unsure(a.Step) {
		return run, "the result of " + a.Step + " is set", run.Pin(ctx, a.Step, a.Value)
	}
	ch := plan.Change{Reason: cmp.Or(a.Step, a.Input) + " is set"}
	if a.Step != "" {
		ch.Pins = map[string]json.RawMessage{a.Step: a.Value}
	} else {
		ch.Inputs = map[string]json.RawMessage{a.Input: a.Value}
	}
	fork, err := m.o.Runs.Fork(ctx, run, ch)
	return fork, fmt.Sprintf("a fork of %s, in which %s; the old run stays as it is", run.ID(), ch.Reason), err
}

// shown is where the run is, and what would come next.
func (m planModule) shown(ctx context.Context, a planArgs, run *plan.Run, note string) (any, error) {
	v, err := run.View(ctx, plan.Look{Results: true, Context: a.InspectVariables, Preview: previewBytes})
	if err != nil {
		return nil, err
	}
	data := map[string]any{"run": v}
	at := a.Step
	if a.Action != "inspect" || at == "" {
		at = ""
		if v.Paused != nil && v.Paused.Step != "" && !v.Paused.After {
			at = v.Paused.Step
		}
	}
	if at != "" {
		in, err := run.Inspect(ctx, at)
		if err != nil {
			return nil, err
		}
		data["next"] = in
	}
	text := fmt.Sprintf("run %s is %s", v.ID, v.Status)
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	if note != "" {
		text = note + "; " + text
	}
	return Answer{Data: data, Message: text}, nil
}
