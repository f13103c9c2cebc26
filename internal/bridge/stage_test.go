package bridge

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest/wsagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is a client of a bridge on pipes.
type client struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Scanner
	end func() error // ends the input and waits for the bridge
	ids int
}

// connect serves a bridge to a client until the test ends.
func connect(t *testing.T, o Options) *client {
	t.Helper()
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := b.ServePipe(t.Context(), inR, outW, time.Minute)
		outW.Close()
		done <- err
	}()
	c := &client{t: t, in: inW, out: bufio.NewScanner(outR)}
	c.out.Buffer(nil, 64<<20)
	c.end = sync.OnceValue(func() error {
		inW.Close()
		go io.Copy(io.Discard, outR) // what is still to come
		return <-done
	})
	t.Cleanup(func() {
		if err := c.end(); err != nil {
			t.Errorf("the bridge ended with %v", err)
		}
	})
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next reads one message.
func (c *client) next() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the bridge says nothing more: %v", c.out.Err())
	}
	return c.out.Text()
}

// chat is a request of the tool.
func chat(id any, args map[string]any) string {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": toolName, "arguments": args}})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// outcome is what a response says.
type outcome struct {
	ID      int
	Success bool
	Data    *string
	Error   *string
}

func read(t *testing.T, line string) (s outcome) {
	t.Helper()
	var m struct {
		ID     int
		Result struct {
			Content []struct{ Type, Text string }
			IsError *bool
		}
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || len(m.Result.Content) != 1 || m.Result.Content[0].Type != "text" || m.Result.IsError == nil {
		t.Fatalf("%s is not a result of the tool: %v", line, err)
	}
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &s); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	s.ID = m.ID
	if *m.Result.IsError == s.Success || (s.Data != nil) != s.Success || (s.Error != nil) == s.Success {
		t.Errorf("%s contradicts itself", line)
	}
	if s.Error != nil && !strings.HasPrefix(*s.Error, "Ailumina chat failed: ") {
		t.Errorf("the error is %q", *s.Error)
	}
	return s
}

// call has one question answered.
func (c *client) call(args map[string]any) outcome {
	c.t.Helper()
	c.ids++
	c.send(chat(1000+c.ids, args))
	r := read(c.t, c.next())
	if r.ID != 1000+c.ids {
		c.t.Fatalf("the answer to %d is one to %d", 1000+c.ids, r.ID)
	}
	return r
}

// agents serves agents until the test ends.
func agents(t *testing.T, scripts map[string]string) *wsagent.Server {
	t.Helper()
	s := wsagent.Start(scripts, false)
	t.Cleanup(s.Close)
	return s
}
