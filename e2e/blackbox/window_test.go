package blackbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// recorded is a server that lists the tools of a real one.
func recorded(t testing.TB, name string) map[string]any {
	t.Helper()
	tools, err := filepath.Abs(filepath.Join(repository, "internal", "hub", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	server, _ := upstream(t, listVariable, tools)
	return server
}

// B13: the example files of a chat host, two servers and a window of 8,192
// tokens, hold a conversation. The files are as its manual has them, but for
// where the servers and the model are.
func TestSmallWindowHoldsAConversation(t *testing.T) {
	t.Parallel()
	const window = 8192
	model, url := fakeModel(t, func(n int, a llmtest.Asked) llmtest.Reply {
		return llmtest.OpenAI.Answer(llmtest.Said{Text: []string{fmt.Sprintf("Answer %d.", n)}, Input: len(a.Body) / 4, Output: 5})
	})
	h := prepare(t, object{})
	servers := object{}
	for id, catalogue := range map[string]string{"filesystem": "filesystem", "github": "memory"} {
		server := recorded(t, catalogue)
		server["id"], server["type"], server["transport"], server["timeoutMs"] = id, "local", "stdio", 10000
		servers[id] = server
	}
	text, err := json.MarshalIndent(object{"servers": servers}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	h.config = filepath.Join(h.folder, "mcp.json")
	for name, text := range map[string]string{
		h.config: string(text),
		filepath.Join(h.folder, ".env"): "OPENAI_API_KEY=" + llmtest.Key + "\nOPENAI_BASE_URL=" + url + "\nMCP_JSON_PATH=./mcp.json\nLOG_LEVEL=info\nPORT=3000\n" +
			fmt.Sprintf("MAX_TOKEN_COUNT=%d\nDEFAULT_TOOL_TIMEOUT_MS=5000\n", window),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.launch(t)
	await.Until(t, "the tools of both servers are listed", func() bool {
		all := h.names(t, "/mcp", h.owner)
		return slices.Contains(all, "filesystem__write_file") && slices.Contains(all, "github__read_graph")
	})
	session := object{}
	turns := []string{"hello", "My number is 4711."}
	for i := range 17 {
		turns = append(turns, fmt.Sprintf("Tell me something of the number %d.", i))
	}
	for i, words := range append(turns, "What is my number?") {
		said := h.say(t, h.owner, words, session)
		if said.Text != fmt.Sprintf("Answer %d.", i) {
			t.Fatalf("%q is answered by %s: %s", words, said.End.Reason, clip(said.Text))
		}
		session = object{"sessionId": said.SessionID}
	}
	for i, a := range model.Asked() {
		body := string(a.Body)
		if tokens := len([]rune(body)) / 4; tokens > window {
			t.Errorf("request %d takes %d tokens of %d", i, tokens, window)
		}
		if n := strings.Count(body, "Create a new file or completely overwrite"); n != 1 {
			t.Errorf("request %d has the description of a tool %d times", i, n)
		}
		if i > 0 && !strings.Contains(body, "4711") {
			t.Errorf("in request %d what was said in this conversation is forgotten", i)
		}
	}
}

// C8: what a server has is what a client of the hub is listed: nothing is added that
// nobody asked for, and no text is sent twice.
func TestOneServerIsListedAsItIs(t *testing.T) {
	t.Parallel()
	server := recorded(t, "filesystem")
	h := prepare(t, object{"fs": server})
	h.launch(t)
	file := filepath.Join(repository, "internal", "hub", "testdata", "filesystem.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Tools []struct{ Name, Description string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	tools := list.Tools
	var want []string
	for _, tool := range tools {
		want = append(want, "fs__"+tool.Name)
	}
	slices.Sort(want)
	await.Until(t, "the server is listed", func() bool { return slices.Contains(h.names(t, "/mcp", h.owner), want[0]) })
	got := h.names(t, "/mcp", h.owner)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("for %d tools %d are listed: %q", len(want), len(got), got)
	}
	listed := h.post(t, "/mcp", h.owner, rpc("tools/list", object{})).text
	for _, tool := range tools {
		said, err := json.Marshal(tool.Description)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(listed, strings.Trim(string(said), `"`)); n > 1 {
			t.Errorf("the description of %s is sent %d times", tool.Name, n)
		}
	}
	if len(listed) > 2*len(text) {
		t.Errorf("a list of %d bytes is sent as %d", len(text), len(listed))
	}
}
