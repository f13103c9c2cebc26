package modules

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/obs"
)

// logged is a hub's log with its module.
func logged(t *testing.T) (*slog.Logger, *Module) {
	t.Helper()
	logs, err := obs.NewLogs(obs.LogOptions{Level: "trace"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(logs.Close)
	return logs.Logger(), Debug(DebugOptions{Logs: logs.Read, Trouble: logs.Trouble})
}

func messages(t *testing.T, r logRecords) []string {
	t.Helper()
	out := []string{}
	for _, raw := range r.Logs {
		var line struct{ Time, Level, Message string }
		if err := json.Unmarshal(raw, &line); err != nil || line.Time == "" {
			t.Fatalf("%v: %s", err, raw)
		}
		out = append(out, line.Level+" "+line.Message)
	}
	if r.Count != len(out) {
		t.Errorf("count %d of %d", r.Count, len(out))
	}
	return out
}

func TestReadLogs(t *testing.T) {
	log, m := logged(t)
	log.Debug("one")
	log.Info("two", "upstream", "github", "n", 17, "n", 18)
	log.Warn("three")
	log.Error("four", "err", "WebSocket closed")
	log.Error("five")
	for name, tc := range map[string]struct {
		args o
		want []string
	}{
		"all":      {o{}, []string{"debug one", "info two", "warn three", "error four", "error five"}},
		"level":    {o{"level": "warning"}, []string{"warn three", "error four", "error five"}},
		"limit":    {o{"limit": 2}, []string{"error four", "error five"}},
		"search":   {o{"search": "websocket"}, []string{"error four"}},
		"as named": {o{"level": "error", "limit": 100, "search": "WebSocket"}, []string{"error four"}},
		"by key":   {o{"search": "upstream=github"}, []string{"info two"}},
		"none":     {o{"search": "nothing of the kind"}, []string{}},
	} {
		if diff := cmp.Diff(tc.want, messages(t, good[logRecords](t, m, "read_logs", tc.args))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	got := good[logRecords](t, m, "read_logs", o{"search": "two"})
	if want := `"attributes":{"upstream":"github","n":17}}`; !strings.HasSuffix(string(got.Logs[0]), want) {
		t.Errorf("%s", got.Logs[0])
	}
	for _, args := range []o{{"level": "loud"}, {"limit": 0}, {"limit": 1001}, {"search": 1}, {"lines": 5}} {
		bad(t, m, "read_logs", args, "INVALID_ARGUMENTS")
	}
}

func TestReadLogsBounds(t *testing.T) {
	log, m := logged(t)
	for i := range 150 {
		log.Info("short", "i", i)
	}
	if got := good[logRecords](t, m, "read_logs", o{}); got.Count != 100 || !strings.Contains(string(got.Logs[99]), `"i":149`) {
		t.Errorf("%d, last %s", got.Count, got.Logs[got.Count-1])
	}
	for range 200 {
		log.Info("long", "text", strings.Repeat("é", 4000))
	}
	e := do(t, m, "read_logs", o{"limit": 1000})
	if !e.Success || len(e.Data) > logsBytes+1000 || !strings.Contains(e.Message, "of 350 records fit") {
		t.Errorf("%d bytes, %q", len(e.Data), e.Message)
	}
	m = Debug(DebugOptions{Logs: func(obs.Query) []obs.Record { return nil }, Trouble: func() error { return errors.New("no room") }})
	if e = do(t, m, "read_logs", o{}); !e.Success || !strings.Contains(e.Message, "not written: no room") || !strings.Contains(string(e.Data), `"logs":[]`) {
		t.Errorf("%s", e.JSON())
	}
}
