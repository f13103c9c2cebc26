package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/spell"
)

// Impossible is why there is no plan.
type Impossible struct {
	Goals   []Unreached `json:"goals"`
	Missing []Missing   `json:"missing"` // with these, there would be a plan
}

// Unreached is a goal that nothing leads to.
type Unreached struct {
	Name   string   `json:"name"`
	Action string   `json:"action,omitempty"` // the one that comes nearest; empty if none yields the goal
	Lacks  []string `json:"lacks,omitempty"`  // the inputs that it cannot have
	Close  []string `json:"close,omitempty"`  // outputs and inputs that are called much the same
}

// Missing is something that would have to be given.
type Missing struct {
	Name  string   `json:"name"`
	For   []string `json:"for"`             // the actions that need it
	Close []string `json:"close,omitempty"` // what there is that is called much the same
}

// What it costs to take an input for granted: more than any plan. What some
// action yields is asked for last, since people can give what the first action
// starts from; it comes to that where actions wait for each other.
const (
	taken   = 1e15
	takenOf = 1e20
)

// granted is the price of each slot.
func (ix *index) granted() []float64 {
	price := make([]float64, len(ix.slots))
	for s := range price {
		price[s] = taken
	}
	for _, f := range ix.facts {
		if f.action == Given {
			continue
		}
		for _, h := range f.feeds {
			ix.listening(h, func(l listener) { price[l.slot] = takenOf })
		}
	}
	return price
}

// explain says what is missing: it derives the goals once more, now with any
// input taken for granted where it must be, and tells which ones were.
func explain(ix *index, d *derivation) *Impossible {
	wish := (&derivation{ix: ix, assume: ix.granted()}).run()
	names := ix.factNames()
	out := &Impossible{}
	missing := map[string]int{}
	seen := map[int]bool{}
	var visit func(a int)
	visit = func(a int) {
		if seen[a] {
			return
		}
		seen[a] = true
		for _, s := range ix.slotsOf(a) {
			if wish.slots[s].state == filled {
				if from := ix.facts[wish.slots[s].fact].action; from != Given {
					visit(from)
				}
				continue
			}
			in := ix.wanted(ix.slots[s]).Name
			i, known := missing[in]
			if !known {
				i = len(out.Missing)
				missing[in] = i
				out.Missing = append(out.Missing, Missing{Name: in, Close: spell.Near(in, names, 3)})
			}
			out.Missing[i].For = append(out.Missing[i].For, ix.p.Actions[a].Name)
		}
	}
	for _, g := range ix.goals() {
		if d.slots[g].state == filled {
			continue
		}
		u := Unreached{Name: ix.wanted(ix.slots[g]).Name}
		if wish.slots[g].state != filled {
			u.Close = spell.Near(u.Name, names, 3)
		} else if a := ix.facts[wish.slots[g].fact].action; a != Given {
			u.Action = ix.p.Actions[a].Name
			for _, s := range ix.slotsOf(a) {
				if d.slots[s].state == empty {
					u.Lacks = append(u.Lacks, ix.wanted(ix.slots[s]).Name)
				}
			}
			visit(a)
		}
		out.Goals = append(out.Goals, u)
	}
	return out
}

func (ix *index) factNames() []string {
	var names []string
	for _, n := range ix.facts {
		names = append(names, ix.fact(n).Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Error says it in one paragraph.
func (w *Impossible) Error() string {
	var b strings.Builder
	for i, g := range w.Goals {
		if i > 0 {
			b.WriteString("; ")
		}
		switch {
		case g.Action != "":
			fmt.Fprintf(&b, "%s cannot be reached: %s comes nearest, but lacks %s", g.Name, g.Action, strings.Join(g.Lacks, ", "))
		case len(g.Close) > 0:
			fmt.Fprintf(&b, "no action yields %s; is %s meant?", g.Name, strings.Join(g.Close, " or "))
		default:
			fmt.Fprintf(&b, "no action yields %s", g.Name)
		}
	}
	whole := !slices.ContainsFunc(w.Goals, func(g Unreached) bool { return g.Action == "" })
	for i, m := range w.Missing {
		switch {
		case i > 0:
			b.WriteString(", ")
		case whole:
			b.WriteString("; there would be a plan with ")
		default:
			b.WriteString("; also missing: ")
		}
		fmt.Fprintf(&b, "%s (for %s)", m.Name, strings.Join(m.For, ", "))
	}
	return b.String()
}
