package call

import (
	"context"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/upstream"
)

// Explanation is what would become of a call, and why.
type Explanation struct {
	policy.Verdict
	Visible bool `json:"visible"` // it is listed, and can be called at all
	// Remembered is the answer of a person because of which nobody is asked.
	Remembered *policy.Remembered `json:"remembered,omitempty"`
}

// Explain says what would become of a call of an item now, with references in
// its arguments resolved as for a call. Nothing is called and nobody asked.
func (d *Door) Explain(ctx context.Context, c *mcp.Client, name string, it *catalog.Item, args []byte) Explanation {
	s := subjectOf(it, false)
	return d.recalled(ctx, c, name, &s, it.Standing, d.judge(ctx, c, name, it, args))
}

// ByRules is Explain by the rules alone: where they ask, a remembered answer may
// decide. It costs no look into what is remembered, for lists of many tools.
func (d *Door) ByRules(ctx context.Context, c *mcp.Client, it *catalog.Item) policy.Verdict {
	return d.judge(ctx, c, "", it, nil).Verdict
}

func (d *Door) judge(ctx context.Context, c *mcp.Client, name string, it *catalog.Item, args []byte) Explanation {
	s := subjectOf(it, false)
	view := d.View(c, name)
	resolved, failed := d.resolved(ctx, c, name, it, args)
	if failed != nil {
		resolved = args
	}
	e := d.explained(&view, &s, it, resolved)
	switch {
	case e.Action == policy.Deny:
	case it.Standing.Held():
		e.Verdict = policy.Verdict{Action: policy.Deny, Reason: it.Standing.Hold, Rule: "pin"}
	case failed != nil:
		e.Verdict = policy.Verdict{Action: policy.Deny, Reason: "a reference in the arguments cannot be resolved: " + failed.Error(), Rule: "reference"}
	}
	return e
}

// explained is what the rules, and what the actor can see, make of a call.
func (d *Door) explained(view *View, s *policy.Subject, it *catalog.Item, args []byte) Explanation {
	verdict := d.decide(view.actor, s, args)
	hides := view.hides(s, it)
	if hides.Action == policy.Deny && (verdict.Action != policy.Deny || hides.Rule != "policy") {
		verdict = hides
	}
	return Explanation{Verdict: verdict, Visible: hides.Action != policy.Deny}
}

// recalled is an explanation with the answer that somebody has given before, if
// somebody would be asked.
func (d *Door) recalled(ctx context.Context, c *mcp.Client, name string, s *policy.Subject, st *catalog.Standing, e Explanation) Explanation {
	if e.Action != policy.Ask || d.desk == nil {
		return e
	}
	a := d.approval(c, s, e.Verdict)
	a.Definition = Defined(st)
	if a.Session = name; name == "" {
		a.Session = c.Connection
	}
	r, err := d.desk.Recall(ctx, a)
	switch {
	case err != nil:
		e.Verdict = policy.Verdict{Action: policy.Deny, Rule: e.Rule, Reason: fault.Of(err).Msg}
	case r != nil:
		if e.Remembered, e.Action, e.Reason = r, policy.Deny, r.Tell(); r.Approve {
			e.Action = policy.Allow
		}
	}
	return e
}

// ExplainResource says what would become of reading a resource of a server, by
// the URI that the server knows it by.
func (d *Door) ExplainResource(ctx context.Context, c *mcp.Client, name string, u *upstream.Upstream, uri string) Explanation {
	s := resourceOf(u.Name(), uri)
	view := d.View(c, name)
	e := d.explained(&view, &s, nil, nil)
	if st := reading(u.Pins(), uri); e.Action != policy.Deny && st.Held() {
		e.Verdict = policy.Verdict{Action: policy.Deny, Reason: st.Hold, Rule: "pin"}
	}
	return d.recalled(ctx, c, name, &s, nil, e)
}

// resolved are the arguments as the server would get them.
func (d *Door) resolved(ctx context.Context, c *mcp.Client, name string, it *catalog.Item, args []byte) ([]byte, error) {
	if d.sessions == nil || it.Kind != catalog.Tool || it.Handling.NoReferences || !session.HasReference(args) {
		return args, nil
	}
	t := toolCall{args: args}
	var err error
	if t.session, err = Bind(d.sessions, c, name); err != nil {
		return nil, err
	}
	req := &mcp.Request{Method: "tools/call", Client: c, Asked: mcp.Asked{Session: name}}
	err = d.resolve(ctx, &Call{Req: req, Item: it}, &t)
	return t.args, err
}
