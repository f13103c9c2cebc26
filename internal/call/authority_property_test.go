package call

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/upstream"
)

// A small world: every name is one of a few, so that rules, chains and
// catalogues meet often.
var (
	worldServers    = []string{"fs", "git"}
	worldTools      = []string{"read", "write", "wipe"}
	worldPrincipals = []string{"ann", "bob", "local"}
	worldAgents     = []string{"", "clerk", "scout"}
	worldArgs       = []string{`{}`, `{"p":"a"}`, `{"p":"b"}`, `{"p":"c"}`, `{"q":1}`, `{"p":"a","q":1}`, `{"p":"b","q":1}`, `{"p":"c","q":1}`, `{"q":2}`, `{"p":"a","q":2}`, `{"p":"b","q":2}`, `{"p":"c","q":2}`,
		`{"p":["a","b"]}`, `{"p":["a","b"],"q":1}`, `{"p":["a","b"],"q":2}`, `{"p":"/work/a","q":2}`}
	worldConds = []policy.Cond{{Glob: "a*"}, {Matches: "^b"}, {Under: "/work"}, {Not: &policy.Cond{Is: json.RawMessage(`"a"`)}}, {Present: new(false)}, {Any: []policy.Cond{{Is: json.RawMessage(`"a"`)}, {Under: "/work"}}}}
)

func drawGlob(t *rapid.T, label string) string {
	server, tool := rapid.SampledFrom(worldServers).Draw(t, label+" server"), rapid.SampledFrom(worldTools).Draw(t, label+" tool")
	return rapid.SampledFrom([]string{"*", server, server + "__*", server + ":" + tool, server + "__" + tool, "*" + tool}).Draw(t, label)
}

// drawRules also tells whether there are conditions of which it is not known for
// sure when they leave nothing: such a tool may be listed in vain.
func drawRules(t *rapid.T, label string) (set *policy.Set, hard bool) {
	actions := []policy.Action{policy.Allow, policy.Ask, policy.Deny}
	r := policy.Rules{Name: label, Default: rapid.SampledFrom(append([]policy.Action{"", "", ""}, actions...)).Draw(t, label+" default")}
	for i := range rapid.IntRange(0, 4).Draw(t, label+" rules") {
		at := fmt.Sprintf("%s %d", label, i)
		rule := policy.Rule{Action: rapid.SampledFrom(actions).Draw(t, at+" action")}
		switch rapid.IntRange(0, 5).Draw(t, at+" names") {
		case 0, 1:
			rule.Tools = []string{drawGlob(t, at+" tools")}
		case 2:
			rule.Prompts = []string{drawGlob(t, at+" prompts")}
		case 3:
			rule.Resources = []string{rapid.SampledFrom([]string{"fs", "mem://*", "mem://git/wipe", "MEM://fs/%77ipe"}).Draw(t, at+" resources")}
		}
		if rapid.Bool().Draw(t, at+" whose") {
			rule.Principals = []string{rapid.SampledFrom(worldPrincipals).Draw(t, at+" principal")}
		}
		if rapid.Bool().Draw(t, at+" conditional") {
			value := rapid.SampledFrom([]string{`"a"`, `"b"`}).Draw(t, at+" value")
			rule.Args = map[string]policy.Cond{"p": {Is: json.RawMessage(value)}}
			if rapid.Bool().Draw(t, at+" by number") {
				rule.Args = map[string]policy.Cond{"q": {Is: json.RawMessage("1")}}
				hard = hard || rule.Action == policy.Ask
			} else if rapid.Bool().Draw(t, at+" otherwise") {
				rule.Args = map[string]policy.Cond{"p": rapid.SampledFrom(worldConds).Draw(t, at+" condition")}
				hard = true
			}
		}
		if rapid.Bool().Draw(t, at+" annotated") {
			rule.ReadOnly = new(rapid.Bool().Draw(t, at+" read-only"))
		}
		r.Rules = append(r.Rules, rule)
	}
	return policy.Compile(r, nil), hard
}

func drawPrincipal(t *rapid.T, label string) *auth.Principal {
	name := rapid.SampledFrom(worldPrincipals).Draw(t, label)
	if name == "local" {
		return rapid.SampledFrom([]*auth.Principal{auth.Local, auth.Owner}).Draw(t, label+" via")
	}
	return &auth.Principal{Name: name, Via: auth.ViaToken, Scopes: rapid.SampledFrom([]auth.Scopes{{"*"}, {"fs"}, {"git"}}).Draw(t, label+" scopes")}
}

func drawDelegate(t *rapid.T, label string, depth int) actor.Delegate {
	switch rapid.IntRange(0, 5).Draw(t, label) {
	case 0:
		return actor.ByModel(rapid.SampledFrom(worldAgents).Draw(t, label+" agent"))
	case 1:
		return actor.ByBatch()
	case 2:
		return actor.ByTask()
	case 3:
		return actor.BySampling("fs")
	case 4:
		if depth > 0 {
			caller := drawActor(t, label+" caller", depth-1)
			return actor.ByAgent("x", "call-"+label, caller)
		}
	}
	if depth == 0 {
		return actor.ByRun("run", nil)
	}
	publisher := drawActor(t, label+" publisher", depth-1)
	return actor.ByRun("run", &publisher)
}

func drawActor(t *rapid.T, label string, depth int) actor.Actor {
	a := actor.New(rapid.SampledFrom(actor.Paths()).Draw(t, label+" path"), drawPrincipal(t, label+" principal"))
	for i := range rapid.IntRange(0, 2).Draw(t, label+" delegates") {
		a = a.By(drawDelegate(t, fmt.Sprintf("%s by %d", label, i), depth))
	}
	return a
}

func drawItems(t *rapid.T) (items []*catalog.Item) {
	for _, server := range worldServers {
		for _, tool := range worldTools {
			annotations := rapid.SampledFrom([]string{`{}`, `{"readOnlyHint":true}`, `{"destructiveHint":false}`}).Draw(t, server+tool)
			it, err := catalog.Parse(catalog.Tool, server, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"},"annotations":%s}`, tool, annotations))
			if err != nil {
				t.Fatal(err)
			}
			it.Trusted = rapid.Bool().Draw(t, server+tool+" trusted")
			if rapid.IntRange(0, 5).Draw(t, server+tool+" private") == 0 {
				it.Handling.Only = rapid.SampledFrom(worldPrincipals).Draw(t, server+tool+" owner")
			}
			it.Handling.Carrier = rapid.IntRange(0, 5).Draw(t, server+tool+" carrier") == 0
			items = append(items, it)
		}
	}
	return items
}

// drawOthers are prompts and resources.
func drawOthers(t *rapid.T) (items []*catalog.Item) {
	for _, server := range worldServers {
		for _, name := range worldTools {
			for k, def := range map[catalog.Kind]string{catalog.Prompt: `{"name":%q}`, catalog.Resource: `{"uri":"mem://` + server + `/%s","name":"x"}`} {
				it, err := catalog.Parse(k, server, fmt.Appendf(nil, def, name))
				if err != nil {
					t.Fatal(err)
				}
				items = append(items, it)
			}
		}
	}
	return items
}

// world is what calls are made in: two servers that answer whatever they get.
type world struct {
	*testing.T
	servers  map[string]*upstream.Upstream
	sessions *session.Registry
	n        int
}

// anything is a server that answers whatever it gets, and counts that.
type anything struct{ box }

func (b *anything) Handle(ctx context.Context, r *mcp.Request) (mcp.Response, error) {
	switch r.Method {
	case "tools/call", "prompts/get", "resources/read":
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, r.Method)
		return mcp.Response{Result: []byte(`{"content":[]}`)}, nil
	}
	return b.box.Handle(ctx, r)
}

func newWorld(t *testing.T) *world {
	cat := catalog.New(0)
	pool := upstream.Open(cat, upstream.PoolOptions{})
	w := &world{T: t, servers: map[string]*upstream.Upstream{}}
	var err error
	if w.sessions, err = session.Open(t.Context(), nil, session.Options{Max: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		cat.Close()
		w.sessions.Close()
	})
	for _, name := range worldServers {
		if w.servers[name], err = pool.Add(upstream.Options{Name: name, Handler: &anything{}}); err != nil {
			t.Fatal(err)
		}
		w.servers[name].Settle(t.Context())
	}
	return w
}

// drawSession switches servers on and off in a Session of each principal, and
// names it.
func (w *world) drawSession(t *rapid.T) string {
	w.n++
	name := fmt.Sprint("s", w.n)
	for _, who := range worldPrincipals {
		for _, server := range worldServers {
			said := rapid.IntRange(0, 5).Draw(t, server+" in the session of "+who)
			if said > 1 {
				continue
			}
			s, err := w.sessions.Bind(session.Binding{Principal: who, Name: name})
			if err == nil {
				err = s.Switch(w.Context(), server, said == 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return name
}

// What becomes of a call at the door.
const (
	ran = iota
	ranAsked
	refusedByRule
	absent // it is not there for the caller
)

// call makes a call of an item.
func (w *world) call(t *rapid.T, d *Door, a actor.Actor, in string, it *catalog.Item, args string) int {
	req := requestOf(as(a), fmt.Sprintf(`{"name":%q,"arguments":%s}`, it.Name, args))
	c := &Call{Req: req, Upstream: w.servers[it.Upstream], Item: it, Check: true}
	missing := fault.UnknownTool
	switch it.Kind {
	case catalog.Prompt:
		req.Method = "prompts/get"
	case catalog.Resource:
		req = requestOf(as(a), fmt.Sprintf(`{"uri":%q,"arguments":%s}`, it.Name, args))
		req.Method, c.Req, c.Item, missing = "resources/read", req, nil, fault.ResourceNotFound
	}
	req.Session = in
	var p people
	c.Hooks = p.hooks()
	_, err := d.Do(w.Context(), c)
	switch {
	case err == nil && len(p.asked) == 0:
		return ran
	case err == nil:
		return ranAsked
	case fault.Is(err, fault.Denied):
		return refusedByRule
	case fault.Is(err, missing) && (strings.HasPrefix(fault.Of(err).Msg, "unknown ") || it.Kind == catalog.Resource):
		return absent
	}
	t.Fatalf("%s %s: %v", it.Name, args, err)
	return absent
}

// Over random chains, rules and catalogues: who acts for another never has more
// rights; what is listed can be called with some arguments; and what is not
// listed is, for who calls it, not there.
func TestDelegationNeverAdds(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		rules, hard := drawRules(t, "policy")
		d := New(Options{Rules: rules, Sessions: w.sessions})
		about := map[string]Agent{}
		for _, name := range worldAgents {
			own, h := drawRules(t, "approvals of "+name)
			a := Agent{Rules: []*policy.Set{own}}
			hard = hard || h
			if rapid.Bool().Draw(t, "tools of "+name) {
				a.Tools = [][]string{{drawGlob(t, "tools of "+name+" glob")}}
			}
			about[name] = a
		}
		d.RuleAgents(func(name string) Agent { return about[name] })
		if rapid.Bool().Draw(t, "switched") {
			d.Switch(map[string]bool{"git": false})
		}
		in := w.drawSession(t)
		items := append(drawItems(t), drawOthers(t)...)
		cat := catalog.New(0)
		defer cat.Close()
		for name, l := range listsOf(items) {
			cat.Put(name, l, catalog.Which{})
		}
		a := drawActor(t, "actor", 2)
		more := a.By(drawDelegate(t, "one more", 1))
		for _, right := range []auth.Right{auth.RightApprove, auth.RightLogs, auth.RightShare} {
			if more.Has(right) && !a.Has(right) {
				t.Fatalf("the right %s came with a delegate", right)
			}
		}
		view, less := d.View(as(a), in), d.View(as(more), in)
		for _, it := range items {
			if less.Item(it) && !view.Item(it) {
				t.Fatalf("%s can be seen by a delegate only", it.Exposed)
			}
			seen, possible := view.Item(it), false
			for _, args := range worldArgs {
				now, then := w.call(t, d, a, in, it, args), w.call(t, d, more, in, it, args)
				if then < now {
					t.Fatalf("%s %s: %d, and by a delegate %d", it.Exposed, args, now, then)
				}
				if seen == (now == absent) {
					t.Fatalf("%s %s: listed %v, and the call is answered by %d", it.Exposed, args, seen, now)
				}
				possible = possible || now < refusedByRule
			}
			if seen && !possible && !hard {
				t.Fatalf("%s is listed, and denied with any arguments", it.Exposed)
			}
			if it.Kind != catalog.Tool {
				continue
			}
			if _, err := cat.Now().Find(it.Kind, it.Exposed, view.Sight()); seen != (err == nil) {
				t.Fatalf("%s: listed %v, found %v", it.Exposed, seen, err)
			}
		}
	})
}

func listsOf(items []*catalog.Item) map[string]*catalog.Lists {
	lists := map[string]*catalog.Lists{}
	for _, it := range items {
		if lists[it.Upstream] == nil {
			lists[it.Upstream] = &catalog.Lists{}
		}
		lists[it.Upstream].Items[it.Kind] = append(lists[it.Upstream].Items[it.Kind], it)
	}
	return lists
}
