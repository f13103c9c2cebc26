package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Mermaid draws a plan as a flow chart. mark names a class for each step that
// has one, such as its state in a run; nil means none.
func Mermaid(p *Plan, mark func(step string) string) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i := range p.Steps {
		s := &p.Steps[i]
		label := s.ID + ": " + s.Called()
		if s.ForEach != nil {
			label += " for each " + s.ForEach.As
		}
		open, end := "[", "]"
		if s.When != nil {
			open, end = "{{", "}}"
		}
		fmt.Fprintf(&b, "  %s%s\"%s\"%s\n", node(s.ID), open, quote(label), end)
		if mark != nil {
			if class := mark(s.ID); class != "" {
				fmt.Fprintf(&b, "  class %s %s\n", node(s.ID), class)
			}
		}
	}
	for i := range p.Steps {
		for _, n := range p.Needs(p.Steps[i].ID) {
			fmt.Fprintf(&b, "  %s --> %s\n", node(n), node(p.Steps[i].ID))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Outputs)) {
		ref := strings.TrimPrefix(p.Outputs[name], "@")
		if end := strings.IndexAny(ref, ".["); end >= 0 {
			ref = ref[:end]
		}
		if owner := p.Owner(ref); owner != "" {
			fmt.Fprintf(&b, "  %s --> out_%s([\"%s\"])\n", node(owner), node(name), quote(name))
		}
	}
	return b.String()
}

// node is an id that Mermaid takes for nothing else: "end" is a word of it.
func node(id string) string { return "s_" + strings.ReplaceAll(id, "-", "_") }

var quotes = strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ", "`", "#96;")

func quote(s string) string { return quotes.Replace(s) }
