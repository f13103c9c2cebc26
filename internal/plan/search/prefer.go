package search

import (
	"cmp"
	"slices"
)

// mostTried is how many other ways to each goal are looked at, and to all inputs of
// steps together.
const mostTried = 32

// prefer looks for a plan that uses more of what is given than that of d, and
// that guesses no more: who gives a path and wants content means the content at
// that path, not the cheapest content there is.
func prefer(ix *index, d *derivation) *Found {
	best := ix.finish(d)
	if best.unused(ix.p) == 0 {
		return best
	}
	if ix.limit < ByWords { // a source_path that is given is a path; what is wanted stays what it is called
		byName := &derivation{slots: make([]fill, len(d.slots))}
		for _, g := range ix.goals() {
			byName.slots[g] = d.slots[g]
		}
		ix = newIndex(ix.p, ByWords, byName)
		if d := ix.derive(nil); d.reached() {
			best = better(best, ix.finish(d), ix.p)
		}
	}
	best = ix.rooted(best)
	for g := range ix.p.Goals {
		if best.unused(ix.p) > 0 && best.Goals[g].From.Step != Given {
			best = ix.otherwise(best, Source{Given, g})
		}
	}
	return ix.inputsOtherwise(best)
}

// fromNothing is what an action costs more that needs nothing, where something is
// given that no step uses: more than any plan of names, less than a match by words.
const fromNothing = 1e3

// rooted looks for a plan that starts from what is given rather than from actions
// that need nothing, at whatever depth those are.
func (ix *index) rooted(best *Found) *Found {
	if best.unused(ix.p) == 0 {
		return best
	}
	d := (&derivation{ix: ix, rootless: fromNothing}).run()
	if !d.reached() {
		return best
	}
	return better(best, ix.finish(d), ix.p)
}

// inputsOtherwise tries other actions for the inputs of steps: a text to write may
// come from what is given as well as from any other step.
func (ix *index) inputsOtherwise(best *Found) *Found {
	for left := mostTried; left > 0; {
		next := best
		for _, at := range ix.filledBySteps(best) {
			if best.unused(ix.p) == 0 || left <= 0 {
				return best
			}
			left -= len(ix.yielding(ix.slotAt(best, at)))
			if next = ix.otherwise(best, at); next != best {
				break
			}
		}
		if next == best {
			return best
		}
		best = next // its steps are others
	}
	return best
}

// filledBySteps are the needed inputs of steps that other steps fill, those of the
// last step first.
func (ix *index) filledBySteps(f *Found) []Source {
	var out []Source
	for i := len(f.Steps) - 1; i >= 0; i-- {
		for k, u := range f.Steps[i].Uses {
			if !u.Absent && u.From.Step != Given && !ix.p.Actions[f.Steps[i].Action].Inputs[k].Optional {
				out = append(out, Source{i, k})
			}
		}
	}
	return out
}

// slotAt is the slot of an input of a step of a plan, or of a goal: a goal is one
// of the step Given.
func (ix *index) slotAt(f *Found, at Source) int {
	if at.Step == Given {
		return ix.goals()[at.Output]
	}
	return slices.Index(ix.slots, slot{f.Steps[at.Step].Action, at.Output})
}

// use is what fills a slot of a plan.
func (f *Found) use(at Source) *Use {
	if at.Step == Given {
		return &f.Goals[at.Output]
	}
	return &f.Steps[at.Step].Uses[at.Output]
}

// otherwise tries the other actions that yield what fills a slot of the best plan,
// each without the rest.
func (ix *index) otherwise(best *Found, at Source) *Found {
	yield := ix.yielding(ix.slotAt(best, at))
	if len(yield) < 2 {
		return best
	}
	only := make(map[int]bool, len(ix.p.Actions))
	for a := range ix.p.Actions {
		only[a] = true
	}
	for _, a := range yield {
		delete(only, a)
	}
	first := best
	var as []*Found // what is as good as the best
	for _, a := range yield[:min(len(yield), mostTried)] {
		only[a] = true
		if d := ix.derive(only); d.reached() {
			f := ix.finish(d)
			if next := better(best, f, ix.p); next == f {
				best, as = f, nil
			} else if best != f && rank(best, ix.p) == rank(f, ix.p) {
				as = append(as, f)
			}
		}
		delete(only, a)
	}
	if at.Step == Given || best == first { // else the place is one of a plan that is no more
		ix.tieWith(best, at, as)
	}
	return best
}

// tieWith tells what fills a slot in plans that are as good.
func (ix *index) tieWith(best *Found, at Source, as []*Found) {
	chosen, _ := ix.source(best, *best.use(at))
	for _, f := range as {
		if at.Step != Given && (len(f.Steps) <= at.Step || f.Steps[at.Step].Action != best.Steps[at.Step].Action) {
			continue
		}
		if action, name := ix.source(f, *f.use(at)); action != chosen {
			best.use(at).tie(name)
		}
	}
}

// source is the action that fills a use in a plan, and what people call it.
func (ix *index) source(f *Found, u Use) (action int, name string) {
	if u.From.Step == Given {
		return Given, u.Fact
	}
	action = f.Steps[u.From.Step].Action
	return action, ix.p.Actions[action].Name + "." + u.Fact
}

// yielding are the actions that can fill a slot, those first that take most of what
// is given.
func (ix *index) yielding(slot int) []int {
	var out []int
	for _, f := range ix.facts {
		if f.action == Given || slices.Contains(out, f.action) {
			continue
		}
		for _, h := range f.feeds {
			ix.listening(h, func(l listener) {
				if l.slot == slot && !slices.Contains(out, f.action) {
					out = append(out, f.action)
				}
			})
		}
	}
	given := map[string]bool{}
	for _, f := range ix.p.Given {
		given[canonical(f.Name, words(f.Name))] = true
	}
	takes := map[int]int{}
	for _, a := range out {
		for _, in := range ix.p.Actions[a].Inputs {
			if given[canonical(in.Name, words(in.Name))] {
				takes[a]++
			}
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(takes[b], takes[a]) })
	return out
}

// standing is what one plan is preferred to another by, the first that differs
// deciding.
type standing struct {
	guessed int // inputs filled by type or schema alone
	unused  int // what is given and not used
	loose   int // inputs filled by the words of a name
	cost    float64
}

func rank(f *Found, p Problem) standing {
	s := standing{unused: f.unused(p), cost: f.Cost}
	f.uses(func(u *Use) {
		switch {
		case u.Match >= ByType:
			s.guessed++
		case u.Match == ByWords:
			s.loose++
		}
	})
	return s
}

// better is the second plan if it uses more of what is given without guessing
// more, or as much for less; else the first.
func better(a, b *Found, p Problem) *Found {
	x, y := rank(a, p), rank(b, p)
	if cmp.Or(cmp.Compare(y.guessed, x.guessed), cmp.Compare(y.unused, x.unused), cmp.Compare(y.loose, x.loose), cmp.Compare(y.cost, x.cost)) < 0 {
		return b
	}
	return a
}

// uses calls fn with each input and goal that something fills.
func (f *Found) uses(fn func(*Use)) {
	for i := range f.Steps {
		for k := range f.Steps[i].Uses {
			if u := &f.Steps[i].Uses[k]; !u.Absent {
				fn(u)
			}
		}
	}
	for i := range f.Goals {
		fn(&f.Goals[i])
	}
}

// unused is how much of what is given, and need not be left out, is not used.
func (f *Found) unused(p Problem) int {
	used := make([]bool, len(p.Given))
	f.uses(func(u *Use) {
		if u.From.Step == Given {
			used[u.From.Output] = true
		}
	})
	n := 0
	for i, g := range p.Given {
		if !used[i] && !g.Optional {
			n++
		}
	}
	return n
}
