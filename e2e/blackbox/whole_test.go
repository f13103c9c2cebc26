package blackbox

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B2: what a plan yields is whole, or is said to be a part.

func TestPlanYieldsAllOfAText(t *testing.T) {
	t.Parallel()
	const size = 92_000
	files, _ := withTools(t, longTools)
	h := serve(t, object{"files": files})
	plan := planOf(object{"id": "a", "tool": "files__long", "args": object{"size": size}, "outputs": list{"out"}})
	plan["outputs"] = object{"text": "@out"}
	h.tool(t, "/s/whole/mcp", h.owner, "plan_execute", object{"plan": plan, "saveAs": "run1"})
	folder := t.TempDir()
	for name, call := range map[string]func(target string){
		"a call": func(target string) {
			h.tool(t, "/s/whole/mcp", h.owner, "files__write", object{"path": target, "text": "@run1.outputs.text"})
		},
		"a batch": func(target string) {
			h.tool(t, "/s/whole/mcp", h.owner, "tools_batch", object{"calls": list{object{"tool": "files__write", "arguments": object{"path": target, "text": "@run1.outputs.text"}}}})
		},
		"a step": func(target string) {
			h.tool(t, "/s/whole/mcp", h.owner, "plan_execute", object{"plan": planOf(object{"id": "w", "tool": "files__write", "args": object{"path": target, "text": "@run1.outputs.text"}})})
		},
	} {
		target := filepath.Join(folder, strings.ReplaceAll(name, " ", "-"))
		call(target)
		got, err := os.ReadFile(target)
		if err != nil || string(got) != strings.Repeat("0123456789", size/10) {
			t.Errorf("%s that refers to what a plan yielded writes %d of %d characters, %v", name, len(got), size, err)
		}
	}
}

func TestPlanYieldsAllRows(t *testing.T) {
	t.Parallel()
	const size = 500
	files, _ := withTools(t, longTools)
	h := serve(t, object{"files": files})
	plan := planOf(object{"id": "a", "tool": "files__rows", "args": object{"size": size}, "outputs": list{"out"}})
	plan["outputs"] = object{"rows": "@out.rows"}
	h.tool(t, "/s/whole/mcp", h.owner, "plan_execute", object{"plan": plan, "saveAs": "run1"})
	var kept struct {
		Outputs struct{ Rows []struct{ ID int } }
	}
	got := h.get(t, "/api/v1/sessions/whole/values/run1", h.owner)
	if err := json.Unmarshal([]byte(got.text), &kept); err != nil || len(kept.Outputs.Rows) != size || kept.Outputs.Rows[size-1].ID != size-1 {
		t.Errorf("of %d rows %d are kept, %v: %s", size, len(kept.Outputs.Rows), err, clip(got.text))
	}
}

// B5: an answer over the limit fails the call that it answers, by a fault that
// names the limit, and nothing else.

func TestAnswerOverTheLimitFailsAlone(t *testing.T) {
	t.Parallel()
	files, l := withTools(t, longTools)
	h := serve(t, object{"files": files})
	gate := filepath.Join(t.TempDir(), "gate")
	t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) })
	running := h.background(http.MethodPost, "/s/other/mcp", h.owner, rpc("tools/call", object{"name": "files__press", "arguments": object{"path": gate}}))
	await.Until(t, "another call is at work", func() bool { return l.count(t, "press") == 1 })
	long := rpc("tools/call", object{"name": "files__long", "arguments": object{"size": 12 << 20}})
	for _, path := range []string{"/s/long/mcp", "/mcp"} {
		mentions(t, "an answer of 12 MB at "+path, h.post(t, path, h.owner, long).text, "limits.messageBytes")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mentions(t, "the call of another client", (<-running).text, "it is there")
	l.want(t, "press", 1)
}
