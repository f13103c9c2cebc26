package blackbox

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A12, the rest: who decides, for whom a decision counts, and whose a
// connection is.

// A rule holds from the moment at which it is in effect, also in the middle of
// a turn.
func TestRuleThatArrivesInATurnCounts(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	folder := t.TempDir()
	gate, target, script := filepath.Join(folder, "gate"), filepath.Join(folder, "target"), filepath.Join(folder, "turns")
	block := func(tool, path string) string {
		return fmt.Sprintf("```tool\n{\"tool\":%q,\"arguments\":{\"path\":%q}}\n```\n", tool, path)
	}
	turns := "-- first --\n" + block("files__wait", gate) + "-- second --\n" + block("files__write", target) + "-- third --\nThat was all.\n"
	if err := os.WriteFile(script, []byte(turns), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := func(action string) object {
		return object{"models": object{"default": "scripted", "scripted": object{"provider": "script", "script": script}},
			"policy": object{"rules": list{object{"tools": "files__write", "action": action}}}}
	}
	servers := object{"files": files}
	h := serve(t, servers, settings("allow"))
	running := h.saying(h.owner, "begin")
	await.Until(t, "the first call of the turn runs", func() bool { return l.count(t, "wait") == 1 })
	h.configure(t, servers, settings("ask"))
	await.Until(t, "the new rule is in effect", func() bool {
		return strings.Contains(h.get(t, "/api/v1/tools/files__write", h.owner).text, `"action":"ask"`)
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := readTurn(t, <-running)
	mentions(t, "the turn", done.raw, "a person has to allow it", "approval_required")
	l.want(t, "write", 0)
}

func TestApprovingNeedsAToken(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	path := filepath.Join(t.TempDir(), "a")
	bob := h.token(t, "bob")
	h.attend(t, h.owner)
	s := h.socket(t, "/ws", "", nil)
	s.until("connection")
	s.send(object{"type": "message", "payload": object{"text": callOf("files__write", object{"path": path})}})
	s.until("approval.asked")
	question := h.waiting(t, h.owner)[0]
	yes := object{"decision": "approve"}
	for _, remember := range []string{"", "server"} {
		frame := object{"id": question.ID, "decision": "approve"}
		if remember != "" {
			frame["remember"] = remember
		}
		s.send(object{"type": "approve", "payload": frame})
		if kind, text := s.until("ack", "error", "turn.ended"); kind != "error" {
			t.Fatalf("a socket without a token approved: %s", text)
		}
		if got := h.post(t, "/api/chat/approve", "", frame); got.status != http.StatusUnauthorized {
			t.Errorf("/api/chat/approve without a token: %d %s", got.status, got.text)
		}
		if got := h.post(t, "/api/chat/approve", bob, frame); got.status/100 == 2 {
			t.Errorf("/api/chat/approve by another: %d %s", got.status, got.text)
		}
	}
	if got := h.decide(t, "", question.ID, yes); got.status != http.StatusUnauthorized {
		t.Errorf("/api/v1/approvals without a token: %d %s", got.status, got.text)
	}
	if got := h.decide(t, bob, question.ID, yes); got.status/100 == 2 {
		t.Errorf("/api/v1/approvals by another: %d %s", got.status, got.text)
	}
	l.want(t, "write", 0)
	h.approve(t, question.ID)
	s.until("turn.ended")
	l.want(t, "write", 1)
	lacks(t, "what is remembered", h.get(t, "/api/v1/approvals/remembered", h.owner).text, `"scope"`)
}

func TestRightToApproveIsForOwnCalls(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{"policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}}})
	bob, carol := h.token(t, "bob"), h.token(t, "carol", "--right", "approve")
	folder := t.TempDir()
	h.attend(t, h.owner)
	begin := func(token, name string) (<-chan reply, approval) {
		running := h.background(http.MethodPost, "/mcp", token, rpc("tools/call", object{"name": "files__write", "arguments": object{"path": filepath.Join(folder, name)}}))
		return running, h.asked(t, "files__write", running)
	}
	running, question := begin(bob, "bob")
	for who, token := range map[string]string{"bob, who has no right to": bob, "carol, whose call it is not": carol} {
		if got := h.decide(t, token, question.ID, object{"decision": "approve"}); got.status/100 == 2 {
			t.Errorf("%s: %d %s", who, got.status, got.text)
		}
	}
	lacks(t, "carol's questions", h.get(t, "/api/v1/approvals", carol).text, question.ID)
	if got := h.decide(t, h.owner, question.ID, object{"decision": "deny"}); got.status/100 != 2 {
		t.Fatalf("deny: %d %s", got.status, got.text)
	}
	refused(t, "what the owner denied", <-running)
	l.want(t, "write", 0)

	running, question = begin(carol, "carol")
	if got := h.decide(t, carol, question.ID, object{"decision": "approve"}); got.status/100 != 2 {
		t.Fatalf("carol about her own call: %d %s", got.status, got.text)
	}
	<-running
	l.want(t, "write", 1)
}

// A person who trusts one model with a tool has said nothing about others.
func TestRememberedApprovalIsForOneActor(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"tool", "server"} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serve(t, object{"files": files}, object{
				"policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}},
				"agents": object{"helper": object{"description": "Helps."}},
			})
			path := filepath.Join(t.TempDir(), "a")
			words := callOf("files__write", object{"path": path})
			h.attend(t, h.owner)
			running := h.saying(h.owner, words)
			if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "approve", "remember": scope}); got.status/100 != 2 {
				t.Fatalf("approve: %d %s", got.status, got.text)
			}
			readTurn(t, <-running)
			l.want(t, "write", 1)
			h.say(t, h.owner, words)
			l.want(t, "write", 2) // the chat's own model is covered
			for who, begin := range map[string]func() <-chan reply{
				"another agent": func() <-chan reply { return h.saying(h.owner, words, object{"agent": "helper"}) },
				"a direct client": func() <-chan reply {
					return h.background(http.MethodPost, "/mcp", "", rpc("tools/call", object{"name": "files__write", "arguments": object{"path": path}}))
				},
				"the owner": func() <-chan reply {
					return h.background(http.MethodPost, "/api/tools/files__write", h.owner, object{"path": path})
				},
				"an agent that the chat's model asks": func() <-chan reply {
					return h.saying(h.owner, callOf("helper__chat", object{"user_input": words}))
				},
			} {
				t.Logf("asked for %s", who)
				running := begin()
				if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "deny"}); got.status/100 != 2 {
					t.Fatalf("deny: %d %s", got.status, got.text)
				}
				<-running
			}
			l.want(t, "write", 2)
		})
	}
}

// A step that asks for itself ("approval": true) asks as whoever began the run.
// Else a model could write that into its plan, and profit from what a person
// has allowed its own client.
func TestRememberedApprovalOfAStepIsForOneActor(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"a client", "a model"} {
		t.Run("given to "+first, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serve(t, object{"files": files}, object{"policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}}})
			path := filepath.Join(t.TempDir(), "a")
			own := step(path)
			own["approval"] = true
			begin := map[string]func() <-chan reply{
				"a client": func() <-chan reply {
					return h.background(http.MethodPost, "/mcp", "", rpc("tools/call", object{"name": "files__write", "arguments": object{"path": path}}))
				},
				"a model": func() <-chan reply { return h.saying(h.owner, callOf("plan_execute", object{"plan": planOf(own)})) },
			}
			h.attend(t, h.owner)
			running := begin[first]()
			if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "approve", "remember": "server"}); got.status/100 != 2 {
				t.Fatalf("approve: %d %s", got.status, got.text)
			}
			<-running
			l.want(t, "write", 1)
			second := map[string]string{"a client": "a model", "a model": "a client"}[first]
			running = begin[second]()
			if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "deny"}); got.status/100 != 2 {
				t.Fatalf("deny: %d %s", got.status, got.text)
			}
			<-running
			l.want(t, "write", 1)
		})
	}
}

// A legacy connection is that of whoever opened it, with the rights with which
// it was opened.
func TestSessionIsOfWhoOpenedIt(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	bob := h.token(t, "bob")
	for _, path := range []string{"/mcp", "/s/work/mcp", "/mcps/files/mcp"} {
		for who, tokens := range map[string][]string{"tokenless uses the owner's": {h.owner, ""}, "the owner uses a tokenless one": {"", h.owner}, "bob uses the owner's": {h.owner, bob}, "tokenless uses bob's": {bob, ""}} {
			opened := h.post(t, path, tokens[0], rpc("initialize", object{"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": object{"name": "x", "version": "1"}}))
			id := opened.header.Get("Mcp-Session-Id")
			if id == "" {
				t.Fatalf("initialize at %s: %d %s", path, opened.status, opened.text)
			}
			header := http.Header{"Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {"2025-06-18"}}
			own := h.send(t, http.MethodPost, path, tokens[0], header.Clone(), rpc("tools/list", object{}))
			if own.status != http.StatusOK {
				t.Fatalf("%s at %s: the opener: %d %s", who, path, own.status, own.text)
			}
			call := rpc("tools/call", object{"name": map[bool]string{true: "read", false: "files__read"}[strings.HasPrefix(path, "/mcps")], "arguments": object{}})
			if got := h.send(t, http.MethodPost, path, tokens[1], header.Clone(), call); got.status/100 == 2 {
				t.Errorf("%s at %s: %d %s", who, path, got.status, clip(got.text))
			}
			if got := h.send(t, http.MethodDelete, path, tokens[1], header.Clone(), nil); got.status/100 == 2 {
				t.Errorf("%s at %s: ends it: %d", who, path, got.status)
			}
		}
	}
	l.want(t, "read", 0)
}

// stoa stdio gets in with the owner's token, on behalf of a program that a
// client has started: it is no owner.
func TestStdioHasNoRightsOfTheOwner(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files}, object{"log": object{"level": "trace"}})
	bob := h.token(t, "bob")
	h.leaveTraces(t, bob)
	ask := h.stdio(t, "--data", h.data, "--config", h.config, "--quiet")
	ask("initialize", greeting)
	lacks(t, "read_logs", ask("tools/call", object{"name": "read_logs", "arguments": object{"level": "trace", "limit": 1000}}), "bob")
	mentions(t, "a tool", ask("tools/call", object{"name": "files__read", "arguments": object{}}), "some text")
	published := h.publish(t, bob, "tidy", planOf(object{"id": "a", "tool": "files__read"}))
	lacks(t, "the tools", ask("tools/list", object{}), "tidy")
	lacks(t, "bob's plan", ask("tools/call", object{"name": published, "arguments": object{}}), "is done")
}
