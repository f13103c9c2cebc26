package hub_test

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// gatedHub has a tool that a person has to allow, and a person who can be asked.
func gatedHub(t *testing.T) (*hubtest.Hub, apiClient) {
	t.Helper()
	h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{{Name: "echo"}}}))
	c := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the tools are there", func() bool { return strings.Contains(string(c.Call("tools/list", "").Result), `"up__echo"`) })
	t.Cleanup(attend(t, h, h.Token))
	return h, apiClient{t, h, h.Token}
}

// Who asks an agent over MCP is told what the agent waits for: as progress if it
// asked for that, else in its log.
func TestAgentCallersKnowWhatWaits(t *testing.T) {
	hubtest.Parallel(t)
	h, api := gatedHub(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, form := range []struct {
			note string
			meta []hubtest.Meta
		}{
			{"notifications/progress", []hubtest.Meta{`"progressToken":"p"`}},
			{"notifications/message", logMeta(era)},
		} {
			t.Run(string(era)+" "+form.note, func(t *testing.T) {
				c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/ailumina/mcp"})
				x := c.Go("tools/call", hubtest.ToolParams("chat", `{"user_input":"call up__echo {\"a\": 1}"}`), form.meta...)
				a := api.asked()
				var told string
				for !strings.Contains(told, "Waiting for approval: up__echo") {
					told = string(x.Await(form.note).Params)
				}
				if !strings.Contains(told, a.ID) || !strings.Contains(told, h.URL+"/console/") || !strings.Contains(told, `{\"a\":1}`) {
					t.Errorf("told %s", told)
				}
				api.decide(a.ID, `{"decision":"approve"}`)
				for !strings.Contains(told, "up__echo was approved by") {
					told = string(x.Await(form.note).Params)
				}
				if m := x.Response(); m.Text() != "up__echo answered:\n| {\"a\":1}\n" {
					t.Errorf("the answer is %s", m.Raw)
				}
			})
		}
	}
}

func logMeta(era hubtest.Era) []hubtest.Meta {
	if era == hubtest.Modern {
		return []hubtest.Meta{`"io.modelcontextprotocol/logLevel":"info"`}
	}
	return nil
}

// At the socket of an agent the same is a sentence, which is no part of the
// answer for those who know.
func TestAgentSocketsKnowWhatWaits(t *testing.T) {
	hubtest.Parallel(t)
	h, api := gatedHub(t)
	u, err := ailumina.ParseURL(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ailumina.Dial(t.Context(), ailumina.Endpoint(u, "AIlumina"), ailumina.Options{Retries: -1, Timeout: await.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var notices []string
	text, err := c.Chat(t.Context(), ailumina.Question{Input: `call up__echo {"a": 1}`}, func(e ailumina.Event) {
		if !e.Notice {
			return
		}
		if notices = append(notices, e.Text); len(notices) == 1 {
			api.decide(api.asked().ID, `{"decision":"deny","reason":"not now"}`)
		}
	})
	if err != nil || strings.Contains(text, "Waiting") || len(notices) != 2 {
		t.Fatalf("%q, %v after %q", text, err, notices)
	}
	if !strings.Contains(notices[0], "Waiting for approval: up__echo") || !strings.Contains(notices[0], "stoa approvals approve a_") || !strings.Contains(notices[1], "not now") {
		t.Errorf("told %q", notices)
	}
}

// A call that a client makes itself and that waits for a person says so, before
// whatever its server says of how far it is.
func TestCallersKnowWhatWaits(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled)
	api := apiClient{t, h, h.Token}
	waitTools(t, h)
	defer attend(t, h, h.Token)()
	c := h.Client(t, hubtest.ClientOptions{})
	x := c.Go("tools/call", hubtest.ToolParams("up__write", `{"path":"a","token":"sesame"}`), `"progressToken":"p"`)
	a := api.asked()
	first := x.Await("notifications/progress")
	if text := string(first.Params); !strings.Contains(text, a.ID) || !strings.Contains(text, "it changes files") || strings.Contains(text, "sesame") {
		t.Errorf("told %s", text)
	}
	api.decide(a.ID, `{"decision":"approve"}`)
	second := x.Await("notifications/progress")
	type progress struct{ Progress float64 }
	if was, is := hubtest.Decode[progress](first.Params), hubtest.Decode[progress](second.Params); is.Progress <= was.Progress || is.Progress >= 0 {
		t.Errorf("%s after %s", second.Params, first.Params)
	}
	if m := x.Response(); !strings.Contains(m.Text(), `"path":"a"`) {
		t.Errorf("the answer is %s", m.Raw)
	}
}
