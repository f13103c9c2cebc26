package chatws

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/policy"
)

// simple is a client that knows three types of frames; all others pass it by.
func (c *client) simple(want string) said {
	c.t.Helper()
	for {
		f := c.next()
		if slices.Contains([]string{"text", "status", "connection"}, f.Type) && strings.Contains(f.raw, want) {
			return f
		}
	}
}

// A client that knows nothing of approvals is told what it waits for, and what
// became of it.
func TestSimpleClientsKnowWhatWaits(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", owner)
	c.simple("connected")
	c.message("Write it")
	b.calls("write_file", `{"path":"a.txt","apiKey":"sesame","text":"`+strings.Repeat("long ", 200)+`"}`)
	b.stops()
	f := c.simple("Waiting for approval")
	text := f.get("message")
	for _, want := range []string{"write_file", `"path":"a.txt"`, "`stoa approvals approve a_", "`stoa approvals deny a_", "Without an answer by 20", "…"} {
		if !strings.Contains(text, want) && !strings.Contains(text, "long long") {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if f.Type != "status" || f.get("state") != "processing" || f.get("tool") != "write_file" || f.Seq != 0 || strings.Contains(f.raw, "sesame") || len(f.raw) > 1500 {
		t.Error(f.raw)
	}
	pending := b.desk.Pending(auth.LocalName)
	if len(pending) != 1 || !strings.Contains(text, pending[0].ID) {
		t.Fatalf("%d wait: %s", len(pending), text)
	}
	// Who comes meanwhile is told, too.
	late := b.dial("sessionId=s", owner)
	late.simple("reconnected")
	late.simple(pending[0].ID)
	if err := b.desk.Decide(auth.Owner, pending[0].ID, policy.Decision{Reason: "not that file"}); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*client{c, late} {
		if f := one.simple("was not approved"); f.Type != "status" || !strings.Contains(f.get("message"), "not that file") {
			t.Error(f.raw)
		}
		if f := one.simple(`"complete"`); f.get("status") != "denied" {
			t.Error(f.raw)
		}
	}
	b.says("ok")
	b.stops()
	c.find("turn.ended")
}

// So is who watches a session in which another client's call waits.
func TestSimpleClientsKnowWhatOthersWaitFor(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", owner)
	c.simple("connected")
	go func() {
		_, _ = b.desk.Ask(t.Context(), policy.Approval{Session: "s", Principal: auth.LocalName, Tool: "fs__write", Args: json.RawMessage(`{"n":1}`)}, nil)
	}()
	f := c.simple("Waiting for approval: fs__write")
	if err := b.desk.Decide(auth.Owner, wireText(f, "approval"), policy.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if f := c.simple("fs__write was approved by local"); f.get("state") != "complete" {
		t.Error(f.raw)
	}
}

func wireText(f said, name string) string {
	var p struct {
		Data map[string]string `json:"data"`
	}
	_ = json.Unmarshal(f.Payload, &p)
	return p.Data[name]
}

// A client hears that the model is asked again, that its message waits, and that
// an answer begins anew, in types that it knows.
func TestSimpleClientsKnowOfDelays(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", owner)
	c.simple("connected")
	c.message("First")
	b.play(line{delta: llm.Delta{Kind: llm.Retrying, Attempt: 2, Wait: 20e9, Text: "the provider is overloaded"}})
	if f := c.simple("asked again in 20s (attempt 2)"); f.Type != "status" || f.get("event") != "retry" || !strings.Contains(f.raw, "overloaded") {
		t.Error(f.raw)
	}
	c.message("Second")
	if f := c.simple("answered after the one before it"); f.Type != "status" {
		t.Error(f.raw)
	}
	b.says("Once upon a time")
	c.simple("Once upon")
	b.play(line{fail: &llm.Error{Cause: llm.Network, Provider: "puppet", Attempts: 1}})
	b.says("It was")
	if f := c.simple("begins again"); f.Type != "text" || f.get("notice") != "true" || f.Seq != 0 {
		t.Error(f.raw)
	}
	c.simple("It was")
	b.stops()
	b.says("ok")
	b.stops()
	c.find("turn.ended")
	c.find("turn.ended")
}
