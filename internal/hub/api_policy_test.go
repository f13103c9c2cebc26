package hub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/policy"
)

type explained struct {
	Action, Rule, Reason string
	Visible              bool
	Remembered           *policy.Remembered
}

// What the API says would become of a call is what becomes of it: for a resource
// that somebody cannot see, and where an answer is remembered.
func TestExplainedAsTheDoorDecides(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "other"}}, Prompts: []peer.Prompt{{Name: "greet"}},
		Resources: []peer.Resource{{URI: "mem://b/a", Text: "alpha"}, {URI: "mem://b/no", Text: "none"}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec), hubtest.Config(func(c *config.Config) {
		c.Policy.Rules = config.Rules{Rules: []config.Rule{
			{Tools: []string{"up:echo", "up:other"}, Prompts: []string{"up"}, Resources: []string{"mem://b/a"}, Principals: []string{"local"}, Action: "ask"},
			{Resources: []string{"mem://b/no"}, Action: "deny", Reason: "not this one"},
		}}
		c.Agents = append(c.Agents, config.Agent{Name: "clerk", Tools: []string{"elsewhere"}})
	}))
	waitTools(t, h)
	owner := apiClient{t, h, h.Token}
	await.Until(t, "the lists are read", func() bool {
		return strings.Contains(string(h.Client(t, hubtest.ClientOptions{}).Call("resources/list", "{}").Raw), "mem://b/a")
	})
	tokenFor(t, h, "ann", "elsewhere")
	tokenFor(t, h, "ben", "up")
	explain := func(body string) explained {
		t.Helper()
		return hubtest.Decode[explained](owner.ok("POST", "/api/v1/policy/test", body))
	}
	for body, want := range map[string]explained{
		`{"principal":"ann","resource":"mem://b/a"}`:  {Action: "deny", Rule: "scope"},
		`{"principal":"ben","resource":"mem://b/a"}`:  {Action: "allow", Rule: "client", Visible: true},
		`{"principal":"ben","resource":"mem://b/no"}`: {Action: "deny", Rule: "policy rule 2 (mem://b/no)"},
		`{"agent":"clerk","resource":"mem://b/a"}`:    {Action: "deny", Rule: "agent"},
		`{"agent":"clerk","prompt":"up__greet"}`:      {Action: "deny", Rule: "agent"},
		`{"principal":"ann","prompt":"up__greet"}`:    {Action: "deny", Rule: "scope"},
	} {
		if got := explain(body); got.Action != want.Action || got.Rule != want.Rule || got.Visible != want.Visible {
			t.Errorf("%s: %+v", body, got)
		}
	}
	defer attend(t, h, h.Token)()
	for _, tc := range []struct{ question, method, params, decision, want string }{
		{`{"tool":"up__echo"}`, "tools/call", `{"name":"up__echo","arguments":{}}`, `{"decision":"approve","remember":"tool"}`, "allow"},
		{`{"tool":"up__other"}`, "tools/call", `{"name":"up__other","arguments":{}}`, `{"decision":"deny","remember":"tool"}`, "deny"},
		{`{"prompt":"up__greet"}`, "prompts/get", `{"name":"up__greet"}`, `{"decision":"approve","remember":"server"}`, "allow"},
		{`{"resource":"mem://b/a"}`, "resources/read", `{"uri":"mem://b/a"}`, `{"decision":"deny","remember":"tool"}`, "deny"},
	} {
		if got := explain(tc.question); got.Action != "ask" || got.Remembered != nil || !got.Visible {
			t.Errorf("%s, before anybody was asked: %+v", tc.question, got)
		}
		c := h.Client(t, hubtest.ClientOptions{})
		done := make(chan hubtest.Message, 1)
		go func() { done <- c.Call(tc.method, tc.params) }()
		owner.decide(owner.asked().ID, tc.decision)
		<-done
		got := explain(tc.question)
		if got.Action != tc.want || got.Remembered == nil || got.Remembered.By != "local" || got.Remembered.Time.IsZero() || !strings.Contains(got.Reason, "remembered") || got.Rule != "policy rule 1 (up:echo, up:other, up, …)" {
			t.Errorf("%s, when the answer is remembered: %+v", tc.question, got)
		}
		kind, text := refusal(h.Client(t, hubtest.ClientOptions{}).Call(tc.method, tc.params))
		if refused := kind == "denied"; refused != (tc.want == "deny") || kind != "" && kind != "denied" {
			t.Errorf("%s, called again: %s", tc.question, text)
		}
		if got := explain(fmt.Sprintf(`{"principal":"ben",%s`, tc.question[1:])); got.Action != "allow" || got.Remembered != nil {
			t.Errorf("%s for another: %+v", tc.question, got)
		}
	}
}
