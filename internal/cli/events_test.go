package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/event"
)

// What others have named and said does nothing to a terminal, and stays on its
// line.
func TestEventLinesAreSafe(t *testing.T) {
	var out bytes.Buffer
	w := &eventWatch{s: std{out: &out, err: &out}, cmd: &eventsCmd{}}
	const evil = "a\x1b[2J\r\n\u202eb\x00"
	text, err := json.Marshal(map[string]any{
		"seq": 1, "time": "2026-11-15T12:00:00Z", "type": "error", "level": "error", "upstream": evil, "tool": evil, "session": evil, "kind": evil,
		"data": map[string]any{"error": map[string]string{"message": evil}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.show(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	x, err := json.Marshal(map[string]any{"messages": []map[string]any{{"what": "result", "method": evil, "text": "one\ntwo\x1b[2J", "bytes": 90, "cut": true}}, "more": 2})
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString(w.passed(x))
	if strings.ContainsAny(out.String(), "\x1b\r\x00\u202e") {
		t.Errorf("%q", out.String())
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 7 || strings.Count(lines[0], `a\u001b[2J\r\n\u202eb\u0000`) != 5 || lines[3] != `      two\u001b[2J` {
		t.Errorf("%q", lines)
	}
}

// What passed is shown where a call is over, and asked for nowhere else: what
// people are asked about it names the call too, and a step of a plan is none.
func TestExchangesAreThoseOfCallsThatEnded(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[path.Base(r.URL.Path)]++
		mu.Unlock()
		io.WriteString(w, `{"exchange":{"messages":[{"what":"result","text":"{}"}]}}`)
	}))
	defer srv.Close()
	base, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	hub := newClient(base, "")
	defer hub.close()
	var out bytes.Buffer
	w := &eventWatch{s: std{out: &out, err: &out}, cmd: &eventsCmd{Raw: true}, hub: hub}
	want := map[string]int{event.CallDone: 1, event.CallOwn: 1, event.CallHeard: 1, event.CallAnswered: 1, event.CallSaid: 1}
	for _, kind := range append(slices.Collect(maps.Keys(want)), event.CallStarted, event.CallProgress, event.PolicyAsked, event.PolicyDecided, event.TurnStarted, event.Fault) {
		if err := w.show(t.Context(), []byte(`{"seq":1,"time":"2026-11-15T12:00:00Z","type":"`+kind+`","call":"`+kind+`"}`)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
	if n := strings.Count(out.String(), "← result"); n != len(want) {
		t.Errorf("%d results are shown, want %d:\n%s", n, len(want), out.String())
	}
}

func TestTraceLeads(t *testing.T) {
	var out bytes.Buffer
	var parts []tracePart
	for _, p := range []struct {
		name  string
		depth int
	}{{"a", 0}, {"b", 1}, {"c", 2}, {"d", 1}, {"e", 2}, {"f\x1b", 2}, {"g", 0}} {
		parts = append(parts, tracePart{Name: p.name, Depth: p.depth})
	}
	if err := (std{out: &out}).tree(parts); err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(out.String()) {
		names = append(names, strings.TrimRight(string([]rune(line)[:11]), " "))
	}
	if d := cmp.Diff([]string{"PART", "a", "├ b", "│ └ c", "└ d", "  ├ e", `  └ f\u001b`, "g"}, names); d != "" {
		t.Error(d)
	}
}
