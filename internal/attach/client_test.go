package attach

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// client is who sits at stdin and stdout.
type client struct {
	t    *testing.T
	in   *io.PipeWriter
	over chan error
	done chan struct{} // closed when all of stdout has been read

	mu    sync.Mutex
	lines []string
}

func (p *post) client(edit ...func(*Options)) *client {
	opts := Options{Find: p.find, Grace: patience}
	for _, e := range edit {
		e(&opts)
	}
	in, feed := io.Pipe()
	drain, out := io.Pipe()
	c := &client{t: p.t, in: feed, over: make(chan error, 1), done: make(chan struct{})}
	go func() {
		err := Run(p.t.Context(), in, out, opts)
		in.Close()
		out.Close()
		c.over <- err
	}()
	go func() {
		defer close(c.done)
		r := bufio.NewReader(drain)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.mu.Lock()
			c.lines = append(c.lines, strings.TrimSuffix(line, "\n"))
			c.mu.Unlock()
		}
	}()
	p.t.Cleanup(func() {
		feed.Close()
		<-c.done
		if p.t.Failed() {
			p.t.Logf("stdout:\n%s", strings.Join(c.all(), "\n"))
		}
	})
	return c
}

func (c *client) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

func (c *client) say(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// hear waits for a line that holds all of parts, and returns it.
func (c *client) hear(parts ...string) (found string) {
	c.t.Helper()
	await.Until(c.t, fmt.Sprintf("stdout has %q", parts), func() bool {
		for _, line := range c.all() {
			fits := true
			for _, part := range parts {
				fits = fits && strings.Contains(line, part)
			}
			if fits {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// count is the number of lines with a part.
func (c *client) count(part string) int { return strings.Count(strings.Join(c.all(), "\n"), part) }

// end closes stdin; then the pump has to end well.
func (c *client) end() {
	c.t.Helper()
	c.in.Close()
	select {
	case err := <-c.over:
		if err != nil {
			c.t.Errorf("Run: %v", err)
		}
		<-c.done
	case <-time.After(patience):
		c.t.Fatal("Run does not end")
	}
}

func (c *client) hello() {
	c.say(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"7"}}}`)
	c.hear(`"id":"hello"`, `"protocolVersion"`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// answers counts the responses by their ids.
func (c *client) answers() map[string]int {
	n := map[string]int{}
	for _, line := range c.all() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			c.t.Errorf("stdout has %q: %v", line, err)
		}
		if m.Method == "" {
			n[string(m.ID)]++
		}
	}
	return n
}
