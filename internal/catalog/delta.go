package catalog

import (
	"bytes"
	"slices"
)

// Delta is how the definitions of one kind differ between two lists, by the
// upstream's own names.
type Delta struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"` // the definition is another
	More    int      `json:"more,omitempty"`    // names that are left out
}

// Empty reports whether nothing differs.
func (d *Delta) Empty() bool {
	return len(d.Added) == 0 && len(d.Removed) == 0 && len(d.Changed) == 0
}

// Compare says how what an upstream offers of a kind went from a to b, either
// of which may be nil. Each way at most n names are given.
func Compare(k Kind, a, b *Lists, n int) Delta {
	before := map[string][]byte{}
	if a != nil {
		for _, it := range a.Items[k] {
			before[it.Name] = it.Raw
		}
	}
	var d Delta
	put := func(to *[]string, name string) { *to = append(*to, name) }
	if b != nil {
		for _, it := range b.Items[k] {
			raw, had := before[it.Name]
			delete(before, it.Name)
			switch {
			case !had:
				put(&d.Added, it.Name)
			case !bytes.Equal(raw, it.Raw):
				put(&d.Changed, it.Name)
			}
		}
	}
	for name := range before {
		put(&d.Removed, name)
	}
	for _, names := range []*[]string{&d.Added, &d.Removed, &d.Changed} {
		slices.Sort(*names)
		if over := len(*names) - n; over > 0 {
			*names = slices.Clone((*names)[:n])
			d.More += over
		}
	}
	return d
}
