package shape

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxDepth = 32
	maxNodes = 5000 // after references were put in their place
)

// Decode reads a schema. None at all, and true, mean an object of anything.
func Decode(raw json.RawMessage) (map[string]any, error) {
	var v any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, fmt.Errorf("the schema is no JSON: %w", err)
		}
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{"type": "object"}, nil
	case bool:
		if v {
			return map[string]any{"type": "object"}, nil
		}
		return nil, fmt.Errorf("the schema allows nothing")
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("the schema is no object")
}

// ObjectRoot returns the schema as OpenAI and Anthropic take it: an object at
// its root, with no combination of schemas there, arrays that say what they
// hold, and references to itself only. A schema that is so already keeps its
// bytes.
func ObjectRoot(raw json.RawMessage) (json.RawMessage, error) {
	root, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	f := fitter{root: root, changed: len(raw) == 0 || raw[0] != '{'}
	if err := f.check(root, false, 0); err != nil {
		return nil, err
	}
	root, err = f.object(root)
	if err != nil {
		return nil, err
	}
	if !f.changed {
		return raw, nil
	}
	return json.Marshal(root)
}

type fitter struct {
	root    map[string]any
	changed bool
	nodes   int
}

// check looks for what cannot be sent and gives items to arrays without.
// Where the members are names of arguments, none of them is a keyword.
func (f *fitter) check(v any, names bool, depth int) error {
	if f.nodes++; f.nodes > maxNodes || depth > 2*maxDepth {
		return fmt.Errorf("the schema is too large or too deep")
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := f.check(e, false, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			if _, err := Lookup(f.root, ref); err != nil {
				return err
			}
		}
		if v["type"] == "array" && v["items"] == nil && v["prefixItems"] == nil {
			v["items"], f.changed = map[string]any{}, true
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !names && slices.Contains(values, name) {
				continue
			}
			if err := f.check(v[name], !names && slices.Contains(named, name), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	values = []string{"enum", "const", "default", "examples"} // keywords that hold no schema
	named  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

var combinators = []string{"allOf", "anyOf", "oneOf"}

// object makes the root an object without combinations.
func (f *fitter) object(root map[string]any) (map[string]any, error) {
	root = maps.Clone(root)
	for range maxDepth {
		ref, ok := root["$ref"].(string)
		if !ok {
			break
		}
		target, err := Lookup(f.root, ref)
		if err != nil {
			return nil, err
		}
		rest := maps.Clone(root)
		delete(rest, "$ref")
		root, f.changed = maps.Clone(target), true
		maps.Copy(root, rest)
	}
	for _, name := range combinators {
		if err := f.merge(root, name); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"not", "enum", "const", "if", "then", "else", "$ref"} {
		if _, ok := root[name]; ok {
			delete(root, name)
			f.changed = true
		}
	}
	switch t := root["type"].(type) {
	case string:
		if t != "object" {
			return nil, fmt.Errorf("the arguments are to be of type %s; they have to be an object", t)
		}
	case nil:
		root["type"], f.changed = "object", true
	default:
		if list, ok := t.([]any); !ok || !slices.Contains(list, any("object")) {
			return nil, fmt.Errorf("the arguments are not to be an object")
		}
		root["type"], f.changed = "object", true
	}
	if _, ok := root["properties"].(map[string]any); !ok {
		root["properties"], f.changed = map[string]any{}, true
	}
	return root, nil
}

// merge puts the properties of the schemas that are combined at the root into
// the root. What all of them require is required with allOf, and what each of
// them does with the others.
func (f *fitter) merge(root map[string]any, name string) error {
	list, ok := root[name].([]any)
	if !ok {
		delete(root, name)
		return nil
	}
	delete(root, name)
	f.changed = true
	props := map[string]any{}
	var common []any
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return fmt.Errorf("%s at the root holds what is no schema", name)
		}
		if ref, isRef := m["$ref"].(string); isRef {
			var err error
			if m, err = Lookup(f.root, ref); err != nil {
				return err
			}
		}
		if t, ok := m["type"].(string); ok && t != "object" {
			return fmt.Errorf("%s at the root allows a %s; the arguments have to be an object", name, t)
		}
		if p, ok := m["properties"].(map[string]any); ok {
			for k, v := range p {
				if _, ok := props[k]; !ok {
					props[k] = v
				}
			}
		}
		required, _ := m["required"].([]any)
		switch {
		case i == 0:
			common = slices.Clone(required)
		case name == "allOf":
			common = append(common, required...)
		default:
			common = slices.DeleteFunc(common, func(r any) bool { return !slices.Contains(required, r) })
		}
	}
	own, _ := root["properties"].(map[string]any)
	maps.Copy(props, own)
	root["properties"] = props
	if required, _ := root["required"].([]any); len(required)+len(common) > 0 {
		root["required"] = unique(append(slices.Clone(required), common...))
	}
	return nil
}

func unique(list []any) []any {
	var out []any
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// Lookup finds what a reference within root refers to.
func Lookup(root map[string]any, ref string) (map[string]any, error) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, fmt.Errorf("the schema refers to %q, which is not part of it", ref)
	}
	var at any = root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil, fmt.Errorf("the schema refers to %q, which it does not have", ref)
			}
			at = v[i]
		}
	}
	m, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema refers to %q, which it does not have", ref)
	}
	return m, nil
}
