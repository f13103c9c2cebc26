package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/session"
)

// eachReference calls fn with each string in raw that is a reference, in the
// order of the names of members, and where it stands.
func eachReference(raw []byte, fn func(pointer, ref string)) {
	eachMeant(raw, func(pointer, text string) {
		if _, ok := session.ParseReference(text); ok {
			fn(pointer, text)
		}
	})
}

// eachMeant is eachReference that also finds what goes on as a reference would and
// cannot be read as one. Whether it names anything is for fn to say.
func eachMeant(raw []byte, fn func(pointer, text string)) {
	if !session.HasReference(raw) {
		return
	}
	if v, ok := decoded(raw); ok {
		walk(v, "", fn)
	}
}

func walk(v any, pointer string, fn func(pointer, ref string)) {
	switch v := v.(type) {
	case string:
		if _, ok := session.ParseReference(v); ok {
			fn(pointer, v)
		} else if _, why := session.Malformed(v); why != "" {
			fn(pointer, v)
		}
	case []any:
		for i, e := range v {
			walk(e, pointer+"/"+strconv.Itoa(i), fn)
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && len(v) == 1 {
			walk(ref, pointer, fn) // an explicit one stands for the object
			return
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			walk(v[k], pointer+"/"+escape(k), fn)
		}
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escape(member string) string { return pointerEscapes.Replace(member) }

// used calls fn with each reference of a step that must stand for something
// before it is called, and then with those of its compensation.
func (s *Step) used(pointer string, fn func(pointer, ref string, undo bool)) {
	before := func(at, ref string) { fn(at, ref, false) }
	in := func(at string, raw json.RawMessage, undo bool) {
		eachReference(raw, func(p, ref string) { fn(at+p, ref, undo) })
	}
	s.When.references(pointer+"/when", before)
	if s.ForEach != nil {
		before(pointer+"/forEach/in", s.ForEach.In)
	}
	in(pointer+"/args", s.Args, false)
	if s.Fallback != nil {
		in(pointer+"/fallback/args", s.Fallback.Args, false)
		in(pointer+"/fallback/value", s.Fallback.Value, false)
	}
	if s.Compensate != nil {
		in(pointer+"/compensate/args", s.Compensate.Args, true)
	}
}

// literals are the arguments and values of a step in which references are
// replaced, by where they stand.
func (s *Step) literals(pointer string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{pointer + "/args": s.Args}
	if s.Fallback != nil {
		out[pointer+"/fallback/args"], out[pointer+"/fallback/value"] = s.Fallback.Args, s.Fallback.Value
	}
	if s.Compensate != nil {
		out[pointer+"/compensate/args"] = s.Compensate.Args
	}
	return out
}

// Owner says which step a name belongs to: by its id or by one of its outputs.
// It is "" for inputs and what is not of the plan.
func (p *Plan) Owner(name string) string {
	for i := range p.Steps {
		if p.Steps[i].ID == name || slices.Contains(p.Steps[i].Outputs, name) {
			return p.Steps[i].ID
		}
	}
	return ""
}

// Needs returns the steps that must have ended before a step begins, in the
// order of the plan.
func (p *Plan) Needs(id string) []string { return p.needs(p.owners(), p.Step(id)) }

// owners maps every name that a step owns to its id.
func (p *Plan) owners() map[string]string {
	own := make(map[string]string, 2*len(p.Steps))
	for i := range p.Steps {
		for _, o := range p.Steps[i].Outputs {
			own[o] = p.Steps[i].ID
		}
	}
	for i := range p.Steps {
		own[p.Steps[i].ID] = p.Steps[i].ID
	}
	return own
}

func (p *Plan) needs(own map[string]string, s *Step) []string {
	set := map[string]bool{}
	for _, a := range s.After {
		if own[a] == a { // that there is no such step is said by Check
			set[a] = true
		}
	}
	s.used("", func(_, text string, undo bool) {
		ref, ok := session.ParseReference(text)
		if !ok || undo || ref.Session != "" || s.ForEach != nil && ref.Name == s.ForEach.As {
			return
		}
		if id := own[ref.Name]; id != "" {
			set[id] = true
		}
	})
	return slices.Sorted(maps.Keys(set))
}
