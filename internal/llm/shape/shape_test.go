package shape

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/llm"
)

func TestObjectRoot(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 100) + `{}` + strings.Repeat(`}}`, 100)
	for _, tc := range []struct{ name, in, want, err string }{
		{"none", ``, `{"properties":{},"type":"object"}`, ""},
		{"true", `true`, `{"properties":{},"type":"object"}`, ""},
		{"false", `false`, "", "allows nothing"},
		{"null", `null`, `{"properties":{},"type":"object"}`, ""},
		{"no JSON", `{`, "", "no JSON"},
		{"a number", `1`, "", "no object"},
		{"fits: same bytes", `{ "type":"object", "properties": {"z":{},"a":{}} }`, `{ "type":"object", "properties": {"z":{},"a":{}} }`, ""},
		{"no type", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`, ""},
		{"types", `{"type":["object","null"]}`, `{"properties":{},"type":"object"}`, ""},
		{"wrong types", `{"type":["string","null"]}`, "", "not to be an object"},
		{"array without items", `{"type":"object","properties":{"a":{"type":"array"}}}`, `{"properties":{"a":{"items":{},"type":"array"}},"type":"object"}`, ""},
		{"an argument named type", `{"type":"object","properties":{"type":{"type":"string"},"$ref":{"type":"string"},"enum":{"type":"array"}}}`, `{"properties":{"$ref":{"type":"string"},"enum":{"items":{},"type":"array"},"type":{"type":"string"}},"type":"object"}`, ""},
		{"a default that looks like a schema", `{"type":"object","properties":{"a":{"default":{"$ref":"far"}}}}`, `{"type":"object","properties":{"a":{"default":{"$ref":"far"}}}}`, ""},
		{"root is a reference", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"x":{}}}}}`, `{"$defs":{"a":{"properties":{"x":{}},"type":"object"}},"properties":{"x":{}},"type":"object"}`, ""},
		{"root refers to itself", `{"$ref":"#"}`, `{"properties":{},"type":"object"}`, ""},
		{"a reference that leads nowhere", `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}}}`, "", `"#/$defs/b", which it does not have`},
		{"allOf", `{"allOf":[{"properties":{"a":{}},"required":["a"]},{"$ref":"#/$defs/b"}],"$defs":{"b":{"type":"object","properties":{"b":{}},"required":["b"]}}}`, `{"$defs":{"b":{"properties":{"b":{}},"required":["b"],"type":"object"}},"properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}`, ""},
		{"oneOf: what all require", `{"type":"object","oneOf":[{"properties":{"a":{}},"required":["k","a"]},{"properties":{"b":{}},"required":["k"]}]}`, `{"properties":{"a":{},"b":{}},"required":["k"],"type":"object"}`, ""},
		{"anyOf with a string", `{"anyOf":[{"type":"object"},{"type":"string"}]}`, "", "allows a string"},
		{"not at the root", `{"type":"object","properties":{},"not":{"required":["a"]}}`, `{"properties":{},"type":"object"}`, ""},
		{"too deep", deep, "", "too deep"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ObjectRoot(json.RawMessage(tc.in))
			switch {
			case tc.err != "":
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s, %v", got, err)
				}
			case err != nil || string(got) != tc.want:
				t.Errorf("%s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	req := llm.Request{Tools: []llm.Tool{{Name: "a:b"}, {Name: "a_b"}, {Name: "7up"}, {Name: "ü"}},
		Messages: []llm.Message{{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.ToolCall{Name: "old.tool"}}}}}}
	n := NewNames(Rule{Max: 20, Also: "-", Letter: true}, req)
	for name, want := range map[string]string{"a_b": "a_b", "7up": "_7up", "ü": "_", "old.tool": "old_tool", "": "__e3b0c442"} {
		if got := n.Out(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	if n.Back("a_b") != "a_b" || n.Back("old_tool") != "old.tool" || n.Back("made_up") != "made_up" {
		t.Errorf("back: %q, %q, %q", n.Back("a_b"), n.Back("old_tool"), n.Back("made_up"))
	}
}

// Whatever our names are, the provider's fit its rule, and lead back.
func TestNamesAlways(t *testing.T) {
	fits := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,19}$`)
	word := rapid.StringMatching(`[a-b:._ü-]{0,4}(0123456789abcdef){0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		var req llm.Request
		for _, name := range rapid.SliceOfNDistinct(word, 0, 12, rapid.ID[string]).Draw(t, "names") {
			req.Tools = append(req.Tools, llm.Tool{Name: name})
		}
		n := NewNames(Rule{Max: 20, Also: "-", Letter: true}, req)
		for _, tool := range req.Tools {
			out := n.Out(tool.Name)
			if !fits.MatchString(out) || n.Back(out) != tool.Name || fits.MatchString(tool.Name) && out != tool.Name {
				t.Fatalf("%q is %q and leads back to %q", tool.Name, out, n.Back(out))
			}
		}
	})
}
