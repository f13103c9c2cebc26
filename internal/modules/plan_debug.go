package modules

import (
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
	run, begun, err := m.debugged(ctx, req, a, s)
	if err != nil {
		return nil, AsFault(err)
	}
	if a.Action == "compare" {
		return m.compare(ctx, req, a, run)
	}
	act := plan.Act{By: req.Client.Actor, Action: a.Action, Step: a.Step, Input: a.Input, Value: a.Value, Breaks: a.Breakpoints}
	if begun {
		act.Breaks = nil // it began with them
	}
	run, note, err := m.o.Runs.Act(ctx, run, act)
	if err != nil {
		return nil, AsFault(err)
	}
	if act.Moves() {
		if err := m.follow(ctx, req, run); err != nil {
			if !m.o.Runs.Closing() {
				_ = run.Pause(context.WithoutCancel(ctx), "the call that moved it was cancelled") // it may be over by now
			}
			return nil, err
		}
	}
	return inFull(ctx, req, func(ctx context.Context, whole bool) (Answer, error) { return m.shown(ctx, a, run, note, whole) })
}

// debugged is the run that is meant: the one that is named, a new one of the
// plan that is given, or the last of the Session.
func (m planModule) debugged(ctx context.Context, req *mcp.Request, a planArgs, s *session.Session) (run *plan.Run, begun bool, err error) {
	who := req.Client.Actor.Name()
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
		for _, r := range m.o.Runs.Of(who, name) {
			if !r.Summary().Status.Over() && r.Runs(st.Plan) {
				return r, false, nil
			}
		}
	}
	st.Paused, st.Breaks = true, a.Breakpoints
	run, err = m.o.Runs.Start(ctx, st)
	return run, true, err
}

// compare tells in what the run differs from another.
func (m planModule) compare(ctx context.Context, req *mcp.Request, a planArgs, run *plan.Run) (any, error) {
	if a.With == "" {
		return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: "compare", Msg: "a run is compared with another, and none is named", Hint: "Give the id of the other run as with."}
	}
	other, err := m.o.Runs.Find(req.Client.Actor.Name(), run.Summary().Session, a.With)
	if err != nil {
		return nil, err
	}
	return inFull(ctx, req, func(ctx context.Context, whole bool) (Answer, error) {
		c, err := plan.Compare(ctx, run, other, glance(whole).Preview)
		if err != nil {
			return Answer{}, err
		}
		text := "the runs do not differ"
		if !c.Same {
			text = fmt.Sprintf("the runs differ in %d places", len(c.Differences))
		}
		return Answer{Data: c, Message: text}, nil
	})
}

// shown is where the run is, and what would come next.
func (m planModule) shown(ctx context.Context, a planArgs, run *plan.Run, note string, whole bool) (Answer, error) {
	look := glance(whole)
	look.Context = a.InspectVariables
	v, err := run.View(ctx, look)
	if err != nil {
		return Answer{}, err
	}
	data := map[string]any{"run": v}
	at := ""
	if a.Action == "inspect" {
		at = a.Step
	}
	switch in, err := run.Next(ctx, at); {
	case err != nil:
		return Answer{}, err
	case in != nil:
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
