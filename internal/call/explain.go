package call

import (
	"context"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
)

// Explanation is what would become of a call, and why.
type Explanation struct {
	policy.Verdict
	Visible bool `json:"visible"` // it is listed, and can be called at all
}

// Explain says what would become of a call of an item now, with references in
// its arguments resolved as for a call. Nothing is called and nobody asked.
func (d *Door) Explain(ctx context.Context, c *mcp.Client, name string, it *catalog.Item, args []byte) Explanation {
	s := subjectOf(it, false)
	view := d.View(c, name)
	resolved, failed := d.resolved(ctx, c, name, it, args)
	if failed != nil {
		resolved = args
	}
	verdict := d.decide(c.Actor, &s, resolved)
	if v := view.hides(it); v.Action == policy.Deny && (verdict.Action != policy.Deny || v.Rule != "policy") {
		return Explanation{Verdict: v}
	}
	switch {
	case verdict.Action == policy.Deny:
	case it.Standing.Held():
		verdict = policy.Verdict{Action: policy.Deny, Reason: it.Standing.Hold, Rule: "pin"}
	case failed != nil:
		verdict = policy.Verdict{Action: policy.Deny, Reason: "a reference in the arguments cannot be resolved: " + failed.Error(), Rule: "reference"}
	}
	return Explanation{Verdict: verdict, Visible: view.Item(it)}
}

// ExplainResource says what would become of reading a resource of a server, by
// the URI that the server knows it by.
func (d *Door) ExplainResource(c *mcp.Client, name, server, uri string) Explanation {
	s := resourceOf(server, uri)
	view := d.View(c, name)
	return Explanation{Verdict: d.decide(c.Actor, &s, nil), Visible: view.Resource(server, uri)}
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
