package agentd

import (
	"strings"

	"github.com/stoahub/stoa/internal/fault"
)

// argv is a command line while it is put together. What a caller says must not
// be read as an option that the manifest did not write. It is known where a
// program looks for options: everywhere before a "--" of the manifest, save
// right after an option of the manifest in the same list, whose value that is.
type argv struct {
	list     []string
	ended    bool // a "--" of the manifest has ended the options
	option   bool // the last element is an option of the manifest that may want a value
	dangling bool // and the value that was meant for it is left out: it takes the next element instead
}

// add appends the elements of a group, or none if an argument is missing.
func (a *argv) add(subject string, group []template, vars values) error {
	texts := make([]string, len(group))
	for i, t := range group {
		text, ok := t.fill(vars)
		if !ok {
			a.dangling = a.dangling || a.option && !group[0].dashed()
			return nil
		}
		texts[i] = text
	}
	isValue := false // the element is the value of the option before it
	for i, t := range group {
		if name := t.leads(); name != "" && !a.ended && !isValue && strings.HasPrefix(texts[i], "-") {
			return optionRefused(subject, name)
		}
		if texts[i] == "--" && t.leads() == "" && !isValue && !a.dangling {
			a.ended = true
		}
		a.list = append(a.list, texts[i])
		a.option = !isValue && t.isOption()
		isValue = a.option && !a.dangling
		a.dangling = false
	}
	return nil
}

func optionRefused(subject, name string) error {
	f := fault.New(fault.InvalidArguments, subject, "the argument %q begins with -, and would be taken for an option", name)
	f.Hint = "Begin it with something else. In the manifest, \"--\" before it, or an option right before it in one list, allow it."
	return f
}

// leads returns the argument that the text begins with, if any.
func (t template) leads() string {
	for _, p := range t {
		if !p.guard {
			return p.name
		}
	}
	return ""
}

// literal is the text of a template that no argument is part of.
func (t template) literal() (text string, ok bool) {
	for _, p := range t {
		if p.name != "" && !p.guard {
			return "", false
		}
		text += p.text
	}
	return text, true
}

// dashed reports whether the manifest itself begins the text with a dash.
func (t template) dashed() bool {
	for _, p := range t {
		if !p.guard {
			return p.name == "" && strings.HasPrefix(p.text, "-")
		}
	}
	return false
}

// isOption reports whether it is an option of the manifest that the next
// element may be the value of: one with its value in the same element has it.
func (t template) isOption() bool {
	text, ok := t.literal()
	return ok && len(text) > 1 && text[0] == '-' && text != "--" && !strings.Contains(text, "=")
}
