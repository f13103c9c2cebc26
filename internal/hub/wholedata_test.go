package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stoahub/stoa/internal/hubtest"
)

// What a plan yields is whole wherever it goes: in the answer of plan_execute,
// in the value that it is kept as, and in a call that refers to it. What is only
// shown says that it is a part, and how to get the rest.
func TestPlanDataIsWhole(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, planSpec())
	c := h.Client(t, hubtest.ClientOptions{Face: "/s/whole/mcp", Header: nil})
	var rows []string
	for i := range 5000 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"name":"row number %d"}`, i, i))
	}
	data := `{"rows":[` + strings.Join(rows, ",") + `],"text":"` + strings.Repeat("0123456789", 9200) + `"}`
	good(t, c.Tool("context_add", `{"name":"data","data":`+data+`}`))
	const text = `{"steps":[{"id":"a","tool":"up__echo","args":{"v":"@data"},"outputs":["out"]}],"outputs":{"rows":"@out.v.rows","text":"@out.v.text"}}`
	c.Tool("plan_execute", `{"plan":`+text+`,"saveAs":"run1"}`)
	c.Tool("up__echo", `{"rows":"@run1.outputs.rows","text":"@run1.outputs.text","saveAs":"back"}`)
	want := map[string]any{}
	if err := json.Unmarshal([]byte(data), &want); err != nil {
		t.Fatal(err)
	}
	for value, path := range map[string][]string{"run1": {"outputs"}, "back": nil} {
		status, body := h.Get("/api/v1/sessions/whole/values/" + value)
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil || status != 200 {
			t.Fatalf("%s: status %d, %v: %.300s", value, status, err, body)
		}
		for _, name := range path {
			got, _ = got[name].(map[string]any)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is not what was read (-read +kept): %.1000s", value, diff)
		}
	}

	// plan_status shows parts, and says so, where no card keeps all of it.
	status := h.Client(t, hubtest.ClientOptions{Header: in("whole")}).Tool("plan_status", `{"sessionId":"current","includeResults":true}`)
	shown := string(status.Raw)
	if len(shown) > 100<<10 || !strings.Contains(shown, "whole: true") || !strings.Contains(shown, `bytes`) {
		t.Errorf("plan_status: %d bytes, %.600s", len(shown), shown)
	}
	if whole := c.Tool("plan_status", `{"sessionId":"current","includeResults":true,"whole":true}`); whole.Error != nil {
		t.Errorf("plan_status, whole: %.300s", whole.Raw)
	}
}
