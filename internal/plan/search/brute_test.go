package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

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
	if in.Type != "" && f.Type != "" && agree && !in.Coarse && !f.Coarse {
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
			f.Type, f.Coarse = []string{"text", "integer", "number"}[r.IntN(3)], r.IntN(4) == 0
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
		f.uses(func(u *Use) { limit = max(limit, u.Match) })
		if limit > ByWords {
			return fmt.Errorf("a match by %v, where names suffice", limit)
		}
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
	rounds := 2_000
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
	for n := range 2_000 {
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
