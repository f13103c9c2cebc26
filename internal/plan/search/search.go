// Package search owns how a plan is found: from what is given, by which actions,
// to what is wanted. An action needs all of its inputs and yields all of its
// outputs; an input can be had from anything that matches it.
//
// Find is deterministic and complete: it finds a plan if and only if there is
// one, and no step of it can be left out. It prefers what matches by name over
// what matches by the words of a name, then by type, then by schema, and among
// those what costs less; of plans that guess no more it prefers one that uses
// more of what is given. That the plan is the cheapest of all is not promised,
// since to find that takes exponential time. Where nothing leads to what is
// wanted, it says what is missing and which action comes nearest.
//
// The package calls nothing and knows no tools.
package search

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Fact is something that can be had under a name: an input of a plan, an input
// of an action, or an output.
type Fact struct {
	Name     string
	Type     string // a word; empty: not said. integer is also a number
	Coarse   bool   // the type says too little to match by, and only excludes
	Shape    string // the canonical form of its schema; empty: none
	Optional bool   // of an input: the action does without
}

// Action is something that can be done.
type Action struct {
	Name    string
	Inputs  []Fact
	Outputs []Fact
	Cost    float64 // 0 means 1
}

// Problem is what to find a plan for.
type Problem struct {
	Actions []Action
	Given   []Fact
	Goals   []Fact
}

// Match says by what an input and what fills it were found to be the same, the
// surest first.
type Match int

// The ways of matching.
const (
	ByName  Match = iota // the same words in the same order
	ByWords              // the words of one name are among those of the other
	ByType
	ByShape
	matches
)

func (m Match) String() string { return [...]string{"name", "words", "type", "schema"}[m] }

// penalty makes one match of a worse kind cost more than any number of better
// ones that a plan may hold.
var penalty = [matches]float64{0, 1e4, 1e8, 1e12}

// Given is the step of what the plan is given.
const Given = -1

// Source is where a fact comes from.
type Source struct {
	Step   int // its place in Found.Steps, or Given
	Output int // its place among the outputs of the step's action, or in Problem.Given
}

// Use is how an input, or a goal, is filled.
type Use struct {
	Input  string
	Fact   string // the name of what fills it
	From   Source
	Match  Match
	Ties   []string // what would have done as well, as "action.output" or the name of an input; at most 4
	Absent bool     // an optional input that nothing fills
}

// Step is one action of a plan.
type Step struct {
	Action int   // its place in Problem.Actions
	Uses   []Use // one for each input of the action
}

// Found is a plan: its steps in an order in which they can be done.
type Found struct {
	Steps []Step
	Goals []Use // one for each goal
	Cost  float64
}

// Find finds a plan. If there is none, found is nil and why says what is
// missing.
func Find(p Problem) (found *Found, why *Impossible) {
	ix := newIndex(p, ByName, nil)
	d := ix.derive(nil)
	if !d.reached() { // looser matches take time, and are only looked at then
		ix = newIndex(p, ByShape, d)
		if d = ix.derive(nil); !d.reached() {
			return nil, explain(ix, d)
		}
	}
	return prefer(ix, d), nil
}

// finish makes a plan of a derivation that reaches the goals.
func (ix *index) finish(d *derivation) *Found {
	f := thin(ix, d)
	ix.ties(d, f)
	f.fillOptional(ix.p)
	return f
}

// thin makes a plan of the actions that a derivation uses, less those without
// which there still is one; the dearest are tried first.
func thin(ix *index, d *derivation) *Found {
	used := d.used()
	acts := slices.Sorted(maps.Keys(used))
	small := Problem{Given: ix.p.Given, Goals: ix.p.Goals}
	for _, a := range acts {
		small.Actions = append(small.Actions, ix.p.Actions[a])
	}
	sub := newIndex(small, ix.limit, nil)
	keep := map[int]bool{}
	for i := range acts {
		keep[i] = true
	}
	dearest := slices.Sorted(maps.Keys(keep))
	slices.SortStableFunc(dearest, func(a, b int) int { return cmp.Compare(sub.cost(b), sub.cost(a)) })
	needed := sub.needed()
	for _, a := range dearest {
		if !keep[a] || needed[a] { // it went along with another, or cannot go
			continue
		}
		delete(keep, a)
		if less := sub.derive(keep); less.reached() {
			keep = less.used()
		} else {
			keep[a] = true
		}
	}
	f := sub.derive(keep).plan(keep)
	for i := range f.Steps {
		f.Steps[i].Action = acts[f.Steps[i].Action]
	}
	return f
}

// needed are actions without which there is no plan: those that alone can fill
// a goal, or an input of such an action. It saves trying each of them.
func (ix *index) needed() map[int]bool {
	const nobody, several = -2, -3
	sole := make([]int, len(ix.slots))
	for s := range sole {
		sole[s] = nobody
	}
	for _, f := range ix.facts {
		for _, h := range f.feeds {
			ix.listening(h, func(l listener) {
				switch sole[l.slot] {
				case nobody:
					sole[l.slot] = f.action
				case f.action:
				default:
					sole[l.slot] = several
				}
			})
		}
	}
	needed := map[int]bool{}
	for next := ix.goals(); len(next) > 0; {
		s := next[len(next)-1]
		next = next[:len(next)-1]
		if a := sole[s]; a >= 0 && !needed[a] {
			needed[a] = true
			next = append(next, ix.slotsOf(a)...)
		}
	}
	return needed
}

func (ix *index) cost(a int) float64 {
	if c := ix.p.Actions[a].Cost; c > 0 && !math.IsInf(c, 0) {
		return c
	}
	return 1
}

// fillOptional fills optional inputs by name from what is given or comes before
// anyway. No step is added for them.
func (f *Found) fillOptional(p Problem) {
	type origin struct {
		fact Fact
		from Source
	}
	have := map[string]origin{}
	add := func(fact Fact, from Source) {
		name := canonical(fact.Name, words(fact.Name))
		if _, taken := have[name]; !taken {
			have[name] = origin{fact, from}
		}
	}
	for i, g := range p.Given {
		add(g, Source{Given, i})
	}
	for i := range f.Steps {
		s := &f.Steps[i]
		a := p.Actions[s.Action]
		for k, in := range a.Inputs {
			if !in.Optional {
				continue
			}
			s.Uses[k] = Use{Input: in.Name, Absent: true}
			if o, ok := have[canonical(in.Name, words(in.Name))]; ok && typesAgree(in, o.fact) {
				s.Uses[k] = Use{Input: in.Name, Fact: o.fact.Name, From: o.from}
			}
		}
		for k, out := range a.Outputs {
			add(out, Source{i, k})
		}
	}
}
