package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHidden(t *testing.T) {
	when := func(a Action, path string, c Cond) Rule { return Rule{Action: a, Args: map[string]Cond{path: c}} }
	list := func(d Action, rs ...Rule) Rules { return Rules{Default: d, Rules: rs} }
	var many []Rule
	for i := range 20 {
		many = append(many, when(Deny, fmt.Sprint("p", i), globbed("a*")), when(Deny, fmt.Sprint("p", i), present(false)))
	}
	for name, tc := range map[string]struct {
		lists []Rules
		want  bool
	}{
		"nothing said":                  {nil, false},
		"denied":                        {[]Rules{list("", Rule{Action: Deny})}, true},
		"another is denied":             {[]Rules{list("", Rule{Tools: []string{"gh"}, Action: Deny})}, false},
		"asked":                         {[]Rules{list("", Rule{Action: Ask})}, false},
		"default deny":                  {[]Rules{list(Deny)}, true},
		"default deny, allowed":         {[]Rules{list(Deny, Rule{Tools: []string{"fs"}, Action: Allow})}, false},
		"default deny of another":       {[]Rules{list("", Rule{Action: Allow}), list(Deny)}, true},
		"another principal":             {[]Rules{list("", Rule{Principals: []string{"bob"}, Action: Deny})}, false},
		"some arguments":                {[]Rules{list("", when(Deny, "p", globbed("/etc/*")))}, false},
		"there or not":                  {[]Rules{list("", when(Deny, "p", present(true)), when(Deny, "p", present(false)))}, true},
		"all texts, or none":            {[]Rules{list("", when(Deny, "p", globbed("*")), when(Deny, "p", present(false)))}, false}, // an empty array is neither
		"allowed in a folder":           {[]Rules{list(Deny, when(Allow, "p", under("/work")))}, false},
		"a folder, but parts of it":     {[]Rules{list(Deny, when(Allow, "p", under("/work")), when(Deny, "p", under("/work/secret")))}, false},
		"one of two texts":              {[]Rules{list(Deny, when(Allow, "p", is(`"a"`)), when(Deny, "p", is(`"a"`)))}, true},
		"a text that is a number":       {[]Rules{list(Deny, when(Allow, "p", is(`"5"`)), when(Deny, "p", is(`5`)))}, true},
		"two patterns at once":          {[]Rules{list(Deny, when(Allow, "p", globbed("a*"))), list(Deny, when(Allow, "p", globbed("*b")))}, false},
		"two that exclude another":      {[]Rules{list(Deny, when(Allow, "p", globbed("a*"))), list(Deny, when(Allow, "p", globbed("b*")))}, true},
		"three letters":                 {[]Rules{list(Deny, when(Allow, "p", globbed("a*")), when(Deny, "p", globbed("a")), when(Deny, "p", globbed("a?")), when(Deny, "p", globbed("a???*")))}, false},
		"no number of letters":          {[]Rules{list(Deny, when(Allow, "p", globbed("a*")), when(Deny, "p", globbed("a")), when(Deny, "p", globbed("a?*")))}, true},
		"sets of characters":            {[]Rules{list(Deny, when(Allow, "p", globbed("[a-c]")), when(Deny, "p", globbed("[ab]")))}, false},
		"no character is left":          {[]Rules{list(Deny, when(Allow, "p", globbed("[a-c]")), when(Deny, "p", globbed("[ab]")), when(Deny, "p", is(`"c"`)))}, true},
		"numbers between":               {[]Rules{list(Deny, when(Allow, "n", above(1)), when(Deny, "n", above(1.5)))}, false},
		"no number between":             {[]Rules{list(Deny, when(Allow, "n", above(2)), when(Deny, "n", above(1)))}, true},
		"two arguments":                 {[]Rules{list(Deny, Rule{Action: Allow, Args: map[string]Cond{"a.b": is("1"), "a.c": globbed("x*")}})}, false},
		"two arguments, one denied":     {[]Rules{list(Deny, Rule{Action: Allow, Args: map[string]Cond{"a.b": is("1"), "a.c": globbed("x*")}}, when(Deny, "a.b", is("1")))}, true},
		"an expression":                 {[]Rules{list(Deny, when(Allow, "p", matching("^[0-9]{7}$")))}, false},
		"two folders":                   {[]Rules{list(Deny, when(Allow, "p", under("/a"))), list(Deny, when(Allow, "p", under("/b")))}, true},
		"two folders, one in the other": {[]Rules{list(Deny, when(Allow, "p", under("/a"))), list(Deny, when(Allow, "p", under("/a/b")))}, false},
		"all of a folder":               {[]Rules{list(Deny, when(Allow, "p", under("/a/b")), when(Deny, "p", under("/a")))}, true},
		"in the folder or not":          {[]Rules{list("", when(Deny, "p", under("/a")), when(Deny, "p", not(under("/a"))))}, true},
		"found or not":                  {[]Rules{list("", when(Deny, "p", matching("^/tmp/")), when(Deny, "p", not(matching("^/tmp/"))))}, true},
		"found, but not both":           {[]Rules{list("", when(Deny, "p", matching("^/tmp/")), when(Deny, "p", not(matching("^/tmp/a"))))}, false},
		"a number in quotes":            {[]Rules{list(Deny, when(Deny, "p", is(`"1"`)), when(Allow, "p", lessThan(2)))}, false},
		"another form of a number":      {[]Rules{list(Deny, when(Allow, "p", is("5")), when(Deny, "p", globbed("5")))}, false}, // 5.0
		"one element for each":          {[]Rules{list(Deny, when(Ask, "p", globbed("a*"))), list(Deny, when(Ask, "p", globbed("b*")))}, false},
		"a number beyond":               {[]Rules{list(Deny, when(Allow, "p", above(1e300)))}, false},
		"too many":                      {[]Rules{list("", many...)}, false},
		"one in another":                {[]Rules{list(Deny, when(Allow, "a", present(true)), when(Deny, "a.b", present(false)))}, false},
	} {
		var sets []*Set
		for _, l := range tc.lists {
			sets = append(sets, Compile(l, nil))
		}
		q := &Query{Subject: Subject{Tool: "fs__a", Upstream: "fs", Ref: "fs:a"}, Principal: "alice", Args: []byte("not looked at")}
		if got := Hidden(q, sets...); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// domain are values between which the conditions that are drawn can tell, one
// of each kind.
var domain = []string{"", `"a"`, `"b"`, `"ab"`, `"ba"`, `"aa"`, `"bb"`, `""`, `"zz"`, `"azb"`, `"az"`, `"zb"`, `"bza"`, `"bz"`, `"za"`, `"z"`,
	"1", "2", `"1"`, `"2"`, "3", "0", "1.5", "9", "1.0", "20e-1", "1e400", `"0"`, `"1.5"`, `"9"`, "true", "false", "null", "[]", "{}",
	`"/a"`, `"/a/b"`, `"/a/x"`, `"/b/x"`, `"/A/x"`, `"/z"`, `"../x"`, `"~/x"`, `["a","b"]`, `["ab","b"]`, `["a",1]`, `[1,2]`, `["/a/x","/b/x"]`, `[{}]`, `{"a":1}`}

// flat are conditions of which it can be told when all values are denied.
var flat = []Cond{
	is(`"a"`), is(`"ab"`), is("1"), is("2"), is("true"), is("null"), is(`"1"`),
	globbed("a*"), globbed("*b"), globbed("*"), globbed("?"), globbed("[ab]"), globbed("*a*"),
	present(true), present(false),
}

// all are flat ones and others.
var all = append([]Cond{above(1), lessThan(2), above(0), lessThan(1), under("/a"), under("/a/b"), under("/b"), under("a"), under("/A"), matching("^a"), matching("[0-9]"), matching("^/a/"),
	globbed("/a/*"), is("1.5"), is(`"0"`)}, flat...)

func drawCond(among []Cond) *rapid.Generator[Cond] {
	simple := rapid.SampledFrom(among)
	return rapid.Custom(func(rt *rapid.T) Cond {
		c := simple.Draw(rt, "condition")
		switch rapid.IntRange(0, 6).Draw(rt, "form") {
		case 0:
			return not(c)
		case 1:
			return anyCond(c, simple.Draw(rt, "or"))
		case 2:
			other := not(simple.Draw(rt, "and not"))
			c.Not = other.Not
		case 3:
			other := not(anyCond(simple.Draw(rt, "and none"), simple.Draw(rt, "or")))
			c.Not = other.Not
		}
		return c
	})
}

func drawRules(among []Cond) *rapid.Generator[Rules] {
	actions := rapid.SampledFrom([]Action{Allow, Ask, Deny, Deny})
	rule := rapid.Custom(func(rt *rapid.T) Rule {
		r := Rule{Action: actions.Draw(rt, "action")}
		if rapid.IntRange(0, 3).Draw(rt, "by tool") == 0 {
			r.Tools = []string{rapid.SampledFrom([]string{"fs", "fs__*", "gh"}).Draw(rt, "tool")}
		}
		if rapid.IntRange(0, 3).Draw(rt, "by principal") == 0 {
			r.Principals = []string{rapid.SampledFrom([]string{"alice", "b*"}).Draw(rt, "principal")}
		}
		r.Args = rapid.MapOfN(rapid.SampledFrom([]string{"p", "q.r"}), drawCond(among), 0, 2).Draw(rt, "args")
		return r
	})
	return rapid.Custom(func(rt *rapid.T) Rules {
		return Rules{
			Default: rapid.SampledFrom([]Action{"", "", Allow, Ask, Deny, Deny}).Draw(rt, "default"),
			Rules:   rapid.SliceOfN(rule, 0, 5).Draw(rt, "rules"),
		}
	})
}

func arg(p, qr string) []byte {
	var members []string
	if p != "" {
		members = append(members, `"p":`+p)
	}
	if qr != "" {
		members = append(members, `"q":{"r":`+qr+`}`)
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

// arguments of all values of the domain for those arguments that rules look at.
func worlds(lists []Rules) (out [][]byte) {
	looked := func(path string) []string {
		for _, l := range lists {
			for _, r := range l.Rules {
				if _, ok := r.Args[path]; ok {
					return domain
				}
			}
		}
		return domain[:1]
	}
	for _, p := range looked("p") {
		for _, qr := range looked("q.r") {
			out = append(out, arg(p, qr))
		}
	}
	return append(out, []byte(`{"p":"a","P":"b"}`), []byte(`{"P":"/b/x"}`), []byte(`{"q":[{"r":"a"},{"r":"b"}]}`), []byte(`{"q":[]}`), []byte(`[]`))
}

// witness are arguments with which nobody of the chain is denied; "" if there are none
// among those that are tried.
func witness(lists []Rules, among []Party) string {
	for _, args := range worlds(lists) {
		permitted := true
		for _, p := range among {
			q := *p.Query
			q.Args = args
			permitted = permitted && Decide(&q, p.Sets...).Action != Deny
		}
		if permitted {
			return string(args)
		}
	}
	return ""
}

// drawParties are one or two who call by lists of rules.
func drawParties(rt *rapid.T, lists []Rules) (out []Party) {
	var sets []*Set
	for _, l := range lists {
		sets = append(sets, Compile(l, nil))
	}
	for _, who := range []string{"alice", "bob"}[:rapid.IntRange(1, 2).Draw(rt, "parties")] {
		out = append(out, Party{&Query{Subject: Subject{Tool: "fs__a", Upstream: "fs", Ref: "fs:a"}, Principal: who}, sets})
	}
	return out
}

// often checks what goes wrong for few rules only.
func often(t *testing.T, property func(*rapid.T)) {
	for range 20 {
		rapid.Check(t, property)
	}
}

// What is hidden is denied whatever the arguments, whatever the conditions are.
func TestHiddenIsDenied(t *testing.T) {
	often(t, func(rt *rapid.T) {
		lists := rapid.SliceOfN(drawRules(all), 1, 2).Draw(rt, "lists")
		parties := drawParties(rt, lists)
		if !HiddenFrom(parties...) {
			return
		}
		if found := witness(lists, parties); found != "" {
			rt.Fatalf("it is hidden, and permitted with %s", found)
		}
	})
}

// What is not hidden is permitted for some arguments, where no rule asks and
// conditions are about values alone.
func TestPermittedForSomeIfNotHidden(t *testing.T) {
	often(t, func(rt *rapid.T) {
		lists := rapid.SliceOfN(drawRules(flat), 1, 2).Draw(rt, "lists")
		for _, l := range lists {
			for i := range l.Rules {
				if l.Rules[i].Action == Ask {
					l.Rules[i].Action = Allow
				}
			}
		}
		parties := drawParties(rt, lists)
		if hidden, found := HiddenFrom(parties...), witness(lists, parties); hidden == (found != "") {
			rt.Fatalf("hidden is %v, and permitted is %q", hidden, found)
		}
	})
}

// More rules of other lists never permit what was denied; what a rule of an
// earlier list asks for, no later list allows; and of several parties the
// strictest counts.
func TestMoreIsNeverWeaker(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		compile := func(label string, n int) (out []*Set) {
			for _, l := range rapid.SliceOfN(drawRules(all), 0, n).Draw(rt, label) {
				l.Name = label
				out = append(out, Compile(l, nil))
			}
			return out
		}
		before, sets, after := compile("before", 2), compile("some", 2), compile("after", 2)
		q := &Query{Subject: Subject{Tool: "fs__a", Upstream: "fs", Ref: "fs:a"}, Principal: rapid.SampledFrom([]string{"alice", "bob"}).Draw(rt, "who"),
			Model: rapid.Bool().Draw(rt, "model"), Args: arg(rapid.SampledFrom(domain).Draw(rt, "p"), rapid.SampledFrom(domain).Draw(rt, "q.r"))}
		few := Decide(q, sets...)
		all := Decide(q, append(append(append([]*Set{}, before...), sets...), after...)...)
		if few.Action == Deny && all.Action != Deny {
			rt.Fatalf("%+v became %+v", few, all)
		}
		later := Decide(q, append(append([]*Set{}, sets...), after...)...)
		if strings.HasPrefix(few.Rule, "some rule") && few.Action.StricterThan(later.Action) {
			rt.Fatalf("%+v became %+v", few, later)
		}
		other := *q
		other.Principal, other.Model = "bob", !q.Model
		both := Strictest(few, Decide(&other, sets...))
		if few.Action.StricterThan(both.Action) || Decide(&other, sets...).Action.StricterThan(both.Action) {
			rt.Fatalf("%+v is weaker than %+v", both, few)
		}
	})
}
