package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// fitting says which references of a plan cannot be of the type that a tool
// takes, as far as schemas tell: those of the plan's inputs, and those of what
// tools yield.
type fitting struct {
	plan *Plan
	find Lookup
	own  map[string]string
}

// misfits are the references in the arguments of a call that stand for something
// else than the tool takes there.
func (f *fitting) misfits(at string, s *Step, tool Tool, args json.RawMessage) []Problem {
	if tool.Input == nil {
		return nil
	}
	var out []Problem
	eachReference(args, func(pointer, text string) {
		ref, ok := session.ParseReference(text)
		if !ok || ref.Session != "" || s.ForEach != nil && ref.Name == s.ForEach.As {
			return
		}
		takes := kindsOf(schemaAt(tool.Input.Raw, pointerSteps(pointer)))
		shape, whole := f.shape(ref)
		is := kindsOf(shape)
		if len(takes) == 0 || len(is) == 0 || overlap(is, takes) {
			return
		}
		p := Problem{Pointer: at + pointer, Step: s.ID, Message: fmt.Sprintf("takes %s, and %s is %s", list(takes), text, list(is))}
		if whole != "" {
			p.Message += ": all that " + whole + " yields"
			p.Hint = memberHint(text, shape, lastName(pointer), takes)
		}
		out = append(out, p)
	})
	return out
}

// shape is the schema of what a reference stands for; nil if it is not known.
// whole is the step whose whole result it is, if it is that.
func (f *fitting) shape(ref session.Reference) (shape json.RawMessage, whole string) {
	for _, in := range f.plan.Inputs {
		if in.Name == ref.Name {
			return schemaAt(in.Schema, ref.Path), ""
		}
	}
	s := f.plan.Step(f.own[ref.Name])
	if s == nil || s.ForEach != nil || s.Fallback != nil {
		return nil, ""
	}
	tool, err := f.find(s.Called())
	if err != nil || tool.Output == nil {
		return nil, ""
	}
	path := ref.Path
	if ref.Name != s.ID && len(s.Outputs) > 1 {
		path = append([]session.Step{session.Member(ref.Name)}, path...)
	}
	if len(path) == 0 {
		return tool.Output, s.ID
	}
	return schemaAt(tool.Output, path), ""
}

// schemaAt is the schema of a part, where it can be told simply; else nil.
func schemaAt(raw json.RawMessage, path []session.Step) json.RawMessage {
	for _, step := range path {
		switch {
		case raw == nil:
			return nil
		case step.IsIndex && step.Member == "":
			raw = wire.Get(raw, "items")
		default:
			if inner := wire.Get(raw, "properties"); inner != nil {
				raw = wire.Get(inner, step.Member)
			} else {
				raw = nil
			}
		}
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return raw
}

// pointerSteps makes a path of a pointer into arguments.
func pointerSteps(pointer string) []session.Step {
	var out []session.Step
	for _, name := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if i, ok := index(name); ok {
			out = append(out, session.At(i))
		} else {
			out = append(out, session.Member(pointerPlain.Replace(name)))
		}
	}
	return out
}

func index(name string) (n int, ok bool) {
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' || i > 6 {
			return 0, false
		}
		n = 10*n + int(name[i]-'0')
	}
	return n, name != ""
}

// lastName is the member that a pointer leads to.
func lastName(pointer string) string {
	return pointerPlain.Replace(pointer[strings.LastIndexByte(pointer, '/')+1:])
}

// kindsOf are the types that a schema allows; nil if it does not say plainly.
func kindsOf(raw json.RawMessage) []string {
	var s struct {
		Type  any             `json:"type"`
		AnyOf json.RawMessage `json:"anyOf"`
		OneOf json.RawMessage `json:"oneOf"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.AnyOf != nil || s.OneOf != nil {
		return nil
	}
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, one := range t {
			if name, ok := one.(string); ok {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}

// overlap says whether something can be of both.
func overlap(is, takes []string) bool {
	return slices.ContainsFunc(is, func(k string) bool {
		return slices.Contains(takes, k) || k == "integer" && slices.Contains(takes, "number") || k == "number" && slices.Contains(takes, "integer")
	})
}

// list says types as one would: "a string or null".
func list(kinds []string) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		switch k {
		case "null":
			out[i] = k
		case "object", "array", "integer":
			out[i] = "an " + k
		default:
			out[i] = "a " + k
		}
	}
	return strings.Join(out, " or ")
}

// memberHint names the member of a result that is probably meant: the one that is
// called like the argument, or the only one of its type.
func memberHint(text string, shape json.RawMessage, arg string, takes []string) string {
	var fits []string
	for _, m := range wire.Members(wire.Get(shape, "properties")) {
		name := string(m.Name)
		if kinds := kindsOf(m.Value); len(kinds) > 0 && overlap(kinds, takes) {
			fits = append(fits, name)
		}
	}
	if slices.Contains(fits, arg) {
		fits = []string{arg}
	}
	if len(fits) == 0 || len(fits) > 5 {
		return ""
	}
	for i, name := range fits {
		fits[i] = text + session.FormatPath([]session.Step{session.Member(name)})
	}
	return "Is " + strings.Join(fits, " or ") + " meant?"
}
