package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// call begins a call.
func (r *Run) call(ctx context.Context, d Do, calls *sync.WaitGroup) error {
	s := r.state.step(d.Step)
	it := &r.state.Steps[d.Step].Items[d.Item]
	if d.Kind == FallbackCall && s.Fallback.Value != nil {
		return r.fallBack(ctx, d, s.Fallback.Value)
	}
	by, gone := r.actor()
	if errors.Is(gone, actor.ErrUnsure) {
		return gone // nothing has begun: the run waits
	}
	tool, args, err := r.arguments(ctx, d)
	if err != nil {
		if !flawed(err) {
			return err
		}
		return r.refuse(ctx, d, failure(err))
	}
	sent, err := r.put(ctx, args)
	if err != nil {
		return err
	}
	// An approval is good for the call that it was given for. One that is made
	// again, for whatever reason, is asked for again.
	allowed, defined := it.Allowed && it.Phase == ItemPending, it.Defined
	attempt := it.Attempt + 1
	key := it.keyOf(d.Kind)
	if key == "" {
		key = fmt.Sprintf("%s.%s.%d.%d", r.id, d.Step, d.Item, attempt)
	}
	start := Event{Type: CallStarted, Step: d.Step, Item: d.Item, Kind: d.Kind, Attempt: attempt, Key: key, Args: sent, Safe: r.repeatable(ctx, d.Step, d.Kind)}
	if err := r.record(ctx, start); err != nil {
		return err
	}
	if r.state.Holder != r.of.name {
		return errTaken // it was read along: no answer came to what was recorded
	}
	var hooks call.Hooks
	if d.Kind == OwnCall {
		hooks = r.hooks(d, start, allowed, defined)
	}
	if gone != nil {
		return r.record(ctx, Event{Type: CallFailed, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: failure(gone)})
	}
	callCtx, cancel := context.WithCancel(ctx)
	r.busy[at{d.Step, d.Item}] = cancel
	req := request(tool, args, s.TimeoutMS, r.state.Created.Trace)
	req.Client = &mcp.Client{Era: mcp.Modern, Actor: by, Capabilities: []byte("{}")}
	req.Asked = mcp.Asked{Session: r.state.Created.Session, Cards: mcp.Off, References: mcp.Off, Key: key, Kept: true}
	face := r.of.o.Face(r.state.Created.Session)
	calls.Go(func() {
		defer cancel()
		defer r.caught(d)
		callCtx, span := r.of.o.Tracer.Start(callCtx, "step "+d.Step, obs.Parent{}, "stoa.run", r.id, "stoa.step", d.Step, "stoa.session", req.Asked.Session)
		resp, err := r.handle(callCtx, face, req, hooks)
		for r.waited(callCtx, by, err) {
			resp, err = r.handle(callCtx, face, req, hooks)
		}
		out := outcome(resp, err)
		span.End(out.kind())
		resp.Release()
		r.finish(ctx, d, out)
	})
	return nil
}

// hooks are what the run has to do with a step's own call, which it has begun. An
// approval that was given already is good for this call of this definition, and no
// other.
func (r *Run) hooks(d Do, start Event, allowed bool, defined string) call.Hooks {
	h := call.Hooks{Ask: func(ctx context.Context, a policy.Approval) (policy.Decision, error) {
		if allowed && a.Digest == defined {
			return policy.Decision{Approve: true}, nil
		}
		return r.inquire(ctx, d, a)
	}}
	if r.state.step(d.Step).Approval {
		h.MustAsk = wants(d.Step)
	}
	h.Starting = func(ctx context.Context) error {
		return r.until(ctx, func() error {
			it := &r.state.Steps[d.Step].Items[d.Item]
			if it.Phase != ItemPending {
				return nil // nobody was asked in between
			}
			again := start
			again.Attempt = it.Attempt + 1
			if it.Edited != nil {
				again.Args = it.Edited
			}
			return r.record(ctx, again)
		})
	}
	return h
}

// handle makes a call on a goroutine that nobody else guards: a mistake of ours
// must not take the hub down.
func (r *Run) handle(ctx context.Context, face call.Face, req *mcp.Request, hooks call.Hooks) (resp mcp.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = mcp.Response{}, fault.New(fault.Internal, r.id, "the call stumbled").Because(obs.Stumbled(r.of.o.Logger, p, "a call of a run stumbled", obs.KeyRun, r.id))
		}
	}()
	return face.Call(ctx, req, hooks)
}

// waited reports that a call can be made again which was not made, or bears
// repetition, because those on whose behalf it is could not be looked up. They can
// be now. It is no failure of the step, whose retries are for others.
func (r *Run) waited(ctx context.Context, by actor.Actor, err error) bool {
	if !errors.Is(err, actor.ErrUnsure) || !fault.Of(err).Harmless {
		return false
	}
	err = actor.Sure(ctx, func() error { return by.Check(r.of.o.Principal) })
	return !errors.Is(err, actor.ErrUnsure)
}

// caught, deferred by what makes a call or asks a person, makes an end of it
// where it stumbled. What is not recorded then is as if the hub had ended: the
// call is made again if it may be, else the run says that nobody knows.
func (r *Run) caught(d Do) {
	if p := recover(); p != nil {
		_ = obs.Stumbled(r.of.o.Logger, p, "a step of a run stumbled", obs.KeyRun, r.id, obs.KeyStep, d.Step)
		r.leaveBusy(d)
	}
}

// leaveBusy says that a call or a question is not under way any more.
func (r *Run) leaveBusy(d Do) {
	r.lock()
	delete(r.busy, at{d.Step, d.Item})
	r.announce()
	r.unlock()
	r.poke()
}

// locked does something with the run locked, and gives it free whatever happens.
func (r *Run) locked(do func() error) error {
	r.lock()
	defer r.unlock()
	return do()
}

// refuse records that a call could not be made. It must have begun to have
// failed, unless it is the step's own.
func (r *Run) refuse(ctx context.Context, d Do, f *Failure) error {
	if d.Kind != OwnCall || r.state.Steps[d.Step].Items[d.Item].Phase != ItemPending {
		start := Event{Type: CallStarted, Step: d.Step, Item: d.Item, Kind: d.Kind, Attempt: r.state.Steps[d.Step].Items[d.Item].Attempt + 1}
		if err := r.record(ctx, start); err != nil {
			return err
		}
	}
	return r.record(ctx, Event{Type: CallFailed, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: f})
}

// keyOf is the key of a call that is to be made once more although nobody knows
// what became of it, so that who got it twice can tell; else "".
func (it *ItemState) keyOf(kind CallKind) string {
	unsure := func(f *Failure) bool {
		return f != nil && (f.Kind == fault.Timeout.String() || f.Kind == fault.UpstreamLost.String() || f.Kind == fault.OutcomeUnknown.String())
	}
	switch {
	case kind == UndoCall && (it.Undo == ItemRunning || it.Undo == ItemRetry && unsure(it.UndoError)):
		return it.UndoKey
	case kind == it.Kind && (it.Phase == ItemRunning || it.Phase == ItemRetry && unsure(it.Failure)):
		return it.Key
	}
	return ""
}

// request makes the request of a call.
func request(tool string, args []byte, timeoutMS int, from obs.Parent) *mcp.Request {
	about := map[string]any{}
	if timeoutMS > 0 {
		about["stoa/timeoutMs"] = timeoutMS
	}
	if from.Traceparent != "" {
		about["traceparent"] = from.Traceparent
	}
	if from.Tracestate != "" {
		about["tracestate"] = from.Tracestate
	}
	meta, err := json.Marshal(about)
	if err != nil {
		panic("plan: encode a request: " + err.Error()) // texts and a number
	}
	params := wire.AppendString([]byte(`{"name":`), tool)
	params = append(append(params, `,"arguments":`...), args...)
	params = append(append(params, `,"_meta":`...), meta...)
	params = append(params, "}"...)
	req := &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Stream: mcp.Discard}
	req.Meta = wire.Members(req.Param("_meta"))
	return req
}

func failure(err error) *Failure {
	f := fault.Of(err)
	return &Failure{Kind: f.Kind.String(), Message: clip(f.Text()), Hint: f.Advice()}
}

// maxReason bounds what the journal holds of why something failed: an event
// that is too long could never be written.
const maxReason = 8 << 10

func clip(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}

// finish records what came of a call. It tries until it is recorded, the hub
// ends, or another hub has the run. What a tool said when the hub was about to
// end is recorded still: else nobody would know of it.
func (r *Run) finish(ctx context.Context, d Do, out result) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		keep, cancel := ctx, context.CancelFunc(func() {})
		if ctx.Err() != nil && out.failure == nil {
			keep, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		}
		err := r.locked(func() error { return r.settle(keep, d, out) })
		cancel()
		stale := errors.Is(err, errStale)
		if err != nil && !stale && ctx.Err() == nil {
			r.of.o.Logger.Warn("what came of a call cannot be recorded for now", "run", r.id, "step", d.Step, "err", err)
		}
		if err == nil || !stale && (ctx.Err() != nil || errors.Is(err, errTaken) || errors.Is(err, errGone) || fault.Is(err, fault.InvalidArguments)) {
			r.leaveBusy(d)
			return
		}
		if stale {
			continue
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// settle makes an event of what came of a call. The run is locked.
func (r *Run) settle(ctx context.Context, d Do, out result) error {
	e := Event{Type: CallDone, Step: d.Step, Item: d.Item, Kind: d.Kind}
	if out.failure == nil {
		data, err := r.put(ctx, out.data)
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
	it := &r.state.Steps[d.Step].Items[d.Item]
	if d.Kind == OwnCall && it.Phase == ItemFailed {
		return nil // somebody did not want it, which is recorded
	}
	safe := it.Safe
	if d.Kind == UndoCall {
		safe = it.UndoSafe
	}
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
	s := r.state.step(d.Step)
	if out.refused || out.settled || out.lasting && s.Retries == nil {
		return r.record(ctx, e) // asking again would get another answer only by chance
	}
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
	item, err := r.item(ctx, r.state.step(d.Step), d.Item)
	if err != nil {
		return err
	}
	raw, _, err := session.Resolve(value, r.of.ArgBytes(), r.values(ctx, item))
	if flawed(err) {
		return r.refuse(ctx, d, failure(err))
	}
	if err != nil {
		return err
	}
	data, err := r.put(ctx, raw)
	if err != nil {
		return err
	}
	return r.record(ctx, Event{Type: CallDone, Step: d.Step, Item: d.Item, Kind: d.Kind, Result: data})
}
