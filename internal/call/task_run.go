package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// taskToken is the progress token of calls that tasks make.
var taskToken = []byte(`"task"`)

// run does the work of a task, from its beginning or from the last round of
// input on.
func (k *Tasks) run(ctx context.Context, r *task.Run) task.Outcome {
	ctx, span := k.span(ctx, r)
	out := k.perform(ctx, r)
	span.End(kindOf(out))
	return out
}

func (k *Tasks) perform(ctx context.Context, r *task.Run) task.Outcome {
	c, err := k.call(ctx, r)
	if err != nil {
		return task.Failure(err)
	}
	defer k.hold(c)()
	if err := r.Answered(ctx); err != nil {
		return task.Failure(err)
	}
	demand, answers, err := r.Input(ctx)
	if err != nil {
		return task.Failure(err)
	}
	first := c.Req
	if demand != nil {
		c.Req = continued(first, demand, answers)
	}
	began := time.Now()
	resp, err := k.door.Do(ctx, c)
	return k.rounds(ctx, r, c, first, began, resp, err)
}

// call makes the call that a task is about, as its client would.
func (k *Tasks) call(ctx context.Context, r *task.Run) (*Call, error) {
	w := r.Work()
	params, err := r.Params(ctx)
	if err != nil {
		return nil, err
	}
	var f face
	if err := json.Unmarshal(w.Extra, &f); err != nil {
		return nil, fault.New(fault.Internal, "task", "how the task is to be done cannot be read").Because(err)
	}
	params = descending(params, f.Trace)
	var by actor.Actor
	err = actor.Sure(ctx, func() (err error) { // nothing is lost by waiting: it has not begun
		by, err = actor.Restore(f.Actor, w.Principal, k.opts.Principal)
		return err
	})
	if err != nil {
		return nil, fault.New(fault.Denied, w.Shown, "the task cannot go on: %v", err)
	}
	u := k.upstream(ctx, w.Upstream)
	if u == nil {
		return nil, fault.New(fault.UnknownTool, w.Shown, "its upstream %s has been removed", w.Upstream)
	}
	if k.opts.Catalog.Now().Of(w.Upstream) == nil {
		// The hub has just started. One that cannot be reached is told of by
		// the call itself.
		wait, cancel := context.WithTimeout(ctx, settleTime)
		u.Settle(wait)
		cancel()
	}
	req := &mcp.Request{
		Method: "tools/call", Params: params, Fields: wire.Members(params), Asked: mcp.Asked{Session: w.Session}, Token: taskToken, Stream: &sink{run: r},
		Client: &mcp.Client{Era: f.Era, Version: f.Version, Connection: f.Connection, Info: f.Info, Capabilities: f.Capabilities, Actor: by},
	}
	req.Meta = wire.Members(req.Param("_meta"))
	c := &Call{Req: req, Upstream: u, Item: k.opts.Catalog.Now().Tool(w.Upstream, w.Tool), Check: f.Check,
		Kept: f.Kept, References: f.References, Stateful: f.Stateful, Cards: f.Cards, Told: f.Told,
		Key: w.Key, Hooks: Hooks{Starting: r.Starting}}
	if w.Tool != w.Shown {
		c.Rename, c.Name = "name", w.Tool
	}
	return c, nil
}

const settleTime = 10 * time.Second

// upstream returns the one of that name. An agent that registers itself comes
// back a while after the hub.
func (k *Tasks) upstream(ctx context.Context, name string) *upstream.Upstream {
	late := time.NewTimer(returnTime)
	defer late.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if u := k.opts.Pool.Get(name); u != nil {
			return u
		}
		select {
		case <-tick.C:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

const returnTime = 30 * time.Second

// hold keeps the Session of a task from expiring.
func (k *Tasks) hold(c *Call) (release func()) {
	if k.door.sessions != nil {
		if s, err := Bind(k.door.sessions, c.Req.Client, c.Req.Session); err == nil && s != nil {
			return s.Hold()
		}
	}
	return func() {}
}

// continued is a request with what an upstream demanded before it can go on.
func continued(req *mcp.Request, demand, answers []byte) *mcp.Request {
	next := *req
	changes := []wire.Change{{Name: "inputResponses", Value: answers}, {Name: "requestState", Value: wire.Get(demand, "requestState")}}
	next.Params = wire.Edit(nil, req.Params, changes...)
	next.Fields = wire.Members(next.Params)
	next.Meta = wire.Members(next.Param("_meta"))
	return &next
}

// maxRounds bounds how often an upstream may ask for input in one task.
const maxRounds = 100

// rounds makes of the answer to a call the outcome of its task, asking for
// input as often as the upstream demands it. first is the request without any.
func (k *Tasks) rounds(ctx context.Context, r *task.Run, c *Call, first *mcp.Request, began time.Time, resp mcp.Response, err error) task.Outcome {
	for n := 0; ; n++ {
		switch {
		case err != nil && fault.Is(err, fault.ContinuationLost) && r.Work().Repeat && c.Req != first:
			c.Req = first // from the beginning, once
			resp, err = k.door.Do(ctx, c)
			continue
		case err != nil && fault.Is(err, fault.ContinuationLost):
			w := r.Work()
			return k.done(c, r, began, task.Lost(&w))
		case k.waited(ctx, c, err):
			resp, err = k.door.Do(ctx, c)
			continue
		case err != nil, resp.Error != nil, !needsInput(resp.Result):
			return k.done(c, r, began, outcome(c, resp, err))
		case n == maxRounds:
			return k.done(c, r, began, task.Failure(fault.New(fault.Limit, c.Upstream.Name(), "the upstream asked for input %d times during one task", maxRounds)))
		}
		demand := bytes.Clone(resp.Result)
		resp.Release()
		answers := []byte("{}")
		if len(wire.Members(wire.Get(demand, "inputRequests"))) > 0 {
			if err := r.Ask(ctx, demand); err != nil {
				return task.Failure(err)
			}
			if demand, answers, err = r.Input(ctx); err != nil {
				return task.Failure(err)
			}
		}
		c.Req = continued(first, demand, answers)
		resp, err = k.door.Do(ctx, c)
	}
}

// waited reports that a call can be made again which was not made, or bears
// repetition, because its principals could not be looked up. They can be now.
func (k *Tasks) waited(ctx context.Context, c *Call, err error) bool {
	if !errors.Is(err, actor.ErrUnsure) || !fault.Of(err).Harmless {
		return false
	}
	err = actor.Sure(ctx, func() error { return c.Req.Client.Actor.Check(k.opts.Principal) })
	return !errors.Is(err, actor.ErrUnsure)
}

// outcome is what a call's answer means for its task. What a model can repair
// is a result, where the call came by a merged face.
func outcome(c *Call, resp mcp.Response, err error) task.Outcome {
	if err != nil && c.Check {
		resp, err = AsResult(c.Req, c.Item, err)
	}
	if err != nil {
		return task.Failure(err)
	}
	defer resp.Release()
	if resp.Error != nil {
		text, _ := wire.String(wire.Get(resp.Error, "message"))
		return task.Outcome{Error: bytes.Clone(resp.Error), Message: text}
	}
	return task.Outcome{Result: bytes.Clone(resp.Result)}
}

// created tells of a task that has begun.
func (k *Tasks) created(t *task.Task) {
	if k.opts.Events != nil {
		w := t.State().Work
		k.opts.Events.Emit(event.Record{Type: event.TaskCreated, Task: t.ID(), Trace: traceOf(&w).Trace(), Principal: w.Principal, Session: w.Session, Upstream: w.Upstream, Tool: w.Tool})
	}
}

// done tells of a task that has come to its end.
func (k *Tasks) done(c *Call, r *task.Run, began time.Time, out task.Outcome) task.Outcome {
	if k.opts.Events != nil {
		w := r.Work()
		rec := event.Record{Type: event.TaskDone, Task: r.ID(), Trace: traceOf(&w).Trace(), Principal: w.Principal, Session: w.Session, Upstream: w.Upstream, Tool: w.Tool,
			Bytes: len(out.Result), TookUS: time.Since(began).Microseconds()}
		if out.Result == nil {
			rec.Kind = kindOf(out)
		}
		k.opts.Events.Emit(rec)
	}
	return out
}

// sink is the Stream of a task's call: its progress becomes what the task says
// of itself.
type sink struct{ run *task.Run }

func (s *sink) Notify(method string, params []byte) {
	if method != mcp.NoteProgress {
		return
	}
	text, _ := wire.String(wire.Get(params, "message"))
	if text == "" {
		text = progress(params)
	}
	s.run.Say(text, reached(params))
}

// reached is how far a call has come, without what else is said of it.
func reached(params []byte) string {
	isNumber := func(raw []byte) bool { return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') }
	now, total := wire.Get(params, "progress"), wire.Get(params, "total")
	switch {
	case !isNumber(now):
		return ""
	case !isNumber(total):
		return `{"progress":` + string(now) + `}`
	}
	return `{"progress":` + string(now) + `,"total":` + string(total) + `}`
}

// progress says in words how far a call has come.
func progress(params []byte) string {
	out := append([]byte("progress "), wire.Get(params, "progress")...)
	if total := wire.Get(params, "total"); total != nil {
		out = append(append(out, " of "...), total...)
	}
	return string(out)
}

func (s *sink) Flush()       {}
func (s *sink) CanAsk() bool { return false }
func (s *sink) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	return mcp.Discard.Ask(ctx, method, params)
}
