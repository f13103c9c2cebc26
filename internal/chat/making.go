package chat

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

// making is a call that is being made. Whether it may be is decided where it
// passes, not here; what is here is that people see it wait, and that the log
// says when it began.
type making struct {
	t   *turn
	job *job

	call    Call
	started bool // its server has it, or is about to
	began   time.Time
	refusal string // what a person said who did not want it; empty if none was asked
	failed  error  // why the log could not be written
}

// make has the tool called. The error says that the turn ends.
func (m *making) make(ctx context.Context) (*Result, error) {
	hooks := call.Hooks{Ask: m.ask, Starting: m.starting}
	reach := func(req *mcp.Request) (mcp.Response, error) {
		return m.t.patient(ctx, func() (mcp.Response, error) { return m.t.face.Call(ctx, req, hooks) })
	}
	resp, err := reach(m.request(nil, nil))
	if err == nil && m.failed == nil {
		resp, err = m.rounds(ctx, resp, reach)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case m.failed != nil:
		resp.Release()
		return nil, m.failed
	case err != nil:
		f := fault.Of(err)
		m.job.kind = f.Kind.String()
		text := f.Text()
		if f.Advice() != "" {
			text += ". " + f.Advice()
		}
		return &Result{Content: text, IsError: true, Status: Failed}, nil
	}
	defer resp.Release()
	if why := m.denied(&resp); why != "" {
		return &Result{Content: fmt.Sprintf("%s was not called: %s.", m.call.Name, why), IsError: true, Status: Denied}, nil
	}
	r := render(&resp)
	r.Content = shorten(r.Content, m.t.resultBytes())
	return r, nil
}

// denied is why the call was not allowed; empty if it was made.
func (m *making) denied(resp *mcp.Response) string {
	switch envelope.FaultKind(resp.Result) {
	case fault.Denied.String(), fault.ApprovalRequired.String(), fault.DefinitionHeld.String():
	default:
		return ""
	}
	if m.started {
		return "" // the tool says so of something that it called itself
	}
	if m.refusal != "" {
		return m.refusal
	}
	text, _ := wire.String(wire.Get(wire.Get(wire.Get(resp.Result, "_meta"), envelope.MetaError), "message"))
	return strings.TrimPrefix(text, m.call.Name+": ")
}

// request is the call as the protocol has it; with answers to what its server
// asked in the round before, and the state that it gave for this one.
func (m *making) request(answers, state []byte) *mcp.Request {
	t, c := m.t, &m.call
	params := append(wire.AppendString([]byte(`{"name":`), c.Name), `,"arguments":`...)
	params = append(params, m.job.Args...) // those that were edited are in the state
	if answers != nil {
		params = append(append(params, `,"inputResponses":`...), answers...)
	}
	if state != nil {
		params = append(append(params, `,"requestState":`...), state...)
	}
	params = append(params, `,"_meta":{"progressToken":`...)
	params = wire.AppendString(params, c.ID)
	if t.chain != "" {
		params = wire.AppendString(append(params, `,"`+metaChain+`":`...), t.chain)
	}
	if t.trace.Traceparent != "" {
		params = wire.AppendString(append(params, `,"traceparent":`...), t.trace.Traceparent)
	}
	if t.trace.Tracestate != "" {
		params = wire.AppendString(append(params, `,"tracestate":`...), t.trace.Tracestate)
	}
	params = append(params, "}}"...)
	req := t.message("tools/call", params, &progress{t: t, call: c.ID, tool: c.Name})
	req.Token = wire.Quote(c.ID)
	return req
}

// starting notes that the call begins, once.
func (m *making) starting(ctx context.Context) error {
	if m.started {
		return nil
	}
	m.started, m.began = true, time.Now()
	m.t.logCall(&m.call)
	m.failed = m.t.note(ctx, &Event{Type: CallStarted, Call: &m.call})
	return m.failed
}

// ask has a person decide, and lets the conversation see that.
func (m *making) ask(ctx context.Context, a policy.Approval) (policy.Decision, error) {
	t := m.t
	a.Turn, a.Call = t.id, m.call.ID
	if t.e.opts.Desk == nil {
		return m.said(policy.Decision{Reason: policy.ReasonNobody}), nil
	}
	var failed error
	dec, err := t.e.opts.Desk.Ask(ctx, a, func(asked policy.Approval) {
		a = asked
		t.logAsk(&a)
		failed = t.note(ctx, &Event{Type: ApprovalAsked, Approval: &asked})
	})
	switch {
	case ctx.Err() != nil:
		return dec, context.Cause(ctx)
	case failed != nil:
		m.failed = failed
		return policy.Decision{Reason: policy.ReasonFailed}, failed
	case err != nil:
		dec = policy.Decision{Reason: policy.ReasonFailed}
	}
	about := &policy.Approval{ID: a.ID, Session: a.Session, Principal: a.Principal, Turn: t.id, Call: a.Call, Tool: a.Tool, Upstream: a.Upstream, Ref: a.Ref, Kind: a.Kind, Created: a.Created, Expires: a.Expires}
	t.logDecision(about, &dec)
	if m.failed = t.note(ctx, &Event{Type: ApprovalDecided, Approval: about, Decision: &dec}); m.failed != nil {
		return policy.Decision{Reason: policy.ReasonFailed}, m.failed
	}
	return m.said(dec), nil
}

// said takes in what a person decided.
func (m *making) said(dec policy.Decision) policy.Decision {
	switch {
	case !dec.Approve:
		m.refusal = dec.Tell()
	case dec.Args != nil && !bytes.Equal(dec.Args, m.call.Args):
		m.call.Args, m.call.Edited = dec.Args, true
	}
	return dec
}
