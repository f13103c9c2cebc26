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

	listeners []listener
	fed       []int
}

type factNode struct {
	action int // or Given
	output int
	feeds  []int // hubs; a part of index.fed
}

type slot struct {
	action int // or Given: it is a goal
	input  int // of the action, or the place among the goals
}

// hub is a list of listeners, which are in one slice for all hubs: there are
// many, and most have one.
type hub struct {
	first, last int // in index.listeners; -1: none
}

type listener struct {
	slot  int
	match Match
	next  int // of the same hub; -1: none
}

// newIndex makes the index of a problem. by is a derivation of the same problem
// by names alone, or nil: an input that it fills needs no looser match.
func newIndex(p Problem, limit Match, by *derivation) *index {
	n := len(p.Actions)
	ix := &index{p: p, limit: limit, names: make(map[key]int, 2*n), first: make([]int, n), start: make([]int, n), need: make([]int, n), memo: make(map[string]forms, 2*n)}
	slots, facts := len(p.Goals), len(p.Given)
	for i := range p.Actions {
		slots, facts = slots+len(p.Actions[i].Inputs), facts+len(p.Actions[i].Outputs)
	}
	ix.slots, ix.facts = make([]slot, 0, slots), make([]factNode, 0, facts)
	ix.listeners, ix.hubs, ix.fed = make([]listener, 0, slots), make([]hub, 0, slots), make([]int, 0, facts)
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
	if ix.limit == ByName && plain(name) {
		f = forms{canonical: name}
	} else {
		w := words(name)
		f = forms{canonical: canonical(name, w)}
		if ix.limit >= ByWords {
			f.whole, f.parts = sets(w)
		}
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
			ix.hubs = append(ix.hubs, hub{-1, -1})
		}
		at := len(ix.listeners)
		ix.listeners = append(ix.listeners, listener{n, m, -1})
		if last := ix.hubs[h].last; last >= 0 {
			ix.listeners[last].next = at
		} else {
			ix.hubs[h].first = at
		}
		ix.hubs[h].last = at
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
	if limit >= ByType && typ != "" && !in.Coarse {
		on(key{kind: hubType, what: typ}, ByType)
	}
	if limit >= ByShape && in.Shape != "" {
		on(key{kind: hubShape, what: in.Shape}, ByShape)
	}
}

// feed makes a fact, and finds the hubs that somebody listens to.
func (ix *index) feed(n factNode, f Fact) {
	types := kinds(f)
	from := len(ix.fed)
	to := func(k key) {
		if h, ok := ix.names[k]; ok {
			ix.fed = append(ix.fed, h)
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
	if ix.limit >= ByType && !f.Coarse {
		for _, t := range types {
			to(key{kind: hubType, what: t})
		}
	}
	if ix.limit >= ByShape && f.Shape != "" {
		to(key{kind: hubShape, what: f.Shape})
	}
	n.feeds = ix.fed[from:len(ix.fed):len(ix.fed)]
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

// listening calls fn with each listener of a hub, in the order in which they
// came.
func (ix *index) listening(h int, fn func(listener)) {
	for i := ix.hubs[h].first; i >= 0; i = ix.listeners[i].next {
		fn(ix.listeners[i])
	}
}

// name says where a fact comes from, for people.
func (ix *index) name(n factNode) string {
	if n.action == Given {
		return ix.p.Given[n.output].Name
	}
	return ix.p.Actions[n.action].Name + "." + ix.p.Actions[n.action].Outputs[n.output].Name
}
