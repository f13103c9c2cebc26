package ollama

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct{ name, schema, want string }{
		{"as it is", `{"type":"object","properties":{"a":{"type":["string","null"],"minLength":1}},"required":["a"]}`, `{"type":"object","properties":{"a":{"type":["string","null"],"minLength":1}},"required":["a"]}`},
		{"none", ``, `{"properties":{},"type":"object"}`},
		{"anything, and nothing", `{"type":"object","properties":{"a":true,"b":false}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"within", `{"type":"object","properties":{"o":{"type":"object","properties":{"a":true}},"u":{"anyOf":[true,{"type":"string"},false]}}}`, `{"properties":{"o":{"properties":{"a":{}},"type":"object"},"u":{"anyOf":[{},{"type":"string"}]}},"type":"object"}`},
		{"type of another kind", `{"type":"object","properties":{"a":{"type":{"x":1}}}}`, `error: the type of "/a"`},
		{"description of another kind", `{"type":"object","properties":{"a":{"description":["x"]}}}`, `error: the description of "/a"`},
		{"enum of another kind", `{"type":"object","properties":{"a":{"enum":{"x":1}}}}`, `error: enum of "/a"`},
		{"required as in older drafts", `{"type":"object","properties":{"o":{"type":"object","required":true}}}`, `error: required of "/o"`},
		{"no schema", `{"type":"object","properties":{"a":"string"}}`, `error: "/a" is no schema`},
		{"no object", `{"type":"string"}`, `error: the arguments`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := fit(json.RawMessage(tc.schema))
			if reason, ok := strings.CutPrefix(tc.want, "error: "); ok {
				if err == nil || !strings.Contains(err.Error(), reason) {
					t.Errorf("%s, %v, want %s", got, err, reason)
				}
				return
			}
			if err != nil || string(got) != tc.want {
				t.Errorf("%s, %v, want %s", got, err, tc.want)
			}
		})
	}
}
