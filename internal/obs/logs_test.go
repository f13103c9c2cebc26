package obs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func openLogs(t *testing.T, o LogOptions, f Files) *Logs {
	t.Helper()
	l, err := NewLogs(o)
	if err != nil {
		t.Fatal(err)
	}
	if f.Dir != "" {
		l.Open(f)
		t.Cleanup(l.Close)
	}
	return l
}

func messages(records []Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.Msg)
	}
	return out
}

func readFiles(t *testing.T, dir string, q Query) []Record {
	t.Helper()
	got, err := ReadFiles(dir, q)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEveryLineSaysWhoAndWhat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	l := openLogs(t, LogOptions{}, Files{Dir: dir})
	Component(l.Logger(), "call").Warn("call refused", KeyAction, "tools/call", KeySession, "s1s2", KeyRequest, "7", KeyParent, "6", KeyCorrelation, "c", KeyTook, 3*time.Millisecond)
	b, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["time"])); err != nil {
		t.Error(err)
	}
	delete(got, "time")
	want := map[string]any{"level": "WARN", "msg": "call refused", "component": "call", "action": "tools/call", "session": "s1…", "request": "7", "parent": "6", "correlation": "c", "took": "3ms"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, path := range []string{dir, filepath.Join(dir, fileName)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v %v", path, info.Mode(), err)
		}
	}
}

func TestLevelsOfConsoleAndFile(t *testing.T) {
	for _, tc := range []struct{ level, least, console, kept string }{
		{"", "", "info warn error", "info warn error"},
		{"trace", "", "trace debug info warn error", "trace debug info warn error"},
		{"info", "error", "error", "info warn error"}, // quiet
		{"Warning", "", "warn error", "warn error"},
	} {
		var console bytes.Buffer
		l := openLogs(t, LogOptions{Level: tc.level, Least: tc.least, Console: &console, Format: "json"}, Files{Dir: t.TempDir()})
		for _, level := range []slog.Level{LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			l.Logger().Log(t.Context(), level, LevelName(level))
		}
		var shown []string
		for line := range bytes.Lines(console.Bytes()) {
			r, err := parseRecord(line)
			if err != nil {
				t.Fatal(err)
			}
			if LevelName(r.Level) != r.Msg {
				t.Errorf("%s is written as %s", r.Msg, r.Level)
			}
			shown = append(shown, r.Msg)
		}
		if got := strings.Join(shown, " "); got != tc.console {
			t.Errorf("%+v: console: %s", tc, got)
		}
		kept := messages(l.Read(Query{}))
		if got := strings.Join(reversed(kept), " "); got != tc.kept {
			t.Errorf("%+v: kept: %s", tc, got)
		}
		if d := cmp.Diff(kept, messages(readFiles(t, l.Dir(), Query{}))); d != "" {
			t.Errorf("%+v: %s", tc, d)
		}
	}
	if _, err := NewLogs(LogOptions{Level: "loud"}); err == nil {
		t.Error("an unknown level was taken")
	}
}

func reversed(in []string) []string {
	out := make([]string, 0, len(in))
	for i := len(in) - 1; i >= 0; i-- {
		out = append(out, in[i])
	}
	return out
}

func TestWhatWasLoggedBeforeTheFilesIsInThem(t *testing.T) {
	l := openLogs(t, LogOptions{}, Files{})
	l.Logger().Info("config note")
	dir := t.TempDir()
	l.Open(Files{Dir: dir})
	l.Logger().Info("hub is ready")
	l.Close()
	l.Logger().Info("too late")
	if d := cmp.Diff([]string{"hub is ready", "config note"}, messages(readFiles(t, dir, Query{}))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"too late", "hub is ready", "config note"}, messages(l.Read(Query{}))); d != "" {
		t.Error(d)
	}
}

func TestRingIsBounded(t *testing.T) {
	l := openLogs(t, LogOptions{Ring: 3}, Files{})
	for i := range 10 {
		l.Logger().Info(fmt.Sprint(i))
	}
	if d := cmp.Diff([]string{"9", "8", "7"}, messages(l.Read(Query{}))); d != "" {
		t.Error(d)
	}
	long := strings.Repeat("x", maxText)
	l = openLogs(t, LogOptions{}, Files{})
	for range 2 * ringBytes / maxText {
		l.Logger().Info("long", "text", long)
	}
	total := 0
	for _, line := range l.ring.all() {
		total += len(line)
	}
	if total > ringBytes || total < ringBytes/2 || total != l.ring.bytes {
		t.Errorf("%d bytes are kept, and %d counted; the bound is %d", total, l.ring.bytes, ringBytes)
	}
}

func TestReadGoesOnInTheFiles(t *testing.T) {
	dir := t.TempDir()
	for run := range 2 {
		l := openLogs(t, LogOptions{Ring: 4}, Files{Dir: dir})
		for i := range 10 {
			l.Logger().Info(fmt.Sprintf("%d.%d", run, i), "odd", i%2 == 1)
		}
		if run == 0 {
			l.Close()
			continue
		}
		var want []string
		for i := range 18 {
			want = append(want, fmt.Sprintf("%d.%d", 1-i/10, 9-i%10))
		}
		if d := cmp.Diff(want, messages(l.Read(Query{Limit: 18}))); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"1.9", "1.7", "1.5", "1.3", "1.1", "0.9"}, messages(l.Read(Query{Limit: 6, Search: "ODD=true"}))); d != "" {
			t.Error(d)
		}
	}
}

func TestSearch(t *testing.T) {
	l := openLogs(t, LogOptions{}, Files{Dir: t.TempDir()})
	l.Logger().Info("upstream state", "upstream", "github", "err", `it said "no"`)
	l.Logger().Error("WebSocket lost", "n", 5)
	l.Logger().Info("a level of its own", "level", "loud", "time", "never")
	for search, want := range map[string][]string{
		"websocket": {"WebSocket lost"}, `said "NO"`: {"upstream state"}, "upstream=git": {"upstream state"}, "n=5": {"WebSocket lost"},
		"msg": {}, "": {"a level of its own", "WebSocket lost", "upstream state"}, "loud": {"a level of its own"},
	} {
		q := Query{Search: search}
		if d := cmp.Diff(want, messages(l.ring.Read(q))); d != "" {
			t.Errorf("%q: %s", search, d)
		}
		if d := cmp.Diff(want, messages(readFiles(t, l.Dir(), q))); d != "" {
			t.Errorf("%q in files: %s", search, d)
		}
	}
	if d := cmp.Diff([]string{"WebSocket lost"}, messages(l.Read(Query{Level: slog.LevelWarn}))); d != "" {
		t.Error(d)
	}
	middle := l.Read(Query{Search: "WebSocket"})[0].Time
	if d := cmp.Diff([]string{"a level of its own", "WebSocket lost"}, messages(readFiles(t, l.Dir(), Query{Since: middle}))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"upstream state"}, messages(readFiles(t, l.Dir(), Query{Before: middle}))); d != "" {
		t.Error(d)
	}
}

func TestPrinter(t *testing.T) {
	l := openLogs(t, LogOptions{Level: "trace"}, Files{})
	l.Logger().Log(t.Context(), LevelTrace, "look\x1b[2J here", "err", fmt.Errorf("a\x1b[31mb"), "n", 5, "list", []int{1, 2})
	var b bytes.Buffer
	if err := NewPrinter(&b).Print(l.Read(Query{})[0]); err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(b.String(), " TRC ")
	if want := "look[2J here err=a[31mb n=5 list=[1,2]\n"; line != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	l := openLogs(t, LogOptions{}, Files{})
	l.Logger().Error("panic", "stack", strings.Repeat("é", maxText), KeyErr, fmt.Errorf("%s", strings.Repeat("x", 5*maxText)))
	r := l.Read(Query{})[0]
	for _, key := range []string{"stack", "err"} {
		if got := r.Get(key); len(got) > maxText+len("…") || !strings.HasSuffix(got, "…") || strings.ContainsRune(got, '�') {
			t.Errorf("%s has %d bytes, ending in %q", key, len(got), got[len(got)-5:])
		}
	}
}

func TestSecretsAreTakenOut(t *testing.T) {
	var console bytes.Buffer
	l := openLogs(t, LogOptions{Console: &console, Format: "text"}, Files{Dir: t.TempDir()})
	l.Hide([]string{"Bearer sk-12345678", "short", `quo"ted-secret`})
	l.Logger().Warn("got sk-12345678 back", KeyErr, fmt.Errorf("401: Bearer sk-12345678 is short; %w", fmt.Errorf(`or quo"ted-secret`)), "text", "sk-12345678")
	want := Record{Msg: "got ••• back", Attrs: []Attr{{KeyErr, json.RawMessage(`"401: ••• is short; or •••"`)}, {"text", json.RawMessage(`"•••"`)}}}
	got := readFiles(t, l.Dir(), Query{})[0]
	if d := cmp.Diff(want.Attrs, got.Attrs); d != "" || got.Msg != want.Msg {
		t.Errorf("%s %s", got.Msg, d)
	}
	if strings.Contains(console.String(), "sk-1234") || strings.Contains(console.String(), "ted-secret") || !strings.Contains(console.String(), "•••") {
		t.Error(console.String())
	}
	l.Hide(nil)
	l.Logger().Info("sk-12345678")
	if got := l.Read(Query{Limit: 1})[0].Msg; got != "sk-12345678" {
		t.Error(got)
	}
}
