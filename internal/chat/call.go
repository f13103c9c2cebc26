package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

const (
	loopTold = 3 // the same call with the same result so often in a row: the model is told
	loopEnds = 5 // so often: the turn ends
)

// job is a call that is to be made.
type job struct {
	TurnCall
	tool    *Tool // nil: there is none, and refusal says why
	refusal string
	kind    string // of the fault for which it could not be made; "" for none
}

func (j *job) parallel() bool { return j.tool != nil && j.tool.safe() }

// make makes the calls of an answer: those that change nothing at once, up to
// a bound, the others one after the other, in the order of the answer.
func (t *turn) make(ctx context.Context, calls []TurnCall) (end End, more bool) {
	jobs, looped := t.plan(calls)
	for len(jobs) > 0 {
		n := 0
		for n < len(jobs) && jobs[n].parallel() {
			n++
		}
		var err error
		if n > 1 {
			err = t.together(ctx, jobs[:n])
		} else {
			n = 1
			err = t.do(ctx, jobs[0])
		}
		switch {
		case ctx.Err() != nil:
			return t.stopped(ctx), false
		case err != nil:
			return t.fail(err), false
		}
		jobs = jobs[n:]
	}
	if looped {
		return End{Reason: ReasonLoop, Text: t.sorry(fmt.Sprintf("I stopped because I made the same call %d times in a row, and the same came of it each time.", loopEnds))}, false
	}
	return End{}, true
}

// plan says what becomes of each call. Those from one on that is made too often
// are left out.
func (t *turn) plan(calls []TurnCall) (jobs []*job, looped bool) {
	last, ahead := t.rut.key, 0 // the call before, and how many of this answer are the same
	for _, c := range calls {
		key := signature(&c.Call)
		if key != last {
			last, ahead = key, 0
		}
		ahead++
		if t.rut.times(key)+ahead >= loopEnds {
			return jobs, true
		}
		j := &job{TurnCall: c}
		jobs = append(jobs, j)
		t.look(j)
	}
	return jobs, false
}

// rut is a call that is made over and over with nothing new coming of it. The
// same call with other results each time is no rut: somebody waits for something.
type rut struct {
	key     string // the last call, by name and arguments
	outcome string // how it ended
	n       int    // how often in a row
}

// times is how often in a row the same came of a call.
func (r *rut) times(key string) int {
	if key != r.key {
		return 0
	}
	return r.n
}

// note takes in what came of a call.
func (r *rut) note(j *job, res *Result) {
	key, outcome := signature(&j.Call), j.outcome(res)
	if key != r.key || outcome != r.outcome {
		*r = rut{key: key, outcome: outcome}
	}
	r.n++
}

// outcome is what a result is told apart by from another of the same call. The
// name under which it is kept is always a new one, and errors of the hub say how
// long something rests or took.
func (j *job) outcome(r *Result) string {
	content := r.Content
	if r.Saved != "" {
		content = strings.ReplaceAll(content, r.Saved, "")
	}
	if j.kind != "" {
		content = j.kind
	}
	return r.Status + "\x00" + content
}

func signature(c *Call) string {
	var b bytes.Buffer
	if c.Malformed != "" || json.Compact(&b, c.Args) != nil {
		return c.Name + "\x00" + c.Malformed + string(c.Args)
	}
	return c.Name + "\x00" + b.String()
}

// look finds the tool of a call.
func (t *turn) look(j *job) {
	if j.Malformed != "" {
		j.refusal = "The call could not be read. Write one JSON object with the name of a tool and its arguments, closed properly."
		if j.Name != "" {
			j.refusal = fmt.Sprintf("The arguments of %s could not be read: they have to be one JSON object.", j.Name)
		}
		if _, near := t.tools.find(j.Name); near != nil {
			j.refusal += " Tools are: " + strings.Join(near, ", ") + "."
		}
		return
	}
	tool, near := t.tools.find(j.Name)
	if tool == nil {
		j.refusal = fmt.Sprintf("There is no tool %q.", j.Name)
		if why := t.whyMissing(j.Name); why != "" {
			j.refusal = fmt.Sprintf("The tool %q cannot be called now. %s", j.Name, why)
			return
		}
		if len(near) > 0 {
			j.refusal += " Did you mean " + strings.Join(near, " or ") + "?"
		} else if len(t.tools.tools) == 0 {
			j.refusal += " There are no tools at all."
		}
		return
	}
	j.tool = tool
}

// whyMissing says why a tool is not listed, if that is known.
func (t *turn) whyMissing(name string) string {
	if t.e.opts.Missing == nil {
		return ""
	}
	return strings.TrimSpace(t.e.opts.Missing(t.by.Principal(), name))
}

// together makes calls at once.
func (t *turn) together(ctx context.Context, jobs []*job) error {
	slots := make(chan struct{}, t.s.Parallel)
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = t.beside(ctx, j)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// beside is do on a goroutine that nobody else guards.
func (t *turn) beside(ctx context.Context, j *job) (err error) {
	defer t.caught(&err)
	return t.do(ctx, j)
}

// caught makes an error of a panic: a mistake of ours must not take the hub
// down.
func (t *turn) caught(err *error) {
	if p := recover(); p != nil {
		f := fault.New(fault.Internal, "chat", "the call stumbled").Because(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		t.e.opts.Logger.Error("a call of a turn stumbled", obs.KeyPrincipal, t.input.Principal, obs.KeySession, obs.Short(t.session), obs.KeyTurn, t.id, obs.KeyCorrelation, t.input.Correlation, obs.KeyErr, f.Err)
		*err = f
	}
}

// do makes one call and records what came of it. Without a result, because ctx
// has ended, the call stays open.
func (t *turn) do(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if j.tool == nil {
		return t.result(ctx, j, &Result{Content: j.refusal, IsError: true, Status: Refused})
	}
	if err := t.present(ctx); err != nil {
		return err
	}
	turn := ctx
	ctx, over := t.calls.open(ctx, j.ID)
	defer over()
	m := &making{t: t, job: j, call: Call{ID: j.ID, Name: j.tool.Tool.Name, Args: j.Args, Upstream: j.tool.Upstream, Ref: j.tool.Ref}}
	r, err := m.make(ctx)
	if err != nil && turn.Err() == nil && errors.Is(context.Cause(ctx), errCallAborted) {
		r, err = m.stopped(turn)
	}
	if err != nil {
		return err
	}
	if m.started {
		r.TookMS = time.Since(m.began).Milliseconds()
	}
	if m.call.Edited && r.Status != Denied {
		r.Content = fmt.Sprintf("(The user changed the arguments to %s before the call.)\n%s", m.call.Args, r.Content)
	}
	return t.result(ctx, j, r)
}

// result records the result of a call.
func (t *turn) result(ctx context.Context, j *job, r *Result) error {
	r.Call, r.Name = j.ID, j.Name
	if j.tool != nil {
		r.Name = j.tool.Tool.Name
	}
	if r.IsError {
		r.Text = t.s.Texts.ToolFailed(r.Name, shorten(r.Content, 500))
	}
	t.b.mu.Lock() // since calls may run beside each other
	t.failed = r.Text
	t.rut.note(j, r)
	stuck := t.rut.n == loopTold
	t.b.mu.Unlock()
	if stuck {
		r.Content += fmt.Sprintf("\n\nYou have now made this same call %d times in a row, and the same came of it each time. Do something else, or tell the user what you have.", loopTold)
	}
	t.logResult(r)
	return t.note(ctx, &Event{Type: CallDone, Result: r})
}

// aborted is the decision on a question whose turn has ended.
func aborted(turn string, c *TurnCall) *Event {
	a := *c.Approval
	a.Args = nil
	return &Event{Type: ApprovalDecided, Turn: turn, Approval: &a, Decision: &policy.Decision{Reason: policy.ReasonAborted, Time: time.Now().UTC()}}
}

// metaChain is call.MetaChain: the call that the turn comes of is told to the
// door, so that calls which come of each other are known as such.
const metaChain = "stoa/chain"

// grace is how long a call that was cancelled is waited for.
const grace = 50 * time.Millisecond

// handle passes a request to the face.
func (t *turn) handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	return t.patient(ctx, func() (mcp.Response, error) { return t.face.Handle(ctx, req) })
}

// patient waits for an answer of the face, but not for one that does not heed
// the end of ctx.
func (t *turn) patient(ctx context.Context, reach func() (mcp.Response, error)) (mcp.Response, error) {
	type outcome struct {
		resp mcp.Response
		err  error
	}
	done := make(chan outcome, 1)
	t.e.wg.Go(func() {
		resp, err := t.guard(reach)
		done <- outcome{resp, err}
	})
	select {
	case o := <-done:
		return o.resp, o.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-timer.C:
		return mcp.Response{}, context.Cause(ctx)
	}
}

func (t *turn) guard(reach func() (mcp.Response, error)) (resp mcp.Response, err error) {
	defer t.caught(&err)
	return reach()
}

// progress is where a running call says how far it is.
type progress struct {
	t          *turn
	call, tool string
}

func (p *progress) Notify(method string, params []byte) {
	if method != mcp.NoteProgress {
		return
	}
	said := Progress{Call: p.call, Name: p.tool}
	for _, f := range wire.Members(params) {
		switch string(f.Name) {
		case "progress":
			_ = json.Unmarshal(f.Value, &said.Progress) // what is no number counts as none
		case "total":
			_ = json.Unmarshal(f.Value, &said.Total)
		case "message":
			said.Message, _ = wire.String(f.Value)
			said.Message = shorten(said.Message, 4<<10)
		}
	}
	p.t.b.say(p.t.id, said)
}

func (p *progress) Flush()       {}
func (p *progress) CanAsk() bool { return false }
func (p *progress) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	return mcp.Discard.Ask(ctx, method, params)
}

var _ mcp.Stream = (*progress)(nil)
