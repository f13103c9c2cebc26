package arch

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
)

// authority says which packages may make an actor, decide about one, or pass
// the door. Each is an edge of the hub, or a part that acts for somebody and
// passes on for whom.
var authority = []struct {
	pkg, name string
	homes     []string
	reason    string
}{
	{"actor", "New", []string{"internal/mcp", "internal/call", "internal/chat", "internal/chatws", "internal/hub"}, "actors begin at the edges of the hub; whoever acts for another passes its actor on with By"},
	{"actor", "Restore", []string{"internal/call", "internal/chat", "internal/plan", "internal/modules"}, "only what outlives a request is kept with its actor: chains, tasks, turns, runs, published plans"},
	{"actor", "Unknown", nil, "only a record without an actor has an unknown one"},
	{"actor", "ByModel", []string{"internal/chat", "internal/hub"}, "chat runs the models, and hub explains what one may do"},
	{"actor", "ByRun", []string{"internal/plan"}, "plan runs plans"},
	{"actor", "ByBatch", []string{"internal/modules"}, "the batch is a built-in tool"},
	{"actor", "ByTask", []string{"internal/call"}, "call makes tasks of calls"},
	{"actor", "BySampling", []string{"internal/call"}, "the door decides about sampling"},
	{"actor", "ByAgent", []string{"internal/call"}, "the door signs chains and reads them"},
	{"policy", "Decide", []string{"internal/call"}, "the door is the only place that decides"},
	{"policy", "HiddenFrom", []string{"internal/call"}, "one view answers what somebody can see"},
	{"desk", "Ask", []string{"internal/call"}, "the door asks, or has its caller ask"},
	{"Desk", "Ask", []string{"internal/chat", "internal/plan"}, "a turn and a run let people see that they wait, by the question that the door put to them"},
	{"door", "Do", []string{"internal/call", "internal/gateway", "internal/router", "internal/hub"}, "calls come by a face, as a task, or from the program that the hub is a part of"},
}

// There is one door, and few ways to it.
func TestAuthorityHasOnePlace(t *testing.T) {
	used := map[string]bool{}
	for _, f := range load(t) {
		_, layer, _ := place(f.dir)
		if f.test || layer == test || layer == entry || f.dir == "internal/actor" || f.dir == "internal/policy" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of := ""
			switch x := sel.X.(type) {
			case *ast.Ident:
				of = x.Name
			case *ast.SelectorExpr:
				of = x.Sel.Name
			}
			for _, a := range authority {
				if of != a.pkg || sel.Sel.Name != a.name {
					continue
				}
				if used[a.pkg+a.name+f.dir] = true; !slices.Contains(a.homes, f.dir) {
					t.Errorf("%s uses %s.%s: %s", f.set.Position(n.Pos()), a.pkg, a.name, a.reason)
				}
			}
			return true
		})
	}
	for _, a := range authority {
		for _, home := range a.homes {
			if !used[a.pkg+a.name+home] {
				t.Errorf("%s may use %s.%s, and does not: take it out of the list", home, a.pkg, a.name)
			}
		}
	}
	// Every kind of delegate has its maker in the list, but for who steers a run,
	// which is made of two actors.
	for _, k := range actor.Kinds() {
		maker := map[actor.Kind]string{actor.Model: "ByModel", actor.Plan: "ByRun", actor.Batch: "ByBatch", actor.Task: "ByTask", actor.Sampling: "BySampling", actor.Agent: "ByAgent"}[k]
		if k != actor.Steering && !slices.ContainsFunc(authority, func(a struct {
			pkg, name string
			homes     []string
			reason    string
		}) bool {
			return a.pkg == "actor" && a.name == maker
		}) {
			t.Errorf("who makes delegates of the kind %s?", k)
		}
	}
}
