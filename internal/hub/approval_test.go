package hub_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// What a model wants is a model's call, also where it comes of another call: in a
// batch, as a task, or by an agent.
func TestCallsOfCallsAreTheModels(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), hubtest.Modules(), func(s *hubtest.Setup) {
		s.Config.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up:wipe"}, Action: "deny"}}
		s.Config.Agents = []config.Agent{{Name: "clerk", Title: "Clerk", Tools: []string{"up:write", "up__look", "tools_batch"},
			Approvals: config.Rules{Rules: []config.Rule{{Tools: []string{"up:write"}, Action: "allow"}, {Tools: []string{"up:look"}, Action: "deny", Reason: "no looking"}}}}}
	})
	waitTools(t, h)
	by := actor.New(actor.Chat, auth.Local).By(actor.ByModel(""))
	call := func(tool, args string) string {
		params := []byte(hubtest.ToolParams(tool, args))
		resp, err := h.Stateful("s").Handle(t.Context(), &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Stream: mcp.Discard,
			Client: &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Actor: by}})
		if err != nil {
			return err.Error()
		}
		defer resp.Release()
		return string(resp.Result) + string(resp.Error)
	}
	if got := call("up__write", `{"path":"a"}`); !strings.Contains(got, "nobody") {
		t.Errorf("by itself: %s", got)
	}
	if got := call("up__wipe", `{}`); !strings.Contains(got, "unknown tool") {
		t.Errorf("denied by a rule: %s", got)
	}
	got := call("tools_batch", `{"calls":[{"tool":"up__write","arguments":{"path":"a"}},{"tool":"up__look","arguments":{"x":"seen"}}]}`)
	if !strings.Contains(got, "nobody") || !strings.Contains(got, "seen") {
		t.Errorf("in a batch: %s", got)
	}
	// A task knows on whose behalf it calls.
	got = call("task_start", `{"tool":"up__write","arguments":{"path":"a"}}`)
	var started struct {
		StructuredContent struct {
			Data struct{ Task string }
		}
	}
	_ = json.Unmarshal([]byte(got), &started)
	id := started.StructuredContent.Data.Task
	if id == "" {
		t.Fatalf("started: %s", got)
	}
	if got := call("task_result", `{"task":"`+id+`","waitMs":20000}`); !strings.Contains(got, "nobody") {
		t.Errorf("as a task: %s", got)
	}
	// What an agent is not offered it cannot reach by way of others.
	by = actor.New(actor.Chat, auth.Local).By(actor.ByModel("Clerk"))
	got = call("tools_batch", `{"calls":[{"tool":"up__write","arguments":{"path":"a"}},{"tool":"up__look"},{"tool":"up__echo"}]}`)
	if !strings.Contains(got, `{\"path\":\"a\"}`) || strings.Count(got, "unknown tool") != 4 { // as text and as data
		t.Errorf("in a batch of an agent: %s", got)
	}
}

// A person sees what references stand for, and the server gets just that.
func TestWhatWasApprovedIsSent(t *testing.T) {
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled, hubtest.Modules())
	api := apiClient{t, h, h.Token}
	waitTools(t, h)
	defer attend(t, h, h.Token)()
	api.put("work", "target", `"a.txt"`)
	c := h.Client(t, hubtest.ClientOptions{Header: http.Header{"Stoa-Session": {"work"}}})
	x := c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"@target"}`))
	a := api.asked()
	if string(a.Args) != `{"path":"@target"}` || string(a.Sent) != `{"path":"a.txt"}` || a.Session != "work" {
		t.Errorf("asked %s, which is %s, in %s", a.Args, a.Sent, a.Session)
	}
	api.put("work", "target", `"/etc/passwd"`)
	api.decide(a.ID, `{"decision":"approve"}`)
	if m := x.Response(); m.Text() != `{"path":"a.txt"}` {
		t.Errorf("sent %s", m.Raw)
	}
	// A hub that stops waits for nobody.
	x = c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"b"}`))
	api.asked()
	h.End()
	// What is waited for to the end of a drain is cut off, and not answered.
	if kind, text := refusal(x.Response()); kind == "" || strings.Contains(text, `"path"`) {
		t.Errorf("when the hub stopped: %s", text)
	}
	h.Stop()
}

// Who waits for a batch is told of each of its calls that waits for approval.
func TestCallersOfABatchKnowWhatWaits(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled, hubtest.Modules())
	api := apiClient{t, h, h.Token}
	waitTools(t, h)
	defer attend(t, h, h.Token)()
	c := h.Client(t, hubtest.ClientOptions{})
	x := c.Go("tools/call", hubtest.ToolParams("tools_batch", `{"calls":[{"tool":"up__write","arguments":{"path":"a"}},{"tool":"up__write","arguments":{"path":"b"}}]}`),
		hubtest.Meta(`"progressToken":"p"`))
	var told []string
	last := math.Inf(-1)
	for len(told) < 4 { // two that wait, and what became of each
		note := hubtest.Decode[struct {
			Progress float64
			Message  string
		}](x.Await("notifications/progress").Params)
		if note.Progress <= last {
			t.Errorf("progress does not grow: %v after %v", note.Progress, last)
		}
		last, told = note.Progress, append(told, note.Message)
		if len(told) == 2 {
			for _, a := range api.approvals() {
				api.decide(a.ID, `{"decision":"approve"}`)
			}
		}
	}
	all := strings.Join(told, "\n")
	if strings.Count(all, "Waiting for approval: up__write with") != 2 || strings.Count(all, "was approved") != 2 || !strings.Contains(all, `"path":"b"`) {
		t.Errorf("it was told:\n%s", all)
	}
	if m := x.Response(); !strings.Contains(m.Text(), "2 calls") {
		t.Errorf("then: %s", m.Raw)
	}
}
