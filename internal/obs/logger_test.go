package obs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLoggerFormats(t *testing.T) {
	for _, format := range []string{"", "auto", "json", "JSON"} {
		var b bytes.Buffer
		l, err := Logger(&b, "", format)
		if err != nil {
			t.Fatal(err)
		}
		l.Debug("not shown")
		l.Warn("upstream lost", KeyUpstream, "github", KeyErr, errors.New("gone\nfor good"), KeyTook, 1500*time.Microsecond)
		var rec map[string]any
		if err := json.Unmarshal(b.Bytes(), &rec); err != nil {
			t.Fatalf("%q: %v: %s", format, err, b.String())
		}
		if rec["msg"] != "upstream lost" || rec["upstream"] != "github" || rec["err"] != "gone\nfor good" || rec["took"] != "1.5ms" || rec["level"] != "WARN" {
			t.Fatalf("%v", rec)
		}
	}
	var b bytes.Buffer
	l, err := Logger(&b, "debug", "text")
	if err != nil {
		t.Fatal(err)
	}
	l.Debug("upstream lost", KeyErr, errors.New("gone\nfor good"), KeyTook, 1500*time.Microsecond)
	line := b.String()
	if strings.Count(line, "\n") != 1 || strings.Contains(line, "\x1b") || !strings.Contains(line, `err="gone\nfor good"`) || !strings.Contains(line, "took=1.5ms") {
		t.Fatalf("%q", line)
	}
}

func TestLoggerLevels(t *testing.T) {
	for level, want := range map[string]int{"trace": 5, "debug": 4, "info": 3, "": 3, "WARN": 2, "error": 1} {
		var b bytes.Buffer
		l, err := Logger(&b, level, "json")
		if err != nil {
			t.Fatal(err)
		}
		l.Log(t.Context(), LevelTrace, "x")
		l.Debug("x")
		l.Info("x")
		l.Warn("x")
		l.Error("x")
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("%q: %d records, want %d", level, got, want)
		}
	}
}

func TestTraceHasAName(t *testing.T) {
	for format, want := range map[string]string{"json": `"level":"TRACE"`, "text": " TRC x"} {
		var b bytes.Buffer
		l, err := Logger(&b, "trace", format)
		if err != nil {
			t.Fatal(err)
		}
		l.Log(t.Context(), LevelTrace, "x")
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
}

func TestLoggerRefusesUnknownNames(t *testing.T) {
	if _, err := Logger(nil, "loud", ""); err == nil || !strings.Contains(err.Error(), "trace, debug, info, warn or error") {
		t.Fatal(err)
	}
	if _, err := Logger(nil, "", "xml"); err == nil || !strings.Contains(err.Error(), "auto, text or json") {
		t.Fatal(err)
	}
}
