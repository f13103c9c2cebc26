package blackbox

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// B12: whoever waits for a call that waits for an approval is told so, also by
// clients that know nothing of approvals.

// heardBefore is what a client is told that knows only text, status and
// connection, before the hub says the same by a frame of a type that it does not
// know.
func (s *socket) heardBefore(unknown string) string {
	s.t.Helper()
	var all strings.Builder
	for {
		kind, text := s.until("text", "status", "connection", unknown)
		if kind == unknown {
			return all.String()
		}
		all.WriteString(text + "\n")
	}
}

func TestSimpleClientHearsOfAnApproval(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	path := filepath.Join(t.TempDir(), "a")
	s := h.socket(t, "/ws", h.owner, nil)
	var hello struct{ Payload struct{ SessionID string } }
	if _, text := s.until("connection"); json.Unmarshal([]byte(text), &hello) != nil || hello.Payload.SessionID == "" {
		t.Fatalf("no session: %s", text)
	}
	s.send(object{"type": "message", "payload": object{"text": callOf("files__write", object{"path": path})}})
	heard := s.heardBefore("approval.asked")
	question := h.waiting(t, h.owner)[0]
	for what, word := range map[string]string{"that something waits": "approv", "which tool": "files__write", "with which arguments": path, "how to decide": question.ID} {
		if !strings.Contains(heard, word) {
			t.Errorf("a client that knows text, status and connection is not told %s: %s", what, clip(heard))
		}
	}
	if t.Failed() {
		t.FailNow() // who comes later would wait in vain, too
	}
	late := h.socket(t, "/ws?sessionId="+hello.Payload.SessionID, h.owner, nil)
	for text := ""; !strings.Contains(text, question.ID); {
		_, text = late.until("text", "status")
	}
	if got := h.decide(t, h.owner, question.ID, object{"decision": "deny", "reason": "not that file"}); got.status/100 != 2 {
		t.Fatalf("deny: %d %s", got.status, got.text)
	}
	mentions(t, "what became of it", s.heardBefore("approval.decided"), "not that file")
	mentions(t, "what became of it, for who came later", late.heardBefore("approval.decided"), "not that file")
	s.until("turn.ended")
	l.want(t, "write", 0)
}

// Whoever asks an agent by its socket is told, too.
func TestCallerOfAnAgentHearsOfAnApproval(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{"agents": object{"clerk": object{"tools": list{"files__*"}}}})
	path := filepath.Join(t.TempDir(), "a")
	h.attend(t, h.owner)
	s := h.socket(t, "/ws/clerk", h.owner, nil)
	s.send(object{"user_input": callOf("files__write", object{"path": path})})
	question := h.question(t, "files__write", l, "write")
	for silent := 0; ; {
		kind, text := s.until("sentence", "complete", "error")
		if strings.Contains(text, question.ID) {
			break
		}
		if strings.Contains(text, `"sentence":""`) {
			silent++ // it is at work, and has said nothing for 10 s
		}
		if kind != "sentence" || silent > 1 {
			t.Fatalf("a call of the agent waits for an approval, and its caller is told only %s", clip(text))
		}
	}
	h.approve(t, question.ID)
	_, text := s.until("complete", "error")
	mentions(t, "the end", text, "complete")
	l.want(t, "write", 1)
}

// So is a client over MCP, before the result.
func TestMCPClientHearsOfAnApproval(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{
		"agents": object{"clerk": object{"tools": list{"files__*"}}},
		"policy": object{"rules": list{object{"tools": "files__press", "action": "ask"}}}})
	gate, target := filepath.Join(t.TempDir(), "gate"), filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, tool string
		args       object
		asked, did string
	}{
		{"/mcp", "files__press", object{"path": gate}, "files__press", "press"},
		{"/mcps/clerk/mcp", "chat", object{"user_input": callOf("files__write", object{"path": target})}, "files__write", "write"},
	} {
		h.attend(t, h.owner)
		running := h.background(http.MethodPost, c.path, h.owner, rpc("tools/call", object{"name": c.tool, "arguments": c.args, "_meta": object{"progressToken": "p"}}))
		question := h.question(t, c.asked, l, c.did)
		h.approve(t, question.ID)
		text := (<-running).whole
		mentions(t, "what the caller of "+c.tool+" is told", text, question.ID)
		mentions(t, "the result of "+c.tool, text, `"result"`)
		l.want(t, c.did, 1)
	}
}
