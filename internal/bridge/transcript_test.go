package bridge

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/wsagent"
)

var update = flag.Bool("update", false, "write what comes out into the files")

// Transcripts are conversations as files: what an MCP client sends (>) and gets
// (<), and what the agents behind do. Each request is sent when the one before
// it was answered. The last part is what the agents saw. $URL is their server,
// $META the _meta of a modern request.
const metaText = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := txtar.Format(play(t, txtar.Parse(want)))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-file +now; -update writes it):\n%s", file, diff)
			}
		})
	}
}

func play(t *testing.T, a *txtar.Archive) *txtar.Archive {
	scripts := map[string]string{}
	var o Options
	for _, f := range a.Files {
		if name, ok := strings.CutPrefix(f.Name, "agent "); ok {
			scripts[name] = string(f.Data)
		}
		if f.Name == "options" {
			o = options(t, string(f.Data))
		}
	}
	s := agents(t, scripts)
	o.URL = s.URL
	c := connect(t, o)
	out := &txtar.Archive{Comment: a.Comment}
	for _, f := range a.Files {
		switch f.Name {
		case "client":
			f.Data = converse(c, s.URL, string(f.Data))
		case "seen":
			continue
		}
		out.Files = append(out.Files, f)
	}
	out.Files = append(out.Files, txtar.File{Name: "seen", Data: seen(t, s)})
	return out
}

func options(t *testing.T, text string) (o Options) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "agents":
			o.Agents = strings.Fields(value)
		case "timeout":
			var err error
			if o.Timeout, err = time.ParseDuration(value); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("no option %q", key)
		}
	}
	return o
}

// converse sends what the client says, and returns it with what it got.
func converse(c *client, url, script string) []byte {
	c.t.Helper()
	hide := strings.NewReplacer(url, "$URL")
	show := strings.NewReplacer("$URL", url, "$META", metaText)
	var out strings.Builder
	for line := range strings.Lines(script) {
		text, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		out.WriteString(line)
		text = show.Replace(strings.TrimSpace(text))
		c.send(text)
		var m struct{ ID any }
		if json.Unmarshal([]byte(text), &m) == nil && m.ID == nil {
			continue // nobody answers a notification
		}
		for {
			got := c.next()
			fmt.Fprintln(&out, "<", hide.Replace(got))
			var m struct{ Method string }
			if err := json.Unmarshal([]byte(got), &m); err != nil {
				c.t.Fatalf("%s: %v", got, err)
			}
			if m.Method == "" {
				break
			}
		}
	}
	return []byte(out.String())
}

// seen is what agents were asked, when all clients have gone.
func seen(t *testing.T, s *wsagent.Server) []byte {
	var visits []wsagent.Visit
	await.Until(t, "all clients have gone", func() bool {
		visits = s.Visits()
		return !slices.ContainsFunc(visits, func(v wsagent.Visit) bool { return !v.Ended })
	})
	var b strings.Builder
	for _, v := range visits {
		fmt.Fprintln(&b, strings.TrimSpace(v.Agent+" "+strings.Join(v.Questions, " ")+" "+v.Wrong))
	}
	return []byte(b.String())
}
