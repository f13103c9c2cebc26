package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// shape is a tool's input schema, as far as it helps to understand what a
// person wrote. Whether the arguments fit it is for the hub to say.
type shape struct {
	root any
	at   any
}

func newShape(schema json.RawMessage) shape {
	var root any
	_ = json.Unmarshal(schema, &root) // no schema says nothing of any argument
	return shape{root, root}
}

// maxDepth bounds how far references and alternatives are followed.
const maxDepth = 8

// object returns the schema itself, where it may be one by reference.
func (s shape) object() map[string]any {
	at := s.at
	for range maxDepth {
		m, _ := at.(map[string]any)
		ref, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		at = s.root
		for _, step := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
			if step != "" {
				m, _ := at.(map[string]any)
				at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
			}
		}
	}
	return nil
}

// branches are the alternatives and parts that a schema is made of.
func (s shape) branches() []shape {
	var out []shape
	m := s.object()
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := m[keyword].([]any)
		for _, b := range list {
			out = append(out, shape{s.root, b})
		}
	}
	return out
}

// property is the shape of a member; the zero shape if nothing is said of it.
func (s shape) property(name string) shape {
	found, _ := s.find(name, maxDepth)
	return found
}

// has reports whether a member of that name is spoken of.
func (s shape) has(name string) bool {
	_, ok := s.find(name, maxDepth)
	return ok
}

func (s shape) find(name string, depth int) (shape, bool) {
	m := s.object()
	props, _ := m["properties"].(map[string]any)
	if p, ok := props[name]; ok {
		return shape{s.root, p}, true
	}
	if depth > 0 {
		for _, b := range s.branches() {
			if found, ok := b.find(name, depth-1); ok {
				return found, true
			}
		}
	}
	return shape{s.root, m["additionalProperties"]}, false
}

// items is the shape of an array's elements.
func (s shape) items() shape {
	for _, part := range append([]shape{s}, s.branches()...) {
		if it, ok := part.object()["items"]; ok {
			return shape{s.root, it}
		}
	}
	return shape{root: s.root}
}

// kinds are the types that the schema allows, as far as it names any.
func (s shape) kinds() map[string]bool {
	out := map[string]bool{}
	s.collect(out, maxDepth)
	return out
}

func (s shape) collect(out map[string]bool, depth int) {
	m := s.object()
	switch t := m["type"].(type) {
	case string:
		out[t] = true
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				out[name] = true
			}
		}
	default:
		values, _ := m["enum"].([]any)
		if v, ok := m["const"]; ok {
			values = append(values, v)
		}
		for _, v := range values {
			if _, ok := v.(string); ok {
				out["string"] = true
			}
		}
	}
	if depth > 0 {
		for _, b := range s.branches() {
			b.collect(out, depth-1)
		}
	}
}

// argument is one argument as a person is told of it.
type argument struct {
	name     string
	kind     string
	text     string
	required bool
}

// arguments lists the members of the schema, the required ones first.
func (s shape) arguments() []argument {
	m := s.object()
	props, _ := m["properties"].(map[string]any)
	must := map[string]bool{}
	list, _ := m["required"].([]any)
	for _, r := range list {
		if name, ok := r.(string); ok {
			must[name] = true
		}
	}
	var out []argument
	for _, name := range slices.Sorted(maps.Keys(props)) {
		p := s.property(name)
		text, _ := p.object()["description"].(string)
		out = append(out, argument{name, strings.Join(slices.Sorted(maps.Keys(p.kinds())), " or "), text, must[name]})
	}
	slices.SortStableFunc(out, func(a, b argument) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return out
}
