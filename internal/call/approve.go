package call

import (
	"bytes"
	"context"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
)

// hostAgent is the name of the hub's own chat where it has said none.
const hostAgent = "chat"

// Rule makes rules what the policy is from now on. Calls that wait for an
// approval go on waiting.
func (d *Door) Rule(rules policy.Rules) { d.rules.Store(&rules) }

// RuleAgents says where the rules of the hub's own agents about a tool are
// found; they come before those of the hub. It is called before the first call.
func (d *Door) RuleAgents(of func(agent string, s *policy.Subject) []policy.Rules) { d.agents = of }

// subject is the tool of a call.
func subject(c *Call) policy.Subject {
	if c.Item != nil {
		return policy.Of(c.Item, c.Upstream.Builtin())
	}
	name, _ := c.Req.Text("name")
	up := c.Upstream.Name()
	return policy.Subject{Tool: catalog.Expose(up, name), Upstream: up, Ref: up + ":" + name, Builtin: c.Upstream.Builtin()}
}

// authorise asks the policy whether the call may be made, and a person if the
// policy says so.
func (d *Door) authorise(ctx context.Context, c *Call, t *tooled) error {
	rules, agent := d.rules.Load(), c.Req.Agent
	if agent == "" && (rules == nil || rules.Empty()) {
		return nil
	}
	var lists []policy.Rules
	s, face := subject(c), policy.Client
	if agent != "" {
		face = policy.Chat
		if d.agents != nil {
			lists = d.agents(agent, &s)
		}
	}
	if rules != nil {
		lists = append(lists, *rules)
	}
	v := policy.Decide(s, face, lists...)
	switch {
	case v.Action == policy.Allow:
		return nil
	case v.Action == policy.Deny:
		return &fault.Error{Kind: fault.Denied, Subject: s.Tool, Msg: "the policy does not allow this call: " + v.Reason,
			Hint: "Do without it: calling again changes nothing. Who runs the hub can change the policy."}
	case c.Req.Approved || t.approved || t.dry:
		return nil
	}
	return d.ask(ctx, c, t, s, v)
}

// ask has a person decide about the call. What the door would refuse anyway is
// not asked for, and what the person is shown of stored values is what the
// upstream will get.
func (d *Door) ask(ctx context.Context, c *Call, t *tooled, s policy.Subject, v policy.Verdict) error {
	trial := *t
	if err := d.complete(ctx, c, &trial); err != nil {
		return err
	}
	if d.desk == nil {
		return refused(s, v, policy.Decision{Reason: policy.ReasonNobody})
	}
	a := policy.Approval{
		Principal: c.Req.Client.Principal.Name, Session: c.Req.Session, Agent: c.Req.Agent, Client: client(c.Req.Client), Call: t.call,
		Tool: s.Tool, Upstream: s.Upstream, Ref: s.Ref, Args: bytes.Clone(t.args), Reason: v.Reason,
	}
	if a.Session == "" {
		a.Session = c.Req.Client.Connection
	}
	if a.Args == nil {
		a.Args = []byte("{}")
	}
	if trial.used != nil {
		a.Sent = bytes.Clone(trial.args)
	}
	if c.Req.Stream != nil {
		c.Req.Stream.Flush()
	}
	began := time.Now()
	dec, err := d.desk.Ask(ctx, a, nil)
	t.waited = time.Since(began)
	switch {
	case err != nil:
		return err
	case !dec.Approve:
		return refused(s, v, dec)
	}
	t.approved, t.pins = true, trial.used
	if dec.Args != nil {
		t.args, t.changed, t.edited = dec.Args, true, dec.Args
		return d.fits(c, t.args)
	}
	return nil
}

// refused is why a call was not made, for its caller.
func refused(s policy.Subject, v policy.Verdict, dec policy.Decision) error {
	f := &fault.Error{Kind: fault.Denied, Subject: s.Tool, Msg: dec.Tell(), Hint: "Do without it, or ask the user what they want instead."}
	if dec.By == "" {
		f.Kind, f.Msg = fault.ApprovalRequired, dec.Tell()+" ("+v.Reason+")"
		f.Hint = "Have somebody attend to approvals (`stoa approvals watch`, or the console), then call again."
	}
	return f.With("outcome", dec.Outcome())
}
