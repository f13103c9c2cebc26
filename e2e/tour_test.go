package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/logbook"
)

// TestTour does what docs/tour.md tells a newcomer to do, and holds the page to what comes of it. All that passes between
// `stoa call` and the hub is recorded, to see that the data which the page passes on was never in it.
func TestTour(t *testing.T) {
	set := tools(t)
	text, err := os.ReadFile(filepath.Join(repository, "docs", "tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(t, string(text))
	folder := resolvedFolder(t)
	var wire recording
	front := httptest.NewServer(wire.proxy(filepath.Join(folder, "data")))
	defer front.Close()
	env := append(environment(t, set), "SHELL=/bin/sh")
	env[0] = "PATH=" + shims(t, set, front.URL) + string(os.PathListSeparator) + strings.TrimPrefix(env[0], "PATH=")
	t.Cleanup(func() { leaveNothing(t, env, folder) })

	outputs := runBlocks(t, env, folder, blocks)
	for i, b := range blocks {
		if !asShown(b.output, outputs[i]) {
			t.Errorf("docs/tour.md, line %d:\n%s\nprints\n%s\nbut the page says\n%s", b.line, b.script, outputs[i], b.output)
		}
	}
	passed := wire.String()
	for _, want := range []string{"Visitor 700 ", `"@guests.content"`, `@graph.entities[0].observations[0]`} {
		if !strings.Contains(passed, want) {
			t.Errorf("the recording of what passed lacks %q, so it is not one", want)
		}
	}
	// The page itself shows that the word arrived in both servers.
	if strings.Contains(passed, "ataraxia") {
		t.Error("what was to be passed by reference came to the client")
	}
	if t.Failed() {
		said, _ := os.ReadFile(filepath.Join(folder, "hub.log"))
		t.Logf("the hub says:\n%s", said)
	}
}

// shellBlock is commands of a page and what they print.
type shellBlock struct {
	line           int
	script, output string
}

// shellBlocks returns the fenced blocks of sh, each with the block of text that follows it, if one does.
func shellBlocks(t *testing.T, page string) []shellBlock {
	t.Helper()
	var out []shellBlock
	var fence string
	var body []string
	start := 0
	adjacent := false // nothing has come since the last block of sh
	for i, line := range strings.Split(page, "\n") {
		kind, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fence == "":
			fence, body, start = "```"+kind, nil, i+2
			if kind != "sh" && (kind != "text" || !adjacent) {
				t.Fatalf("docs/tour.md, line %d: a block is sh, or text right behind one", i+1)
			}
		case isFence:
			text := strings.Join(body, "\n") + "\n"
			if fence == "```sh" {
				out = append(out, shellBlock{line: start, script: text})
			} else {
				out[len(out)-1].output = text
			}
			adjacent = fence == "```sh"
			fence = ""
		case fence != "":
			body = append(body, line)
		case line != "":
			adjacent = false
		}
	}
	if len(out) == 0 || fence != "" {
		t.Fatal("docs/tour.md: no blocks, or one that does not end")
	}
	return out
}

// runBlocks runs all blocks in one shell and returns what each printed.
func runBlocks(t *testing.T, env []string, folder string, blocks []shellBlock) []string {
	t.Helper()
	const mark = "\x1e"
	var script strings.Builder
	for _, b := range blocks {
		fmt.Fprintf(&script, "%s\nprintf '%s'\n", b.script, mark)
	}
	file := filepath.Join(t.TempDir(), "tour.sh")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), peerDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", file)
	cmd.Dir, cmd.Env, cmd.WaitDelay = folder, env, 5*time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	parts := strings.Split(output.String(), mark)
	if err != nil || len(parts) != len(blocks)+1 {
		t.Fatalf("%d of %d blocks came to their end: %v\n%s", len(parts)-1, len(blocks), err, output.String())
	}
	return parts
}

// asShown compares what was printed with what a page shows, where … stands for anything.
func asShown(shown, printed string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(shown, "…") {
		if i > 0 {
			pattern.WriteString("(?s:.*)")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(printed)
}

func TestAsShown(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"", "", true},
		{"", "a surprise\n", false},
		{"1\n", "1\n", true},
		{"1\n", "11\n", false},
		{"a … b\n", "a long\nway to b\n", true},
		{"a … b\n", "a long\nway to c\n", false},
		{"a\n…\n", "a\nb\nc\n", true},
		{"(a)\n", "a\n", false},
	} {
		if asShown(c.shown, c.printed) != c.want {
			t.Errorf("%q shown, %q printed: want %v", c.shown, c.printed, c.want)
		}
	}
}

// shims returns a folder with an npx that runs the installed packages instead of fetching them, and a stoa whose calls
// go by way of the recording.
func shims(t *testing.T, set toolset, recorder string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, script string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("npx", fmt.Sprintf(`[ "$1" = -y ] || { echo "npx: want -y, to ask nothing" >&2; exit 1; }
name=${2##*/}; shift 2
exec '%s' '%s'"mcp-$name" "$@"
`, set.node, set.bin("")+string(filepath.Separator)))
	write("stoa", fmt.Sprintf(`if [ "$1" = call ] && [ -e data/hub.json ]; then
	shift
	exec '%[1]s' call --hub '%[2]s' "$@"
fi
exec '%[1]s' "$@"
`, stoaBinary(t), recorder))
	return dir
}

// leaveNothing ends the hub if the page did not come to that.
func leaveNothing(t *testing.T, env []string, folder string) {
	data := filepath.Join(folder, "data")
	if _, err := os.Stat(filepath.Join(data, "hub.json")); err != nil {
		return
	}
	t.Error("the page leaves a hub")
	cmd := exec.Command(stoaBinary(t), "stop", "--data", data)
	cmd.Env, cmd.Dir = env, folder
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("stoa stop: %v\n%s", err, said)
	}
}

// recording is what passed between a client and a hub, both ways.
type recording struct{ logbook.Book }

// proxy passes requests on to the hub of a data folder.
func (r *recording) proxy(data string) http.Handler {
	record := func(body io.ReadCloser) io.ReadCloser {
		return struct {
			io.Reader
			io.Closer
		}{io.TeeReader(body, r), body}
	}
	forward := &httputil.ReverseProxy{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			hub, err := readNote(data)
			if err != nil {
				hub.Address = "127.0.0.1:0" // which nobody can dial, and says so
			}
			p.SetURL(&url.URL{Scheme: "http", Host: hub.Address})
			if p.Out.Body != nil {
				p.Out.Body = record(p.Out.Body)
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = record(resp.Body)
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// Without it the server closes the request's body at the first flush of the answer, under the transport's eyes.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		forward.ServeHTTP(w, req)
	})
}
