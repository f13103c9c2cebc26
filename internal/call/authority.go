package call

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
)

// The door is the only place that decides. It asks the policy once for each
// party that an actor rests on, the principals and the models, and the
// strictest answer counts: whoever acts through a delegate has at most the
// rights that it has itself.

// Agent is what the config says of the calls of one of the hub's own models.
type Agent struct {
	Rules []*policy.Set // they come before those of the hub
	Tools [][]string    // globs, all of which a tool has to match one of; empty ones let everything pass
}

// Rule makes rules what the policy is from now on. Calls that wait for an
// approval go on waiting.
func (d *Door) Rule(rules *policy.Set) { d.rules.Store(rules) }

// RuleAgents says where what the config says of the hub's own models is found,
// "" being the chat host. It is called before the first call.
func (d *Door) RuleAgents(of func(agent string) Agent) { d.agents = of }

func (d *Door) agent(name string) Agent {
	if d.agents == nil {
		return Agent{}
	}
	return d.agents(name)
}

// unbounded reports whether nothing that anybody has said bounds an actor.
func (d *Door) unbounded(a actor.Actor) bool { return a.Direct() && d.rules.Load().Empty() }

// decide is the decision: what becomes of something that an actor wants to do.
func (d *Door) decide(a actor.Actor, s *policy.Subject, args []byte) policy.Verdict {
	hub := d.rules.Load()
	q := policy.Query{Subject: *s, Args: args, Principal: a.Name()}
	if a.Direct() {
		return policy.Decide(&q, hub)
	}
	v := policy.Verdict{Action: policy.Allow}
	for p := range a.Principals {
		if p == nil {
			return policy.Verdict{Action: policy.Deny, Reason: "nobody stands behind the call", Rule: "actor"}
		}
		q.Principal = p.Name
		v = stricter(v, policy.Decide(&q, hub))
	}
	q.Principal, q.Model = a.Name(), true
	for name := range a.Models {
		v = stricter(v, policy.Decide(&q, withHub(d.agent(name).Rules, hub)...))
	}
	return v
}

// stricter is the stricter of two verdicts; of two alike, the one that says more
// than that nothing was said.
func stricter(a, b policy.Verdict) policy.Verdict {
	if a.Rule == "" || a.Rule == "client" {
		return policy.Strictest(b, a)
	}
	return policy.Strictest(a, b)
}

// hidden reports whether an actor would be denied something whatever its
// arguments are, or is not offered it.
func (d *Door) hidden(a actor.Actor, s *policy.Subject) bool {
	hub := d.rules.Load()
	if a.Direct() && hub.Empty() {
		return false
	}
	var parties []policy.Party
	for p := range a.Principals {
		if p == nil {
			return true
		}
		parties = append(parties, policy.Party{Query: &policy.Query{Subject: *s, Principal: p.Name}, Sets: []*policy.Set{hub}})
	}
	for name := range a.Models {
		about := d.agent(name)
		if !offers(about.Tools, s) {
			return true
		}
		parties = append(parties, policy.Party{Query: &policy.Query{Subject: *s, Principal: a.Name(), Model: true}, Sets: withHub(about.Rules, hub)})
	}
	return policy.HiddenFrom(parties...)
}

// withHub are the rules of a model, and then those of the hub.
func withHub(own []*policy.Set, hub *policy.Set) []*policy.Set {
	return append(slices.Clip(slices.Clone(own)), hub)
}

// offers reports whether a model is given a tool. Prompts and resources go with
// the tools of their server.
func offers(lists [][]string, s *policy.Subject) bool {
	for _, globs := range lists {
		if len(globs) == 0 {
			continue
		}
		found := false
		for _, g := range globs {
			if found = policy.Matches(g, s) || s.Kind != policy.KindTool && s.Kind != "" && concerns(g, s.Upstream); found {
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// concerns reports whether a pattern of tools is about tools of a server.
func concerns(glob, server string) bool {
	for _, sep := range []string{"__", ":"} {
		if head, _, ok := strings.Cut(glob, sep); ok {
			glob = head
			break
		}
	}
	return policy.Matches(glob, &policy.Subject{Upstream: server})
}

// subjectOf is what a rule is about in an item of the catalogue. What a
// definition says of itself counts only if it is accepted.
func subjectOf(it *catalog.Item, builtin bool) policy.Subject {
	s := policy.Of(it, builtin)
	if !it.Trusted {
		s.ReadOnly, s.Destructive, s.Idempotent, s.OpenWorld = nil, nil, nil, nil
	}
	if it.Handling.Carrier {
		s.ReadOnly, s.Destructive = nil, new(false)
	}
	switch it.Kind {
	case catalog.Prompt:
		s.Kind = policy.KindPrompt
	case catalog.Resource, catalog.Template:
		s.Kind = policy.KindResource
		s.Tool = it.Name // as its server names it, whatever prefix tells it from others
	}
	return s
}

// subject is what a call is about; ok is false where no rule can be.
func subject(c *Call) (s policy.Subject, ok bool) {
	up := c.Upstream.Name()
	switch c.Req.Method {
	case "tools/call":
		if c.Item != nil {
			return subjectOf(c.Item, c.Upstream.Builtin()), true
		}
		name, _ := c.Req.Text("name")
		return policy.Subject{Kind: policy.KindTool, Tool: catalog.Expose(up, name), Upstream: up, Ref: up + ":" + name, Builtin: c.Upstream.Builtin(), Unlisted: c.Unlisted}, true
	case "prompts/get":
		if c.Item != nil {
			return subjectOf(c.Item, c.Upstream.Builtin()), true
		}
		name, _ := c.Req.Text("name")
		return policy.Subject{Kind: policy.KindPrompt, Tool: catalog.Expose(up, name), Upstream: up, Ref: up + ":" + name, Unlisted: c.Unlisted}, true
	case "resources/read", "resources/subscribe":
		uri, _ := c.Req.Text("uri")
		if c.Rename == "uri" {
			uri = c.Name
		}
		return resourceOf(up, uri), true
	}
	return s, false
}

func resourceOf(server, uri string) policy.Subject {
	return policy.Subject{Kind: policy.KindResource, Tool: uri, Upstream: server, Ref: server + ":" + uri}
}

// authorise decides about a call that is to be made, and has a person decide if
// the policy says so. What is decided about are the arguments that the server
// will get. It reports whether t has been completed on the way.
func (d *Door) authorise(ctx context.Context, c *Call, t *toolCall) (complete bool, err error) {
	a := c.Req.Client.Actor
	if d.unbounded(a) && c.MustAsk == "" {
		return false, nil
	}
	s, ok := subject(c)
	if !ok {
		return false, nil
	}
	trial := *t
	failed := d.complete(ctx, c, &trial)
	args := trial.args
	if failed != nil {
		args = t.args // what is denied anyway is not told what is wrong with its arguments
	}
	v := d.decide(a, &s, args)
	if c.MustAsk != "" && v.Action == policy.Allow {
		v = policy.Verdict{Action: policy.Ask, Reason: c.MustAsk, Rule: "caller"}
	}
	switch {
	case v.Action == policy.Deny:
		return false, denied(&s, v)
	case failed != nil:
		return false, failed
	case v.Action == policy.Allow || t.approved || t.dry:
		*t = trial
		return true, nil
	}
	return false, d.ask(ctx, c, t, &trial, &s, v)
}

// denied is what a caller is told whose call a rule forbids. The rule is about
// its arguments: what is forbidden altogether is not there for it.
func denied(s *policy.Subject, v policy.Verdict) error {
	return &fault.Error{Kind: fault.Denied, Subject: s.Tool, Msg: "the policy does not allow this call: " + v.Reason,
		Hint: "Do without it: calling again changes nothing. Whoever runs the hub can change the policy."}
}

// ask has a person decide about the call. What the door would refuse anyway is
// not asked for, and what the person is shown of stored values is what the
// upstream will get.
func (d *Door) ask(ctx context.Context, c *Call, t, trial *toolCall, s *policy.Subject, v policy.Verdict) error {
	ask := c.Ask
	if ask == nil {
		ask = d.askTelling(c.Req)
	}
	a := d.approval(c.Req.Client, s, v)
	a.Session, a.Call, a.Args, a.Definition = c.Req.Session, t.call, bytes.Clone(t.args), Defined(c.standing())
	if a.Session == "" {
		a.Session = c.Req.Client.Connection
	}
	if a.Args == nil {
		a.Args = []byte("{}")
	}
	if trial.used != nil {
		a.Sent = bytes.Clone(trial.args)
	}
	if err := d.present(ctx, c.Req.Client.Actor, s.Tool); err != nil {
		return err
	}
	if c.Req.Stream != nil {
		c.Req.Stream.Flush()
	}
	began := time.Now()
	dec, err := ask(ctx, a)
	t.waited = time.Since(began)
	switch {
	case err != nil:
		return err
	case !dec.Approve:
		return refused(s, v, dec)
	}
	if err := d.present(ctx, c.Req.Client.Actor, s.Tool); err != nil {
		return err // a yes may come in the second before the question is withdrawn
	}
	if err := d.same(c); err != nil {
		return err
	}
	// The rules may be others by now, and the server may be switched off.
	if !d.stillSees(ctx, c) {
		return unseen(c)
	}
	if v := d.decide(c.Req.Client.Actor, s, trial.args); v.Action == policy.Deny {
		return denied(s, v)
	}
	t.approved, t.pins = true, trial.used
	if dec.Args == nil {
		return nil
	}
	t.args, t.changed, t.edited = dec.Args, true, dec.Args
	if err := d.fits(c, t.args); err != nil {
		return err
	}
	return d.edited(ctx, c, *t, s)
}

// edited decides about arguments that a person has changed: what is denied
// stays so.
func (d *Door) edited(ctx context.Context, c *Call, t toolCall, s *policy.Subject) error {
	if err := d.complete(ctx, c, &t); err != nil {
		return err
	}
	if v := d.decide(c.Req.Client.Actor, s, t.args); v.Action == policy.Deny {
		return denied(s, v)
	}
	return nil
}

// approval is the question about something that a client wants to do.
func (d *Door) approval(c *mcp.Client, s *policy.Subject, v policy.Verdict) policy.Approval {
	a := Question(c.Actor)
	a.Kind, a.Client, a.Tool, a.Upstream, a.Ref, a.Reason = s.Kind, client(c), s.Tool, s.Upstream, s.Ref, v.Reason
	if d.registrant != nil {
		a.Registered = d.registrant(s.Upstream)
	}
	return a
}

// Question says who wants something, for the person who is asked.
func Question(by actor.Actor) policy.Approval {
	a := policy.Approval{Principal: by.Name(), Through: through(by)}
	for name := range by.Models {
		if name = agentName(name); !slices.Contains(a.Agents, name) {
			a.Agents = append(a.Agents, name)
		}
	}
	if name, ok := by.LastModel(); ok {
		a.Agent = agentName(name)
	}
	if len(a.Agents) < 2 {
		a.Agents = nil
	}
	return a
}

// hostAgent is the name of the hub's own chat where it has said none.
const hostAgent = "chat"

func agentName(name string) string {
	if name == "" {
		return hostAgent
	}
	return name
}

// through tells a person by which delegates an actor acts.
func through(a actor.Actor) (out []string) {
	for _, d := range a.Chain() {
		text := string(d.Kind)
		switch name := d.Name; {
		case d.Kind == actor.Model:
			text += " " + agentName(name)
		case name != "":
			text += " " + name
		}
		if d.For != nil && d.Kind != actor.Agent {
			text += " of " + d.For.Name()
		}
		out = append(out, text)
	}
	return out
}

// refused is why a call was not made, for its caller.
func refused(s *policy.Subject, v policy.Verdict, dec policy.Decision) error {
	f := &fault.Error{Kind: fault.Denied, Subject: s.Tool, Msg: dec.Tell(), Hint: "Do without it, or ask the user what they want instead."}
	if dec.By == "" {
		f.Kind, f.Msg = fault.ApprovalRequired, dec.Tell()+" ("+v.Reason+")"
		f.Hint = "Have somebody attend to approvals (`stoa approvals watch`, or the console), then call again."
	}
	return f.With("outcome", dec.Outcome())
}

// Sampling decides whether a server that works on a client's call may have the
// answer of a model, and has a person decide if the policy says so. The
// decision may hold a request that the person has edited. An error of kind
// Denied says that it was not allowed. The call may go on for a while after its
// client has left, so that everybody whom it rests on is looked up first.
func (d *Door) Sampling(ctx context.Context, c *mcp.Client, server string, a policy.Approval) (policy.Decision, error) {
	ref := server + ":sampling"
	s := policy.Subject{Kind: policy.KindSampling, Tool: ref, Upstream: server, Ref: ref}
	by := c.By(actor.BySampling(server))
	if err := d.present(ctx, by.Actor, ref); err != nil {
		return policy.Decision{}, err
	}
	v := d.decide(by.Actor, &s, nil)
	switch v.Action {
	case policy.Allow:
		return policy.Decision{Approve: true}, nil
	case policy.Deny:
		return policy.Decision{By: "the policy", Reason: v.Reason}, nil
	}
	full := d.approval(by, &s, v)
	full.Tool, full.Session, full.Args, full.Reason = a.Tool, a.Session, a.Args, a.Reason
	dec, err := d.AskAtDesk(ctx, full)
	if err == nil && dec.Approve {
		err = d.present(ctx, by.Actor, ref)
	}
	return dec, err
}

// Lookup is how the principals of an actor are looked up.
type Lookup = actor.Lookup
