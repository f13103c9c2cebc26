package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// MaxArgs bounds the arguments of a call with their references resolved.
const MaxArgs = 8 << 20

// open looks at the condition and the list of a step that can begin.
func (r *Run) open(ctx context.Context, id string) error {
	s := r.state.Created.Plan.Step(id)
	holds, err := s.When.Holds(r.maybe(ctx))
	if err != nil {
		return err
	}
	if !holds {
		return r.record(ctx, Event{Type: StepSkipped, Step: id, Reason: "its condition does not hold"})
	}
	if s.ForEach == nil {
		return r.record(ctx, Event{Type: StepOpened, Step: id, Items: 1})
	}
	list, n, flaw, err := r.list(ctx, s.ForEach)
	if err != nil {
		return err
	}
	if flaw == nil {
		return r.record(ctx, Event{Type: StepOpened, Step: id, Items: n, List: list})
	}
	if err := r.record(ctx, Event{Type: StepOpened, Step: id, Items: 1}); err != nil {
		return err
	}
	return r.record(ctx, Event{Type: CallFailed, Step: id, Failure: flaw})
}

// list is what a forEach goes through.
func (r *Run) list(ctx context.Context, f *ForEach) (*Data, int, *Failure, error) {
	ref, _ := session.ParseReference(f.In)
	raw, err := r.values(ctx, nil)(ref)
	if err != nil {
		if k := fault.Of(err); k.Kind == fault.BadReference {
			return nil, 0, failure(err), nil
		}
		return nil, 0, nil, err
	}
	elements, ok := wire.Elements(raw)
	switch {
	case !ok:
		return nil, 0, &Failure{Kind: fault.InvalidArguments.String(), Message: f.In + " is no array", Hint: "forEach goes through the elements of one."}, nil
	case len(elements) > f.Cap():
		return nil, 0, &Failure{Kind: fault.Limit.String(), Message: fmt.Sprintf("%s has %d items; at most %d are allowed", f.In, len(elements), f.Cap()), Hint: "Raise max of forEach, or take fewer."}, nil
	}
	d, err := r.journal.put(ctx, raw)
	return d, len(elements), nil, err
}

// values returns what references stand for: inputs and results of the run,
// then values of the Session. item is what the step's item is called and is.
func (r *Run) values(ctx context.Context, item map[string][]byte) func(session.Reference) ([]byte, error) {
	return func(ref session.Reference) ([]byte, error) {
		raw, known, err := r.value(ctx, ref, item)
		if err != nil || !known {
			return raw, err
		}
		if raw == nil {
			return nil, fault.New(fault.BadReference, "", "there is no @%s: its step has no result", ref.Name)
		}
		return session.Dig(raw, ref.Path)
	}
}

// maybe is values for conditions: what is not there is nothing.
func (r *Run) maybe(ctx context.Context) func(session.Reference) ([]byte, error) {
	values := r.values(ctx, nil)
	return func(ref session.Reference) ([]byte, error) {
		raw, err := values(ref)
		if fault.Is(err, fault.BadReference) {
			return nil, nil
		}
		return raw, err
	}
}

// value finds what a name of the run stands for. known is false if the
// reference was to a value outside it, with its path applied.
func (r *Run) value(ctx context.Context, ref session.Reference, item map[string][]byte) (raw []byte, known bool, err error) {
	c := &r.state.Created
	if ref.Session == "" {
		if raw, ok := item[ref.Name]; ok {
			return raw, true, nil
		}
		if d, ok := c.Inputs[ref.Name]; ok {
			raw, err := r.journal.get(ctx, &d)
			return raw, true, err
		}
		for _, in := range c.Plan.Inputs {
			if in.Name == ref.Name {
				return []byte("null"), true, nil // optional, and not given
			}
		}
		if id := c.Plan.Owner(ref.Name); id != "" {
			raw, err := r.output(ctx, id, ref.Name)
			return raw, true, err
		}
	}
	s, err := r.of.session(c.Owner, c.Session)
	if err != nil {
		return nil, false, err
	}
	text, err := json.Marshal(ref.String())
	if err != nil {
		return nil, false, err
	}
	raw, _, err = r.of.o.Sessions.Resolve(ctx, c.Owner, s, text, MaxArgs, nil)
	return raw, false, err
}

// result is what a step yielded; nil if it has no result.
func (r *Run) result(ctx context.Context, id string) ([]byte, error) {
	st := r.state.Steps[id]
	switch {
	case st.Phase != StepDone:
		return nil, nil
	case st.Pinned != nil:
		return r.journal.get(ctx, st.Pinned)
	case !st.each:
		return r.journal.get(ctx, st.Items[0].Result)
	}
	all := []byte("[")
	for i := range st.Items {
		raw, err := r.journal.get(ctx, st.Items[i].Result)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, raw...)
	}
	return append(all, ']'), nil
}

// output is what a name that a step owns stands for.
func (r *Run) output(ctx context.Context, id, name string) ([]byte, error) {
	raw, err := r.result(ctx, id)
	if err != nil || raw == nil || name == id {
		return raw, err
	}
	if outs := r.state.Created.Plan.Step(id).Outputs; len(outs) > 1 {
		part, err := session.Dig(raw, []session.Step{session.Member(name)})
		if err != nil {
			return nil, fault.New(fault.BadReference, "", "the result of %s has no member %s", id, name)
		}
		return part, nil
	}
	return raw, nil
}

// item is what the item of a step is called and is.
func (r *Run) item(ctx context.Context, s *Step, n int) (map[string][]byte, error) {
	if s.ForEach == nil {
		return nil, nil
	}
	raw, err := r.journal.get(ctx, r.state.Steps[s.ID].List)
	if err != nil {
		return nil, err
	}
	elements, _ := wire.Elements(raw)
	if n >= len(elements) {
		return nil, nil
	}
	return map[string][]byte{s.ForEach.As: elements[n]}, nil
}

// Arguments are those of a call, with their references resolved.
func (r *Run) arguments(ctx context.Context, d Do) (tool string, args []byte, err error) {
	s := r.state.Created.Plan.Step(d.Step)
	tool, raw := s.Called(), s.Args
	switch d.Kind {
	case FallbackCall:
		tool, raw = s.Fallback.Tool, s.Fallback.Args
	case UndoCall:
		tool, raw = s.Compensate.Tool, s.Compensate.Args
	default:
		if edited := r.state.Steps[d.Step].Items[d.Item].Edited; edited != nil {
			args, err = r.journal.get(ctx, edited)
			return tool, args, err
		}
	}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	item, err := r.item(ctx, s, d.Item)
	if err != nil {
		return "", nil, err
	}
	args, _, err = session.Resolve(raw, MaxArgs, r.values(ctx, item))
	return tool, args, err
}

// call begins a call.
func (r *Run) call(ctx context.Context, d Do, calls *sync.WaitGroup) error {
	s := r.state.Created.Plan.Step(d.Step)
	it := &r.state.Steps[d.Step].Items[d.Item]
	if d.Kind == FallbackCall && s.Fallback.Value != nil {
		return r.fallBack(ctx, d, s.Fallback.Value)
	}
	tool, args, err := r.arguments(ctx, d)
	if err != nil {
		if k := fault.Of(err).Kind; k != fault.BadReference && k != fault.Limit && k != fault.InvalidArguments {
			return err
		}
		if d.Kind == FallbackCall { // it must have begun to have failed
			if err := r.record(ctx, Event{Type: CallStarted, Step: d.Step, Item: d.Item, Kind: d.Kind, Attempt: it.Attempt + 1}); err != nil {
				return err
			}
		}
		return r.record(ctx, Event{Type: CallFailed, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: failure(err)})
	}
	sent, err := r.journal.put(ctx, args)
	if err != nil {
		return err
	}
	attempt, key := it.Attempt+1, ""
	if it.Phase == ItemRunning && d.Kind == it.Kind { // it was cut off, and is the same call again
		key = it.Key
	}
	if key == "" {
		key = fmt.Sprintf("%s.%s.%d.%d", r.id, d.Step, d.Item, attempt)
	}
	if err := r.record(ctx, Event{Type: CallStarted, Step: d.Step, Item: d.Item, Kind: d.Kind, Attempt: attempt, Key: key, Args: sent}); err != nil {
		return err
	}
	who, err := r.who()
	if err != nil {
		return r.record(ctx, Event{Type: CallFailed, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: failure(err)})
	}
	callCtx, cancel := context.WithCancel(ctx)
	r.busy[busyKey(d.Step, d.Item)] = cancel
	req := request(tool, args, key, s.TimeoutMS)
	req.Client = &mcp.Client{Era: mcp.Modern, Principal: who, Capabilities: []byte("{}")}
	req.Asked = mcp.Asked{Session: r.state.Created.Session, Cards: mcp.Off, References: mcp.Off, Approved: it.Allowed}
	face := r.of.o.Face(r.state.Created.Session)
	calls.Go(func() {
		defer cancel()
		resp, err := face.Handle(callCtx, req)
		out := outcome(resp, err)
		resp.Release()
		r.finish(ctx, d, out)
	})
	return nil
}

// request makes the request of a call.
func request(tool string, args []byte, key string, timeoutMS int) *mcp.Request {
	meta := append([]byte(`{"stoa/idempotencyKey":`), wire.Quote(key)...)
	if timeoutMS > 0 {
		meta = fmt.Appendf(meta, `,"stoa/timeoutMs":%d`, timeoutMS)
	}
	params := wire.AppendString([]byte(`{"name":`), tool)
	params = append(append(params, `,"arguments":`...), args...)
	params = append(append(params, `,"_meta":`...), meta...)
	params = append(params, "}}"...)
	req := &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Stream: mcp.Discard}
	req.Meta = wire.Members(req.Param("_meta"))
	return req
}

// result of a call.
type result struct {
	data    []byte
	failure *Failure
	again   bool // the same call may succeed later, and did nothing
	said    bool // the tool itself said no
	unknown bool // whether it took effect is not known
	cut     bool // it was cancelled
}

func outcome(resp mcp.Response, err error) result {
	if err != nil {
		f := fault.Of(err)
		out := result{failure: failure(err), again: f.Kind.Info().Retryable && f.Kind != fault.Cancelled}
		switch f.Kind {
		case fault.Timeout, fault.UpstreamLost, fault.OutcomeUnknown:
			out.unknown = true
		case fault.Cancelled:
			out.cut = true
		}
		if errors.Is(err, context.Canceled) {
			out.cut = true
		}
		return out
	}
	if resp.Error != nil {
		text, _ := wire.String(wire.Get(resp.Error, "message"))
		return result{failure: &Failure{Message: text}, said: true}
	}
	if string(wire.Get(resp.Result, "resultType")) == `"input_required"` {
		return result{failure: &Failure{Kind: fault.MissingCapability.String(), Message: "the tool asks for input, and in a plan nobody can be asked", Hint: "Call it by itself, and give the plan what comes of it."}}
	}
	e := envelope.Of(resp.Result)
	if !e.Success {
		return result{failure: &Failure{Kind: faultKind(resp.Result), Message: e.Error}, said: true}
	}
	data := e.Data
	if len(data) == 0 {
		data = []byte("null")
	}
	return result{data: append([]byte(nil), data...)}
}

// faultKind is the kind of the hub's own fault that a result tells a model of;
// empty if the tool spoke itself.
func faultKind(raw []byte) string {
	kind, _ := wire.String(wire.Get(wire.Get(wire.Get(raw, "_meta"), "stoa/error"), "kind"))
	return kind
}

func failure(err error) *Failure {
	f := fault.Of(err)
	return &Failure{Kind: f.Kind.String(), Message: f.Text(), Hint: f.Advice()}
}

// finish records what came of a call. It tries until it is recorded, the hub
// ends, or another hub has the run.
func (r *Run) finish(ctx context.Context, d Do, out result) {
	for {
		r.mu.Lock()
		err := r.settle(ctx, d, out)
		if err == nil || ctx.Err() != nil || errors.Is(err, errTaken) {
			delete(r.busy, busyKey(d.Step, d.Item))
			r.mu.Unlock()
			r.poke()
			return
		}
		r.mu.Unlock()
		r.of.o.Logger.Warn("what came of a call cannot be recorded for now", "run", r.id, "step", d.Step, "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// settle makes an event of what came of a call. r.mu is held.
func (r *Run) settle(ctx context.Context, d Do, out result) error {
	e := Event{Type: CallDone, Step: d.Step, Item: d.Item, Kind: d.Kind}
	if out.failure == nil {
		data, err := r.journal.put(ctx, out.data)
		if err != nil {
			return err
		}
		e.Result = data
		return r.record(ctx, e)
	}
	if ctx.Err() != nil {
		return ctx.Err() // cut off with the hub: the next one decides
	}
	e.Type, e.Failure = CallFailed, out.failure
	e.Failure.Step = d.Step
	safe := r.repeatable(ctx, d.Step, d.Kind)
	switch {
	case out.cut && r.state.Stopping != "":
		if !safe {
			e.Failure = &Failure{Kind: fault.Cancelled.String(), Step: d.Step, Message: "cancelled while it was at work; whether it took effect is not known"}
		}
		return r.record(ctx, e)
	case out.unknown && !safe:
		e.Type = CallUnknown
		return r.record(ctx, e)
	}
	s := r.state.Created.Plan.Step(d.Step)
	if out.again || (out.said || out.unknown) && safe || out.said && s.Retries != nil {
		e.Retry = r.retry(s, d)
	}
	return r.record(ctx, e)
}

// retry is when a call is tried again; nil if it was tried often enough.
func (r *Run) retry(s *Step, d Do) *time.Time {
	it := &r.state.Steps[d.Step].Items[d.Item]
	limit, tries := r.state.Created.Options.Retries, it.Tries
	if s.Retries != nil {
		limit = *s.Retries
	}
	if d.Kind == UndoCall {
		tries = it.UndoTries
	}
	if tries > limit {
		return nil
	}
	pause := 500 * time.Millisecond
	if s.BackoffMS > 0 {
		pause = time.Duration(s.BackoffMS) * time.Millisecond
	}
	at := time.Now().UTC().Add(min(pause<<min(tries-1, 20), time.Minute))
	return &at
}

// fallBack puts the value of a fallback in the place of a step's result.
func (r *Run) fallBack(ctx context.Context, d Do, value []byte) error {
	item, err := r.item(ctx, r.state.Created.Plan.Step(d.Step), d.Item)
	if err != nil {
		return err
	}
	raw, _, err := session.Resolve(value, MaxArgs, r.values(ctx, item))
	if err != nil {
		return r.record(ctx, Event{Type: CallFailed, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: failure(err)})
	}
	data, err := r.journal.put(ctx, raw)
	if err != nil {
		return err
	}
	return r.record(ctx, Event{Type: CallDone, Step: d.Step, Item: d.Item, Kind: d.Kind, Result: data})
}

// ask asks a person whether a call may be made.
func (r *Run) ask(ctx context.Context, d Do, calls *sync.WaitGroup) error {
	tool, args, err := r.arguments(ctx, d)
	if err != nil {
		return r.record(ctx, Event{Type: CallFailed, Step: d.Step, Item: d.Item, Failure: failure(err)})
	}
	c := &r.state.Created
	a := policy.Approval{Kind: policy.KindTool, Session: c.Session, Principal: c.Owner, Call: r.id + "/" + d.Step, Tool: tool, Args: args, Reason: "the plan wants an approval before " + d.Step}
	if who, err := r.who(); err == nil {
		if t, err := r.of.o.Find(ctx, who, c.Session, tool); err == nil {
			a.Upstream, a.Tool = t.Upstream, t.Name
		}
	}
	askCtx, cancel := context.WithCancel(ctx)
	r.busy[busyKey(d.Step, d.Item)] = cancel
	calls.Go(func() {
		defer cancel()
		asked := false
		note := func(id string) {
			asked = true
			r.mu.Lock()
			defer r.mu.Unlock()
			if err := r.record(ctx, Event{Type: CallAsked, Step: d.Step, Item: d.Item, Ask: id}); err != nil {
				r.of.o.Logger.Warn("record that a person is asked", "run", r.id, "err", err)
			}
		}
		dec, err := r.of.o.Desk.Ask(askCtx, a, func(a policy.Approval) { note(a.ID) })
		if ctx.Err() != nil || r.of.Closing() {
			r.mu.Lock()
			delete(r.busy, busyKey(d.Step, d.Item)) // the next hub asks again
			r.mu.Unlock()
			r.poke()
			return
		}
		if !asked {
			note("")
		}
		r.decided(ctx, d, dec, err)
	})
	return nil
}

// decided records what a person said, or that nobody did.
func (r *Run) decided(ctx context.Context, d Do, dec policy.Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.poke()
	delete(r.busy, busyKey(d.Step, d.Item))
	e := Event{Type: CallDecided, Step: d.Step, Item: d.Item, Approve: dec.Approve && err == nil, By: dec.By, Reason: dec.Tell()}
	if e.Approve {
		e.Reason = dec.Reason
		if dec.Args != nil {
			if e.Args, err = r.journal.put(ctx, dec.Args); err != nil {
				e.Approve, e.Reason = false, "the changed arguments cannot be kept: "+err.Error()
			}
		}
	}
	if err := r.record(ctx, e); err != nil {
		r.of.o.Logger.Warn("record what a person decided", "run", r.id, "err", err)
	}
}

// keep makes the outputs of a step values of the Session.
func (r *Run) keep(ctx context.Context, id string) error {
	c := &r.state.Created
	step := c.Plan.Step(id)
	s, err := r.of.session(c.Owner, c.Session)
	if err != nil {
		return err
	}
	e := Event{Type: StepKept, Step: id}
	for _, name := range step.Outputs {
		raw, err := r.output(ctx, id, name)
		if err == nil {
			_, _, err = s.Put(ctx, session.New{Name: name, Data: raw, Description: fmt.Sprintf("output of %s in %s", id, r.id), By: "plan", Origin: &session.Origin{Tool: step.Called()}})
		}
		if k := fault.Of(err); err != nil && k.Kind == fault.Storage {
			return err
		}
		if err != nil {
			e.Reason = "kept in the run only: " + fault.Of(err).Text()
		}
	}
	return r.record(ctx, e)
}
