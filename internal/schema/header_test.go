package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeaders(t *testing.T) {
	got, err := Headers([]byte(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"where":{"type":"object","properties":{"zone":{"type":"integer","x-mcp-header":"Zone-Id"}}},
		"dry":{"type":"boolean","x-mcp-header":"Dry"},
		"x-mcp-header":{"type":"object"},
		"doc":{"type":"object","default":{"x-mcp-header":1},"enum":[{"x-mcp-header":2}]}
	}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Binding{
		{[]string{"dry"}, "Dry", "boolean"},
		{[]string{"region"}, "Region", "string"},
		{[]string{"where", "zone"}, "Zone-Id", "integer"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestHeadersRefuses(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"number", `{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, `not type "number"`},
		{"no type", `{"properties":{"a":{"x-mcp-header":"A"}}}`, "not type null"},
		{"union", `{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`, "not type ["},
		{"empty", `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "not empty"},
		{"not a string", `{"properties":{"a":{"type":"string","x-mcp-header":true}}}`, "must be a string"},
		{"space", `{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, "not a name"},
		{"line break", `{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB: c"}}}`, "not a name"},
		{"not ASCII", `{"properties":{"a":{"type":"string","x-mcp-header":"É"}}}`, "not a name"},
		{"twice", `{"properties":{"a":{"type":"string","x-mcp-header":"X"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"x"}}}}}`, `already that of property "/a"`},
		{"items", `{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"X"}}}}`, "reached by properties alone"},
		{"defs", `{"$defs":{"d":{"type":"string","x-mcp-header":"X"}}}`, "reached by properties alone"},
		{"below anyOf", `{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"X"}}}]}`, "reached by properties alone"},
		{"root", `{"type":"string","x-mcp-header":"X"}`, "reached by properties alone"},
		{"written with escapes", `{"properties":{"a":{"x-mcp-head\u0065r":"X"}}}`, "not type null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Headers([]byte(tt.schema))
			if err == nil || !strings.Contains(err.Error(), tt.want) || got != nil {
				t.Fatalf("%v, error %v; want one with %q", got, err, tt.want)
			}
		})
	}
}

func TestHeadersOfOrdinarySchemaIsCheap(t *testing.T) {
	raw := []byte(issueSchema)
	if n := testing.AllocsPerRun(100, func() { _, _ = Headers(raw) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
