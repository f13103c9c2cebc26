package hub_test

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// On an agent's own address a name that no list has goes to the agent, unless it
// may be meant for one that the caller does not see.
func TestAgentsNamesByAnotherSpelling(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "wipe"}}, Prompts: []peer.Prompt{{Name: "greet"}, {Name: "secret"}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec), hubtest.Stdio("few", spec, func(s *config.Server) { s.Tools.Deny = []string{"wipe"} }), hubtest.Config(func(c *config.Config) {
		c.Policy.Rules = config.Rules{Rules: []config.Rule{{Tools: []string{"up:wipe", "up__undocumented"}, Prompts: []string{"up:secret"}, Action: "deny"}}}
	}))
	waitTools(t, h)
	h.Settle(t.Context())
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		up, few := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/up/mcp"}), h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/few/mcp"})
		for _, name := range []string{"wipe", "WIPE", " wipe", "Wipe\n", "ｗｉｐｅ", "undocumented", "UnDocumented", " undocumented", "ECHO"} {
			m := up.Tool(name, "{}")
			if f := m.Fault(); f.Code != -32602 || f.Data.Kind != "unknown_tool" {
				t.Errorf("%v tool %q: %s", era, name, m.Raw)
			}
		}
		for _, name := range []string{"wipe", "WIPE", "nothing"} {
			if m := few.Tool(name, "{}"); m.Fault().Data.Kind != "unknown_tool" {
				t.Errorf("%v tool %q, of those that are filtered: %s", era, name, m.Raw)
			}
		}
		for _, name := range []string{"secret", "Secret", "secret "} {
			if kind, text := refusal(up.Call("prompts/get", `{"name":"`+name+`"}`)); kind != "unknown_tool" {
				t.Errorf("%v prompt %q: %s", era, name, text)
			}
			m := up.Call("completion/complete", `{"ref":{"type":"ref/prompt","name":"`+name+`"},"argument":{"name":"a","value":"b"}}`)
			if kind, text := refusal(m); kind != "unknown_tool" {
				t.Errorf("%v completion of prompt %q: %s", era, name, text)
			}
		}
		// The agent's own answers arrive.
		if m := up.Tool("nothing", "{}"); m.Error == nil || strings.Contains(string(m.Error), "unknown_tool") {
			t.Errorf("%v a tool that is nowhere: %s", era, m.Raw)
		}
		if m := up.Tool("echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("%v a tool that is there: %s", era, m.Raw)
		}
		if m := up.Call("prompts/get", `{"name":"greet"}`); m.Error != nil {
			t.Errorf("%v a prompt that is there: %s", era, m.Raw)
		}
	}
}
