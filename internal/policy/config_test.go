package policy

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
)

// Both packages have the same fields, so what is copied field by field must
// come out as the same JSON; a field that is forgotten does not.
func TestFromConfig(t *testing.T) {
	inner := config.Cond{Glob: "g"}
	cond := config.Cond{Any: []config.Cond{inner}, Is: json.RawMessage("1"), Glob: "a", Matches: "b", Under: "c", Above: new(1.0), Below: new(2.0), Present: new(true), Not: &inner}
	rule := config.Rule{
		Tools: []string{"t"}, Prompts: []string{"p"}, Resources: []string{"r"}, Principals: []string{"w"}, Groups: []string{"g"},
		ReadOnly: new(true), Destructive: new(false), Idempotent: new(true), OpenWorld: new(false),
		Args: map[string]config.Cond{"x": cond}, Action: "deny", Reason: "so",
	}
	for _, v := range []any{cond, rule} {
		for i := range reflect.ValueOf(v).NumField() {
			if reflect.ValueOf(v).Field(i).IsZero() {
				t.Errorf("%T.%s is not tested", v, reflect.TypeOf(v).Field(i).Name)
			}
		}
	}
	from := config.Rules{Default: "ask", Rules: []config.Rule{rule}}
	plain := func(v any) (out map[string]any) {
		b, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(b, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := plain(from)
	want["Name"] = "policy"
	if d := cmp.Diff(want, plain(FromConfig("policy", from))); d != "" {
		t.Error(d)
	}
}
