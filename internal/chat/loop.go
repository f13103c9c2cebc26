package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
)

// retry is work after something was said, also if it stumbled before.
func (c *Conversation) retry() {
	c.mu.Lock()
	c.stuck = false
	c.mu.Unlock()
	c.work()
}

// work makes this hub answer the inputs that wait, unless another one does.
func (c *Conversation) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looped {
		c.again = true
		return
	}
	if c.stuck || c.over != nil || !c.e.begin() {
		return
	}
	c.looped, c.trying, c.again = true, true, false
	ctx := c.arm()
	go func() {
		defer c.e.done()
		c.guarded(ctx)
	}()
}

// arm makes the context of the next turn, so that it can be aborted before it
// has begun. Called with mu held.
func (c *Conversation) arm() context.Context {
	ctx, cancel := context.WithCancelCause(c.e.ctx)
	if c.early {
		cancel(errAborted)
	}
	c.turn, c.early, c.cancel = "", false, cancel
	return ctx
}

// disarm says that this hub answers no more. Called with mu held.
func (c *Conversation) disarm() {
	if c.cancel != nil {
		c.cancel(nil)
	}
	c.looped, c.trying, c.early, c.cancel, c.turn = false, false, false, nil, ""
}

// guarded is the loop, whose mistakes must not take the hub down. What waits
// then is answered when somebody speaks again, or after the next start.
func (c *Conversation) guarded(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			c.e.opts.Logger.Error("a conversation stumbled", obs.KeySession, c.short(), obs.KeyErr, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			c.mu.Lock()
			defer c.mu.Unlock()
			c.stuck = true
			c.disarm()
		}
	}()
	if err := c.loop(ctx); err != nil {
		c.heard.Store(time.Now().UnixNano())
		if c.e.ctx.Err() == nil {
			c.e.opts.Logger.Error("a conversation cannot be answered", obs.KeySession, c.short(), obs.KeyErr, err)
		}
		c.mu.Lock()
		c.disarm()
		c.mu.Unlock()
	}
}

// loop answers inputs until none waits, if no other hub does.
func (c *Conversation) loop(ctx context.Context) error {
	b, err := c.take(ctx)
	if err != nil {
		return err
	}
	defer c.free()
	for {
		if ctx, err = c.shift(ctx, b); err != nil {
			return err
		}
		if ctx == nil {
			if ctx = c.yield(); ctx == nil {
				return nil
			}
			continue
		}
		// An input that came from another hub while this one had the lease is
		// this one's to answer: that hub could not have the lease.
		if err := b.latest(c.e.ctx); err != nil && c.e.ctx.Err() == nil {
			return err
		}
		if !c.more(b) {
			return nil
		}
	}
}

// yield leaves the inputs to the hub that has the lease. It returns the context
// for another try if something was said here meanwhile: that hub may not have
// seen it before it gave the lease back.
func (c *Conversation) yield() context.Context {
	c.heard.Store(time.Now().UnixNano())
	c.mu.Lock()
	defer c.mu.Unlock()
	again := c.again
	c.disarm()
	if !again || c.over != nil {
		return nil
	}
	c.looped, c.trying, c.again = true, true, false
	return c.arm()
}

// shift answers inputs for as long as this hub has the lease. It returns the
// context for the next turn, or nil if another hub has it.
func (c *Conversation) shift(ctx context.Context, b *book) (context.Context, error) {
	l, holder, err := c.e.leases.Try(c.e.ctx, c.id)
	if err != nil {
		return nil, err
	}
	if l == nil {
		c.e.opts.Logger.Debug("another hub answers the conversation", obs.KeySession, c.short(), "holder", holder)
		return nil, nil
	}
	defer l.Release()
	if err := b.latest(c.e.ctx); err != nil {
		return nil, err
	}
	if err := b.mend(c.e.ctx); err != nil {
		return nil, fmt.Errorf("close what a hub left open in the conversation: %w", err)
	}
	c.mu.Lock()
	c.trying = false
	c.mu.Unlock()
	defer c.guard(l)()
	for {
		in := c.pick(b)
		if in == nil {
			return ctx, nil
		}
		err := c.answer(ctx, b, in)
		c.mu.Lock()
		c.cancel(nil)
		ctx = c.arm()
		c.mu.Unlock()
		if errors.Is(err, errTaken) || isLost(l) {
			return nil, nil
		}
	}
}

func isLost(l *lease.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// guard ends the turn when the lease is lost, until it is told that nothing runs.
func (c *Conversation) guard(l *lease.Lease) (over func()) {
	if c.e.alone {
		return func() {} // it cannot be
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-l.Lost():
			c.mu.Lock()
			if c.cancel != nil {
				c.cancel(errTaken)
			}
			c.mu.Unlock()
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// heed does what an event says that another hub wrote. Called with the entity
// locked.
func (c *Conversation) heed(ev *Event) {
	if ev.Type == AbortAsked && ev.Call != nil {
		c.calls.abort(ev.Call.ID)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cancel == nil || c.turn != ev.Turn || ev.Turn == "":
	case ev.Type == TurnEnded:
		c.cancel(errTaken)
	case ev.Type == AbortAsked:
		c.cancel(errAborted)
	}
}

// pick returns the next input, or nil if there is none for now.
func (c *Conversation) pick(b *book) *Input {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next(b)
}

// next is pick with mu held.
func (c *Conversation) next(b *book) *Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.state.Queue) > 0 && c.over == nil && b.over == nil && !c.e.Draining() {
		in := b.state.Queue[0]
		return &in
	}
	return nil
}

// more reports whether an input waits. If none does, this hub answers no more.
func (c *Conversation) more(b *book) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next(b) != nil {
		c.trying = true
		return true
	}
	c.disarm()
	return false
}

// answer runs one turn. It is errTaken if another hub answers.
func (c *Conversation) answer(ctx context.Context, b *book, in *Input) error {
	// A message is answered or refused for good. While nobody can say which, it
	// waits, and with it the ones behind it.
	by, gone := c.e.restore(ctx, in)
	if errors.Is(gone, actor.ErrUnsure) && !errors.Is(context.Cause(ctx), errAborted) {
		return errTaken // by the next hub: this one stops, or has lost touch
	}
	who, name := c.owner()
	if who == nil {
		who, _ = c.e.principal(in.Principal, "")
		name = in.Session
	}
	if c.e.opts.Sessions != nil && who != nil {
		if s, err := c.e.bind(who, name); err == nil && s != nil {
			defer s.Hold()()
		}
	}
	t := &turn{e: c.e, b: b, s: c.e.settings.Load(), session: name, input: *in, replies: &c.replies, calls: &c.calls}
	t.by, t.gone = by, gone
	if gone == nil {
		_, t.unseen = c.e.agentFor(by, name, in.Agent)
	}
	t.started = func(id string) {
		c.mu.Lock()
		c.turn = id
		c.mu.Unlock()
	}
	defer c.touch()
	t.run(ctx)
	return t.taken
}

// restore returns on whose behalf an input is. It waits until that is known, or
// ctx ends.
func (e *Engine) restore(ctx context.Context, in *Input) (by actor.Actor, err error) {
	err = actor.Sure(ctx, func() (err error) {
		by, err = actor.Restore(in.Actor, in.Principal, e.principal)
		return err
	})
	return by, err
}

func (e *Engine) principal(name string, via auth.Via) (*auth.Principal, error) {
	if e.opts.Principal != nil {
		return e.opts.Principal(name, via)
	}
	if name == auth.Local.Name {
		return auth.Local, nil
	}
	return nil, nil
}

// turn is a turn under way.
type turn struct {
	e       *Engine
	b       *book
	s       *Settings
	by      actor.Actor // on whose behalf, before the model
	gone    error       // why nobody is: somebody it rests on may not come in any more
	unseen  error       // why there is no agent: the rules or switches may be others than when it was written to
	session string
	input   Input
	chain   string       // of the call that the turn comes of; empty for none
	trace   obs.Parent   // what its calls are part of
	started func(string) // told the name of the turn; may be nil
	log     *slog.Logger // of the turn; nil for one that is never run
	replies *replies     // where servers ask people; nil: nobody can be asked
	calls   *calls       // where single calls can be aborted; nil: nowhere
	taken   error        // errTaken if another hub answers the conversation

	id     string
	agent  Agent
	model  Model
	face   call.Face
	client *mcp.Client
	tools  *toolset
	begun  time.Time

	rut      rut
	failed   string    // what was last told of a tool that failed
	compacts int       // compactions without progress, one after the other
	tight    bool      // the conversation leaves the tools less room than they have otherwise
	wasted   llm.Usage // on answers that broke off
	measured int       // how many tokens the request takes, about
	hitch    hitch     // with the answer that is waited for
}

// run runs the turn from its start to its end.
func (t *turn) run(ctx context.Context) End {
	t.begun = time.Now()
	ctx, leave := t.by.Watch(ctx, t.e.principal)
	defer leave()
	t.openLog()
	if err := t.start(ctx); errors.Is(err, errDropped) {
		return End{Reason: ReasonAborted}
	} else if errors.Is(err, errTaken) {
		t.taken = err
		return End{Reason: ReasonInterrupted}
	} else if err != nil {
		t.log.Error("a turn could not be begun", obs.KeyErr, err)
		end := t.fail(err)
		t.wait(ctx, time.Second) // the store may be back by then
		return end
	}
	ctx, span := t.e.opts.Tracer.Start(ctx, "turn", t.input.Trace, "stoa.turn", t.id, "stoa.session", t.session, "stoa.correlation", t.input.Correlation, "stoa.agent", t.agent.Name, "gen_ai.request.model", t.model.Name)
	if t.trace = t.input.Trace; span != nil {
		t.trace = span.Parent()
	}
	t.openLog(obs.KeyTurn, t.id)
	t.logStart()
	t.e.tell(t, event.TurnStarted, nil)
	end := t.guarded(ctx)
	why := ""
	if end.Reason == ReasonFailed {
		why = end.Reason
	}
	span.End(why, "stoa.reason", end.Reason)
	t.close(ctx, &end)
	t.logEnd(&end)
	return end
}

// wait waits, unless ctx ends.
func (t *turn) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// start finds what the turn needs and records that it begins. What it does not
// find makes it fail after it has begun, so that the user is told.
func (t *turn) start(ctx context.Context) error {
	t.agent, _ = t.e.Agent(t.input.Agent)
	name := t.agent.Model
	if name == "" {
		name = t.s.Model
	}
	m, err := t.e.opts.Models(name)
	if err == nil {
		t.model, name = m, m.Name
	}
	ev := &Event{Type: TurnStarted, Start: &Start{Input: t.input.ID, Model: name, Agent: t.input.Agent}}
	if err := t.b.begin(ctx, ev); err != nil {
		return err
	}
	t.id = ev.Turn
	if t.started != nil {
		t.started(t.id)
	}
	return nil
}

// guarded runs the steps; a mistake of ours must not take the hub down.
func (t *turn) guarded(ctx context.Context) (end End) {
	defer func() {
		if p := recover(); p != nil {
			err := fault.New(fault.Internal, "chat", "the turn stumbled").Because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			t.log.Error("a turn stumbled", obs.KeyErr, err.Err)
			end = t.fail(err)
		}
	}()
	switch {
	case errors.Is(t.gone, actor.ErrUnsure): // it was waited for until then
		return t.stopped(ctx)
	case t.gone != nil:
		return t.fail(t.nobody(t.gone))
	case t.model.Model == nil:
		_, err := t.e.opts.Models(t.agent.Model)
		if err == nil {
			err = fault.New(fault.Internal, "chat", "there is no model")
		}
		return t.fail(err)
	}
	if t.unseen != nil {
		return t.fail(t.unseen)
	}
	if t.input.Agent != "" && t.agent.Name == "" {
		_, err := t.e.Agent(t.input.Agent)
		return t.fail(err)
	}
	t.face = t.e.opts.Face(t.session)
	t.client = client(t.by, t.agent)
	most := t.s.MaxSteps
	if t.agent.MaxSteps > 0 {
		most = t.agent.MaxSteps
	}
	for step := 0; ; step++ {
		if step >= most {
			return End{Reason: ReasonSteps, Text: t.sorry(fmt.Sprintf("I stopped after %d steps without coming to an end. Tell me to go on if I should.", most))}
		}
		end, more := t.step(ctx)
		if !more {
			return end
		}
	}
}

// step asks the model once and makes the calls that it wants.
func (t *turn) step(ctx context.Context) (end End, more bool) {
	switch err := t.present(ctx); {
	case errors.Is(err, actor.ErrUnsure):
		return t.stopped(ctx), false
	case err != nil:
		return t.fail(err), false
	}
	calls, end, ok := t.ask(ctx)
	if !ok || len(calls) == 0 {
		return end, false
	}
	return t.make(ctx, calls)
}

// present reports that somebody the turn is for may not come in any more. It is
// asked before each step and each call; between them the turn's context ends.
// Where it cannot be found out, that is waited for until ctx ends.
func (t *turn) present(ctx context.Context) error {
	err := actor.Sure(ctx, func() error { return t.by.Check(t.e.principal) })
	if err != nil {
		return t.nobody(err)
	}
	return nil
}

func (t *turn) nobody(err error) *fault.Error {
	if errors.Is(err, actor.ErrUnsure) {
		return fault.New(fault.Storage, t.input.Principal, "the message cannot be answered: whether the token is still valid cannot be found out").Because(err)
	}
	return fault.New(fault.Denied, t.input.Principal, "the message cannot be answered: %v", err)
}

// sorry is what the user is told when a turn ends before its time: what went
// wrong last, if a tool did.
func (t *turn) sorry(text string) string {
	if t.failed != "" {
		return t.failed + "\n\n" + text
	}
	return text
}

// fail is the end of a turn that cannot go on.
func (t *turn) fail(err error) End {
	f := fault.Of(err)
	return End{Reason: ReasonFailed, Text: f.Text(), Error: err.Error(), Kind: f.Kind.String()}
}

// stopped is the end of a turn whose context has ended.
func (t *turn) stopped(ctx context.Context) End {
	if errors.Is(context.Cause(ctx), ErrClosed) {
		return End{Reason: ReasonInterrupted, Text: "The hub was stopped before I came to an end.", Kind: fault.Cancelled.String()}
	}
	switch why := context.Cause(ctx); {
	case errors.Is(why, actor.ErrGone), errors.Is(why, actor.ErrUnsure):
		return t.fail(t.nobody(why))
	case errors.Is(why, errTaken):
		return End{Reason: ReasonInterrupted, Text: "The hub lost touch with the others before I came to an end.", Kind: fault.Cancelled.String()}
	}
	return End{Reason: ReasonAborted, Text: "Stopped."}
}

// close gives every open call a result and records the end. It is tried until
// the store takes it: it is what makes the record true.
func (t *turn) close(ctx context.Context, end *End) {
	end.Model, end.TookMS = t.model.Name, time.Since(t.begun).Milliseconds()
	if now := t.b.now(); now.Turn != nil {
		end.Steps, end.Usage, end.Cost = now.Turn.Steps, now.Turn.Usage.Plus(t.wasted), now.Turn.Cost+t.model.Price.Cost(t.wasted)
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := t.b.conclude(ctx, t.id, *end, func(c *TurnCall) *Result { return t.b.leftover(c, end.Reason) })
		if err == nil || errors.Is(err, errTaken) || errors.Is(err, ErrEnded) || errors.Is(err, ErrClosed) {
			break
		}
		t.log.Warn("the end of a turn could not be kept", obs.KeyErr, err)
		t.wait(t.e.ctx, wait)
		if t.e.ctx.Err() != nil {
			break // the next hub closes it
		}
	}
	t.e.tell(t, event.TurnEnded, end)
}

// conclude closes the calls of a turn and ends it.
func (b *book) conclude(ctx context.Context, id string, end End, result func(*TurnCall) *Result) error {
	b.write.Lock()
	defer b.write.Unlock()
	if err := b.flush(ctx); err != nil {
		return err
	}
	now := b.now()
	for _, c := range now.open() {
		if c.Status == CallIsAsked {
			// Whoever sees the question has to see that it is over.
			if err := b.append(ctx, aborted(id, &c), nil); err != nil {
				return err
			}
		}
		if err := b.append(ctx, &Event{Type: CallDone, Turn: id, Result: result(&c)}, nil); err != nil {
			return err
		}
	}
	return b.append(ctx, &Event{Type: TurnEnded, Turn: id, End: &end}, nil)
}

// tell puts a turn among the events of the hub.
func (e *Engine) tell(t *turn, kind string, end *End) {
	if e.opts.Events == nil {
		return
	}
	r := event.Record{Type: kind, Session: t.session, Agent: t.agent.Name, Run: t.id, Trace: t.trace.Trace()}
	r.Principal = t.by.Name()
	if end == nil {
		r.Data = map[string]any{"model": t.model.Name}
	} else {
		r.Kind, r.TookUS = end.Reason, time.Since(t.begun).Microseconds()
		s := t.b.now()
		r.Data = map[string]any{"model": end.Model, "reason": end.Reason, "seq": s.Seq, "cost": end.Cost, "usage": end.Usage}
		if end.Reason == ReasonFailed {
			r.Level = "warning"
		}
	}
	e.opts.Events.Emit(r)
}
