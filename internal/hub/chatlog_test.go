package hub_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/obs"
)

// The log tells of a conversation from the socket to the call of a tool, and all
// that comes of one message has one thing in common: the trace that the client
// is part of, or else something new.
func TestLogOfAConversation(t *testing.T) {
	hubtest.Parallel(t)
	const trace, whole = "0af7651916cd43dd8448eb211c80319c", "a-session-by-a-rather-long-name"
	parent := "00-" + trace + "-b7ad6b7169203331-01"
	h := hubtest.New(t, hubtest.Stdio("files", peer.Spec{Tools: []peer.Tool{{Name: "echo"}}}), allowAll(), func(s *hubtest.Setup) {
		s.Config.Log.Level = "debug"
		s.Config.Chat.Approvals = config.Rules{Default: "allow"}
	})
	mcpClient := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the server is there", func() bool { return offers(mcpClient, "files__echo") })
	for _, query := range []string{"&traceparent=" + parent, ""} {
		c := dial(t, h, "/ws?sessionId="+whole+query)
		c.next()
		if got := c.say(`call files__echo {"text":"hello there"}`); !strings.Contains(got, "hello there") {
			t.Fatalf("it says %s", got)
		}
	}
	if _, err := asked(t, h, "", "AIlumina", ailumina.Question{Input: `call files__echo {"text":"hello there"}`}); err != nil {
		t.Fatal(err)
	}
	h.Stop()
	lines, err := obs.ReadFiles(filepath.Join(h.Data, "logs"), obs.Query{Limit: obs.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	// What is in common, by the lines that have it.
	found := map[string]map[string]*obs.Record{}
	sockets := map[string]int{}
	for i := range lines {
		r := &lines[i]
		if strings.Contains(string(r.Line), whole) || strings.Contains(string(r.Line), "hello there") {
			t.Errorf("this is not for the log: %s", r.Line)
		}
		if r.Msg == "client connected" || r.Msg == "client disconnected" {
			sockets[r.Get(obs.KeySocket)]++
		}
		if id := r.Get(obs.KeyCorrelation); id != "" {
			if found[id] == nil {
				found[id] = map[string]*obs.Record{}
			}
			found[id][r.Get(obs.KeyComponent)+": "+r.Msg] = r
		}
	}
	if len(sockets) != 3 || sockets[""] != 0 {
		t.Errorf("sockets: %v", sockets)
	}
	if len(found) != 3 || found[trace] == nil {
		t.Fatalf("%d messages have lines", len(found))
	}
	for id, have := range found {
		for msg, want := range map[string][]string{
			"chat: message received":  {"bytes"},
			"chat: turn started":      {obs.KeyTurn, obs.KeyModel},
			"chat: model asked":       {obs.KeyTurn, obs.KeyModel, obs.KeyAttempt},
			"chat: model answered":    {obs.KeyTurn, obs.KeyTook, "inputTokens", "outputTokens"},
			"chat: tool call started": {obs.KeyTurn, obs.KeyCall, obs.KeyTool},
			"chat: tool call ended":   {obs.KeyTurn, "status"},
			"call: call done":         {obs.KeyParent},
			"chat: turn ended":        {obs.KeyTook, "reason", "inputTokens"},
		} {
			r, ok := have[msg]
			if !ok {
				t.Errorf("%s: no line %q", id, msg)
				continue
			}
			for _, key := range want {
				if r.Get(key) == "" {
					t.Errorf("%q has no %s: %s", msg, key, r.Line)
				}
			}
		}
		turn, call := have["chat: turn started"], have["call: call done"]
		if turn == nil || call == nil {
			continue
		}
		if turn.Get(obs.KeyTurn) != call.Get(obs.KeyParent) || turn.Level != slog.LevelInfo {
			t.Errorf("%s and %s", turn.Line, call.Line)
		}
	}
	if t.Failed() {
		return
	}
	if s := found[trace]["chat: turn started"].Get(obs.KeySession); s == "" || !strings.HasPrefix(whole, strings.TrimSuffix(s, "…")) {
		t.Errorf("the session is %q", s)
	}
}
