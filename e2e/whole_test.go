package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const wholeSize = 50 << 20

// wholeText is text of which no two parts are the same, and that JSON has to escape in places.
func wholeText() []byte {
	var b bytes.Buffer
	b.Grow(wholeSize + 256)
	for i := 0; b.Len() < wholeSize; i++ {
		fmt.Fprintf(&b, "line %d of a long file: πάντα ῥεῖ 🌊 \"quoted\" \\ \t \u2028 %s\n", i, strings.Repeat("0123456789abcdef", 12))
	}
	return b.Bytes()
}

// wholeTime is how long a server may take for an answer that is long, and patientClient waits for one: what is in between
// takes its time, too.
const wholeTime = 3 * time.Minute

var patientClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * wholeTime}

// inSession calls a tool in the session whole and returns the answer.
func inSession(h hub, tool string, args map[string]any) (string, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		return "", err
	}
	response, err := patientClient.Post("http://"+h.address+"/s/whole/mcp", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// succeeds is inSession for a call that has to.
func succeeds(t *testing.T, h hub, tool string, args map[string]any) string {
	t.Helper()
	text, err := inSession(h, tool, args)
	if err != nil || isError(text) {
		t.Fatalf("%s: %v %.600s", tool, err, text)
	}
	return text
}

func isError(text string) bool {
	var answer struct {
		Error  json.RawMessage
		Result *struct{ IsError bool }
	}
	return json.Unmarshal([]byte(text), &answer) != nil || answer.Error != nil || answer.Result == nil || answer.Result.IsError
}

func same(t *testing.T, what, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v, which are not the %d that were read", what, len(got), err, len(want))
	}
}

// value reads a value of the session as it is kept.
func (h hub) value(t *testing.T, name string) []byte {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(h.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.address+"/api/v1/sessions/whole/values/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := patientClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("value %s: %d %.300s %v", name, response.StatusCode, text, err)
	}
	return text
}

// TestWholeData has 50 MB and 5,000 rows go through values, references, plans and batches, of the unmodified filesystem
// server: with limits that are large enough they come out byte for byte; with those that a hub has by itself the one
// call fails, says which limit it is, and disturbs nobody.
func TestWholeData(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	folder := resolvedFolder(t)
	text := wholeText()
	source := filepath.Join(folder, "source.txt")
	small := filepath.Join(folder, "small.txt")
	for path, content := range map[string][]byte{source: text, small: []byte("small")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}}})
	servers := map[string]server{
		"files": {Command: set.node, Args: []string{set.bin("mcp-server-filesystem"), folder}, Timeout: wholeTime.Milliseconds()},
		"up":    {URL: up.URL, Timeout: wholeTime.Milliseconds()},
	}
	read := map[string]any{"path": source, "saveAs": "big"}

	t.Run("with limits that are large enough", func(t *testing.T) {
		h := startHub(t, set, servers, map[string]any{
			"limits":  map[string]any{"messageBytes": 400 << 20, "argumentBytes": 200 << 20},
			"session": map[string]any{"maxBytes": 2 << 30},
			"modules": map[string]any{"file": map[string]any{"enabled": true, "roots": []string{folder}}},
		})
		succeeds(t, h, "files__read_text_file", read)
		wholeThroughCalls(t, h, folder, text)
		wholeThroughPlans(t, h, folder, source, text)
		wholeRows(t, h)
	})

	t.Run("with the default limits", func(t *testing.T) {
		h := startHub(t, set, servers)
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if text, err := inSession(h, "files__read_text_file", map[string]any{"path": small}); err != nil || isError(text) {
						t.Errorf("a call beside it: %v %.300s", err, text)
						return
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		got, err := inSession(h, "files__read_text_file", read)
		if err != nil || !isError(got) || !strings.Contains(got, "limits.messageBytes") || !strings.Contains(got, "10485760") {
			t.Errorf("an answer over the limit: %v %.600s", err, got)
		}
		close(done)
		wg.Wait()
		// Of what fits into one message, twice is too much for the arguments of one call.
		six := strings.Repeat("x", 6<<20)
		succeeds(t, h, "context_add", map[string]any{"name": "six", "data": six})
		two := map[string]any{"a": "@six", "b": "@six"}
		for tool, args := range map[string]map[string]any{
			"up__echo":     two,
			"plan_execute": {"plan": map[string]any{"steps": []any{map[string]any{"id": "a", "tool": "up__echo", "args": two}}}},
			"tools_batch":  {"calls": []any{map[string]any{"tool": "up__echo", "arguments": two}}},
		} {
			if got, err := inSession(h, tool, args); err != nil || !strings.Contains(got, "limits.argumentBytes") {
				t.Errorf("%s with arguments over the limit: %v %.600s", tool, err, got)
			}
		}
	})
}

// wholeThroughCalls writes the value big by a call and by a batch. The hub's own tool writes: the filesystem server takes
// no request that is so long.
func wholeThroughCalls(t *testing.T, h hub, folder string, text []byte) {
	t.Helper()
	at := func(name string) string { return filepath.Join(folder, name) }
	succeeds(t, h, "file_write", map[string]any{"path": at("call"), "content": "@big.content"})
	same(t, "a call that refers to it", at("call"), text)
	succeeds(t, h, "tools_batch", map[string]any{"calls": []any{
		map[string]any{"tool": "file_write", "arguments": map[string]any{"path": at("batch"), "content": "@big.content"}},
		map[string]any{"tool": "files__read_text_file", "arguments": map[string]any{"path": at("call"), "head": 1}},
	}})
	same(t, "a batch", at("batch"), text)
}

// wholeThroughPlans has a plan read and write it, and what the plan yields written by a call.
func wholeThroughPlans(t *testing.T, h hub, folder, source string, text []byte) {
	t.Helper()
	at := func(name string) string { return filepath.Join(folder, name) }
	plan := map[string]any{
		"steps": []any{
			map[string]any{"id": "r", "tool": "files__read_text_file", "args": map[string]any{"path": source}, "outputs": []string{"out"}},
			map[string]any{"id": "w", "tool": "file_write", "args": map[string]any{"path": at("step"), "content": "@out.content"}},
		},
		"outputs": map[string]any{"text": "@out.content"},
	}
	succeeds(t, h, "plan_execute", map[string]any{"plan": plan, "saveAs": "run1"})
	same(t, "a step of a plan", at("step"), text)
	succeeds(t, h, "file_write", map[string]any{"path": at("outputs"), "content": "@run1.outputs.text"})
	same(t, "the outputs of a plan", at("outputs"), text)
}

// wholeRows has rows go through the outputs of a plan and through references.
func wholeRows(t *testing.T, h hub) {
	t.Helper()
	var rows []string
	for i := range 5000 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"big":1234567890123456%04d,"half":%d.50,"name":"row \u2028 %d é"}`, i, i, i, i))
	}
	want := "[" + strings.Join(rows, ",") + "]"
	succeeds(t, h, "context_add", map[string]any{"name": "rows", "data": json.RawMessage(want)})
	plan := map[string]any{
		"steps":   []any{map[string]any{"id": "a", "tool": "up__echo", "args": map[string]any{"rows": "@rows"}, "outputs": []string{"out"}}},
		"outputs": map[string]any{"rows": "@out.rows"},
	}
	succeeds(t, h, "plan_execute", map[string]any{"plan": plan, "saveAs": "run2"})
	succeeds(t, h, "up__echo", map[string]any{"rows": "@run2.outputs.rows", "saveAs": "back"})
	for value, member := range map[string]string{"run2": "outputs", "back": ""} {
		kept := h.value(t, value)
		var got map[string]json.RawMessage
		if err := json.Unmarshal(kept, &got); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		if member != "" {
			if err := json.Unmarshal(got[member], &got); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, got["rows"]); err != nil {
			t.Fatalf("%s: %v: %.300s", value, err, kept)
		}
		if compact.String() != want {
			t.Errorf("%s: the rows are %d bytes instead of %d, or others", value, compact.Len(), len(want))
		}
	}
}
