package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const headerKeyword = "x-mcp-header"

// Binding says that an argument is mirrored in an HTTP header.
type Binding struct {
	Path   []string // names of properties from the root of the arguments
	Header string   // as annotated: the header is Mcp-Param- followed by it
	Type   string   // string, integer or boolean
}

// Headers returns the header bindings of a tool's input schema, ordered by
// path. An annotation that the protocol does not allow is an error, upon which
// a client must not offer the tool: a name that is no HTTP token or is used
// twice, a property that is not a string, integer or boolean, or a place that
// is not reached from the root by properties alone.
func Headers(raw []byte) ([]Binding, error) {
	if !bytes.Contains(raw, []byte(headerKeyword)) && !bytes.Contains(raw, []byte(`\u`)) {
		return nil, nil
	}
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("read %s: %d bytes are more than the %d allowed", headerKeyword, len(raw), maxSchemaBytes)
	}
	doc, err := decodeSchema(raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", headerKeyword, err)
	}
	r := headerReader{taken: map[string]string{}}
	if err := r.schema(doc, nil, true); err != nil {
		return nil, fmt.Errorf("read %s: %w", headerKeyword, err)
	}
	slices.SortFunc(r.found, func(a, b Binding) int { return slices.Compare(a.Path, b.Path) })
	return r.found, nil
}

type headerReader struct {
	found []Binding
	taken map[string]string // lower-case header -> pointer of the property
}

// schema reads one subschema. reached says that path leads to its value from
// the root by properties alone.
func (r *headerReader) schema(v any, path []string, reached bool) error {
	s, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if value, ok := s[headerKeyword]; ok {
		if !reached || len(path) == 0 {
			return fmt.Errorf("near %q: the annotation is only allowed on a property that is reached by properties alone", pointer(path))
		}
		if err := r.annotation(value, s["type"], path); err != nil {
			return fmt.Errorf("property %q: %w", pointer(path), err)
		}
	}
	// In a fixed order, so that of two mistakes the same one is always told.
	for _, keyword := range keys(s) {
		var err error
		switch keyword {
		case "const", "enum", "default", "examples", headerKeyword:
			// data, in which the keyword means nothing
		case "properties":
			err = r.named(s[keyword], path, reached)
		case "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			err = r.named(s[keyword], path, false)
		default:
			err = r.other(s[keyword], path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *headerReader) named(v any, path []string, reached bool) error {
	m, _ := v.(map[string]any)
	for _, name := range keys(m) {
		if err := r.schema(m[name], append(slices.Clone(path), name), reached); err != nil {
			return err
		}
	}
	return nil
}

func (r *headerReader) other(v any, path []string) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		if err := r.schema(e, path, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *headerReader) annotation(value, typ any, path []string) error {
	header, ok := value.(string)
	if !ok || header == "" {
		return errors.New("the annotation must be a string that is not empty")
	}
	if i := strings.IndexFunc(header, func(c rune) bool { return !isToken(c) }); i >= 0 {
		return fmt.Errorf("%s is not a name for an HTTP header", quote(header))
	}
	switch typ {
	case "string", "integer", "boolean":
	default:
		return fmt.Errorf("only a string, an integer or a boolean can be sent as a header, not type %s", brief(typ))
	}
	lower := strings.ToLower(header)
	if other, ok := r.taken[lower]; ok {
		return fmt.Errorf("the header %s is already that of property %q", quote(header), other)
	}
	r.taken[lower] = pointer(path)
	r.found = append(r.found, Binding{Path: path, Header: header, Type: typ.(string)})
	return nil
}

// isToken reports whether c may stand in an HTTP field name (RFC 9110, tchar).
func isToken(c rune) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
		return true
	}
	return c < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
