package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestAgentClient runs the agent-to-agent client of the router's specification. It sends bare POSTs: no Accept
// header, no session, no initialize, and `Bearer undefined` when it has no token. It reads JSON and nothing else.
func TestAgentClient(t *testing.T) {
	set := tools(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	host, port, err := net.SplitHostPort(h.address)
	if err != nil {
		t.Fatal(err)
	}

	type request struct {
		Method string `json:"method"`
		Args   []any  `json:"args"`
	}
	asks := []struct {
		what    string
		request request
		status  int
		check   func(t *testing.T, o outcome)
	}{
		{"listTools", request{"listTools", []any{"fixture"}}, http.StatusOK, func(t *testing.T, o outcome) {
			if !strings.Contains(string(o.Result), `"test_simple_text"`) {
				t.Errorf("tools: %.500s", o.Result)
			}
		}},
		{"callTool", request{"callTool", []any{"fixture", "test_simple_text", map[string]any{}}}, http.StatusOK,
			saysText("This is a simple text response for testing.")},
		{"listResources", request{"listResources", []any{"fixture"}}, http.StatusOK, func(t *testing.T, o outcome) {
			if !strings.Contains(string(o.Result), `"test://static-text"`) {
				t.Errorf("resources: %.500s", o.Result)
			}
		}},
		{"readResource", request{"readResource", []any{"fixture", "test://static-text"}}, http.StatusOK, func(t *testing.T, o outcome) {
			var text string
			decode(t, o, &text)
			if text != "This is the content of the static text resource." {
				t.Errorf("text %q", text)
			}
		}},
		{"toolSaysNo", request{"callTool", []any{"fixture", "test_error_handling", map[string]any{}}}, http.StatusOK, toolFails},
		{"unknownTool", request{"callTool", []any{"fixture", "no_such_tool", map[string]any{}}}, http.StatusOK, fails(-32602)},
		{"unknownMethod", request{"request", []any{"fixture", "no/such/method", map[string]any{}}}, http.StatusOK, fails(-32601)},
		{"unknownAgent", request{"listTools", []any{"nobody"}}, http.StatusNotFound, fails(-32601)},
	}

	var requests []request
	for _, ask := range asks {
		requests = append(requests, ask.request)
	}
	var answers struct {
		Steps []outcome
		Wire  []struct {
			Status       int
			Type         string
			ID, Answered json.RawMessage
		}
	}
	set.script(t, []string{"ROUTER_HOST=" + host, "ROUTER_PORT=" + port}, "agent-client.mjs", requests, &answers)
	if len(answers.Steps) != len(asks) || len(answers.Wire) != len(asks) {
		t.Fatalf("%d answers and %d responses to %d requests", len(answers.Steps), len(answers.Wire), len(asks))
	}
	for i, ask := range asks {
		t.Run(ask.what, func(t *testing.T) {
			ask.check(t, answers.Steps[i])
			wire := answers.Wire[i]
			if wire.Status != ask.status || !strings.HasPrefix(wire.Type, "application/json") {
				t.Errorf("HTTP status %d, content type %q; want %d and JSON", wire.Status, wire.Type, ask.status)
			}
			if string(wire.ID) != string(wire.Answered) {
				t.Errorf("answered id %s, want %s", wire.Answered, wire.ID)
			}
		})
	}
}
