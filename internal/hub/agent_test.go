package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// relay is an agent whose tool calls the tool of the next agent through the
// hub, and passes on what came with its own call.
func relay(t *testing.T, hub func() string) *httptest.Server {
	t.Helper()
	srv := sdk.NewServer(&sdk.Implementation{Name: "relay", Version: "1"}, nil)
	type args struct {
		To []string `json:"to"`
	}
	sdk.AddTool(srv, &sdk.Tool{Name: "pass"}, func(ctx context.Context, req *sdk.CallToolRequest, a args) (*sdk.CallToolResult, any, error) {
		text := "end"
		if len(a.To) > 0 {
			meta := map[string]any{}
			for k, v := range req.Params.Meta {
				if k == "stoa/chain" || k == "traceparent" {
					meta[k] = v
				}
			}
			text = post(ctx, hub()+"/mcps/"+a.To[0]+"/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
				"params": map[string]any{"name": "pass", "arguments": args{a.To[1:]}, "_meta": meta}})
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return srv }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)
	return web
}

// post returns the text of the answer: a result's, or an error's kind.
func post(ctx context.Context, url string, body any) string {
	b, err := json.Marshal(body)
	if err != nil {
		return err.Error()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	var m struct {
		Result struct{ Content []struct{ Text string } }
		Error  struct {
			Message string
			Data    struct{ Kind string }
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return string(raw)
	}
	if len(m.Result.Content) > 0 {
		return m.Result.Content[0].Text
	}
	return m.Error.Data.Kind + ": " + m.Error.Message
}

// Agents with one slot each that call each other in a circle share the slots
// that their ancestors hold, and stop at the limit.
func TestAgentsCallEachOther(t *testing.T) {
	hubtest.Parallel(t)
	defer http.DefaultClient.CloseIdleConnections()
	var url string
	a, b := relay(t, func() string { return url }), relay(t, func() string { return url })
	one := func(s *config.Server) { s.Queue = &config.Queue{Concurrency: 1, Capacity: 0, Timeout: time.Second} }
	h := hubtest.New(t, hubtest.HTTP("a", a.URL, one), hubtest.HTTP("b", b.URL, one))
	url = h.URL
	path := func(n int) string {
		var to []string
		for i := range n {
			to = append(to, []string{"b", "a"}[i%2])
		}
		raw, _ := json.Marshal(map[string]any{"to": to})
		return string(raw)
	}
	for _, face := range []string{"/mcps/a/mcp", "/mcp"} {
		c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: face})
		name := "pass"
		if face == "/mcp" {
			name = "a__pass"
		}
		if m := c.Tool(name, path(6)); m.Text() != "end" {
			t.Errorf("%s, seven calls of each other: %s", face, m.Raw)
		}
		if m := c.Tool(name, path(40)); !strings.HasPrefix(m.Text(), "loop: ") || !strings.Contains(m.Text(), "16 calls") {
			t.Errorf("%s, a circle ended with %s", face, m.Raw)
		}
	}
	for _, s := range []string{"a", "b"} {
		if st := status(t, h, s); st.Running != 0 || st.Queued != 0 {
			t.Errorf("%s is left with %d running, %d waiting", s, st.Running, st.Queued)
		}
	}
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcps/a/mcp"})
	if m := c.Tool("pass", "{}", hubtest.Meta(`"stoa/chain":"stoac1.e30.AAAA"`)); m.Fault().Data.Kind != "invalid_params" {
		t.Errorf("a chain that was made up: %s", m.Raw)
	}
}

// What a caller wants for one call, and what it is told while it waits.
func TestCallWishes(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}}, {Name: "params", Behaviour: peer.Behaviour{Kind: peer.Params}}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec, func(s *config.Server) {
		s.Queue = &config.Queue{Concurrency: 1, Capacity: 10, Timeout: time.Minute}
	}))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/up/mcp"})
	for name, value := range map[string]string{"stoa/priority": `"urgent"`, "stoa/timeoutMs": `0`, "stoa/retries": `11`} {
		if m := c.Tool("params", "{}", hubtest.Meta(fmt.Sprintf("%q:%s", name, value))); m.Fault().Data.Kind != "invalid_params" || !strings.Contains(m.Fault().Message, name) {
			t.Errorf("%s %s: %s", name, value, m.Raw)
		}
	}
	if m := c.Tool("slow", "{}", hubtest.Meta(`"stoa/timeoutMs":50`)); m.Fault().Data.Kind != "timeout" {
		t.Errorf("a call with a time-out of its own: %s", m.Raw)
	}
	if m := c.Tool("params", "{}", hubtest.Meta(`"stoa/priority":"high"`)); strings.Contains(m.Text(), "stoa/priority") || !strings.Contains(m.Text(), "stoa/chain") {
		t.Errorf("the agent was told %s", m.Raw)
	}
	busy := c.Go("tools/call", hubtest.ToolParams("slow", ""))
	await.Until(t, "it runs", func() bool { return status(t, h, "up").Running == 1 })
	waits := c.Go("tools/call", hubtest.ToolParams("params", ""), hubtest.Meta(`"progressToken":"p"`))
	note := waits.Next()
	if note.Method != "notifications/progress" || !strings.Contains(string(note.Params), "place 1") || !strings.Contains(string(note.Params), `"progress":-1`) {
		t.Errorf("who waits is told %s", note.Raw)
	}
	busy.Close()
	if m := waits.Response(); m.Error != nil {
		t.Errorf("then: %s", m.Raw)
	}
}

func TestAgentsRegister(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	h := hubtest.New(t, hubtest.HTTP("fixed", web.URL))
	do := func(method, path, token, lease, body string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequest(method, h.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		req.Header.Set("Stoa-Lease", lease)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		raw, err := io.ReadAll(resp.Body)
		if err != nil || len(raw) > 0 && json.Unmarshal(raw, &out) != nil {
			t.Fatalf("%s, %v", raw, err)
		}
		return resp.StatusCode, out
	}
	defer http.DefaultClient.CloseIdleConnections()
	body := func(name, url, more string) string { return fmt.Sprintf(`{"name":%q,"url":%q%s}`, name, url, more) }
	for what, tc := range map[string]struct {
		token, body string
		status      int
	}{
		"no token":           {"", body("w", web.URL, ""), 401},
		"a configured name":  {h.Token, body("fixed", web.URL, ""), 400},
		"a reserved name":    {h.Token, body("context", web.URL, ""), 400},
		"no name for a slug": {h.Token, body("A b", web.URL, ""), 400},
		"another machine":    {h.Token, body("w", "http://192.0.2.1/mcp", ""), 400},
		"another scheme":     {h.Token, body("w", "file:///etc/passwd", ""), 400},
		"too long a lease":   {h.Token, body("w", web.URL, `,"ttlMs":3600000`), 400},
		"an unknown key":     {h.Token, body("w", web.URL, `,"ttl":1`), 400},
		"no JSON":            {h.Token, `name=w`, 400},
		"a bad queue":        {h.Token, body("w", web.URL, `,"queue":{"concurrency":-1}`), 400},
	} {
		if status, out := do("POST", "/mcps", tc.token, "", tc.body); status != tc.status {
			t.Errorf("%s: %d %v", what, status, out)
		}
	}
	status, out := do("POST", "/mcps", h.Token, "", body("worker", web.URL, `,"ttlMs":600000,"queue":{"concurrency":2}`))
	lease, _ := out["lease"].(string)
	if status != 201 || lease == "" || out["url"] != "/mcps/worker/mcp" {
		t.Fatalf("registered: %d %v", status, out)
	}
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/worker/mcp"})
	if m := c.Tool("echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("a call: %s", m.Raw)
	}
	if _, list := h.Get("/mcps"); !strings.Contains(string(list), `"name":"worker"`) || !strings.Contains(string(list), `"concurrency":2`) || !strings.Contains(string(list), `"done":1`) {
		t.Errorf("the list: %s", list)
	}
	if status, out := do("POST", "/mcps", h.Token, "", body("worker", web.URL, "")); status != 403 {
		t.Errorf("a second of that name: %d %v", status, out)
	}
	if status, out := do("PUT", "/mcps/worker", h.Token, "wrong", ""); status != 404 {
		t.Errorf("renewed by a stranger: %d %v", status, out)
	}
	if status, out := do("PUT", "/mcps/worker", h.Token, lease, ""); status != 200 || out["ttlMs"] != 600000.0 {
		t.Errorf("renewed: %d %v", status, out)
	}
	// Who registers again shows the lease it has, and lives as long as it says.
	status, out = do("POST", "/mcps", h.Token, "", body("worker", web.URL, fmt.Sprintf(`,"ttlMs":1000,"lease":%q`, lease)))
	if status != 201 || out["lease"] == lease {
		t.Fatalf("registered again: %d %v", status, out)
	}
	await.Until(t, "an agent that does not renew its lease is gone", func() bool {
		status, _ := do("GET", "/mcps/worker", h.Token, "", "")
		return status == 404
	})
	status, out = do("POST", "/mcps", h.Token, "", body("worker", web.URL, ""))
	if status != 201 {
		t.Fatalf("and comes again: %d %v", status, out)
	}
	if status, _ := do("DELETE", "/mcps/worker", h.Token, out["lease"].(string), ""); status != 204 {
		t.Errorf("unregistered: %d", status)
	}
	if m := c.Tool("echo", `{}`); m.Fault().Data.Kind != "unknown_agent" {
		t.Errorf("after its end: %s", m.Raw)
	}
}

// A tool that the config prefers has its turn before one that came earlier.
func TestPriorityOfATool(t *testing.T) {
	hubtest.Parallel(t)
	count := peer.Behaviour{Kind: peer.Count}
	spec := peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}}, {Name: "plain", Behaviour: count}, {Name: "urgent", Behaviour: count}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec, func(s *config.Server) {
		s.Queue = &config.Queue{Concurrency: 1, Capacity: 10, Timeout: time.Minute}
		s.Tools.Override = map[string]config.Override{"urgent": {Priority: "high"}}
	}))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern})
	c.Call("tools/list", "{}")
	waits := func(n int) func() bool {
		return func() bool { s := status(t, h, "up"); return s.Running == 1 && s.Queued == n }
	}
	busy := c.Go("tools/call", hubtest.ToolParams("up__slow", ""))
	await.Until(t, "it runs", waits(0))
	plain := c.Go("tools/call", hubtest.ToolParams("up__plain", ""))
	await.Until(t, "one waits", waits(1))
	urgent := c.Go("tools/call", hubtest.ToolParams("up__urgent", ""))
	await.Until(t, "two wait", waits(2))
	busy.Close()
	if first, second := urgent.Response().Text(), plain.Response().Text(); first >= second {
		t.Errorf("the urgent one was the call %s, the plain one %s", first, second)
	}
}
