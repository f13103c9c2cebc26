package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
)

type authorised struct {
	what   string
	homes  []string
	reason string
}

// authority says who may make an actor, decide about one, pass the door, or reach
// a server behind it, file by file. Each is an edge of the hub, or a part that
// acts for somebody and passes on for whom.
var authority = []authorised{
	{"internal/actor.New", []string{"internal/mcp/endpoint.go", "internal/mcp/held.go", "internal/mcp/local.go", "internal/mcp/pipe.go", "internal/mcp/witness.go"}, "who speaks MCP to the hub is known where its connection or request comes in"},
	{"internal/actor.New", []string{"internal/chatws/agent.go", "internal/chatws/post.go", "internal/chatws/socket.go", "internal/chat/conversation.go", "internal/chat/run.go", "internal/chat/toolset.go"}, "who talks to a model is known where the conversation is"},
	{"internal/actor.New", []string{"internal/hub/api_catalog.go", "internal/hub/api_runact.go"}, "who asks by the API is known where the request comes in"},
	{"internal/actor.New", []string{"internal/hub/embed.go", "internal/hub/embed_plans.go", "internal/hub/ready.go"}, "the program that the hub is a part of, and the hub itself, act for the owner"},
	{"internal/actor.New", []string{"internal/call/bind.go", "internal/call/view.go"}, "the door looks up what a principal can see and has, for nobody but itself"},
	{"internal/actor.New", []string{"internal/hub/cluster.go"}, "a connection that is taken up from another hub is that of who sends the request"},
	{"internal/actor.OwnRecord", []string{"internal/session/event.go", "internal/chat/filetext.go"}, "what somebody stores themselves is by nobody else"},
	{"internal/actor.Restore", []string{"internal/call/chain.go", "internal/call/task_run.go", "internal/chat/loop.go", "internal/plan/drive.go", "internal/plan/start.go", "internal/modules/plan.go", "internal/modules/plan_publish.go"}, "only what outlives a request is kept with its actor: chains, tasks, turns, runs, published and stored plans"},
	{"internal/actor.Unknown", nil, "only a record without an actor has an unknown one"},
	{"internal/actor.ByModel", []string{"internal/chat/run.go", "internal/hub/api_policy.go"}, "chat runs the models, and hub explains what one may do"},
	{"internal/actor.ByRun", []string{"internal/plan/drive.go", "internal/plan/start.go"}, "plan runs plans"},
	{"internal/actor.ByBatch", []string{"internal/modules/batch.go"}, "the batch is a built-in tool"},
	{"internal/actor.ByTask", []string{"internal/call/task.go", "internal/call/task_slow.go"}, "call makes tasks of calls"},
	{"internal/actor.BySampling", []string{"internal/call/authority.go"}, "the door decides about sampling"},
	{"internal/actor.ByAgent", []string{"internal/call/chain.go"}, "the door signs chains and reads them"},
	{"internal/actor.Actor.Steered", []string{"internal/plan/control.go", "internal/plan/drive.go", "internal/plan/start.go"}, "only a run is moved on by others than it is for"},
	{"internal/actor.Actor.From", []string{"internal/mcp/endpoint.go", "internal/mcp/pipe.go"}, "another hub says who it is where its connection comes in"},
	{"internal/policy.Decide", []string{"internal/call/authority.go"}, "the door is the only place that decides"},
	{"internal/policy.Hidden", nil, "one view answers what somebody can see, for all whom an actor rests on"},
	{"internal/policy.HiddenFrom", []string{"internal/call/authority.go"}, "one view answers what somebody can see"},
	{"internal/policy.Desk.Ask", []string{"internal/call/desk.go"}, "the door asks, or has its caller ask"},
	{"internal/policy.Desk.Ask", []string{"internal/chat/making.go", "internal/plan/ask.go"}, "a turn and a run let people see that they wait, by the question that the door put to them"},
	{"internal/call.Door.AskAtDesk", []string{"internal/call/authority.go", "internal/call/desk.go"}, "the door asks"},
	{"internal/call.Door.Sampling", []string{"internal/hub/sampling.go"}, "hub hands servers' requests for a model to the door"},
	{"internal/call.Door.Do", []string{"internal/gateway/gateway.go", "internal/router/router.go", "internal/router/named.go"}, "the faces pass on what clients ask for"},
	{"internal/call.Door.Do", []string{"internal/call/task.go", "internal/call/task_foreign.go", "internal/call/task_run.go", "internal/call/task_trace.go"}, "a task makes the call that it was made of"},
	{"internal/call.Door.Do", []string{"internal/hub/embed.go"}, "the program that the hub is a part of calls tools"},
	{"internal/call.Tasks.Do", []string{"internal/gateway/gateway.go", "internal/router/named.go"}, "the faces pass on what clients ask for"},
	{"internal/upstream.Upstream.Do", []string{"internal/call/door.go"}, "a server is reached through the door"},
	{"internal/upstream.Upstream.Do", []string{"internal/upstream/call.go"}, "a server that was replaced hands on what it gets"},
	{"internal/upstream.Upstream.Do", []string{"internal/hub/embed.go"}, "a ping uses nothing that a server offers, and is the hub's own"},
}

// literals are the types whose values come from their makers only.
var literals = []string{"internal/actor.Actor", "internal/actor.Delegate", "internal/actor.Record", "internal/actor.DelegateRecord"}

// carriers are what a call of a server is made of: who takes one may be the door or
// a server by another name.
var carriers = []string{"internal/call.Call", "internal/upstream.Call"}

// a use of authority, in a file.
type use struct {
	what, file string
	at         token.Position
}

// uses finds what a package does that authority is about.
func (c *checked) uses() (out []use) {
	for _, f := range c.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if what := c.authority(n); what != "" {
				at := c.set.Position(n.Pos())
				out = append(out, use{what, at.Filename, at})
			}
			return true
		})
	}
	return out
}

// authority names what a node uses; "" if that is nothing to look after.
func (c *checked) authority(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Ident: // also of a method that is named and not called, and of one that is embedded
		what := called(c.info.Uses[n])
		if strings.HasPrefix(what, "interface.") && !carries(c.info.Uses[n]) {
			return ""
		}
		return what
	case *ast.CompositeLit:
		return c.made(n, len(n.Elts) > 0)
	case *ast.CallExpr: // a conversion
		return c.made(n, c.info.Types[n.Fun].IsType())
	case *ast.AssignStmt:
		for _, to := range n.Lhs {
			if what := c.field(to); what != "" {
				return what
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return c.field(n.X)
		}
	}
	return ""
}

// made names the type of an expression that makes a value, if that is one of
// literals.
func (c *checked) made(e ast.Expr, makes bool) string {
	if name := typeName(c.info.Types[e].Type); makes && slices.Contains(literals, name) {
		return name + "{}"
	}
	return ""
}

// field names the type whose field an expression changes, if that is one of
// literals.
func (c *checked) field(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || c.info.Selections[sel] == nil || c.info.Selections[sel].Kind() != types.FieldVal {
		return ""
	}
	return c.made(sel.X, true)
}

// carries reports whether a function takes what a call is made of.
func carries(o types.Object) bool {
	params := o.(*types.Func).Signature().Params()
	for i := range params.Len() {
		if slices.Contains(carriers, typeName(params.At(i).Type())) {
			return true
		}
	}
	return false
}

// watched reports whether a use is one that authority is about. What makes a
// delegate and is not in the list may not be used at all.
func watched(what string) bool {
	maker := strings.TrimPrefix(what, "internal/actor.By")
	return strings.HasPrefix(what, "interface.") || strings.HasSuffix(what, "{}") || maker != what && maker != "" || slices.ContainsFunc(authority, func(a authorised) bool { return a.what == what })
}

// allowed is the entry by which a file may do something, and the reason why it
// may not.
func allowed(u use) (entry int, reason string) {
	reason = "only package actor makes them, and only the door takes a call"
	for i, a := range authority {
		if a.what != u.what {
			continue
		}
		if slices.Contains(a.homes, u.file) {
			return i, ""
		}
		reason = a.reason
	}
	return -1, reason
}

// There is one door, and few ways to it.
func TestAuthorityHasOnePlace(t *testing.T) {
	pkgs, set, from := check(t, ".", "./internal/...", "./pkg/...")
	used := map[string]bool{}
	for _, p := range pkgs {
		_, layer, _ := place(p.dir)
		if layer == test || layer == entry || p.dir == "internal/actor" || p.dir == "internal/policy" {
			continue
		}
		for _, u := range p.uses() {
			if !watched(u.what) {
				continue
			}
			if _, reason := allowed(u); reason != "" {
				t.Errorf("%s uses %s: %s", u.at, u.what, reason)
			}
			used[u.what+" "+u.file] = true
		}
	}
	for _, a := range authority {
		for _, home := range a.homes {
			if !used[a.what+" "+home] {
				t.Errorf("%s may use %s, and does not: take it out of the list", home, a.what)
			}
		}
	}
	// Every kind of delegate has its maker in the list, but for who steers a run,
	// which is made of two actors.
	for _, k := range actor.Kinds() {
		maker := map[actor.Kind]string{actor.Model: "ByModel", actor.Plan: "ByRun", actor.Batch: "ByBatch", actor.Task: "ByTask", actor.Sampling: "BySampling", actor.Agent: "ByAgent", actor.Steering: "Actor.Steered"}[k]
		if !slices.ContainsFunc(authority, func(a authorised) bool { return a.what == "internal/actor."+maker }) {
			t.Errorf("who makes delegates of the kind %s?", k)
		}
	}
	for what, src := range bypasses {
		p := newChecked(set, "internal/gateway")
		p.add(t, "bypass.go", "package gateway\nimport (\"context\"; \"github.com/stoahub/stoa/internal/actor\"; \"github.com/stoahub/stoa/internal/auth\"; \"github.com/stoahub/stoa/internal/call\"; \"github.com/stoahub/stoa/internal/mcp\"; p \"github.com/stoahub/stoa/internal/policy\"; \"github.com/stoahub/stoa/internal/upstream\")\n"+
			"var ( _ context.Context; _ actor.Actor; _ *auth.Principal; _ *call.Call; _ *mcp.Request; _ p.Action; _ *upstream.Upstream )\n"+src)
		p.types(t, from)
		if !slices.ContainsFunc(p.uses(), func(u use) bool {
			_, reason := allowed(u)
			return watched(u.what) && reason != "" && u.what == what
		}) {
			t.Errorf("%s is not found in: %s", what, src)
		}
	}
}

// bypasses are ways around the door that were not there when it was built, and
// what is found of each.
var bypasses = map[string]string{
	"internal/upstream.Upstream.Do":   `func f(ctx context.Context, u *upstream.Upstream, req *mcp.Request) { _, _ = u.Do(ctx, mcp.Forward(req), upstream.Call{}) }`,
	"internal/call.Door.Do":           `func f(ctx context.Context, d *call.Door, c *call.Call) { do := d.Do; _, _ = do(ctx, c) }`,
	"internal/call.Tasks.Do":          `type both struct{ *call.Tasks }; func f(ctx context.Context, b both, c *call.Call) { _, _ = b.Do(ctx, c) }`,
	"internal/actor.Delegate{}":       `func f(a actor.Actor) actor.Actor { return a.By(actor.Delegate{Kind: actor.Batch}) }`,
	"internal/actor.Record{}":         `func f(r *actor.Record) { r.Principal = "local" }`,
	"internal/actor.DelegateRecord{}": `type like struct { Kind actor.Kind ` + "`json:\"kind\"`" + `; Name string; Call string; For *actor.Record }; func f(l like) any { return actor.DelegateRecord(l) }`,
	"internal/actor.New":              `var f = actor.New`,
	"internal/actor.ByModel":          `func f() actor.Delegate { return (actor.ByModel)("") }`,
	"internal/policy.Decide":          `func f(q *p.Query, s *p.Set) p.Verdict { return p.Decide(q, s) }`,
	"internal/policy.Hidden":          `func f(q *p.Query, s *p.Set) bool { return p.Hidden(q, s) }`,
	"internal/policy.Desk.Ask":        `func f(ctx context.Context, d *p.Desk) { _, _ = (*p.Desk).Ask(d, ctx, p.Approval{}, nil) }`,
	"interface.Do":                    `func f(ctx context.Context, d interface{ Do(context.Context, *call.Call) (mcp.Response, error) }, c *call.Call) { _, _ = d.Do(ctx, c) }`,
}
