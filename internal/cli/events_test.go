package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
