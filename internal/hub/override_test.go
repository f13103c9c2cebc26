package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func overriding(by map[string]config.Override) hubtest.Edit {
	spec := peer.Spec{Tools: []peer.Tool{
		{Name: "echo"}, {Name: "params", Behaviour: peer.Do(peer.Params)}, {Name: "secret*"}, {Name: "secrets"},
		{Name: "hang", Behaviour: peer.Do(peer.Hang)}, {Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 4500 * time.Millisecond}},
	}}
	return hubtest.Stdio("up", spec, func(s *config.Server) {
		s.Tools.Override, s.Timeout = by, 4*time.Second
	})
}

func TestOverrides(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, overriding(map[string]config.Override{
		"params":  {Name: "tell me", Description: "Tells \"all\".", Timeout: await.Patience},
		"echo":    {Name: "slow", Timeout: await.Patience}, // which is another tool's
		"secret*": {Hidden: true},
		"hang":    {Timeout: 20 * time.Millisecond},
		"slow":    {Timeout: await.Patience},
		"none":    {Name: "nothing"},
	}))
	slow := map[string]*hubtest.Exchange{} // they take the longest, so they go beside each other
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		merged := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcp"})
		agent := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/up/mcp"})
		await.Until(t, "it is listed", func() bool { return offers(merged, "up__hang") })
		type list struct {
			Tools []struct{ Name, Description string }
		}
		names := map[string]string{}
		for _, tool := range hubtest.Decode[list](merged.Call("tools/list", "{}").Result).Tools {
			names[tool.Name] = tool.Description
		}
		var told, other string
		for name := range names {
			switch {
			case strings.HasPrefix(name, "up__tell_me_"):
				told = name
			case strings.HasPrefix(name, "up__slow_"):
				other = name
			}
		}
		if len(names) != 5 || told == "" || other == "" || names[told] != `Tells "all".` {
			t.Fatalf("merged: %v", names)
		}
		if _, ok := names["up__secrets"]; !ok {
			t.Error("a pattern in the name of a hidden tool hides others")
		}
		if got := merged.Tool(told, `{"a":1}`); !strings.Contains(got.Text(), `"name":"params"`) {
			t.Errorf("the renamed tool was called as %s %s", got.Text(), got.Error)
		}
		if got := merged.Tool(other, `{"a":1}`); got.Error != nil || got.Text() == "" {
			t.Errorf("the tool whose new name was taken: %s", got.Error)
		}
		if got := agent.Call("tools/list", "{}"); !strings.Contains(string(got.Result), `"params"`) || strings.Contains(string(got.Result), "secret*") {
			t.Errorf("the agent's own face: %s", got.Result)
		}
		if got := agent.Tool("secret*", "{}"); got.Error == nil {
			t.Error("a hidden tool can be called on the agent's own face")
		}
		if got := merged.Tool("up:secret*", "{}"); got.Error == nil {
			t.Error("a hidden tool can be called on the merged face")
		}
		for _, c := range []*hubtest.Client{merged, agent} {
			prefix := map[*hubtest.Client]string{merged: "up__"}[c]
			if got := c.Tool(prefix+"hang", "{}"); !strings.Contains(string(got.Error), "no answer within 20ms") {
				t.Errorf("a shorter time-out: %s", got.Error)
			}
			slow[string(era)+" "+c.Face] = c.Go("tools/call", hubtest.ToolParams(prefix+"slow", "{}"))
		}
	}
	for who, x := range slow {
		if got := x.Response(); got.Error != nil {
			t.Errorf("a longer time-out: %s: %s", who, got.Error)
		}
	}
}

func TestOverrideChangeIsTold(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, overriding(nil))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcp"})
	await.Until(t, "it is listed", func() bool { return offers(c, "up__echo") })
	listen := c.Listen(`{"toolsListChanged":true}`)
	defer listen.Close()
	if _, err := h.Reload(setupOf(h, overriding(map[string]config.Override{"echo": {Name: "say"}}))); err != nil {
		t.Fatal(err)
	}
	for !offers(c, "up__say") { // the start may be told of first
		listen.Await("notifications/tools/list_changed")
	}
	if offers(c, "up__echo") {
		t.Errorf("after the change: %s", c.Call("tools/list", "{}").Result)
	}
}
