package call

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
)

// A small world: every name is one of a few, so that rules, chains and
// catalogues meet often.
var (
	worldServers    = []string{"fs", "git"}
	worldTools      = []string{"read", "write", "wipe"}
	worldPrincipals = []string{"ann", "bob", "local"}
	worldAgents     = []string{"", "clerk", "scout"}
	worldArgs       = []string{`{}`, `{"p":"a"}`, `{"p":"b"}`, `{"p":"c"}`, `{"q":1}`, `{"p":"a","q":1}`, `{"p":"b","q":1}`, `{"p":"c","q":1}`, `{"q":2}`, `{"p":"a","q":2}`, `{"p":"b","q":2}`, `{"p":"c","q":2}`}
)

func drawGlob(t *rapid.T, label string) string {
	server, tool := rapid.SampledFrom(worldServers).Draw(t, label+" server"), rapid.SampledFrom(worldTools).Draw(t, label+" tool")
	return rapid.SampledFrom([]string{"*", server, server + "__*", server + ":" + tool, server + "__" + tool, "*" + tool}).Draw(t, label)
}

func drawRules(t *rapid.T, label string) *policy.Set {
	actions := []policy.Action{policy.Allow, policy.Ask, policy.Deny}
	r := policy.Rules{Name: label, Default: rapid.SampledFrom(append([]policy.Action{"", "", ""}, actions...)).Draw(t, label+" default")}
	for i := range rapid.IntRange(0, 4).Draw(t, label+" rules") {
		at := fmt.Sprintf("%s %d", label, i)
		rule := policy.Rule{Action: rapid.SampledFrom(actions).Draw(t, at+" action")}
		if rapid.Bool().Draw(t, at+" named") {
			rule.Tools = []string{drawGlob(t, at+" tools")}
		}
		if rapid.Bool().Draw(t, at+" whose") {
			rule.Principals = []string{rapid.SampledFrom(worldPrincipals).Draw(t, at+" principal")}
		}
		if rapid.Bool().Draw(t, at+" conditional") {
			value := rapid.SampledFrom([]string{`"a"`, `"b"`}).Draw(t, at+" value")
			rule.Args = map[string]policy.Cond{"p": {Is: json.RawMessage(value)}}
			if rapid.Bool().Draw(t, at+" by number") {
				rule.Args = map[string]policy.Cond{"q": {Is: json.RawMessage("1")}}
			}
		}
		if rapid.Bool().Draw(t, at+" annotated") {
			rule.ReadOnly = new(rapid.Bool().Draw(t, at+" read-only"))
		}
		r.Rules = append(r.Rules, rule)
	}
	return policy.Compile(r, nil)
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

func strictness(a policy.Action) int {
	return map[policy.Action]int{policy.Allow: 0, policy.Ask: 1, policy.Deny: 2}[a]
}

// Over random chains, rules and catalogues: who acts for another never has more
// rights; what is listed can be called with some arguments; and what is not
// listed is, for who calls it, not there.
func TestDelegationNeverAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(Options{Rules: drawRules(t, "policy")})
		about := map[string]Agent{}
		for _, name := range worldAgents {
			a := Agent{Rules: []*policy.Set{drawRules(t, "approvals of "+name)}}
			if rapid.Bool().Draw(t, "tools of "+name) {
				a.Tools = [][]string{{drawGlob(t, "tools of "+name+" glob")}}
			}
			about[name] = a
		}
		d.RuleAgents(func(name string) Agent { return about[name] })
		if rapid.Bool().Draw(t, "switched") {
			d.Switch(map[string]bool{"git": false})
		}
		items := drawItems(t)
		cat := catalog.New(0)
		defer cat.Close()
		lists := map[string]*catalog.Lists{}
		for _, it := range items {
			if lists[it.Upstream] == nil {
				lists[it.Upstream] = &catalog.Lists{}
			}
			lists[it.Upstream].Items[catalog.Tool] = append(lists[it.Upstream].Items[catalog.Tool], it)
		}
		for name, l := range lists {
			cat.Put(name, l, catalog.Which{})
		}
		a := drawActor(t, "actor", 2)
		more := a.By(drawDelegate(t, "one more", 1))
		view, less := d.View(&mcp.Client{Actor: a}, ""), d.View(&mcp.Client{Actor: more}, "")
		for _, right := range []auth.Right{auth.RightApprove, auth.RightLogs, auth.RightShare} {
			if more.Has(right) && !a.Has(right) {
				t.Fatalf("the right %s came with a delegate", right)
			}
		}
		for _, it := range items {
			s := subjectOf(it, false)
			if less.Item(it) && !view.Item(it) {
				t.Fatalf("%s can be seen by a delegate only", it.Exposed)
			}
			possible := false
			for _, args := range worldArgs {
				now, then := d.decide(a, &s, []byte(args)), d.decide(more, &s, []byte(args))
				if strictness(then.Action) < strictness(now.Action) {
					t.Fatalf("%s %s: %+v, and by a delegate %+v", it.Exposed, args, now, then)
				}
				possible = possible || now.Action != policy.Deny
			}
			_, err := cat.Now().Find(catalog.Tool, it.Exposed, view.Sight())
			switch seen := view.Item(it); {
			case seen && !possible:
				t.Fatalf("%s is listed, and denied with any arguments", it.Exposed)
			case seen != (err == nil):
				t.Fatalf("%s: listed %v, found %v", it.Exposed, seen, err)
			case !seen && (!fault.Is(err, fault.UnknownTool) || fault.Of(err).Msg != "unknown tool"):
				t.Fatalf("%s is not listed, and a call says: %v", it.Exposed, err)
			}
		}
	})
}
