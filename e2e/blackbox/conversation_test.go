package blackbox

import (
	"net/http"
	"testing"
)

// B16: a session that holds no value is a session too: it is listed, shown,
// exported and removed.
func TestSessionWithoutValues(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers)
	bob := h.token(t, "bob")
	read := object{"path": "x"}
	h.say(t, h.owner, "echo the tide is high", object{"sessionId": "talk"})
	h.tool(t, "/s/works/mcp", h.owner, "plan_execute", object{"plan": planOf(object{"id": "tidal", "tool": "files__read", "args": read})})
	h.tool(t, "/s/jobs/mcp", h.owner, "task_start", object{"tool": "files__read", "arguments": read})
	h.say(t, bob, "echo mine alone", object{"sessionId": "bobs"})
	sessions := func(args ...string) string {
		t.Helper()
		out, err := h.run(t, append(append([]string{"sessions"}, args...), "--data", h.data, "--config", h.config)...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	held := map[string]string{"talk": "the tide is high", "works": "tidal", "jobs": "files"}
	for name, what := range held {
		mentions(t, "`stoa sessions`", sessions(), name)
		mentions(t, "`stoa sessions show`", sessions("show", name), name)
		mentions(t, "the export of "+name, sessions("export", name), what)
		mentions(t, "the API's list", h.get(t, "/api/v1/sessions", h.owner).text, `"`+name+`"`)
		// Others neither see it nor remove it.
		lacks(t, "bob's list", h.get(t, "/api/v1/sessions", bob).text, `"`+name+`"`)
		if got := h.send(t, http.MethodDelete, "/api/v1/sessions/"+name, bob, nil, nil); got.status != http.StatusNotFound {
			t.Errorf("bob removes %s: %d %s", name, got.status, clip(got.text))
		}
	}
	mentions(t, "what is said of the conversation", sessions("show", "talk"), "the tide is high")
	if t.Failed() {
		return
	}
	h.restart(t, servers)
	mentions(t, "the export after a kill", sessions("export", "talk"), "the tide is high")
	sessions("remove", "talk", "works", "jobs")
	h.restart(t, servers)
	left := sessions()
	mentions(t, "`stoa sessions` after the removal and a kill", left, "bobs")
	for name := range held {
		lacks(t, "`stoa sessions` after the removal and a kill", left, name)
	}
	lacks(t, "conversations", h.get(t, "/api/chat", h.owner).text, `"talk"`)
	lacks(t, "runs", h.get(t, "/api/v1/runs", h.owner).text, `"works"`)
	lacks(t, "tasks", h.get(t, "/api/v1/tasks", h.owner).text, `"jobs"`)
	// Another conversation of the name knows nothing of it.
	h.say(t, h.owner, "echo anew", object{"sessionId": "talk"})
	lacks(t, "the new conversation", sessions("export", "talk"), "the tide is high")
}
