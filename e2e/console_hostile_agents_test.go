package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// register lets agents register themselves: one all of whose words are hostile, ten thousand characters for a name among
// them, and one that is nowhere, at an address that is hostile itself. It gives both tasks.
func (b *hostileHub) register(t *testing.T) {
	t.Helper()
	spec := hostileSpec()
	spec.Name = strings.Repeat("pwned_", 1700) + allHostile
	agent := peer.Serve(t, spec)
	for name, at := range map[string]string{
		"guest": agent.URL, "ghost": "http://127.0.0.1:1/" + url.PathEscape(hostiles[2].text) + "?q=" + hostiles[0].text,
	} {
		body := mustJSON(map[string]any{"name": name, "url": at, "ttlMs": 600_000, "queue": map[string]any{"concurrency": 2}})
		if status, answer := b.answer(t, "POST", "/mcps", string(body)); status != http.StatusCreated {
			t.Fatalf("register %s: %d %.600s", name, status, answer)
		}
	}
	b.unregistered(t, agent.URL)
	await.Until(t, "the agent lists its tools", func() bool {
		return strings.Contains(string(b.api(t, "GET", "/api/v1/tools?upstream=guest", "")), "guest__odd0")
	})
	for i, h := range hostiles {
		args := map[string]any{h.text: h.text}
		for _, tool := range []string{"rude", "no", "odd"} {
			b.api(t, "POST", "/api/tools/task_start", string(mustJSON(map[string]any{"tool": fmt.Sprint("guest__", tool, i), "arguments": args})))
		}
	}
	b.answer(t, "POST", "/mcps/ghost/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`)
	await.Until(t, "it is known that nobody is there", func() bool {
		return strings.Contains(string(b.api(t, "GET", "/api/v1/servers/ghost", "")), "refused")
	})
}

// unregistered tries the texts as an agent's name, and as what an agent may not say of itself.
func (b *hostileHub) unregistered(t *testing.T, at string) {
	t.Helper()
	for _, h := range append(hostiles, struct{ name, text string }{"ten thousand", strings.Repeat("a", 10_000)}) {
		for says, body := range map[string]map[string]any{
			"cannot be an agent's":                {"name": h.text, "url": at},
			"is no http or https address":         {"name": "other", "url": "javascript:" + h.text},
			`unknown field \"title\"`:             {"name": "other", "url": at, "title": h.text},
			`unknown field \"description\"`:       {"name": "other", "url": at, "description": h.text},
			"use auto, modern or legacy":          {"name": "other", "url": at, "protocol": h.text},
			"an agent of this name is registered": {"name": "guest", "url": at, "lease": h.text},
		} {
			status, answer := b.answer(t, "POST", "/mcps", string(mustJSON(body)))
			if status != http.StatusBadRequest && status != http.StatusForbidden || !strings.Contains(string(answer), says) {
				t.Errorf("%s: %d %.600s, want %s", h.name, status, answer, says)
			}
		}
	}
}

// agentViews are where agents and their tasks are shown.
func (b *hostileHub) agentViews(t *testing.T) []view {
	t.Helper()
	shows := func(selector, text string) string {
		return "[...document.querySelectorAll(" + quoted(selector) + ")].some((e) => e.innerText.includes(" + quoted(text) + "))"
	}
	views := []view{
		{path: "agents?upstream=guest", ready: shows("main tbody tr", "guest:rude0") + " && " + shows("main tbody tr", "/mcps/ghost/mcp")},
		{path: "servers/guest", ready: shows("section.side", "pwned(1)")}, {path: "servers/ghost", ready: shows("section.side .trouble", "refused")},
		{path: "tools?upstream=guest", ready: shows("main", "pwned(1)")},
	}
	var all struct{ Tasks []struct{ Task, Tool string } }
	if err := json.Unmarshal(b.api(t, "GET", "/api/v1/tasks?upstream=guest&limit=100", ""), &all); err != nil {
		t.Fatal(err)
	}
	if want := 3 * len(hostiles); len(all.Tasks) != want {
		t.Errorf("%d tasks of the agent, want %d", len(all.Tasks), want)
	}
	for _, one := range all.Tasks {
		if strings.HasSuffix(one.Tool, "0") || strings.HasPrefix(one.Tool, "odd") { // one of those that fail is enough: their words are in the list
			views = append(views, view{path: "agents/" + one.Task, ready: "document.querySelector('section.side .facts')"})
		}
	}
	return views
}
