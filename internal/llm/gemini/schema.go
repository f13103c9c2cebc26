package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/llm/shape"
)

const (
	maxDepth = 32
	maxNodes = 5000
)

// schema turns a JSON Schema into the subset of OpenAPI that a function's
// parameters may have. Without any arguments there are no parameters at all,
// since an object without properties is refused.
func schema(raw json.RawMessage) (map[string]any, error) {
	root, err := shape.Decode(raw)
	if err != nil {
		return nil, err
	}
	object, err := shape.ObjectRoot(raw)
	if err != nil {
		return nil, err
	}
	var top map[string]any
	if err = json.Unmarshal(object, &top); err != nil {
		return nil, err
	}
	c := converter{root: root}
	out, err := c.convert(top, nil)
	if err != nil {
		return nil, err
	}
	if _, ok := out["properties"]; !ok {
		return nil, nil
	}
	return out, nil
}

type converter struct {
	root  map[string]any
	nodes int
}

var types = map[string]string{"string": "STRING", "number": "NUMBER", "integer": "INTEGER", "boolean": "BOOLEAN", "array": "ARRAY", "object": "OBJECT"}

// formats that Gemini knows; any other is refused.
var formats = map[string][]string{"STRING": {"date-time", "enum"}, "NUMBER": {"float", "double"}, "INTEGER": {"int32", "int64"}}

// convert turns one schema. refs are the references it is within: one that
// occurs again would have no end.
func (c *converter) convert(v any, refs []string) (map[string]any, error) {
	if c.nodes++; c.nodes > maxNodes || len(refs) > maxDepth {
		return nil, fmt.Errorf("the schema is too large for Gemini once its references are put in place")
	}
	s, ok := v.(map[string]any)
	if !ok { // true, or what should not be there
		return anything(""), nil
	}
	if ref, ok := s["$ref"].(string); ok {
		if slices.Contains(refs, ref) {
			return nil, fmt.Errorf("the schema contains itself at %s, which Gemini does not take", ref)
		}
		target, err := shape.Lookup(c.root, ref)
		if err != nil {
			return nil, err
		}
		merged := maps.Clone(target)
		for k, v := range s {
			if k != "$ref" {
				merged[k] = v
			}
		}
		return c.convert(merged, append(slices.Clone(refs), ref))
	}
	if list, ok := s["allOf"].([]any); ok {
		return c.all(s, list, refs)
	}
	out := map[string]any{}
	for _, k := range []string{"title", "description"} {
		if text, ok := s[k].(string); ok && text != "" {
			out[k] = text
		}
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := s[k].([]any); ok && s["properties"] == nil {
			return out, c.any(out, list, refs)
		}
	}
	return c.typed(s, out, refs)
}

// anything is a schema for any value, as far as one can be told.
func anything(description string) map[string]any {
	out := map[string]any{"anyOf": []any{map[string]any{"type": "STRING"}, map[string]any{"type": "NUMBER"}, map[string]any{"type": "BOOLEAN"}}}
	if description != "" {
		out["description"] = description
	}
	return out
}

// all merges schemas that hold at once, keyword by keyword.
func (c *converter) all(s map[string]any, list []any, refs []string) (map[string]any, error) {
	merged := maps.Clone(s)
	delete(merged, "allOf")
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if ref, ok := m["$ref"].(string); ok {
			if slices.Contains(refs, ref) {
				return nil, fmt.Errorf("the schema contains itself at %s, which Gemini does not take", ref)
			}
			target, err := shape.Lookup(c.root, ref)
			if err != nil {
				return nil, err
			}
			m, refs = target, append(slices.Clone(refs), ref)
		}
		for k, v := range m {
			switch old := merged[k].(type) {
			case nil:
				merged[k] = v
			case map[string]any:
				if more, ok := v.(map[string]any); ok && k == "properties" {
					both := maps.Clone(more)
					maps.Copy(both, old)
					merged[k] = both
				}
			case []any:
				if more, ok := v.([]any); ok && k == "required" {
					merged[k] = append(slices.Clone(old), more...)
				}
			}
		}
	}
	return c.convert(merged, append(slices.Clone(refs), ""))
}

// any converts alternatives; null among them means nullable.
func (c *converter) any(out map[string]any, list []any, refs []string) error {
	var options []any
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && m["type"] == "null" {
			out["nullable"] = true
			continue
		}
		o, err := c.convert(e, refs)
		if err != nil {
			return err
		}
		options = append(options, o)
	}
	switch len(options) {
	case 0:
		return fmt.Errorf("the schema has an alternative without a choice")
	case 1:
		for k, v := range options[0].(map[string]any) {
			if _, ok := out[k]; !ok {
				out[k] = v
			}
		}
	default:
		out["anyOf"] = options
	}
	return nil
}

// typed converts a schema by its type.
func (c *converter) typed(s, out map[string]any, refs []string) (map[string]any, error) {
	kinds, err := kindsOf(s, out)
	if err != nil {
		return nil, err
	}
	switch len(kinds) {
	case 0:
		maps.Copy(out, anything(""))
		return out, nil
	case 1:
	default:
		var options []any
		for _, k := range kinds {
			one := maps.Clone(s)
			one["type"] = strings.ToLower(k)
			delete(one, "description")
			delete(one, "title")
			o, err := c.convert(one, refs)
			if err != nil {
				return nil, err
			}
			options = append(options, o)
		}
		out["anyOf"] = options
		return out, nil
	}
	out["type"] = kinds[0]
	if f, ok := s["format"].(string); ok && slices.Contains(formats[kinds[0]], f) {
		out["format"] = f
	}
	switch kinds[0] {
	case "OBJECT":
		return out, c.object(s, out, refs)
	case "ARRAY":
		copyOf(s, out, "minItems", "maxItems")
		item, err := c.convert(s["items"], refs)
		out["items"] = item
		return out, err
	case "INTEGER", "NUMBER":
		copyOf(s, out, "minimum", "maximum")
	}
	enumerate(s, out)
	return out, nil
}

func copyOf(s, out map[string]any, names ...string) {
	for _, n := range names {
		if v, ok := s[n].(float64); ok {
			out[n] = v
		}
	}
}

// kindsOf finds the types of a schema, also one that does not say; null among
// them goes into out.
func kindsOf(s, out map[string]any) (kinds []string, err error) {
	var list []any
	switch t := s["type"].(type) {
	case string:
		list = []any{t}
	case []any:
		list = t
	default:
		switch e, _ := s["enum"].([]any); {
		case s["properties"] != nil:
			list = []any{"object"}
		case s["items"] != nil:
			list = []any{"array"}
		case len(e) > 0 || s["const"] != nil:
			list = []any{"string"}
		}
	}
	for _, t := range list {
		name, _ := t.(string)
		if name == "null" {
			out["nullable"] = true
			continue
		}
		k, ok := types[name]
		if !ok {
			return nil, fmt.Errorf("the schema has a type %v, which JSON does not have", t)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// enumerate takes over an enumeration of strings. Others are told in words,
// since only strings may be enumerated.
func enumerate(s, out map[string]any) {
	list, _ := s["enum"].([]any)
	if c, ok := s["const"]; ok {
		list = []any{c}
	}
	var texts []any
	strs := out["type"] == "STRING"
	for _, v := range list {
		text, ok := v.(string)
		strs = strs && (ok || v == nil)
		if ok && text != "" {
			texts = append(texts, text)
		}
	}
	switch {
	case len(list) == 0:
	case strs && len(texts) > 0:
		out["enum"], out["format"] = texts, "enum"
	default:
		b, _ := json.Marshal(list)
		d, _ := out["description"].(string)
		out["description"] = strings.TrimSpace(d + " One of " + string(b) + ".")
	}
}

func (c *converter) object(s, out map[string]any, refs []string) error {
	props, _ := s["properties"].(map[string]any)
	if len(props) == 0 {
		return nil
	}
	converted := make(map[string]any, len(props))
	for _, name := range slices.Sorted(maps.Keys(props)) {
		p, err := c.convert(props[name], refs)
		if err != nil {
			return fmt.Errorf("argument %s: %w", name, err)
		}
		converted[name] = p
	}
	out["properties"] = converted
	var required []any
	list, _ := s["required"].([]any)
	for _, r := range list {
		if name, ok := r.(string); ok && props[name] != nil && !slices.Contains(required, r) {
			required = append(required, r)
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return nil
}
