package blackbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B10: what was left behind keeps no session, and long lists come in parts.

// began is the run that an answer of the API is about.
func began(t testing.TB, got reply) string {
	t.Helper()
	var answer struct{ Run struct{ ID string } }
	if err := json.Unmarshal([]byte(got.text), &answer); err != nil || got.status/100 != 2 || answer.Run.ID == "" {
		t.Fatalf("no run: %d %s", got.status, clip(got.text))
	}
	return answer.Run.ID
}

// there reports whether the hub has a session. Looking does not keep it.
func (h *hub) there(t testing.TB, session string) bool {
	t.Helper()
	return strings.Contains(h.get(t, "/api/v1/sessions", h.owner).text, `"name":"`+session+`"`)
}

// A run that was left at a breakpoint, since somebody changed a value and
// finished the fork, does not keep its session for ever.
func TestAbandonedRunKeepsNoSession(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers)
	target := filepath.Join(t.TempDir(), "target")
	left := began(t, h.post(t, "/api/v1/runs", h.owner, object{"session": "debug", "breakpoints": list{"b"}, "plan": planOf(
		object{"id": "a", "tool": "files__read", "args": object{}, "outputs": list{"text"}},
		object{"id": "b", "tool": "files__write", "args": object{"path": target, "text": "@text"}})}))
	mentions(t, "the run at its breakpoint", h.quiet(t, left), `"status":"paused"`)
	fork := began(t, h.post(t, "/api/v1/runs/"+left+"/set", h.owner, object{"step": "a", "value": "another text", "breakpoints": list{}}))
	mentions(t, "the fork", h.post(t, "/api/v1/runs/"+fork+"/continue?wait=25s", h.owner, object{}).text, `"status":"done"`)
	if got, err := os.ReadFile(target); err != nil || string(got) != "another text" {
		t.Fatalf("the fork wrote %q, %v", got, err)
	}
	if !h.there(t, "debug") {
		t.Fatal("the session is gone before its time")
	}
	// Only now, so that a slow machine does not end it in the midst of this.
	h.configure(t, servers, object{"session": object{"timeout": "1s"}})
	use := func(session string) { h.builtIn(t, session, "context_add", object{"name": "v", "data": 1}) }
	use("later")
	await.Until(t, "a session that was used later expires", func() bool { return !h.there(t, "later") })
	use("last") // that look at all sessions may not be over; when this one has gone, too, it is
	await.Until(t, "the session expires, or one that was used last", func() bool { return !h.there(t, "debug") || !h.there(t, "last") })
	if h.there(t, "debug") {
		t.Errorf("a paused run keeps its session: %s", clip(h.get(t, "/api/v1/sessions", h.owner).text))
	}
	if got := h.runs(t); !t.Failed() && len(got) > 0 {
		t.Errorf("the session has expired, and its runs are still there: %v", got)
	}
}

// A session with many values is listed in parts, each of which says how to go
// on; together they are all of them.
func TestLongListComesInParts(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	const batches, each = 4, 80
	for b := range batches {
		var calls list
		for i := range each {
			calls = append(calls, object{"tool": "context_add", "arguments": object{"session": "many", "name": fmt.Sprintf("v%03d", b*each+i), "data": i, "description": strings.Repeat("long ", 20)}})
		}
		stored, _ := h.tool(t, "/mcp", h.owner, "tools_batch", object{"calls": calls}).content(t)
		mentions(t, "storing values", stored, `"failed":0`)
	}
	type page struct {
		Count, Next int
		Values      []struct{ Name string }
	}
	seen := map[string]bool{}
	args := object{}
	for offset := 0; ; args["offset"] = offset {
		got := h.tool(t, "/s/many/mcp", h.owner, "context_list", args)
		if len(got.text) > 128<<10 { // as text and as structured content
			t.Errorf("one answer has %d bytes", len(got.text))
		}
		var said answer
		var p page
		text, _ := got.content(t)
		err := json.Unmarshal([]byte(text), &said)
		if err == nil {
			err = json.Unmarshal(said.Data, &p)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, clip(text))
		}
		if n := len(p.Values); n > 100 || n == 0 || p.Count != batches*each {
			t.Fatalf("one answer has %d of %d values", n, p.Count)
		}
		for _, v := range p.Values {
			seen[v.Name] = true
		}
		if p.Next == 0 {
			break
		}
		mentions(t, "an answer that is a part", said.Message, fmt.Sprint("offset ", p.Next))
		if p.Next <= offset {
			t.Fatalf("from %d it goes on at %d", offset, p.Next)
		}
		offset = p.Next
	}
	if len(seen) != batches*each {
		t.Errorf("%d of %d values are in some part", len(seen), batches*each)
	}
}
