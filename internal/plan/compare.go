package plan

import (
	"context"
	"encoding/json"
	"slices"
)

// Comparison tells in what two runs differ.
type Comparison struct {
	Runs        [2]Summary   `json:"runs"`
	Same        bool         `json:"same"` // nothing differs, as far as both have come
	Differences []Difference `json:"differences"`
}

// Difference is an input or a step that is not the same in two runs.
type Difference struct {
	Kind   string             `json:"kind"` // input or step
	Name   string             `json:"name"`
	States [2]string          `json:"states"` // of a step; "" where the run does not have it
	Values [2]json.RawMessage `json:"values"` // null where there is none
}

// Compare compares two runs, of one plan or of two: what they were given, and
// what has become of each step. Of a value at most preview bytes are shown; 0
// means all of it.
func Compare(ctx context.Context, a, b *Run, preview int) (Comparison, error) {
	var out Comparison
	var sides [2]side
	for i, r := range []*Run{a, b} {
		v, err := r.View(ctx, Look{Results: true, Context: true, Plan: true})
		if err != nil {
			return out, err
		}
		out.Runs[i], sides[i] = v.Summary, side{v}
	}
	out.Differences = []Difference{}
	add := func(kind, name string) {
		d := Difference{Kind: kind, Name: name}
		for i, s := range sides {
			d.Values[i] = s.Context[name]
			if kind == "step" {
				d.States[i] = s.state(name)
			}
		}
		if d.States[0] == d.States[1] && (d.Values[0] == nil && d.Values[1] == nil || same(d.Values[0], d.Values[1])) {
			return
		}
		d.Values[0], d.Values[1] = shown(d.Values[0], preview), shown(d.Values[1], preview)
		out.Differences = append(out.Differences, d)
	}
	for _, name := range union(sides[0].inputs(), sides[1].inputs()) {
		add("input", name)
	}
	for _, id := range union(sides[0].steps(), sides[1].steps()) {
		add("step", id)
	}
	out.Same = len(out.Differences) == 0
	return out, nil
}

// side is one of two runs.
type side struct{ View }

func (s side) inputs() (names []string) {
	for _, in := range s.Plan.Inputs {
		names = append(names, in.Name)
	}
	return names
}

func (s side) steps() (ids []string) {
	for i := range s.Steps {
		ids = append(ids, s.Steps[i].ID)
	}
	return ids
}

func (s side) state(id string) string {
	for i := range s.Steps {
		if s.Steps[i].ID == id {
			return s.Steps[i].State
		}
	}
	return ""
}

// union is a, and then what only b has.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(a, name) {
			out = append(out, name)
		}
	}
	return out
}
