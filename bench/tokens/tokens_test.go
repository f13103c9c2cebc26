package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The table in docs/performance.md is about what the code says now. Running it also
// shows that with references the servers are asked for exactly what was recorded
// without: play fails otherwise.
func TestTableIsInTheDocs(t *testing.T) {
	rows, err := measureAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- tokens: go run ./bench/tokens -->\n\n", "\n<!-- end of tokens -->"
	file := filepath.Join("..", "..", "docs", "performance.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table, between %q and %q", file, begin, end)
	}
	want := table(rows)
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !alike(have, want) {
		t.Errorf("run go test ./bench/tokens -run TestTable -update (-%s +measured):\n%s", file, cmp.Diff(have, want))
	}
}

// alike compares two tables. A figure may be off by a fifth: each tool that the
// hub gets and each word of a card changes some, and the page is not about that.
func alike(a, b string) bool {
	left, right := strings.Split(a, " | "), strings.Split(b, " | ")
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		x, errX := strconv.ParseFloat(strings.ReplaceAll(left[i], ",", ""), 64)
		y, errY := strconv.ParseFloat(strings.ReplaceAll(right[i], ",", ""), 64)
		if errX != nil || errY != nil {
			// The last cell of a line is in one piece with the first of the next.
			if lastFigure.ReplaceAllString(left[i], "") != lastFigure.ReplaceAllString(right[i], "") {
				return false
			}
			continue
		}
		if math.Abs(x-y) > 0.2*math.Max(x, y) {
			return false
		}
	}
	return true
}

var lastFigure = regexp.MustCompile(`^[0-9.]+ \|\n`)

func TestAlike(t *testing.T) {
	const table = "| a | 1,000 | 0.50 |\n| b | 20 | 1.00 |\n"
	for other, want := range map[string]bool{
		table: true,
		"| a | 1,100 | 0.55 |\n| b | 20 | 1.10 |\n": true,
		"| a | 1,400 | 0.50 |\n| b | 20 | 1.00 |\n": false,
		"| c | 1,000 | 0.50 |\n| b | 20 | 1.00 |\n": false,
		"| a | 1,000 | 0.50 |\n| c | 20 | 1.00 |\n": false,
		"| a | 1,000 | 0.50 |\n":                    false,
	} {
		if alike(table, other) != want {
			t.Errorf("alike to %q: want %v", other, want)
		}
	}
}

func TestReplayHoldsToTheRecording(t *testing.T) {
	of := []exchange{
		{"memory", "open_nodes", json.RawMessage(`{"names":["a"]}`), json.RawMessage(`{"content":[]}`)},
		{"files", "read_file", json.RawMessage(`{}`), json.RawMessage(`{}`)},
	}
	r, err := newReplay("memory", of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.call("open_nodes", json.RawMessage(`{"names":["b"]}`)); err == nil {
		t.Error("other arguments are answered")
	}
	if _, err := r.call("read_graph", json.RawMessage(`{"names":["a"]}`)); err == nil {
		t.Error("another tool is answered")
	}
	if r.done() == nil {
		t.Error("a conversation without its call counts as complete")
	}
	if _, err := r.call("open_nodes", json.RawMessage(` {"names": ["a"]}`)); err != nil {
		t.Error(err)
	}
	if err := r.done(); err != nil {
		t.Error(err)
	}
	if _, err := r.call("open_nodes", json.RawMessage(`{"names":["a"]}`)); err == nil {
		t.Error("a call beyond the recording is answered")
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}
