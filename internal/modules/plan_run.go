package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// previewBytes is how much of a result plan_status and plan_debug show.
const previewBytes = 4 << 10

// otherRuns is how many other runs of its session plan_status lists.
const otherRuns = 20

// glance is how runs are looked at where the answer may be kept: what is too
// long is not there cut off as if it were whole. What is kept under a name is whole,
// since nobody could get at the rest by that name.
func glance(whole bool) plan.Look {
	if whole {
		return plan.Look{Results: true}
	}
	return plan.Look{Results: true, Preview: previewBytes, Mark: true, Rest: "plan_status with whole: true gives all of it; in later calls, refer to it instead"}
}

// RunOptions are those of a run as they are said: what is left out is as usual.
type RunOptions struct {
	StopOnError *bool `json:"stopOnError"`
	Timeout     int   `json:"timeout"` // milliseconds
	Retries     *int  `json:"retries"`
	MaxParallel int   `json:"maxParallel"`
	DryRun      bool  `json:"dryRun"`
}

func (o RunOptions) apply(to *plan.Options) {
	if o.StopOnError != nil {
		to.StopOnError = *o.StopOnError
	}
	if o.Retries != nil {
		to.Retries = *o.Retries
	}
	to.TimeoutMS = cmp.Or(o.Timeout, to.TimeoutMS)
	to.MaxParallel = cmp.Or(o.MaxParallel, to.MaxParallel)
}

// Start is what a run of a plan begins with; inputs may be nil. Who is bound to
// no Session gets one.
func (o PlanOptions) Start(ctx context.Context, by actor.Actor, s *session.Session, of, inputs json.RawMessage, opt RunOptions) (st plan.Start, minted bool, err error) {
	p, again, author, err := o.find(ctx, by, s, of)
	broken, _ := errors.AsType[*plan.Problems](err)
	switch {
	case broken != nil && broken.Rest != nil:
		p = broken.Rest // what else is wrong is told along
	case err != nil:
		return plan.Start{}, false, AsFault(err)
	}
	if minted = s == nil; minted {
		s = o.Sessions.Mint(by.Name())
	}
	st = plan.Start{By: by, Again: again, Author: author, Session: s.Name(), Plan: p, Options: plan.DefaultOptions()}
	opt.apply(&st.Options)
	if inputs != nil {
		if st.Inputs, err = o.inputs(ctx, by.Name(), s, inputs); err != nil {
			return st, minted, err
		}
	}
	if broken != nil {
		_, err = o.Runs.Check(ctx, st)
		return st, minted, AsFault(broken.And(err))
	}
	return st, minted, nil
}

func (m planModule) start(ctx context.Context, req *mcp.Request, a planArgs, s *session.Session) (plan.Start, bool, error) {
	a.Options.MaxParallel = cmp.Or(a.MaxParallel, a.Options.MaxParallel)
	st, minted, err := m.o.Start(ctx, req.Client.Actor, s, a.Plan, a.Inputs, a.Options)
	st.Key, st.Trace = taskKey(req), call.Descent(req)
	return st, minted, err
}

// taskKey tells which calls of a task are the same one, tried again: they are
// about the same run.
func taskKey(req *mcp.Request) (key string) {
	for _, f := range req.Meta {
		if string(f.Name) == call.MetaKey {
			key, _ = wire.String(f.Value)
		}
	}
	return key
}

// inputs are those of a run. References in them are to values of the Session.
func (o PlanOptions) inputs(ctx context.Context, principal string, s *session.Session, raw json.RawMessage) (map[string]json.RawMessage, error) {
	full, _, err := o.Sessions.Resolve(ctx, principal, s, raw, o.Runs.ArgBytes(), nil)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(full, &out); err != nil {
		return nil, fault.New(fault.InvalidArguments, "inputs", "inputs must be an object of values by name: %v", err)
	}
	return out, nil
}

func (m planModule) execute(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	st, minted, err := m.start(ctx, req, a, s)
	if err != nil {
		return nil, err
	}
	if a.DryRun || a.Options.DryRun {
		if _, err := m.o.Runs.Check(ctx, st); err != nil {
			return nil, AsFault(err)
		}
		return Answer{Data: map[string]any{"valid": true, "plan": st.Plan, "order": st.Plan.Levels()}, Message: "the plan could be run; nothing was called"}, nil
	}
	run, err := m.o.Runs.Start(ctx, st)
	if err != nil {
		return nil, AsFault(err)
	}
	if err := m.wait(ctx, req, run); err != nil {
		return nil, err
	}
	return m.ran(ctx, req, run, minted)
}

// wait waits for a run, telling the client how far it is. A call that is
// cancelled stops the run; one that ends with the hub does not.
func (m planModule) wait(ctx context.Context, req *mcp.Request, run *plan.Run) error {
	err := m.follow(ctx, req, run)
	if err != nil && !m.o.Runs.Closing() {
		_ = run.Stop(context.WithoutCancel(ctx), "the call that began it was cancelled") // it may be over by now
	}
	return err
}

// follow waits for a run, telling the client how far it is and whether somebody
// has to decide something.
func (m planModule) follow(ctx context.Context, req *mcp.Request, run *plan.Run) error {
	last, told := -1, map[string]bool{}
	far := func(s plan.Summary) {
		if s.Done == last || req.Token == nil {
			return
		}
		last = s.Done
		p := append([]byte(`{"progressToken":`), req.Token...)
		p = strconv.AppendInt(append(p, `,"progress":`...), int64(s.Done), 10)
		p = strconv.AppendInt(append(p, `,"total":`...), int64(s.Steps), 10)
		p = wire.AppendString(append(p, `,"message":`...), fmt.Sprintf("%d of %d steps are over", s.Done, s.Steps))
		req.Stream.Notify(mcp.NoteProgress, append(p, '}'))
		req.Stream.Flush()
	}
	waits := func(s plan.Summary) {
		for id, text := range run.Waits() {
			if !told[id] {
				told[id] = true
				req.Tell(float64(s.Done)+min(0.5, float64(len(told))/1000), text) // progress has to grow
			}
		}
	}
	// The next hub goes on with a task, so that it waits for the end of this one.
	_, err := run.Wait(ctx, taskKey(req) != "", func(s plan.Summary) { far(s); waits(s) })
	return err
}

// ran tells what became of a run.
func (m planModule) ran(ctx context.Context, req *mcp.Request, run *plan.Run, minted bool) (any, error) {
	return inFull(ctx, req, func(ctx context.Context, whole bool) (Answer, error) {
		look := glance(whole)
		look.Outputs = true // they are what the plan was run for
		v, err := run.View(ctx, look)
		if err != nil {
			return Answer{}, err
		}
		return outcome(v, minted), nil
	})
}

// outcome tells what became of a run.
func outcome(v plan.View, minted bool) Answer {
	text := fmt.Sprintf("run %s is %s", v.ID, v.Status)
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	if minted {
		text += "; its session is " + v.Session
	}
	if v.Status == plan.Failed || v.Status == plan.Stopped {
		if v.Failure != nil && v.Failure.Message != "" {
			text += ": " + v.Failure.Message
		}
		return Answer{Data: v, Error: text, Message: "plan_status tells what became of each step; plan_debug with fork goes on from one of them."}
	}
	return Answer{Data: v, Message: text}
}

func (m planModule) status(ctx context.Context, req *mcp.Request, raw json.RawMessage) (any, error) {
	a, s, err := m.bound(req, raw)
	if err != nil {
		return nil, err
	}
	name := ""
	if s != nil {
		name = s.Name()
	}
	if name == "" && (a.SessionID == "" || a.SessionID == "current") {
		return nil, &fault.Error{Kind: fault.SessionRequired, Subject: "plan_status", Msg: "this request is bound to no session, so that it has no current run", Hint: "Give the id of a run as sessionId, or name a session."}
	}
	run, err := m.o.Runs.Find(req.Client.Actor.Name(), name, a.SessionID)
	if err != nil {
		return nil, err
	}
	return inFull(ctx, req, func(ctx context.Context, whole bool) (Answer, error) {
		look := glance(a.Whole || whole)
		look.Results, look.Context = a.IncludeResults, a.IncludeContext
		v, err := run.View(ctx, look)
		if err != nil {
			return Answer{}, err
		}
		return m.stands(req, run, v, whole), nil
	})
}

// stands tells how a run stands, and which others its session has.
func (m planModule) stands(req *mcp.Request, run *plan.Run, v plan.View, whole bool) Answer {
	data := map[string]any{"run": v}
	text := fmt.Sprintf("run %s is %s, %d of %d steps are over", v.ID, v.Status, v.Done, len(v.Steps))
	var others []plan.Summary
	for _, o := range m.o.Runs.Of(req.Client.Actor.Name(), v.Session) {
		if o != run {
			others = append(others, o.Summary())
		}
	}
	if n := len(others); n > otherRuns && !whole {
		others = others[:otherRuns]
		data["more"] = n - otherRuns
		text += fmt.Sprintf("; the session has %d older runs that are not listed", n-otherRuns)
	}
	data["others"] = others
	return Answer{Data: data, Message: text}
}
