package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// TestAgentClient runs the agent-to-agent client of the router's specification. It sends bare POSTs: no Accept
// header, no session, no initialize, and `Bearer undefined` when it has no token. It reads JSON and nothing else.
func TestAgentClient(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
	host, port, err := net.SplitHostPort(h.address)
	if err != nil {
		t.Fatal(err)
	}

	asks := agentAsks()
	var requests []agentRequest
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

// agentRequest is a method of the agent client and its arguments.
type agentRequest struct {
	Method string `json:"method"`
	Args   []any  `json:"args"`
}

// agentAsk is a request, the HTTP status that must answer it, and the judgement on what the client makes of it.
type agentAsk struct {
	what    string
	request agentRequest
	status  int
	check   func(t *testing.T, o outcome)
}

func agentAsks() []agentAsk {
	return []agentAsk{
		{"listTools", agentRequest{"listTools", []any{"fixture"}}, http.StatusOK, func(t *testing.T, o outcome) {
			if !strings.Contains(string(o.Result), `"test_simple_text"`) {
				t.Errorf("tools: %.500s", o.Result)
			}
		}},
		{"callTool", agentRequest{"callTool", []any{"fixture", "test_simple_text", map[string]any{}}}, http.StatusOK,
			saysText("This is a simple text response for testing.")},
		{"listResources", agentRequest{"listResources", []any{"fixture"}}, http.StatusOK, func(t *testing.T, o outcome) {
			if !strings.Contains(string(o.Result), `"test://static-text"`) {
				t.Errorf("resources: %.500s", o.Result)
			}
		}},
		{"readResource", agentRequest{"readResource", []any{"fixture", "test://static-text"}}, http.StatusOK, func(t *testing.T, o outcome) {
			var text string
			decode(t, o, &text)
			if text != "This is the content of the static text resource." {
				t.Errorf("text %q", text)
			}
		}},
		{"toolSaysNo", agentRequest{"callTool", []any{"fixture", "test_error_handling", map[string]any{}}}, http.StatusOK, toolFails},
		{"unknownTool", agentRequest{"callTool", []any{"fixture", "no_such_tool", map[string]any{}}}, http.StatusOK, fails(-32602)},
		{"unknownMethod", agentRequest{"request", []any{"fixture", "no/such/method", map[string]any{}}}, http.StatusOK, fails(-32601)},
		{"unknownAgent", agentRequest{"listTools", []any{"nobody"}}, http.StatusNotFound, fails(-32601)},
	}
}
