package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stoahub/stoa/internal/hubtest"
)

// TestOrder reads event streams as they come off the wire. The published everything server sends its answer right
// behind the last progress notification, which is where a gateway lets the one overtake the other; since that is a
// matter of scheduling, each way is tried many times.
func TestOrder(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	peers := published(set, t.TempDir(), filepath.Join(t.TempDir(), "graph.jsonl"))
	h := startHub(t, set, map[string]server{"everything": peers["everything"]})
	const rounds = 25
	for _, face := range []struct{ name, url, tool string }{
		{"agent", h.agent("everything"), "trigger-long-running-operation"},
		{"merged", h.merged(), "everything__trigger-long-running-operation"},
	} {
		for _, version := range []string{legacy, modern} {
			t.Run(face.name+"/"+version, func(t *testing.T) {
				for round := range rounds {
					want := []string{"progress 1", "progress 2", "progress 3", "progress 4", "result"}
					if diff := cmp.Diff(want, streamed(t, face.url, version, face.tool)); diff != "" {
						t.Fatalf("round %d: messages of one call (-want +got):\n%s", round, diff)
					}
				}
			})
		}
	}
}

// streamed calls the tool with a progress token and names the messages of the answer in their order.
func streamed(t *testing.T, url, version, tool string) []string {
	t.Helper()
	response, err := client.Do(progressCall(t, url, version, tool))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Fatalf("%s, content type %q; want an event stream", response.Status, kind)
	}
	var messages []string
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data:")
		if !found || strings.TrimSpace(data) == "" {
			continue
		}
		messages = append(messages, summary(t, data))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return messages
}

func progressCall(t *testing.T, url, version, tool string) *http.Request {
	t.Helper()
	meta := map[string]any{"progressToken": "token"}
	if version == modern {
		meta["io.modelcontextprotocol/protocolVersion"] = modern
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": "call", "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": map[string]any{"duration": 0.01, "steps": 4}, "_meta": meta},
	})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", version)
	if version == modern {
		request.Header.Set("Mcp-Method", "tools/call")
		request.Header.Set("Mcp-Name", tool)
	}
	return request
}

func summary(t *testing.T, data string) string {
	t.Helper()
	var message struct {
		ID     any
		Method string
		Params struct {
			ProgressToken any
			Progress      float64
		}
		Result json.RawMessage
	}
	if err := json.Unmarshal([]byte(data), &message); err != nil {
		t.Fatalf("event %q: %v", data, err)
	}
	switch {
	case message.Method == "notifications/progress" && message.Params.ProgressToken == "token":
		return fmt.Sprintf("progress %v", message.Params.Progress)
	case message.ID == "call" && message.Result != nil:
		return "result"
	}
	return data
}
