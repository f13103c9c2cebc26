package mcp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stoahub/stoa/internal/auth"
)

// Transcripts are conversations as files: what a client sends, and what it
// gets. They run on a clock of their own, and each step is over when nothing
// moves any more; so "wait 15s" costs nothing and the order is always the same.
//
// $META stands for the _meta that every modern request carries.
const metaText = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func transcripts(t *testing.T, dir string, play func(t *testing.T, script *txtar.Archive) *txtar.Archive) {
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			synctest.Test(t, func(t *testing.T) { got = txtar.Format(play(t, txtar.Parse(want))) })
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

// options reads the section of that name: one "key value" per line.
func options(a *txtar.Archive) map[string]string {
	out := map[string]string{}
	for _, f := range a.Files {
		if f.Name == "options" {
			for line := range strings.Lines(string(f.Data)) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
				out[k] = v
			}
		}
	}
	return out
}

// elapse lets time pass for a line "wait 5s" and reports whether it was one.
func elapse(t *testing.T, line string) bool {
	d, ok := strings.CutPrefix(line, "wait ")
	if !ok {
		return false
	}
	span, err := time.ParseDuration(d)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(span)
	synctest.Wait()
	return true
}

// moment is a span that separates what would otherwise happen at once.
const moment = time.Millisecond

// rest lets everything happen that is going to happen by itself.
func rest() {
	synctest.Wait()
	<-time.After(2 * moment)
	synctest.Wait()
}

// collector gathers the lines that come out of a pipe.
type collector struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *collector) follow(r io.Reader) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		c.mu.Lock()
		c.buf.WriteString(line)
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *collector) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.buf.Reset()
	return c.buf.String()
}

func TestPipeTranscripts(t *testing.T) { transcripts(t, "pipe", playPipe) }

func playPipe(t *testing.T, script *txtar.Archive) *txtar.Archive {
	opts := PipeOptions{MessageBytes: 4096}
	fmt.Sscan(options(script)["concurrent"], &opts.Concurrent)
	in, send := io.Pipe()
	receive, out := io.Pipe()
	var got collector
	var wg sync.WaitGroup
	wg.Go(func() { got.follow(receive) })
	wg.Go(func() {
		if err := ServePipe(context.Background(), in, out, auth.Local, &sage{}, opts); err != nil {
			t.Error(err)
		}
		out.Close()
	})
	played := &txtar.Archive{Comment: script.Comment}
	for _, f := range script.Files {
		if strings.HasPrefix(f.Name, "server") {
			continue
		}
		played.Files = append(played.Files, f)
		if f.Name != "client" {
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case elapse(t, line):
			case line == "close":
				send.Close()
			case strings.HasPrefix(line, "half "):
				io.WriteString(send, strings.TrimPrefix(line, "half "))
			case strings.HasPrefix(line, "long "):
				io.WriteString(send, `{"pad":"`+strings.Repeat("x", 5000)+"\"}\n")
			default:
				io.WriteString(send, strings.ReplaceAll(line, "$META", metaText)+"\n")
			}
			rest()
		}
		if text := got.take(); text != "" {
			played.Files = append(played.Files, txtar.File{Name: "server", Data: []byte(text)})
		}
	}
	send.Close()
	wg.Wait()
	if rest := got.take(); rest != "" {
		played.Files = append(played.Files, txtar.File{Name: "server after the end", Data: []byte(rest)})
	}
	return played
}
