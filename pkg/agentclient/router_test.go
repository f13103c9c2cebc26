package agentclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/pkg/agentclient"
)

// plain is a router that passes bodies on to an agent which knows nothing but
// bare requests: what it is asked for is answered by reply, as a JSON document
// or as an event stream.
func plain(t *testing.T, reply func(id json.RawMessage, method string) (status int, contentType, body string)) *agentclient.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		text, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(text, &m) != nil || r.URL.Path != "/mcps/worker/mcp" {
			t.Errorf("%s %s: %v %s", r.Method, r.URL, err, text)
		}
		status, contentType, body := reply(m.ID, m.Method)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return open(t, agentclient.Options{URL: server.URL, MaxBytes: 1 << 16})
}

func result(id json.RawMessage, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, text)
}

func unknown(id json.RawMessage, status int) (int, string, string) {
	return status, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
}

// Routers of the older contract know no probe and no version.
func TestPlainRouter(t *testing.T) {
	probes := 0
	c := plain(t, func(id json.RawMessage, method string) (int, string, string) {
		switch method {
		case "server/discover":
			probes++
			return http.StatusBadRequest, "text/plain", "what?"
		case "tools/list":
			return http.StatusOK, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"a"}]}}`, id)
		case "tools/call":
			return http.StatusOK, "application/json", result(id, "done")
		}
		return unknown(id, http.StatusOK)
	})
	for range 2 {
		if r, err := c.CallTool(t.Context(), "worker", "a", nil); err != nil || r.Text() != "done" {
			t.Errorf("%+v %v", r, err)
		}
	}
	if tools, err := c.ListTools(t.Context(), "worker"); err != nil || len(tools) != 1 {
		t.Errorf("%+v %v", tools, err)
	}
	if prompts, err := c.ListPrompts(t.Context(), "worker"); err != nil || len(prompts) != 0 {
		t.Errorf("one that has no prompts: %+v %v", prompts, err)
	}
	if probes != 1 {
		t.Errorf("asked %d times for what it speaks", probes)
	}
}

func TestPlainRouterUnknownAgent(t *testing.T) {
	c := plain(t, func(id json.RawMessage, _ string) (int, string, string) { return unknown(id, http.StatusNotFound) })
	_, err := c.ListTools(t.Context(), "worker")
	if e, ok := errors.AsType[*agentclient.Error](err); !ok || e.Code != -32601 || e.Status != http.StatusNotFound {
		t.Errorf("%+v", err)
	}
}

func TestAnswers(t *testing.T) {
	const sse = "text/event-stream; charset=utf-8"
	for what, tc := range map[string]struct {
		contentType string
		body        func(id json.RawMessage) string
		want        string // in the error; empty means that the answer is "done"
	}{
		"json": {"application/json", func(id json.RawMessage) string { return result(id, "done") }, ""},
		"events": {sse, func(id json.RawMessage) string {
			return ": hi\r\nid: 1\r\ndata:\r\n\r\ndata: " + result(id, "done") + "\r\n\r\n"
		}, ""},
		"data in parts": {sse, func(id json.RawMessage) string {
			return "data: " + strings.Replace(result(id, "done"), ",", ",\ndata:", 1) + "\n\n"
		}, ""},
		"another's first": {sse, func(id json.RawMessage) string {
			return "data: " + result([]byte(`"x"`), "no") + "\n\ndata: " + result(id, "done") + "\n\n"
		}, ""},
		"cut short":    {sse, func(id json.RawMessage) string { return "data: " + result(id, "done") }, "ended before the answer"},
		"no answer":    {sse, func(json.RawMessage) string { return ": bye\n\n" }, "ended before the answer"},
		"bad event":    {sse, func(json.RawMessage) string { return "data: {\n\n" }, "no JSON-RPC message"},
		"another's":    {"application/json", func(json.RawMessage) string { return result([]byte("99999"), "no") }, "another request"},
		"not JSON":     {"text/html", func(json.RawMessage) string { return "<p>hello" }, "<p>hello"},
		"too long":     {"application/json", func(id json.RawMessage) string { return result(id, strings.Repeat("x", 1<<17)) }, "MaxBytes"},
		"a long event": {sse, func(json.RawMessage) string { return "data: " + strings.Repeat("x", 1<<17) }, "MaxBytes"},
		"a task": {"application/json", func(id json.RawMessage) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":"1"}}`, id)
		}, `"task"`},
	} {
		t.Run(what, func(t *testing.T) {
			c := plain(t, func(id json.RawMessage, method string) (int, string, string) {
				if method == "server/discover" {
					return unknown(id, http.StatusOK)
				}
				return http.StatusOK, tc.contentType, tc.body(id)
			})
			r, err := c.CallTool(t.Context(), "worker", "a", nil)
			if tc.want == "" && (err != nil || r.Text() != "done") {
				t.Errorf("%+v %v", r, err)
			}
			if _, ok := errors.AsType[*agentclient.Error](err); tc.want != "" && (!ok || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestNoRouter(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := open(t, agentclient.Options{URL: server.URL}).ListTools(t.Context(), "worker")
	if e, ok := errors.AsType[*agentclient.Error](err); !ok || e.Status != 0 || !strings.Contains(e.Error(), server.URL) {
		t.Errorf("%+v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, name := range []string{"ROUTER_HOST", "ROUTER_PORT", "AGENT_TOKEN"} {
		t.Setenv(name, "")
	}
	for _, tc := range []struct {
		opt        agentclient.Options
		host, port string // of the environment
		want       string // the URL of agent "a b"; empty: refused
	}{
		{want: "http://localhost:8088/mcps/a%20b/mcp"},
		{host: "hub", port: "9000", want: "http://hub:9000/mcps/a%20b/mcp"},
		{opt: agentclient.Options{Host: "::1", Port: 1}, host: "hub", port: "9000", want: "http://[::1]:1/mcps/a%20b/mcp"},
		{opt: agentclient.Options{URL: "https://example.com/hub/"}, host: "hub", want: "https://example.com/hub/mcps/a%20b/mcp"},
		{port: "http"}, {port: "0"}, {port: "65536"}, {opt: agentclient.Options{Port: -1}}, {opt: agentclient.Options{URL: "example.com"}},
	} {
		t.Setenv("ROUTER_HOST", tc.host)
		t.Setenv("ROUTER_PORT", tc.port)
		c, err := agentclient.New(tc.opt)
		if (err != nil) != (tc.want == "") {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		if err == nil && c.URL("a b") != tc.want {
			t.Errorf("%+v: %s", tc, c.URL("a b"))
		}
	}
}

func TestParamsMustBeObjects(t *testing.T) {
	c := plain(t, func(id json.RawMessage, _ string) (int, string, string) { return unknown(id, http.StatusOK) })
	for _, params := range []any{[]int{1}, "x", 3, func() {}, json.RawMessage("null"), map[string]any{"_meta": 1}} {
		if _, err := c.Request(t.Context(), "worker", "x", params); err == nil || strings.Contains(err.Error(), "Method not found") {
			t.Errorf("params %T were sent: %v", params, err)
		}
	}
}
