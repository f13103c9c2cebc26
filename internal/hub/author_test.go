package hub_test

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// A plan that a model has kept in the session is the model's, whoever runs it by
// its name: else the person who does would approve of what nobody has looked at.
func TestKeptPlanIsItsAuthors(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), hubtest.Modules(), func(s *hubtest.Setup) {
		s.Config.Agents = []config.Agent{{Name: "clerk", Title: "Clerk", Tools: []string{"up:look", "plan", "context"}}}
	})
	waitTools(t, h)
	person := actor.New(actor.HTTP, auth.Local)
	model := actor.New(actor.Chat, auth.Local).By(actor.ByModel(""))
	call := func(by actor.Actor, tool, args string) string {
		params := []byte(hubtest.ToolParams(tool, args))
		resp, err := h.Stateful("s").Handle(t.Context(), &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Stream: mcp.Discard,
			Asked: mcp.Asked{Session: "s"}, Client: &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Actor: by}})
		if err != nil {
			return err.Error()
		}
		defer resp.Release()
		return string(resp.Result) + string(resp.Error)
	}
	const steps = `{"steps":[{"id":"a","tool":"up__write","args":{"path":"x"}}]}`
	ways := map[string]func(by actor.Actor, name string) string{
		"plan_create": func(by actor.Actor, name string) string {
			return call(by, "plan_create", `{"plan":`+steps+`,"saveAs":"`+name+`"}`)
		},
		"context_add": func(by actor.Actor, name string) string {
			return call(by, "context_add", `{"name":"`+name+`","data":`+steps+`}`)
		},
		"the result of a call": func(by actor.Actor, name string) string {
			return call(by, "up__look", `{"steps":[{"id":"a","tool":"up__write","args":{"path":"x"}}],"saveAs":"`+name+`"}`)
		},
		"the output of a run": func(by actor.Actor, name string) string {
			return call(by, "plan_execute", `{"plan":{"steps":[{"id":"o","tool":"up__look","args":`+steps+`,"outputs":["`+name+`"]}]}}`)
		},
	}
	for way, store := range ways {
		name := "m-" + strings.ReplaceAll(way, " ", "-")
		if got := store(model, name); !strings.Contains(got, "SUCCESS") && !strings.Contains(got, name) {
			t.Fatalf("%s: %s", way, got)
		}
		for _, run := range []string{"plan_execute", "plan_debug"} {
			got := call(person, run, `{"plan":"@`+name+`"}`)
			if run == "plan_debug" {
				got += call(person, run, `{"action":"continue"}`) + call(person, "plan_status", `{}`)
			}
			if !strings.Contains(got, "nobody") {
				t.Errorf("%s, run by %s without a person being asked: %s", way, run, got)
			}
		}
		// What the person keeps instead is the person's.
		if got := store(person, name); !strings.Contains(got, "SUCCESS") && !strings.Contains(got, name) {
			t.Fatalf("%s: %s", way, got)
		}
		if got := call(person, "plan_execute", `{"plan":"@`+name+`"}`); !strings.Contains(got, `"status":"done"`) {
			t.Errorf("%s, by the person: %s", way, got)
		}
	}
	// The model's own step needs nobody, whoever runs it.
	call(model, "plan_create", `{"plan":{"steps":[{"id":"a","tool":"up__look","args":{"x":"y"}}]},"saveAs":"harmless"}`)
	if got := call(person, "plan_execute", `{"plan":"@harmless"}`); !strings.Contains(got, `"status":"done"`) {
		t.Errorf("what a model may do: %s", got)
	}
}
