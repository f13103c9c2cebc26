package obs

import (
	"bytes"
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "w": "…", "work": "wo…", "a-very-long-name-of-a-session": "a-very-long-n…", "wo…": "wo…", "ééé": "é…",
	} {
		if got := Short(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for path, want := range map[string]string{
		"/s/work/mcp": "/s/wo…/mcp", "/api/v1/sessions/work/values/x": "/api/v1/sessions/wo…/values/x", "/api/chat/work": "/api/chat/wo…", "/api/chat": "/api/chat", "/mcp": "/mcp",
	} {
		if got := ShortPath(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// No logger of ours writes the name of a session in full, whoever forgets that.
func TestSessionsAreShortInEveryLine(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		l, err := Logger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		l.Info("x", KeySession, "my-whole-session")
		l.With(KeySession, "my-whole-session").Info("y")
		if text := out.String(); strings.Contains(text, "my-whole-session") || strings.Count(text, "my-whole…") != 2 {
			t.Error(text)
		}
	}
}

func TestCorrelation(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	if got := Correlation(Parent{Traceparent: "00-" + trace + "-b7ad6b7169203331-01"}); got != trace {
		t.Errorf("%q", got)
	}
	if a, b := Correlation(Parent{}), Correlation(Parent{Traceparent: "rubbish"}); len(a) != 32 || len(b) != 32 || a == b {
		t.Errorf("%q, %q", a, b)
	}
}
