package ollama

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stoahub/stoa/internal/llm/shape"
)

// fit makes a schema one that the server can read: it decodes tools into types
// of its own and refuses the whole request where one does not match them, as
// with true for a schema. Keywords that it does not know it passes over.
func fit(raw json.RawMessage) (json.RawMessage, error) {
	object, err := shape.ObjectRoot(raw)
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(object, &root); err != nil {
		return nil, err
	}
	changed := false
	if err := fitObject(root, "", &changed); err != nil {
		return nil, err
	}
	if !changed {
		return object, nil
	}
	return json.Marshal(root)
}

// fitObject goes through the properties of an object at path.
func fitObject(s map[string]any, path string, changed *bool) error {
	if r, ok := s["required"]; ok && !allStrings(r) {
		return fmt.Errorf("required of %q is no list of names, which Ollama does not take", path)
	}
	props, isMap := s["properties"].(map[string]any)
	if !isMap && s["properties"] != nil {
		return fmt.Errorf("properties of %q are no object, which Ollama does not take", path)
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		p, drop, err := fitProperty(props[name], path+"/"+name, changed)
		switch {
		case err != nil:
			return err
		case drop:
			delete(props, name)
			*changed = true
		default:
			props[name] = p
		}
	}
	return nil
}

// fitProperty fits one schema; drop means that it allows nothing.
func fitProperty(v any, path string, changed *bool) (p map[string]any, drop bool, err error) {
	switch v := v.(type) {
	case bool:
		*changed = true
		return map[string]any{}, !v, nil
	case map[string]any:
		p = v
	default:
		return nil, false, fmt.Errorf("%q is no schema", path)
	}
	_, isText := p["type"].(string)
	if t, ok := p["type"]; ok && !isText && !allStrings(t) {
		return nil, false, fmt.Errorf("the type of %q is neither a name nor a list of names, which Ollama does not take", path)
	}
	if d, ok := p["description"]; ok {
		if _, isText := d.(string); !isText {
			return nil, false, fmt.Errorf("the description of %q is no text, which Ollama does not take", path)
		}
	}
	if e, ok := p["enum"]; ok {
		if _, isList := e.([]any); !isList {
			return nil, false, fmt.Errorf("enum of %q is no list, which Ollama does not take", path)
		}
	}
	if list, ok := p["anyOf"].([]any); ok {
		var kept []any
		for _, e := range list {
			o, drop, err := fitProperty(e, path, changed)
			if err != nil {
				return nil, false, err
			}
			if !drop {
				kept = append(kept, o)
			}
		}
		p["anyOf"] = kept
	}
	return p, false, fitObject(p, path, changed)
}

func allStrings(v any) bool {
	list, ok := v.([]any)
	return ok && !slices.ContainsFunc(list, func(e any) bool { _, text := e.(string); return !text })
}
