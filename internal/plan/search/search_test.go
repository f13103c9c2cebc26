package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// naive says by what an input may be filled by a fact, pair by pair.
func naive(in, f Fact) (Match, bool) {
	agree := typesAgree(in, f)
	a, b := words(in.Name), words(f.Name)
	if agree && slices.Equal(a, b) {
		return ByName, true
	}
	within := func(x, y []string) bool {
		for _, w := range x {
			if !slices.Contains(y, w) {
				return false
			}
		}
		return true
	}
	if agree && (within(a, b) || within(b, a)) {
		return ByWords, true
	}
	if in.Type != "" && f.Type != "" && agree {
		return ByType, true
	}
	if in.Shape != "" && in.Shape == f.Shape {
		return ByShape, true
	}
	return 0, false
}

// closure says whether the goals can be had by these actions alone.
func closure(p Problem, set int, limit Match) bool {
	have := slices.Clone(p.Given)
	can := func(in Fact) bool {
		return slices.ContainsFunc(have, func(f Fact) bool { m, ok := naive(in, f); return ok && m <= limit })
	}
	done := 0
	for changed := true; changed; {
		changed = false
		for i, a := range p.Actions {
			if set&(1<<i) == 0 || done&(1<<i) != 0 {
				continue
			}
			if !slices.ContainsFunc(a.Inputs, func(in Fact) bool { return !in.Optional && !can(in) }) {
				have, done, changed = append(have, a.Outputs...), done|1<<i, true
			}
		}
	}
	return !slices.ContainsFunc(p.Goals, func(g Fact) bool { return !can(g) })
}

// cheapest is the least cost of a plan, found by trying all sets of actions.
func cheapest(p Problem, limit Match) (float64, bool) {
	best, found := 0.0, false
	for set := range 1 << len(p.Actions) {
		if !closure(p, set, limit) {
			continue
		}
		if c := costOf(p, set); !found || c < best {
			best, found = c, true
		}
	}
	return best, found
}

func costOf(p Problem, set int) float64 {
	c := 0.0
	for i, a := range p.Actions {
		if set&(1<<i) != 0 {
			c += max(a.Cost, 1)
		}
	}
	return c
}

func random(r *rand.Rand) Problem {
	pool := []string{"a", "b", "c", "d", "e", "aB", "b_a", "c_d", "d-e", "a_b_c", "f", "g"}[:4+r.IntN(9)]
	fact := func() Fact {
		f := Fact{Name: pool[r.IntN(len(pool))]}
		if r.IntN(3) == 0 {
			f.Type = []string{"text", "integer", "number"}[r.IntN(3)]
		}
		if r.IntN(8) == 0 {
			f.Shape = []string{"{}", "[]"}[r.IntN(2)]
		}
		return f
	}
	facts := func(n int) []Fact {
		var out []Fact
		for range n {
			out = append(out, fact())
		}
		return out
	}
	p := Problem{Given: facts(r.IntN(3)), Goals: facts(1 + r.IntN(2))}
	for i := range 1 + r.IntN(8) {
		a := Action{Name: fmt.Sprintf("act%d", i), Inputs: facts(r.IntN(4)), Outputs: facts(1 + r.IntN(2)), Cost: float64(r.IntN(5))}
		for k := range a.Inputs {
			a.Inputs[k].Optional = r.IntN(8) == 0
		}
		p.Actions = append(p.Actions, a)
	}
	return p
}

// check holds a plan to what it promises: each input is filled by what matches
// it and was there before, and no step can be left out.
func check(p Problem, f *Found) error {
	limit := Match(ByShape)
	all := 1<<len(p.Actions) - 1
	if closure(p, all, ByName) {
		limit = ByName
	}
	fact := func(s Source) Fact {
		if s.Step == Given {
			return p.Given[s.Output]
		}
		return p.Actions[f.Steps[s.Step].Action].Outputs[s.Output]
	}
	fits := func(in Fact, u Use, before int) error {
		if u.Absent && in.Optional {
			return nil
		}
		if u.From.Step >= before {
			return fmt.Errorf("%s is filled by a step that comes later", in.Name)
		}
		m, ok := naive(in, fact(u.From))
		if !ok || m != u.Match || m > limit || u.Fact != fact(u.From).Name {
			return fmt.Errorf("%s is filled by %s: matches by %v (%v), plan says %v", in.Name, u.Fact, m, ok, u.Match)
		}
		return nil
	}
	set := 0
	for i, s := range f.Steps {
		if set&(1<<s.Action) != 0 {
			return fmt.Errorf("%s is done twice", p.Actions[s.Action].Name)
		}
		set |= 1 << s.Action
		for k, in := range p.Actions[s.Action].Inputs {
			if err := fits(in, s.Uses[k], i); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
	}
	for k, g := range p.Goals {
		if err := fits(g, f.Goals[k], len(f.Steps)); err != nil {
			return fmt.Errorf("goal: %w", err)
		}
	}
	for _, s := range f.Steps {
		if closure(p, set&^(1<<s.Action), limit) {
			return fmt.Errorf("%s is superfluous", p.Actions[s.Action].Name)
		}
	}
	return nil
}

// TestAgainstBruteForce compares with every set of actions of small problems.
func TestAgainstBruteForce(t *testing.T) {
	rounds := 10_000
	if os.Getenv("STOA_SOAK") != "" {
		rounds = 300_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	plans, excess, worst := 0, 0.0, 1.0
	for n := range rounds {
		p := random(r)
		f, why := Find(p)
		limit := Match(ByShape)
		best, possible := cheapest(p, ByName)
		if possible {
			limit = ByName
		} else {
			best, possible = cheapest(p, limit)
		}
		if possible != (f != nil) || possible == (why != nil) {
			t.Fatalf("problem %d: brute force says %v, found %v, why %v\n%+v", n, possible, f != nil, why, p)
		}
		if !possible {
			continue
		}
		if err := check(p, f); err != nil {
			t.Fatalf("problem %d: %v\n%+v\n%+v", n, err, p, f)
		}
		again, _ := Find(p)
		if d := cmp.Diff(f, again); d != "" {
			t.Fatalf("problem %d: two plans for one problem:\n%s", n, d)
		}
		if limit == ByName && best > 0 {
			plans++
			excess += f.Cost/best - 1
			worst = max(worst, f.Cost/best)
		}
	}
	if plans < rounds/20 {
		t.Errorf("only %d of %d problems had a plan by name that costs anything", plans, rounds)
	}
	t.Logf("%d problems, %d plans by name: on average %.2f %% above the cheapest, at worst %.2f times it", rounds, plans, 100*excess/float64(plans), worst)
}

// TestMissingSuffices gives what an explanation says is missing: then there
// must be a plan, unless no action yields the goal at all.
func TestMissingSuffices(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	helped := 0
	for n := range 5_000 {
		p := random(r)
		_, why := Find(p)
		if why == nil {
			continue
		}
		if why.Error() == "" || len(why.Goals) == 0 {
			t.Fatalf("problem %d: nothing is said to be wrong: %+v", n, why)
		}
		for _, m := range why.Missing {
			for _, a := range p.Actions {
				for _, in := range a.Inputs {
					if in.Name == m.Name && slices.Contains(m.For, a.Name) {
						p.Given = append(p.Given, Fact{Name: in.Name, Type: in.Type})
					}
				}
			}
		}
		if slices.ContainsFunc(why.Goals, func(u Unreached) bool { return u.Action == "" }) {
			continue
		}
		if _, still := Find(p); still != nil {
			t.Fatalf("problem %d: with all that was missing: %v\n%+v", n, still, p)
		}
		helped++
	}
	if helped < 100 {
		t.Errorf("only %d explanations were put to the test", helped)
	}
}

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
