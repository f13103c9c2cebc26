package catalog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	var tools []*Item
	for _, raw := range []string{
		`{"name":"a","description":"A.","inputSchema":{"type":"object"},"x":1e400}`, `{"name":"b","inputSchema":{"type":"object"}}`, `{"name":"c","inputSchema":{"type":"object"}}`,
	} {
		it, err := Parse(Tool, "up", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, it)
	}
	Apply(tools, map[string]Override{"a": {Name: "z", Description: "Z."}, "b": {Name: "c", Timeout: time.Second}, "c": {Name: "c"}, "d": {Name: "e"}})
	var got []string
	for _, it := range tools {
		got = append(got, it.Exposed, string(it.Shown))
	}
	want := []string{
		"up__z", `{"name":"up__z","description":"Z.","inputSchema":{"type":"object"},"x":1e400}`,
		tools[1].Exposed, `{"name":"` + tools[1].Exposed + `","inputSchema":{"type":"object"}}`,
		"up__c", `{"name":"up__c","inputSchema":{"type":"object"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(tools[1].Exposed) != len("up__c_")+hashLen || len(tools[1].Notes) != 1 || tools[1].Timeout != time.Second {
		t.Errorf("the tool whose new name was taken: %+v", tools[1])
	}
	if string(tools[0].Raw) != `{"name":"a","description":"A.","inputSchema":{"type":"object"},"x":1e400}` {
		t.Errorf("what the upstream said was changed: %s", tools[0].Raw)
	}
}
