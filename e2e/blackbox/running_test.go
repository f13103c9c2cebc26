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

// B18: one running call is cancelled, and results of tools that only look
// something up are reused.

func TestOneRunningCallIsCancelled(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	bob, eve := h.token(t, "bob"), h.token(t, "eve")
	gate := filepath.Join(t.TempDir(), "gate")
	t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) })
	hangs := h.background(http.MethodPost, "/mcp", bob, rpc("tools/call", object{"name": "files__press", "arguments": object{"path": gate}}))
	other := h.background(http.MethodPost, "/mcp", eve, rpc("tools/call", object{"name": "files__wait", "arguments": object{"path": gate}}))
	await.Until(t, "both calls are at work", func() bool { return l.count(t, "press") == 1 && l.count(t, "wait") == 1 })
	out, err := h.run(t, "calls", "--json", "--data", h.data, "--config", h.config)
	if err != nil {
		t.Fatal(err)
	}
	var running struct {
		Calls []struct{ Call, Principal, Tool string }
	}
	if err := json.Unmarshal([]byte(out), &running); err != nil || len(running.Calls) != 2 {
		t.Fatalf("two calls run, and listed are %s: %v", out, err)
	}
	id := running.Calls[0].Call
	if running.Calls[1].Tool == "press" {
		id = running.Calls[1].Call
	}
	if got := h.send(t, http.MethodDelete, "/api/v1/calls/"+id, eve, nil, nil); got.status != http.StatusNotFound {
		t.Errorf("eve cancels bob's call: %d %s", got.status, clip(got.text))
	}
	if _, err := h.run(t, "calls", "cancel", id, "--data", h.data, "--config", h.config); err != nil {
		t.Fatal(err)
	}
	mentions(t, "what the caller is told", (<-hangs).text, "cancelled")
	await.Until(t, "the server is told that nobody waits", func() bool { return l.count(t, "cancelled") == 1 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mentions(t, "the call beside it", (<-other).text, "it is there")
}

func TestResultsAreReused(t *testing.T) {
	t.Parallel()
	const pure = `{"name":"long","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"idempotentHint":true}}`
	files, l := withTools(t, pure)
	hour := object{"cache": object{"ttl": "1h"}}
	files["tools"] = object{"override": object{"long": hour, "read": hour}}
	h := serve(t, object{"files": files})
	call := func(token, tool string, size int, meta object) string {
		t.Helper()
		return h.post(t, "/mcp", token, rpc("tools/call", object{"name": tool, "arguments": object{"size": size}, "_meta": meta})).text
	}
	reused := func(what string, want bool, text string) {
		t.Helper()
		if got := strings.Contains(text, `"stoa/cached"`); got != want || !strings.Contains(text, "0123456789") && !strings.Contains(text, "some text") {
			t.Errorf("%s: reused %v, want %v: %s", what, got, want, clip(text))
		}
	}
	reused("the first", false, call(h.owner, "files__long", 10, object{}))
	reused("the same again", true, call(h.owner, "files__long", 10, object{}))
	l.want(t, "long", 1)
	reused("other arguments", false, call(h.owner, "files__long", 20, object{}))
	reused("somebody else", false, call(h.token(t, "bob"), "files__long", 10, object{}))
	reused("a fresh one", false, call(h.owner, "files__long", 10, object{"stoa/fresh": true}))
	l.want(t, "long", 4)
	// Who does not say that it is the same every time is asked every time.
	reused("a tool that may differ", false, call(h.owner, "files__read", 1, object{}))
	reused("a tool that may differ, again", false, call(h.owner, "files__read", 1, object{}))
	l.want(t, "read", 2)
}
