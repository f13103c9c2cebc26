package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSchema(t *testing.T) {
	in := func(s string) string { return `{"type":"object","properties":{"a":` + s + `}}` }
	for _, tc := range []struct{ name, in, want, err string }{
		{"no arguments", `{"type":"object","properties":{}}`, `null`, ""},
		{"none", ``, `null`, ""},
		{"string", in(`{"type":"string","pattern":"x","minLength":1,"default":"d","examples":["e"]}`), `{"type":"STRING"}`, ""},
		{"format unknown", in(`{"type":"string","format":"uri"}`), `{"type":"STRING"}`, ""},
		{"format known", in(`{"type":"string","format":"date-time"}`), `{"format":"date-time","type":"STRING"}`, ""},
		{"nullable", in(`{"type":["string","null"],"description":"d"}`), `{"description":"d","nullable":true,"type":"STRING"}`, ""},
		{"two types", in(`{"type":["string","integer"],"description":"d","minimum":1}`), `{"anyOf":[{"type":"STRING"},{"minimum":1,"type":"INTEGER"}],"description":"d"}`, ""},
		{"null by anyOf", in(`{"anyOf":[{"type":"integer","maximum":5},{"type":"null"}],"title":"T"}`), `{"maximum":5,"nullable":true,"title":"T","type":"INTEGER"}`, ""},
		{"oneOf", in(`{"oneOf":[{"type":"integer"},{"type":"boolean"}]}`), `{"anyOf":[{"type":"INTEGER"},{"type":"BOOLEAN"}]}`, ""},
		{"enum without type", in(`{"enum":["x","y"]}`), `{"enum":["x","y"],"format":"enum","type":"STRING"}`, ""},
		{"const", in(`{"const":"x"}`), `{"enum":["x"],"format":"enum","type":"STRING"}`, ""},
		{"enum of numbers", in(`{"type":"integer","enum":[1,2],"description":"Level."}`), `{"description":"Level. One of [1,2].","type":"INTEGER"}`, ""},
		{"array without items", in(`{"type":"array","minItems":1,"uniqueItems":true}`), `{"items":{"anyOf":[{"type":"STRING"},{"type":"NUMBER"},{"type":"BOOLEAN"}]},"minItems":1,"type":"ARRAY"}`, ""},
		{"anything", in(`{"description":"d"}`), `{"anyOf":[{"type":"STRING"},{"type":"NUMBER"},{"type":"BOOLEAN"}],"description":"d"}`, ""},
		{"true", in(`true`), `{"anyOf":[{"type":"STRING"},{"type":"NUMBER"},{"type":"BOOLEAN"}]}`, ""},
		{"map", in(`{"type":"object","additionalProperties":{"type":"string"}}`), `{"type":"OBJECT"}`, ""},
		{"required not there", in(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x","y","x"]}`), `{"properties":{"x":{"type":"STRING"}},"required":["x"],"type":"OBJECT"}`, ""},
		{"properties of a string", in(`{"type":"string","properties":{"x":{}},"required":["x"]}`), `{"type":"STRING"}`, ""},
		{"allOf", in(`{"allOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},{"properties":{"y":{"type":"number"}},"required":["y"]}],"description":"d"}`), `{"description":"d","properties":{"x":{"type":"STRING"},"y":{"type":"NUMBER"}},"required":["x","y"],"type":"OBJECT"}`, ""},
		{"type unknown", in(`{"type":"file"}`), "", "argument a: the schema has a type file"},
		{"only null", in(`{"anyOf":[{"type":"null"}]}`), "", "without a choice"},
		{"itself by allOf", `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"allOf":[{"$ref":"#/$defs/n"}]}}}`, "", "contains itself"},
		{"a reference twice", `{"type":"object","properties":{"a":{"$ref":"#/$defs/n","description":"here"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`, `{"description":"here","type":"INTEGER"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := schema(json.RawMessage(tc.in))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var a any
			if got != nil {
				a = got["properties"].(map[string]any)["a"]
			}
			if b, _ := json.Marshal(a); string(b) != tc.want {
				t.Errorf("%s\nwant %s", b, tc.want)
			}
		})
	}
}

// A reference that doubles at every level must not cost what it seems to be.
func TestSchemaBomb(t *testing.T) {
	defs := `"d0":{"type":"string"}`
	for i := 1; i < 30; i++ {
		defs += fmt.Sprintf(`,"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%[2]d"},"b":{"$ref":"#/$defs/d%[2]d"}}}`, i, i-1)
	}
	if _, err := schema(json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"#/$defs/d29"}},"$defs":{` + defs + `}}`)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
}

var allowed = []string{"type", "format", "title", "description", "nullable", "enum", "items", "properties", "required", "minItems", "maxItems", "minimum", "maximum", "anyOf"}

// Whatever the schema, what comes out has the members that Gemini knows, and
// each schema in it has a type or alternatives.
func TestSchemaAlways(t *testing.T) {
	kind := rapid.SampledFrom([]any{"string", "integer", "number", "boolean", "array", "object", "null", []any{"string", "null"}, []any{"object", "array"}, []any{}, nil})
	var draw func(t *rapid.T, depth int) any
	draw = func(t *rapid.T, depth int) any {
		s := map[string]any{"type": kind.Draw(t, "type"), "pattern": "x", "additionalProperties": false}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"enum", "const", "format", "items", "properties", "anyOf", "allOf", "$ref", "required"}), rapid.ID[string]).Draw(t, "members") {
			switch {
			case name == "enum":
				s[name] = []any{"a", 1, nil}
			case name == "const" || name == "format":
				s[name] = "date-time"
			case name == "required":
				s[name] = []any{"p", "q", 3}
			case name == "$ref":
				s[name] = "#/properties/p"
			case depth > 3:
			case name == "items":
				s[name] = draw(t, depth+1)
			case name == "properties":
				s[name] = map[string]any{"p": draw(t, depth+1), "type": draw(t, depth+1)}
			default:
				s[name] = []any{draw(t, depth+1), draw(t, depth+1)}
			}
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"p": draw(t, 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := schema(raw); err == nil && out != nil {
			checkSchema(t, out, string(raw))
		}
	})
}

func checkSchema(t *rapid.T, s map[string]any, from string) {
	if s["type"] == nil && s["anyOf"] == nil {
		t.Fatalf("no type: %v\nfrom %s", s, from)
	}
	for k, v := range s {
		if !slices.Contains(allowed, k) {
			t.Fatalf("%s: %v\nfrom %s", k, s, from)
		}
		switch v := v.(type) {
		case map[string]any:
			if k == "items" {
				checkSchema(t, v, from)
				continue
			}
			for _, p := range v {
				checkSchema(t, p.(map[string]any), from)
			}
		case []any:
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					checkSchema(t, m, from)
				}
			}
		}
	}
}
