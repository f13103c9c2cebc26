package policy

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func is(raw string) Cond        { return Cond{Is: json.RawMessage(raw)} }
func globbed(p string) Cond     { return Cond{Glob: p} }
func under(dir string) Cond     { return Cond{Under: dir} }
func not(c Cond) Cond           { return Cond{Not: &c} }
func present(b bool) Cond       { return Cond{Present: &b} }
func above(f float64) Cond      { return Cond{Above: &f} }
func lessThan(f float64) Cond   { return Cond{Below: &f} }
func matching(re string) Cond   { return Cond{Matches: re} }
func anyCond(list ...Cond) Cond { return Cond{Any: list} }

// How the same condition is read by an allow rule and by one that asks or
// denies.
func TestConditions(t *testing.T) {
	const no, broad, yes = "neither", "ask and deny only", "all"
	for _, tc := range []struct {
		path string
		cond Cond
		args string
		want string
	}{
		{"p", is(`"a"`), `{"p":"a"}`, yes},
		{"p", is(`"a"`), `{"p":"\u0061"}`, yes},
		{"p", is(`"a"`), `{"\u0070" : "a"}`, yes},
		{"p", is(`"a"`), `{"p":"b"}`, no},
		{"p", is(`"a"`), `{}`, no},
		{"p", is(`"a"`), ``, no},
		{"p", is(`5`), `{"p":5}`, yes},
		{"p", is(`5`), ` { "p" : 5.0 } `, yes},
		{"p", is(`5`), `{"p":0.5e1}`, yes},
		{"p", is(`5`), `{"p":-5}`, no},
		{"p", is(`5`), `{"p":"5"}`, broad},
		{"p", is(`5`), `{"p":" 5.0 "}`, broad},
		{"p", is(`"5"`), `{"p":5}`, broad},
		{"p", is(`"5"`), `{"p":5.0}`, broad},
		{"p", is(`9007199254740992`), `{"p":9007199254740993}`, broad}, // the same as floats
		{"p", is(`0`), `{"p":-0.0e7}`, yes},
		{"p", is(`true`), `{"p":true}`, yes},
		{"p", is(`true`), `{"p":false}`, no},
		{"p", is(`true`), `{"p":"true"}`, broad},
		{"p", is(`null`), `{"p":null}`, yes},
		{"p", is(`null`), `{}`, no},
		{"p", globbed("/etc/*"), `{"p":"/etc/a/b"}`, yes},
		{"p", globbed("/etc/*"), `{"p":"/usr"}`, no},
		{"p", globbed("5*"), `{"p":55}`, broad},
		{"p", globbed("*secret*"), `{"p":{"q":"secret"}}`, broad},
		{"p", globbed("*"), `{"p":""}`, yes},
		{"p", globbed("*"), `{}`, no},
		{"p", matching("^a+$"), `{"p":"aa"}`, yes},
		{"p", matching("b"), `{"p":"abc"}`, yes},
		{"p", matching("^b"), `{"p":"abc"}`, no},
		{"p", matching("^1"), `{"p":12}`, broad},
		{"p", above(3), `{"p":3.0001}`, yes},
		{"p", above(3), `{"p":3}`, no},
		{"p", above(3), `{"p":"4"}`, broad},
		{"p", above(3), `{"p":"x"}`, no},
		{"p", above(-3), `{"p":-2}`, yes},
		{"p", above(-3), `{"p":-4}`, no},
		{"p", above(3), `{"p":1e999999999999}`, yes},
		{"p", lessThan(100), `{"p":99}`, yes},
		{"p", lessThan(100), `{"p":100}`, no},
		{"p", lessThan(100), `{"p":99.99999999999999999999}`, broad}, // 100 as a float
		{"p", Cond{Above: new(1.0), Below: new(3.0)}, `{"p":2}`, yes},
		{"p", Cond{Above: new(1.0), Below: new(3.0)}, `{"p":4}`, no},
		{"p", Cond{Glob: "a*", Matches: "b$"}, `{"p":"ab"}`, yes},
		{"p", Cond{Glob: "a*", Matches: "b$"}, `{"p":"ac"}`, no},
		{"p", anyCond(is("1"), globbed("a*")), `{"p":"ab"}`, yes},
		{"p", anyCond(is("1"), globbed("a*")), `{"p":1}`, yes},
		{"p", anyCond(is("1"), globbed("a*")), `{"p":2}`, no},
		{"p", present(true), `{"p":0}`, yes},
		{"p", present(true), `{}`, no},
		{"p", present(false), `{}`, yes},
		{"p", present(false), `{"p":0}`, no},
		{"p", present(true), `{"p":null}`, broad}, // which some servers take for nothing
		{"p", present(false), `{"p":null}`, broad},
		{"p", present(true), `{"p":[]}`, yes},
		{"p", present(false), `{"p":[]}`, no},
		{"p", not(is(`"a"`)), `{"p":"b"}`, yes},
		{"p", not(is(`"a"`)), `{"p":"a"}`, no},
		{"p", not(is(`"a"`)), `{}`, yes},
		{"p", not(is(`5`)), `{"p":"5"}`, broad}, // it may be a 5
		{"p", not(not(is(`5`))), `{"p":"5"}`, broad},
		{"p", not(present(true)), `{}`, yes},
		// Arrays: each element for an allow, any for the others.
		{"p", globbed("/w/*"), `{"p":["/w/a","/w/b"]}`, yes},
		{"p", globbed("/w/*"), `{"p":["/w/a","/etc"]}`, broad},
		{"p", globbed("/w/*"), `{"p":["/etc"]}`, no},
		{"p", globbed("/w/*"), `{"p":[["/w/a"],[["/w/b"]]]}`, yes},
		{"p", globbed("/w/*"), `{"p":[["/w/a"],[["/x"]]]}`, broad},
		{"p", globbed("*"), `{"p":[]}`, no},
		{"p", globbed("*"), `{"p":["a",[]]}`, broad},
		{"p", not(globbed("/w/*")), `{"p":[]}`, broad}, // nothing that could be checked
		{"p", not(globbed("/w/*")), `{"p":["/etc"]}`, yes},
		{"p", not(globbed("/w/*")), `{"p":["/w/a","/etc"]}`, broad},
		{"f.p", globbed("a*"), `{"f":[{"p":"a"},{"p":"ab"}]}`, yes},
		{"f.p", globbed("a*"), `{"f":[{"p":"a"},{"p":"b"}]}`, broad},
		{"f.p", globbed("a*"), `{"f":[{"p":"a"},{}]}`, broad},
		{"f.p", globbed("a*"), `{"f":[{"p":"a"},7]}`, broad},
		{"f.p", present(false), `{"f":[]}`, broad},
		{"f.p", present(false), `{"f":[{}]}`, yes},
		{"f.p", present(true), `{"f":[]}`, no},
		{"f.p", present(true), `{"f":[{"p":1},{}]}`, broad},
		// Paths.
		{"options.mode", is(`"w"`), `{"options":{"mode":"w"}}`, yes},
		{"options.mode", is(`"w"`), `{"options.mode":"w"}`, no},
		{"/options.mode", is(`"w"`), `{"options.mode":"w"}`, yes},
		{"/a~1b/c~0d", is(`1`), `{"a/b":{"c~d":1}}`, yes},
		{"options.mode", is(`"w"`), `{"options":"w"}`, no},
		{"options.mode", present(false), `{"options":"w"}`, yes},
		// A name in other letters is the same name to some servers.
		{"path", globbed("/w/*"), `{"Path":"/w/a"}`, broad},
		{"path", globbed("/w/*"), `{"path":"/w/a","PATH":"/etc"}`, broad},
		{"path", globbed("/etc"), `{"path":"/w/a","PATH":"/etc"}`, broad},
		{"path", present(false), `{"Path":1}`, broad},
		{"path", present(true), `{"Path":1}`, broad},
		// What is no object is suspect.
		{"p", is(`1`), `[1]`, broad},
		{"p", is(`1`), `{"p":`, broad},
		{"p", present(false), `7`, broad},
		{"p", present(false), `{ }`, yes},
		// Folders.
		{"p", under("/work"), `{"p":"/work"}`, yes},
		{"p", under("/work"), `{"p":"/work/"}`, yes},
		{"p", under("/work/"), `{"p":"/work/a"}`, yes},
		{"p", under("/work"), `{"p":"/work/a/../b"}`, yes},
		{"p", under("/work"), `{"p":"//work/./a"}`, yes},
		{"p", under("/work"), `{"p":"/workshop"}`, no},
		{"p", under("/work"), `{"p":"/work/../etc"}`, no},
		{"p", under("/work"), `{"p":"/etc/../work"}`, yes},
		{"p", under("/work"), `{"p":"work/a"}`, no},
		{"p", under("/work"), `{"p":"../work/a"}`, broad},
		{"p", under("/work"), `{"p":"a/../../x"}`, broad},
		{"p", under("/work"), `{"p":"~/x"}`, broad},
		{"p", under("/work"), `{"p":"/WORK/a"}`, broad},
		{"p", under("/work"), `{"p":"file:///work/a"}`, broad},
		{"p", under("/work"), `{"p":"/work/..\\..\\etc"}`, broad},
		{"p", under("/work"), `{"p":"\\work\\a"}`, broad},
		{"p", under("/work"), `{"p":""}`, no},
		{"p", under("/work"), `{"p":5}`, no},
		{"p", under("/"), `{"p":"/a"}`, yes},
		{"p", under("/"), `{"p":"a"}`, no},
		{"p", under("src"), `{"p":"src/a"}`, yes},
		{"p", under("src"), `{"p":"./src/a"}`, yes},
		{"p", under("src"), `{"p":"src/../a"}`, no},
		{"p", under("src"), `{"p":"/home/me/src/a"}`, broad},
		{"p", under("."), `{"p":"a/b"}`, yes},
		{"p", under("."), `{"p":"../b"}`, broad},
		{"p", under("."), `{"p":"C:\\x"}`, broad},
		{"p", under(".."), `{"p":"../a"}`, yes},
		{"p", under(".."), `{"p":"../../a"}`, broad},
		{"p", under("/etc"), `{"p":"~/../etc/x"}`, broad},
		{"p", under("/etc"), `{"p":"~root/../etc/x"}`, broad},
		{"p", under("/etc"), `{"p":"~//../etc"}`, broad},
		{"p", under("/etc"), `{"p":"~\\..\\etc"}`, broad},
		{"p", under("/etc"), `{"p":"file://~/../etc"}`, broad},
		{"p", under("notes"), `{"p":"~/../notes/a"}`, broad},
		{"p", under("."), `{"p":"~/../a"}`, broad},
		{"p", under("~/notes"), `{"p":"~/notes/a"}`, yes},
		{"p", under("~/notes"), `{"p":"~/../ann/notes/a"}`, broad},
		{"p", under("~/notes"), `{"p":"~/other"}`, no},
		{"p", under(`C:\work`), `{"p":"C:\\work\\a"}`, yes},
		{"p", under(`C:\work`), `{"p":"C:/work/a"}`, yes},
		{"p", under(`C:\work`), `{"p":"C:\\work\\..\\x"}`, no},
		{"p", under(`C:\work`), `{"p":"c:\\Work\\a"}`, broad},
		{"p", not(under("/work")), `{"p":"/etc"}`, yes},
		{"p", not(under("/work")), `{"p":"../work"}`, broad},
		{"p", not(under("/work")), `{"p":"/work/a"}`, no},
	} {
		got := no
		decides := func(a Action) bool {
			set := Compile(Rules{Rules: []Rule{{Args: map[string]Cond{tc.path: tc.cond}, Action: a}}}, nil)
			v := Decide(&Query{Args: []byte(tc.args)}, set)
			return v.Rule == "rule 1" && v.Action == a
		}
		if decides(Deny) != decides(Ask) {
			t.Errorf("%s: ask and deny read it differently", tc.args)
		}
		switch strict := decides(Allow); {
		case strict && decides(Deny):
			got = yes
		case strict:
			got = "allow only"
		case decides(Deny):
			got = broad
		}
		if got != tc.want {
			c, _ := json.Marshal(tc.cond)
			t.Errorf("%s of %s as %s: it holds for %s, want %s", tc.path, tc.args, c, got, tc.want)
		}
	}
}

// A rule that cannot be understood denies what it may have been meant for.
func TestFlawedRulesDeny(t *testing.T) {
	args := func(path string, c Cond) Rule { return Rule{Action: Allow, Args: map[string]Cond{path: c}} }
	for what, r := range map[string]Rule{
		"action":     {Action: "perhaps"},
		"no action":  {},
		"tools":      {Action: Allow, Tools: []string{"a["}},
		"empty":      {Action: Allow, Tools: []string{""}},
		"principals": {Action: Allow, Principals: []string{"a["}},
		"group":      {Action: Allow, Groups: []string{"nobody"}},
		"regexp":     args("p", matching("(")),
		"long":       args("p", matching(strings.Repeat("a", maxRegexp+1))),
		"glob":       args("p", globbed("[")),
		"is":         args("p", is("[1]")),
		"is text":    args("p", is("yes")),
		"nothing":    args("p", Cond{}),
		"in a list":  args("p", anyCond(is("1"), matching("("))),
		"in a not":   args("p", not(not(globbed("[")))),
		"path":       args("a..b", is("1")),
		"no path":    args("", is("1")),
		"bound":      args("p", above(math.Inf(1))),
	} {
		set := Compile(Rules{Rules: []Rule{r, {Action: Allow}}}, nil)
		q := &Query{Subject: Subject{Tool: "x"}, Principal: "p"}
		if v := Decide(q, set); v.Action != Deny {
			t.Errorf("%s: %+v", what, v)
		}
		if !Hidden(q, set) {
			t.Errorf("%s: it is offered", what)
		}
		if what != "group" && len((Rules{Rules: []Rule{r}}).Check()) != 1 {
			t.Errorf("%s: Check finds %v", what, Rules{Rules: []Rule{r}}.Check())
		}
	}
	many := Rule{Action: Allow, Args: map[string]Cond{"p": {}}}
	for range maxRegexps + 1 {
		many.Args["p"] = anyCond(append(many.Args["p"].Any, matching("a"))...)
	}
	if v := Decide(&Query{}, Compile(Rules{Rules: []Rule{many}}, nil)); v.Action != Deny {
		t.Errorf("%d expressions: %+v", maxRegexps+1, v)
	}
}
