package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func facts(names ...string) []Fact {
	var out []Fact
	for _, n := range names {
		name, typ, _ := strings.Cut(n, ":")
		out = append(out, Fact{Name: name, Type: typ})
	}
	return out
}

var deployment = []Action{
	{Name: "build", Inputs: facts("source"), Outputs: facts("artifact")},
	{Name: "test", Inputs: facts("artifact"), Outputs: facts("test_results")},
	{Name: "deploy", Inputs: facts("artifact", "test_results"), Outputs: facts("deployment")},
}

func TestDeployment(t *testing.T) {
	f, why := Find(Problem{Actions: deployment, Given: facts("source_code"), Goals: facts("deployment")})
	if why != nil {
		t.Fatal(why)
	}
	want := &Found{Cost: 3,
		Steps: []Step{
			{Action: 0, Uses: []Use{{Input: "source", Fact: "source_code", From: Source{Given, 0}, Match: ByWords}}},
			{Action: 1, Uses: []Use{{Input: "artifact", Fact: "artifact", From: Source{0, 0}}}},
			{Action: 2, Uses: []Use{{Input: "artifact", Fact: "artifact", From: Source{0, 0}}, {Input: "test_results", Fact: "test_results", From: Source{1, 0}}}},
		},
		Goals: []Use{{Input: "deployment", Fact: "deployment", From: Source{2, 0}}},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

func TestPreferences(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Problem
		want    string // the actions
		matched Match  // of the goal, or of the last step's first input
		ties    []string
	}{
		{"what uses what is given", Problem{Actions: []Action{{Name: "any", Outputs: facts("content")}, {Name: "of", Inputs: facts("path"), Outputs: facts("content"), Cost: 9}}, Given: facts("path"), Goals: facts("content")}, "of", ByName, nil},
		{"what uses all that is given", Problem{Actions: []Action{{Name: "read", Inputs: facts("path"), Outputs: facts("content")}, {Name: "search", Inputs: facts("path", "pattern"), Outputs: facts("content"), Cost: 2}}, Given: facts("path", "pattern"), Goals: facts("content")}, "search", ByName, nil},
		{"what uses it under another name", Problem{Actions: []Action{{Name: "any", Outputs: facts("content")}, {Name: "of", Inputs: facts("path"), Outputs: facts("content")}}, Given: facts("source_path"), Goals: facts("content")}, "of", ByName, nil},
		{"what uses it for an input of a step", Problem{Actions: []Action{{Name: "any", Outputs: facts("content")}, {Name: "of", Inputs: facts("path"), Outputs: facts("content"), Cost: 3}, {Name: "write", Inputs: facts("content"), Outputs: facts("written")}}, Given: facts("path"), Goals: facts("written")}, "of write", ByName, nil},
		{"what uses all of it for an input", Problem{Actions: []Action{{Name: "read", Inputs: facts("path"), Outputs: facts("content")}, {Name: "search", Inputs: facts("path", "pattern"), Outputs: facts("content"), Cost: 3}, {Name: "write", Inputs: facts("content"), Outputs: facts("written")}}, Given: facts("path", "pattern"), Goals: facts("written")}, "search write", ByName, nil},
		{"what uses it far from the goal", Problem{Actions: []Action{{Name: "any", Outputs: facts("text")}, {Name: "of", Inputs: facts("path"), Outputs: facts("text"), Cost: 3}, {Name: "list", Outputs: facts("content")}, {Name: "shorten", Inputs: facts("text"), Outputs: facts("content")}, {Name: "write", Inputs: facts("content"), Outputs: facts("written")}}, Given: facts("path"), Goals: facts("written")}, "of shorten write", ByName, nil},
		{"never against what is known of a list", Problem{Actions: []Action{{Name: "list", Outputs: []Fact{{Name: "x", Type: "array", Coarse: true}}}, {Name: "text", Outputs: facts("x"), Cost: 9}}, Goals: facts("x:text")}, "text", ByName, nil},
		{"what is wanted, whatever is given", Problem{Actions: []Action{{Name: "any", Outputs: facts("content")}, {Name: "of", Inputs: facts("path"), Outputs: facts("page_content")}}, Given: facts("path"), Goals: facts("content")}, "any", ByName, nil},
		{"no guess for the sake of it", Problem{Actions: []Action{{Name: "any", Outputs: facts("content")}, {Name: "of", Inputs: facts("path:text"), Outputs: facts("content")}}, Given: facts("name:text"), Goals: facts("content")}, "any", ByName, nil},
		{"either of two that use it", Problem{Actions: []Action{{Name: "any", Outputs: facts("content")}, {Name: "of", Inputs: facts("path"), Outputs: facts("content")}, {Name: "too", Inputs: facts("path"), Outputs: facts("content")}}, Given: facts("path"), Goals: facts("content")}, "of", ByName, []string{"too.content"}},
		{"the cheaper one", Problem{Actions: []Action{{Name: "dear", Outputs: facts("x"), Cost: 5}, {Name: "cheap", Outputs: facts("x"), Cost: 2}}, Goals: facts("x")}, "cheap", ByName, nil},
		{"a name at any cost", Problem{Actions: []Action{{Name: "near", Outputs: facts("big_x")}, {Name: "same", Outputs: facts("x"), Cost: 900}}, Goals: facts("x")}, "same", ByName, nil},
		{"words before type", Problem{Actions: []Action{{Name: "typed", Outputs: facts("other:text")}, {Name: "worded", Outputs: facts("x_y:text"), Cost: 3}}, Goals: facts("x:text")}, "worded", ByWords, nil},
		{"a type", Problem{Actions: []Action{{Name: "typed", Outputs: facts("other:text")}}, Goals: facts("x:text")}, "typed", ByType, nil},
		{"never against a type", Problem{Actions: []Action{{Name: "number", Outputs: facts("x:number")}, {Name: "text", Outputs: facts("y:text")}}, Goals: facts("x:text")}, "text", ByType, nil},
		{"an integer is a number", Problem{Actions: []Action{{Name: "count", Outputs: facts("x:integer")}}, Goals: facts("x:number")}, "count", ByName, nil},
		{"a tie is told", Problem{Actions: []Action{{Name: "one", Outputs: facts("x")}, {Name: "two", Outputs: facts("x")}, {Name: "three", Outputs: facts("x"), Cost: 2}}, Goals: facts("x")}, "one", ByName, []string{"two.x"}},
		{"what is given needs no step", Problem{Actions: []Action{{Name: "one", Outputs: facts("x")}}, Given: facts("x"), Goals: facts("x")}, "", ByName, nil},
		{"one action for two goals", Problem{Actions: []Action{{Name: "first", Outputs: facts("x"), Cost: 1}, {Name: "both", Outputs: facts("x", "y"), Cost: 2}}, Goals: facts("x", "y")}, "both", ByName, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, why := Find(c.p)
			if why != nil {
				t.Fatal(why)
			}
			var names []string
			for _, s := range f.Steps {
				names = append(names, c.p.Actions[s.Action].Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("steps %q, want %q", got, c.want)
			}
			if f.Goals[0].Match != c.matched {
				t.Errorf("the goal matches by %v, want %v", f.Goals[0].Match, c.matched)
			}
			if d := cmp.Diff(c.ties, f.Goals[0].Ties); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOptionalInputs(t *testing.T) {
	act := Action{Name: "go", Inputs: []Fact{{Name: "a"}, {Name: "b", Optional: true}, {Name: "c", Optional: true}}, Outputs: facts("x")}
	f, why := Find(Problem{Actions: []Action{act, {Name: "makes_c", Outputs: facts("c")}}, Given: facts("a", "b"), Goals: facts("x")})
	if why != nil {
		t.Fatal(why)
	}
	if len(f.Steps) != 1 {
		t.Fatalf("%d steps: an optional input is no reason for one", len(f.Steps))
	}
	want := []Use{{Input: "a", Fact: "a", From: Source{Given, 0}}, {Input: "b", Fact: "b", From: Source{Given, 1}}, {Input: "c", Absent: true}}
	if d := cmp.Diff(want, f.Steps[0].Uses); d != "" {
		t.Error(d)
	}
}

func TestImpossible(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Problem
		want string
	}{
		{"nothing yields it", Problem{Actions: deployment, Given: facts("source"), Goals: facts("invoice")},
			"no action yields invoice"},
		{"a slip of the pen", Problem{Actions: deployment, Given: facts("source"), Goals: facts("deploymnt")},
			"no action yields deploymnt; is deployment meant?"},
		{"an input is missing", Problem{Actions: deployment, Goals: facts("deployment")},
			"deployment cannot be reached: deploy comes nearest, but lacks artifact, test_results; there would be a plan with source (for build)"},
		{"two inputs are missing", Problem{Actions: []Action{{Name: "join", Inputs: facts("left", "right", "mode"), Outputs: facts("both")}}, Given: facts("mode"), Goals: facts("both")},
			"both cannot be reached: join comes nearest, but lacks left, right; there would be a plan with left (for join), right (for join)"},
		{"a circle", Problem{Actions: []Action{{Name: "hen", Inputs: facts("egg"), Outputs: facts("hen")}, {Name: "egg", Inputs: facts("hen"), Outputs: facts("egg")}}, Goals: facts("hen")},
			"hen cannot be reached: hen comes nearest, but lacks egg; there would be a plan with egg (for hen)"},
		{"types are at odds", Problem{Actions: []Action{{Name: "print", Inputs: facts("page:image"), Outputs: facts("paper")}}, Given: facts("page:text"), Goals: facts("paper")},
			"paper cannot be reached: print comes nearest, but lacks page; there would be a plan with page (for print)"},
		{"the nearer of two", Problem{Actions: []Action{{Name: "far", Inputs: facts("p", "q"), Outputs: facts("x")}, {Name: "near", Inputs: facts("r"), Outputs: facts("x")}}, Goals: facts("x")},
			"x cannot be reached: near comes nearest, but lacks r; there would be a plan with r (for near)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, why := Find(c.p)
			if why == nil {
				t.Fatal("a plan was found")
			}
			if got := why.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string]string{"sourceCode": "source_code", "source-code": "source_code", "HTTPServer": "httpserver", "": "", "--": "--", "x2": "x2", "Größe_in m": "größe_in_m"} {
		if got := canonical(in, words(in)); got != want {
			t.Errorf("canonical(%q) = %q, want %q", in, got, want)
		}
	}
	for _, name := range []string{"a", "source_code", "x2", "_a", "a_", "a__b", "A", "ä", "a-b", "", "_"} {
		if plain(name) && canonical(name, words(name)) != name {
			t.Errorf("%q is not as it is compared", name)
		}
	}
}

// grown makes a problem of n actions, each of which takes one to three of what
// there was before it. Every tenth fact can be had in two ways.
func grown(n int) Problem {
	r := rand.New(rand.NewPCG(5, 6))
	p := Problem{}
	var have []string
	for i := range 20 {
		have = append(have, fmt.Sprintf("given_%d", i))
		p.Given = append(p.Given, Fact{Name: have[i]})
	}
	for k := range n {
		out := fmt.Sprintf("fact_%d", k)
		if k%10 == 9 {
			out = fmt.Sprintf("fact_%d", r.IntN(k))
		}
		a := Action{Name: fmt.Sprintf("act_%d", k), Cost: 1 + r.Float64(), Outputs: []Fact{{Name: out}}}
		for range 1 + r.IntN(3) {
			a.Inputs = append(a.Inputs, Fact{Name: have[r.IntN(len(have))]})
		}
		have = append(have, out)
		p.Actions = append(p.Actions, a)
	}
	p.Goals = []Fact{{Name: p.Actions[n-2].Outputs[0].Name}}
	return p
}

// BenchmarkFind reports the 99th percentile too: what people wait for.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		for _, how := range []string{"name", "words"} {
			b.Run(fmt.Sprint(n, "/", how), func(b *testing.B) {
				p := grown(n)
				if how == "words" {
					p.Goals[0].Name += "_wanted"
				}
				f, why := Find(p)
				if why != nil {
					b.Fatal(why)
				}
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					Find(p)
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(len(f.Steps)), "steps")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
			})
		}
	}
}
