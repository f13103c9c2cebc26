package plan

import (
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/plan/search"
	"github.com/stoahub/stoa/internal/rank"
)

// What a list or an object costs more than a text, where nothing says which is
// wanted: as what the plan is for, and as anything else that a tool yields.
const (
	notPlain     = 1.3
	somewhereNot = 1.01
)

// costs are those of the actions. A tool costs less, the better it fits what is
// wanted, by its name and what it says that it is for: so tools that take and yield
// the same are told apart. It is never so much less that what changes something
// comes before what only reads.
func (g *Goal) costs() []float64 {
	wanted := g.wanted()
	said := g.Title + " " + g.Description
	query := said
	for _, f := range wanted {
		query += " " + f.Name
	}
	scores, bySaid := g.fit(query), g.fit(said)
	best, plain := slices.Max(append(scores, 0)), 0.0 // plain is the best of those that yield no list or object
	for i, a := range g.Actions {
		if unlike(a, wanted) < notPlain {
			plain = max(plain, bySaid[i])
		}
	}
	out := make([]float64, len(g.Actions))
	for i, a := range g.Actions {
		out[i] = a.Cost
		if best > 0 {
			out[i] *= 1 - 0.4*scores[i]/best
		}
		if a.About != "" && bySaid[i] <= 1.2*plain+0.01 { // else the words ask for just this tool
			out[i] *= unlike(a, wanted)
		}
	}
	return out
}

// wanted are the outputs that are required, and what actions that people spelled
// out need besides what is given.
func (g *Goal) wanted() []Fact {
	out := slices.Clone(g.Outputs)
	for _, a := range g.Actions {
		if a.About != "" {
			continue
		}
		for _, in := range a.Inputs {
			given := slices.ContainsFunc(g.Inputs, func(f Fact) bool { return search.Alike(f.Name, in.Name) })
			if !given && !in.Optional {
				out = append(out, in)
			}
		}
	}
	return out
}

// fit says how well each tool fits words.
func (g *Goal) fit(query string) []float64 {
	first, whole := make([]rank.Doc, len(g.Actions)), make([]rank.Doc, len(g.Actions))
	for i, a := range g.Actions {
		if a.About != "" && !strings.Contains(strings.ToLower(a.About), "deprecated") {
			text, _, _ := strings.Cut(a.About, ". ")
			first[i], whole[i] = rank.Doc{Name: a.Type, Text: text}, rank.Doc{Name: a.Type, Text: a.About}
		}
	}
	scores := rank.Scores(query, first)
	for i, more := range rank.Scores(query, whole) {
		scores[i] += more / 2 // what follows the first sentence may say what it is not for
	}
	return scores
}

// unlike is what an action costs more because it yields lists or objects where a
// text would do: a media file is one, base64 and all.
func unlike(a Action, wanted []Fact) float64 {
	more := 1.0
	for _, out := range a.Outputs {
		if !composite(out) {
			continue
		}
		more = max(more, somewhereNot)
		for _, w := range wanted {
			if w.Name == out.Name && !composite(w) {
				more = notPlain
			}
		}
	}
	return more
}

// composite says whether a fact is known to be a list or an object.
func composite(f Fact) bool {
	return f.Type == "array" || f.Type == "object" || overlap(kindsOf(f.Schema), []string{"array", "object"})
}
