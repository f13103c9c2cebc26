package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B20: what commands of a registered agent, callers of tasks and clients of
// servers that lack a list are told.

func TestCommandsOfAnAgentFindTheHub(t *testing.T) {
	t.Parallel()
	const manifest = "agent: 1\nname: where\ntools: {hub: {command: [sh, -c, 'echo \"<$ROUTER_HOST:$ROUTER_PORT>\"']}}\n"
	h := serve(t, object{})
	agent(t, manifest, []string{"STOA_TOKEN=" + h.owner}, "--register", "http://"+h.address)
	var said string
	await.NoError(t, "the agent answers behind the hub", func() error {
		text, done := h.tool(t, "/mcps/where/mcp", h.owner, "hub", object{}).content(t)
		if !done {
			return fmt.Errorf("%s", clip(text))
		}
		said = text
		return nil
	})
	mentions(t, "the command's hub", said, "<"+h.address+">")
	// Who has chosen another hub for its commands keeps it.
	agent(t, strings.Replace(manifest, "name: where", "name: there", 1), []string{"STOA_TOKEN=" + h.owner, "ROUTER_HOST=192.0.2.7", "ROUTER_PORT=99"}, "--register", "http://"+h.address)
	await.Until(t, "the other agent's command has the address that was chosen", func() bool {
		text, _ := h.tool(t, "/mcps/there/mcp", h.owner, "hub", object{}).content(t)
		return strings.Contains(text, "<192.0.2.7:99>")
	})
}

// modern asks in the way of the protocol's current version, as a client that
// knows tasks.
func (h *hub) modern(t testing.TB, path, method, name string, params object) string {
	t.Helper()
	const version, prefix = "2026-07-28", "io.modelcontextprotocol/"
	params["_meta"] = object{
		prefix + "protocolVersion": version, prefix + "clientInfo": object{"name": "x", "version": "1"}, "progressToken": "p",
		prefix + "clientCapabilities": object{"extensions": object{prefix + "tasks": object{}}},
	}
	header := http.Header{"Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}}
	return h.send(t, http.MethodPost, path, h.owner, header, rpc(method, params)).text
}

func TestProgressOfATaskIsToldInNumbers(t *testing.T) {
	t.Parallel()
	files, _ := withTools(t, `{"name":"count","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	files["task"] = "auto"
	h := serve(t, object{"files": files})
	gate := filepath.Join(t.TempDir(), "gate")
	t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) })
	type task struct {
		ResultType, TaskID, Status string
		Meta                       struct {
			Progress struct{ Progress, Total float64 } `json:"stoa/progress"`
		} `json:"_meta"`
	}
	read := func(text string) task {
		t.Helper()
		var answer struct{ Result task }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Result.ResultType == "" {
			t.Fatalf("%v: %s", err, clip(text))
		}
		return answer.Result
	}
	for _, face := range []struct{ path, tool string }{{"/mcp", "files__count"}, {"/mcps/files/mcp", "count"}} {
		made := read(h.modern(t, face.path, "tools/call", face.tool, object{"name": face.tool, "arguments": object{"path": gate}}))
		if made.ResultType != "task" {
			t.Fatalf("a call that takes long is no task: %+v", made)
		}
		seen := 0.0
		for range 3 { // it grows, and goes on growing
			await.NoError(t, "the task has come further", func() error {
				now := read(h.modern(t, face.path, "tasks/get", made.TaskID, object{"taskId": made.TaskID}))
				if now.Status != "working" {
					t.Fatalf("the task is %s", now.Status)
				}
				if p := now.Meta.Progress; p.Progress <= seen || p.Total != 100000 {
					return fmt.Errorf("%+v after %v", p, seen)
				}
				seen = now.Meta.Progress.Progress
				return nil
			})
		}
		mentions(t, "the task by the API", h.get(t, "/api/v1/tasks/"+made.TaskID, h.owner).text, `"progress":{`)
	}
}

// A server that announces a list and does not know the method has an empty
// list, and what else it lists is not taken for old.
func TestListThatIsNotThereIsEmpty(t *testing.T) {
	t.Parallel()
	hello := strings.Replace(replies["initialize"], `"completions":{}`, `"completions":{},"resources":{"listChanged":true}`, 1)
	files, _ := upstream(t, helloVariable, hello)
	h := serve(t, object{"files": files})
	var all struct {
		Tools []struct {
			Name, Upstream string
			Stale          bool
		}
	}
	got := h.get(t, "/api/v1/tools?limit=500", h.owner)
	if err := json.Unmarshal([]byte(got.text), &all); err != nil {
		t.Fatalf("%v: %s", err, clip(got.text))
	}
	for _, tool := range all.Tools {
		if tool.Upstream == "files" && tool.Stale {
			t.Errorf("the tool %s is said to be from an old list", tool.Name)
		}
	}
	mentions(t, "the list of resources", h.post(t, "/mcp", h.owner, rpc("resources/list", object{})).text, `"resources":[`)
	if out, err := h.run(t, "doctor", "files", "--data", h.data, "--config", h.config); err != nil {
		t.Errorf("`stoa doctor` finds something: %v %s", err, out)
	}
	lacks(t, "what is said of the server", h.server(t, "files"), "resources/list")
}
