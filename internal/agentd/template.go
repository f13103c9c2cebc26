package agentd

import (
	"fmt"
	"regexp"
	"strings"
)

// template is a text with places for arguments, written {{name}}. {{?name}}
// stands for nothing, but the text is there only if the argument is, and is not
// false. {{{{ is a literal {{.
type template []part

// part is literal text, or the place of an argument.
type part struct {
	text  string
	name  string // "" for literal text
	guard bool   // {{?name}}
}

var placeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func parseTemplate(s string) (template, error) {
	var t template
	literal := func(s string) {
		if n := len(t); n > 0 && t[n-1].name == "" {
			t[n-1].text += s
		} else if s != "" {
			t = append(t, part{text: s})
		}
	}
	for {
		before, after, found := strings.Cut(s, "{{")
		literal(before)
		if !found {
			return t, nil
		}
		if rest, ok := strings.CutPrefix(after, "{{"); ok {
			literal("{{")
			s = rest
			continue
		}
		name, rest, closed := strings.Cut(after, "}}")
		name, guard := strings.CutPrefix(strings.TrimSpace(name), "?")
		if !closed || !placeName.MatchString(name) {
			return nil, fmt.Errorf("{{%s names no argument", clip(after))
		}
		t = append(t, part{name: name, guard: guard})
		s = rest
	}
}

func clip(s string) string {
	if len(s) > 20 {
		return strings.ToValidUTF8(s[:20], "") + "…"
	}
	return s
}

// names are the arguments that the template uses.
func (t template) names() (out []string) {
	for _, p := range t {
		if p.name != "" {
			out = append(out, p.name)
		}
	}
	return out
}

// fill puts the arguments in; false means that one is missing.
func (t template) fill(args values) (string, bool) {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		v, ok := args[p.name]
		switch {
		case !ok, p.guard && v == value{text: "false"}:
			return "", false
		case !p.guard:
			b.WriteString(v.text)
		}
	}
	return b.String(), true
}
