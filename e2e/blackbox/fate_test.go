package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// unanswering is a server over HTTP that does what its one tool is for, and then
// answers by this status and no message.
func unanswering(t testing.TB, status int) (settings object, made *atomic.Int32) {
	t.Helper()
	made = new(atomic.Int32)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `{}`
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"failing","version":"1"}}`
		case m.Method == "tools/list":
			result = `{"tools":[{"name":"pay","inputSchema":{"type":"object"}}]}`
		case m.Method == "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID)
			return
		case m.Method == "tools/call":
			made.Add(1)
			w.WriteHeader(status)
			fmt.Fprint(w, "<html>something went wrong</html>")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(web.Close)
	return object{"url": web.URL, "breaker": object{"failures": 1000}}, made
}

// B6, B8: a call that may have taken effect is made once, whoever makes it.
func TestCallThatMayHaveTakenEffectIsMadeOnce(t *testing.T) {
	t.Parallel()
	servers, made := object{}, map[string]*atomic.Int32{}
	for _, status := range []int{200, 202, 408, 500, 502, 503, 504} {
		name := fmt.Sprint("bank", status)
		servers[name], made[name] = unanswering(t, status)
	}
	h := prepare(t, servers)
	h.launch(t)
	for name, made := range made {
		tool := name + "__pay"
		await.Until(t, "the tools of "+name+" are listed", func() bool { return slices.Contains(h.names(t, "/mcp", h.owner), tool) })
		once := func(way string, said string) {
			t.Helper()
			if n := made.Swap(0); n != 1 {
				t.Errorf("%s called %s %d times", way, name, n)
			}
			mentions(t, way+" of "+name, said, "may have taken effect")
		}
		for path, tool := range map[string]string{"/mcp": tool, "/mcps/" + name + "/mcp": "pay"} {
			got := h.post(t, path, h.owner, rpc("tools/call", object{"name": tool, "arguments": object{}}))
			once(path, got.text)
			mentions(t, path, got.text, `"kind":"upstream_lost"`)
			lacks(t, path, got.text, `"retryable":true`)
			if got.status >= 500 {
				t.Errorf("%s answers by HTTP status %d, which invites to repeat the request", path, got.status)
			}
		}
		once("plan_execute", h.tool(t, "/mcp", h.owner, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": tool, "args": object{}})}).text)
		once("tools_batch", h.tool(t, "/mcp", h.owner, "tools_batch", object{"calls": list{object{"tool": tool, "arguments": object{}}}}).text)
		out, err := h.run(t, "call", name+":pay", "--data", h.data, "--config", h.config)
		if err == nil {
			t.Errorf("`stoa call` succeeds: %s", clip(out))
			continue
		}
		once("stoa call", err.Error())
	}
}
