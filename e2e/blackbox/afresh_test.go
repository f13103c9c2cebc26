package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A13: a token that is made again under an old name starts with nothing.

// belongings are ways to see what somebody has left at a hub, by what it is.
type belongings map[string]func(token string) string

// settleIn leaves something of every kind at the hub, and returns how to see it.
// plan is a part of the name of what is published: hubs of old had one of each.
func (h *hub) settleIn(t testing.TB, token, plan, folder string) belongings {
	t.Helper()
	get := func(path string) func(string) string {
		return func(token string) string { return h.get(t, path, token).text }
	}
	all := belongings{}
	h.tool(t, "/s/desk/mcp", token, "context_add", object{"name": "note", "data": mark})
	all["a value"] = func(token string) string {
		return h.tool(t, "/s/desk/mcp", token, "context_get", object{"name": "note"}).text
	}
	all["the list of sessions"] = get("/api/v1/sessions")

	started := h.tool(t, "/mcp", token, "task_start", object{"tool": "files__read", "arguments": object{"path": mark}}).text
	id := taskID.FindString(started)
	if id == "" {
		t.Fatalf("task_start: %s", started)
	}
	all["a task"] = get("/api/v1/tasks/" + id)
	all["the list of tasks"] = get("/api/v1/tasks")

	h.tool(t, "/s/desk/mcp", token, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__read", "args": object{"path": mark}})})
	all["the list of runs"] = get("/api/v1/runs")

	said := h.say(t, token, "hello "+mark)
	all["a conversation"] = get("/api/chat/" + said.SessionID)
	all["the list of conversations"] = get("/api/chat")

	upload, err := h.try(http.MethodPost, "/api/files?name="+mark+".txt", token, nil, mark)
	if err != nil || upload.status/100 != 2 {
		t.Fatalf("upload: %d %s, %v", upload.status, upload.text, err)
	}
	all["the list of files"] = get("/api/files")

	h.publish(t, token, "tidy-"+plan, planOf(object{"id": "a", "tool": "files__read"}))
	all["the published plans"] = get("/api/v1/plans")

	h.attend(t, h.owner)
	write := rpc("tools/call", object{"name": "files__write", "arguments": object{"path": filepath.Join(folder, "a")}})
	running := h.background(http.MethodPost, "/mcp", token, write)
	if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "approve", "remember": "tool"}); got.status/100 != 2 {
		t.Fatalf("approve: %d %s", got.status, got.text)
	}
	<-running
	all["what was approved"] = func(token string) string { return h.get(t, "/api/v1/approvals/remembered", token).text }
	return all
}

// signs are what is in an answer that shows something.
var signs = []string{mark, `"principal":"bob"`, `"principal":"carol"`, "files__write", "files__read", "tidy", `"desk"`}

func shows(text string) bool {
	for _, sign := range signs {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func TestRecreatedTokenStartsWithNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"while the hub runs", "across a crash"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serve(t, object{"files": files}, object{"policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}}})
			bob, carol := h.token(t, "bob"), h.token(t, "carol")
			folder := t.TempDir()
			of := map[string]belongings{"bob": h.settleIn(t, bob, "one", folder), "carol": h.settleIn(t, carol, "two", folder)}
			for kind, see := range of["bob"] {
				if text := see(bob); !shows(text) {
					t.Fatalf("%s is not seen by who has left it: %s", kind, clip(text))
				}
			}
			if _, err := h.run(t, "token", "revoke", "bob", "--data", h.data, "--config", h.config); err != nil {
				t.Fatal(err)
			}
			if how == "across a crash" {
				h.kill(t)
				h.launch(t)
				h.awaitTools(t, object{"files": files})
			}
			again := h.token(t, "bob")
			for kind, see := range of["bob"] {
				if text := see(again); shows(text) {
					t.Errorf("%s was inherited: %s", kind, clip(text))
				}
			}
			h.attend(t, h.owner)
			before := l.count(t, "write")
			running := h.background(http.MethodPost, "/mcp", again, rpc("tools/call", object{"name": "files__write", "arguments": object{"path": filepath.Join(folder, "b")}}))
			if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "deny"}); got.status/100 != 2 {
				t.Fatalf("deny: %d %s", got.status, got.text)
			}
			<-running
			l.want(t, "write", before)
			// Others keep what is theirs, and so does the new one from now on.
			for kind, see := range of["carol"] {
				if text := see(carol); !shows(text) {
					t.Errorf("%s of another token is gone: %s", kind, clip(text))
				}
			}
			h.tool(t, "/s/desk/mcp", again, "context_add", object{"name": "own", "data": "mine"})
			h.kill(t)
			h.launch(t)
			if got := h.tool(t, "/s/desk/mcp", again, "context_get", object{"name": "own"}).text; !strings.Contains(got, "mine") {
				t.Errorf("the new token's own value is gone: %s", clip(got))
			}
			var list struct{ Sessions []json.RawMessage }
			if err := json.Unmarshal([]byte(h.get(t, "/api/v1/sessions", again).text), &list); err != nil || len(list.Sessions) != 1 {
				t.Errorf("the new token has %s, %v", fmt.Sprint(list.Sessions), err)
			}
		})
	}
}
