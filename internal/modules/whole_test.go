package modules

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
)

// keptBy calls a tool whose answer is kept, by a name or as a card.
func keptBy(t testing.TB, m *Module, tool string, args o, asked mcp.Asked) envelope.Envelope {
	t.Helper()
	req, err := request(tool, args)
	if err != nil {
		t.Fatal(err)
	}
	req.Asked = asked
	resp, err := m.Handle(t.Context(), req)
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return envelope.Of(resp.Result)
}

// Nothing is left out of an answer that is kept; what is only shown says what it
// leaves out.
func TestWhatIsKeptIsWhole(t *testing.T) {
	long := strings.Repeat("0123456789\n", 30_000)
	wide := strings.Repeat(strings.Repeat("x", 5000)+"needle\n", 10)
	content := map[string]string{"long": long, "wide": wide, "edited": strings.Repeat(strings.Repeat("y", 3000)+"\n", 100)}
	for i := range 300 {
		content[fmt.Sprintf("many/%03d", i)] = "needle"
	}
	files := in(t, tree(t, content))
	log, debug := logged(t)
	for range 100 {
		log.Info("long", "text", strings.Repeat("z", 8000))
	}
	edit := o{"path": "edited", "dryRun": true, "edits": []o{{"find": "y", "replace": "w", "all": true}}}
	for name, tc := range map[string]struct {
		m    *Module
		tool string
		args o
		want func(data string) bool // that all of it is there
	}{
		"a file":          {files, "file_read", o{"path": "long"}, func(d string) bool { return strings.Count(d, `0123456789\n`) == 30_000 }},
		"lines of a file": {files, "file_read", o{"path": "long", "line": 2}, func(d string) bool { return strings.Count(d, `0123456789\n`) == 29_999 }},
		"a folder":        {files, "file_list", o{"path": "many"}, func(d string) bool { return strings.Count(d, `"path"`) == 300 }},
		"matches":         {files, "file_search", o{"path": "many", "pattern": "needle"}, func(d string) bool { return strings.Count(d, `"path"`) == 300 }},
		"long lines":      {files, "file_search", o{"path": "wide", "pattern": "needle"}, func(d string) bool { return strings.Count(d, "x") >= 50_000 }},
		"a diff":          {files, "file_edit", edit, func(d string) bool { return strings.Count(d, "w") >= 300_000 && strings.Count(d, "y") >= 300_000 }},
		"records":         {debug, "read_logs", o{}, func(d string) bool { return strings.Count(d, "z") == 800_000 }},
	} {
		for how, asked := range map[string]mcp.Asked{"by a name": {Kept: true}, "as a card": {CardAbove: 3000}} {
			if e := keptBy(t, tc.m, tc.tool, tc.args, asked); !e.Success || !tc.want(string(e.Data)) {
				t.Errorf("%s, %s: %d bytes are kept, %s %s", name, how, len(e.Data), e.Message, e.Error)
			}
		}
		if e := do(t, tc.m, tc.tool, tc.args); !e.Success || tc.want(string(e.Data)) {
			t.Errorf("%s: all of it is shown, which is too much: %d bytes", name, len(e.Data))
		}
	}
}

func TestPartOfAFileSaysSo(t *testing.T) {
	m := in(t, tree(t, map[string]string{"long": strings.Repeat("0123456789", 30_000)}))
	e := do(t, m, "file_read", o{"path": "long"})
	if want := "This is a part of the file: bytes 0 to 262143 of 300000. Go on with offset 262144, and say with length how many."; e.Message != want {
		t.Errorf("%q", e.Message)
	}
	got := good[part](t, m, "file_read", o{"path": "long", "length": 10_000_000})
	if got.Length != 300_000 || got.More {
		t.Errorf("of 300000 bytes that were asked for %d come", got.Length)
	}
	// What was asked for is kept as it was asked for.
	if e = keptBy(t, m, "file_read", o{"path": "long", "length": 100}, mcp.Asked{Kept: true}); !strings.Contains(string(e.Data), `"nextOffset":100`) {
		t.Errorf("%s", e.Data)
	}
}

func TestResultOverTheLimitFails(t *testing.T) {
	m := openFile(t, FileOptions{MessageBytes: 100_000, Roots: []string{tree(t, map[string]string{"long": strings.Repeat("0123456789", 30_000)})}})
	for _, args := range []o{{"path": "long", "length": 90_000}, {"path": "long", "length": 900_000}, {"path": "long", "lines": 1}} {
		if e := bad(t, m, "file_read", args, "LIMIT"); !strings.Contains(e.Error, "limits.messageBytes") {
			t.Errorf("%v: %q", args, e.Error)
		}
	}
	if e := keptBy(t, m, "file_read", o{"path": "long"}, mcp.Asked{Kept: true}); e.Success || !strings.Contains(e.Error, "limits.messageBytes") {
		t.Errorf("%q", e.JSON())
	}
	good[part](t, m, "file_read", o{"path": "long"})
}

func TestLogIsReadInFull(t *testing.T) {
	record := obs.Record{Msg: strings.Repeat("m", 10_000)}
	m := Debug(DebugOptions{Logs: func(obs.Query) []obs.Record { return []obs.Record{record} }})
	e := keptBy(t, m, "read_logs", o{}, mcp.Asked{Kept: true})
	if !json.Valid(e.Data) || strings.Count(string(e.Data), "m") < 10_000 {
		t.Errorf("%d bytes of a long message are kept", len(e.Data))
	}
}
