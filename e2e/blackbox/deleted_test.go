package blackbox

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// B1: what was deleted stays so, whenever the hub is killed after that.

// age is how long the hub runs on before it is killed. The engine has forgotten
// by then that something was deleted; the short form kills it at once.
func age() time.Duration {
	if os.Getenv("STOA_SOAK") == "" && os.Getenv("STOA_BIN") == "" {
		return 0
	}
	return 75 * time.Second
}

func TestDeletedStaysGoneAfterAKill(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers, object{"policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}}})
	folder := t.TempDir()
	all := h.settleIn(t, h.owner, "one", folder)
	kept := h.publish(t, h.owner, "stays", planOf(object{"id": "a", "tool": "files__read"}))
	carol := h.token(t, "carol")
	h.tool(t, "/s/other/mcp", h.owner, "context_add", object{"name": "note", "data": "kept"})
	h.deleteAll(t)
	// Runs, tasks and conversations are not deleted here: they are records of
	// what happened, and go when their time is over.
	for _, kind := range []string{"a task", "the list of tasks", "the list of runs", "a conversation", "the list of conversations"} {
		delete(all, kind)
	}
	look := func(when string) {
		t.Helper()
		for kind, see := range all {
			if text := see(h.owner); shows(text) {
				t.Errorf("%s: %s is there: %s", when, kind, clip(text))
			}
		}
		if got := h.get(t, "/api/v1/tools", carol); got.status != http.StatusUnauthorized {
			t.Errorf("%s: a revoked token gets %d", when, got.status)
		}
		mentions(t, when+": a value that was not deleted", h.tool(t, "/s/other/mcp", h.owner, "context_get", object{"name": "note"}).text, "kept")
		mentions(t, when+": a plan that is still published", strings.Join(h.names(t, "/mcp", h.owner), " "), kept)
	}
	look("before")
	<-time.After(age())
	h.restart(t, servers)
	look("after the kill")
	h.attend(t, h.owner)
	before := l.count(t, "write")
	running := h.background(http.MethodPost, "/mcp", h.owner, rpc("tools/call", object{"name": "files__write", "arguments": object{"path": filepath.Join(folder, "b")}}))
	if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "deny"}); got.status/100 != 2 {
		t.Fatalf("deny: %d %s", got.status, got.text)
	}
	<-running
	l.want(t, "write", before)
}

// deleteAll deletes what settleIn has left, and carol's token.
func (h *hub) deleteAll(t testing.TB) {
	t.Helper()
	remove := func(path string) {
		t.Helper()
		if got := h.send(t, http.MethodDelete, path, h.owner, nil, nil); got.status/100 != 2 {
			t.Fatalf("delete %s: %d %s", path, got.status, got.text)
		}
	}
	h.tool(t, "/s/desk/mcp", h.owner, "context_remove", object{"name": "note"})
	remove("/api/v1/plans/tidy-one")
	var held struct {
		Files []struct {
			ID string `json:"id"`
		}
	}
	if err := json.Unmarshal([]byte(h.get(t, "/api/files", h.owner).text), &held); err != nil || len(held.Files) != 1 {
		t.Fatalf("files: %+v, %v", held, err)
	}
	remove("/api/files/" + held.Files[0].ID)
	remove("/api/v1/approvals/remembered")
	var sessions struct{ Sessions []struct{ Name string } }
	if err := json.Unmarshal([]byte(h.get(t, "/api/v1/sessions", h.owner).text), &sessions); err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions.Sessions {
		if s.Name != "other" {
			remove("/api/v1/sessions/" + s.Name)
		}
	}
	if _, err := h.run(t, "token", "revoke", "carol", "--data", h.data, "--config", h.config); err != nil {
		t.Fatal(err)
	}
}
