package search

import "strings"

// index is a problem in numbers. Between facts and the inputs they may fill are
// hubs, one for each way of matching: a fact feeds some, an input listens to
// some. So the size of the index is that of the problem, however many facts
// match an input.
type index struct {
	p     Problem
	facts []factNode // those given, then the outputs of the actions
	slots []slot     // the needed inputs of the actions, then the goals
	hubs  []hub
	first []int // the first fact of each action
	start []int // the first slot of each action
	need  []int // how many slots each action has
	limit Match // the loosest way of matching
	names map[key]int
	memo  map[string]forms
}

type factNode struct {
	action int // or Given
	output int
	feeds  []int // hubs
}

type slot struct {
	action int // or Given: it is a goal
	input  int // of the action, or the place among the goals
}

type hub struct {
	listens []listener
}

type listener struct {
	slot  int
	match Match
}

// newIndex makes the index of a problem. by is a derivation of the same problem
// by names alone, or nil: an input that it fills needs no looser match.
func newIndex(p Problem, limit Match, by *derivation) *index {
	n := len(p.Actions)
	ix := &index{p: p, limit: limit, names: make(map[key]int, 2*n), first: make([]int, n), start: make([]int, n), need: make([]int, n), memo: make(map[string]forms, 2*n)}
	for a, act := range p.Actions {
		ix.start[a] = len(ix.slots)
		for i, in := range act.Inputs {
			if !in.Optional {
				ix.need[a]++
				ix.listen(slot{a, i}, in, by)
			}
		}
	}
	for i, g := range p.Goals {
		ix.listen(slot{Given, i}, g, by)
	}
	for i, g := range p.Given {
		ix.feed(factNode{action: Given, output: i}, g)
	}
	for a, act := range p.Actions {
		ix.first[a] = len(ix.facts)
		for i, out := range act.Outputs {
			ix.feed(factNode{action: a, output: i}, out)
		}
	}
	return ix
}

// forms are the forms of a name, which many facts share.
type forms struct {
	canonical string
	whole     string   // its words as a set; empty where words do not count
	parts     []string // the sets that lack some of them
}

func (ix *index) forms(name string) forms {
	f, ok := ix.memo[name]
	if ok {
		return f
	}
	w := words(name)
	f = forms{canonical: canonical(name, w)}
	if ix.limit >= ByWords {
		f.whole, f.parts = sets(w)
	}
	ix.memo[name] = f
	return f
}

// key is what a hub stands for. One of a name may be narrowed to a type, or to
// facts of which no type is said.
type key struct {
	kind byte
	what string
	typ  string
}

// The kinds of hubs.
const (
	hubName  = 'n' // the words in their order
	hubPart  = 'p' // facts that have these words among theirs
	hubWhole = 'w' // facts that have just these words
	hubType  = 't'
	hubShape = 's'
	untyped  = "?"
)

// listen makes a slot, and the hubs it may be filled from.
func (ix *index) listen(s slot, in Fact, by *derivation) {
	n := len(ix.slots)
	ix.slots = append(ix.slots, s)
	limit := ix.limit
	if by != nil && by.slots[n].state == filled {
		limit = ByName
	}
	ix.keys(in, limit, func(k key, m Match) {
		h, ok := ix.names[k]
		if !ok {
			h = len(ix.hubs)
			ix.names[k] = h
			ix.hubs = append(ix.hubs, hub{})
		}
		ix.hubs[h].listens = append(ix.hubs[h].listens, listener{n, m})
	})
}

// keys calls on with each hub that an input may be filled from.
func (ix *index) keys(in Fact, limit Match, on func(k key, m Match)) {
	typ := strings.ToLower(in.Type)
	named := func(kind byte, what string, m Match) {
		on(key{kind, what, typ}, m)
		if typ != "" {
			on(key{kind, what, untyped}, m)
		}
	}
	f := ix.forms(in.Name)
	named(hubName, f.canonical, ByName)
	if limit >= ByWords && f.whole != "" {
		named(hubPart, f.whole, ByWords)
		named(hubWhole, f.whole, ByWords) // the same words in another order
		for _, part := range f.parts {
			named(hubWhole, part, ByWords)
		}
	}
	if limit >= ByType && typ != "" {
		on(key{kind: hubType, what: typ}, ByType)
	}
	if limit >= ByShape && in.Shape != "" {
		on(key{kind: hubShape, what: in.Shape}, ByShape)
	}
}

// feed makes a fact, and finds the hubs that somebody listens to.
func (ix *index) feed(n factNode, f Fact) {
	types := kinds(f)
	to := func(k key) {
		if h, ok := ix.names[k]; ok {
			n.feeds = append(n.feeds, h)
		}
	}
	named := func(kind byte, what string) {
		to(key{kind: kind, what: what})
		if types == nil {
			to(key{kind, what, untyped})
		}
		for _, t := range types {
			to(key{kind, what, t})
		}
	}
	fm := ix.forms(f.Name)
	named(hubName, fm.canonical)
	if fm.whole != "" {
		named(hubWhole, fm.whole)
		for _, part := range fm.parts {
			named(hubPart, part)
		}
	}
	if ix.limit >= ByType {
		for _, t := range types {
			to(key{kind: hubType, what: t})
		}
	}
	if ix.limit >= ByShape && f.Shape != "" {
		to(key{kind: hubShape, what: f.Shape})
	}
	ix.facts = append(ix.facts, n)
}

// fact is what a node stands for.
func (ix *index) fact(n factNode) Fact {
	if n.action == Given {
		return ix.p.Given[n.output]
	}
	return ix.p.Actions[n.action].Outputs[n.output]
}

// wanted is the input or goal that a slot stands for.
func (ix *index) wanted(s slot) Fact {
	if s.action == Given {
		return ix.p.Goals[s.input]
	}
	return ix.p.Actions[s.action].Inputs[s.input]
}

// slotsOf are the slots of an action.
func (ix *index) slotsOf(a int) []int { return span(ix.start[a], ix.need[a]) }

// goals are the slots of the goals.
func (ix *index) goals() []int { return span(len(ix.slots)-len(ix.p.Goals), len(ix.p.Goals)) }

func span(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// name says where a fact comes from, for people.
func (ix *index) name(n factNode) string {
	if n.action == Given {
		return ix.p.Given[n.output].Name
	}
	return ix.p.Actions[n.action].Name + "." + ix.p.Actions[n.action].Outputs[n.output].Name
}
