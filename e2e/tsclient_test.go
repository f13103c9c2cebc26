package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/matrix"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// driver is a Node process in which clients of the TypeScript SDKs do what they are told, one command at a time.
type driver struct {
	in  io.Writer
	out *bufio.Reader
}

// startDriver runs a driver until the test ends.
func startDriver(t *testing.T, set toolset) *driver {
	t.Helper()
	// Not the test's own context, which ends before the clean-up that closes the pipe.
	ctx, cancel := context.WithTimeout(context.Background(), peerDeadline)
	cmd := exec.CommandContext(ctx, set.node, filepath.Join(set.scripts, "matrix-client.mjs"))
	cmd.Env = environment(t, set)
	var said strings.Builder
	cmd.Stderr = &said
	in, out, err := proc.Start(cmd)
	if err != nil {
		cancel()
		t.Fatalf("start the driver: %v", err)
	}
	t.Cleanup(func() {
		defer cancel()
		in.Close()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("the driver ended with %v and says:\n%s", err, said.String())
		}
	})
	return &driver{in, out}
}

// do has a command done and decodes its result.
func (d *driver) do(t testing.TB, command, result any) {
	t.Helper()
	if err := json.NewEncoder(d.in).Encode(command); err != nil {
		t.Fatalf("tell the driver %v: %v", command, err)
	}
	line, err := d.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%v: the driver is gone: %v", command, err)
	}
	var answer struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatalf("%v: the driver says %q", command, line)
	}
	if answer.Error != "" {
		t.Fatalf("%v: %s", command, answer.Error)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		t.Fatalf("%v: %v in %s", command, err, answer.Result)
	}
}

// makes are the clients of all dialects at a hub, http://host:port.
func (d *driver) makes(base string) []matrix.Make {
	var all []matrix.Make
	for _, as := range dialects {
		all = append(all, matrix.Make{Name: as.name, Drops: true, Connect: func(t testing.TB, face string) matrix.Client {
			return d.connect(t, as, target{URL: base + face})
		}})
	}
	return all
}

// merged are clients on the faces that have everything merged only.
func (d *driver) merged(name string, as dialect, to func(t testing.TB) target) matrix.Make {
	return matrix.Make{Name: as.name + "-" + name, Merged: true, Drops: true, Connect: func(t testing.TB, _ string) matrix.Client {
		return d.connect(t, as, to(t))
	}}
}

// tsClient is one connection of a driver as a client of the matrix.
type tsClient struct {
	*driver
	id  int
	era hubtest.Era
}

func (d *driver) connect(t testing.TB, as dialect, to target) *tsClient {
	t.Helper()
	var hello struct {
		ID      int
		Version string
	}
	d.do(t, struct {
		Op string `json:"op"`
		job
	}{"connect", job{SDK: as.sdk, Mode: as.mode, Version: as.pinned, target: to}}, &hello)
	if hello.Version != as.version {
		t.Fatalf("%s negotiated %s, want %s", as.name, hello.Version, as.version)
	}
	c := &tsClient{driver: d, id: hello.ID, era: hubtest.Legacy}
	if as.version == modern {
		c.era = hubtest.Modern
	}
	t.Cleanup(func() { c.tell(t, "close", nil, nil) })
	return c
}

func (c *tsClient) tell(t testing.TB, op string, members map[string]any, result any) {
	t.Helper()
	command := map[string]any{"op": op, "client": c.id}
	for k, v := range members {
		command[k] = v
	}
	c.do(t, command, result)
}

func (c *tsClient) Era() hubtest.Era { return c.era }

func (c *tsClient) Call(t testing.TB, tool, args string) (o matrix.Outcome) {
	t.Helper()
	c.tell(t, "call", map[string]any{"tool": tool, "args": args}, &o)
	return o
}

func (c *tsClient) Last(t testing.TB) (o matrix.Outcome) {
	t.Helper()
	c.tell(t, "last", nil, &o)
	return o
}

func (c *tsClient) Begin(t testing.TB, tool string) func() {
	t.Helper()
	c.tell(t, "begin", map[string]any{"tool": tool}, nil)
	return func() { c.tell(t, "leave", nil, nil) }
}

func (c *tsClient) Level(t testing.TB, level string) {
	t.Helper()
	c.tell(t, "setLevel", map[string]any{"level": level}, nil)
}

func (c *tsClient) Listen(t testing.TB, uri string) func(string) int {
	t.Helper()
	c.tell(t, "listen", map[string]any{"uri": uri}, nil)
	return func(method string) (n int) {
		c.tell(t, "heard", map[string]any{"method": method}, &n)
		return n
	}
}

func (c *tsClient) Tools(t testing.TB) (names []string) {
	t.Helper()
	c.tell(t, "tools", nil, &names)
	return names
}

var _ matrix.Client = (*tsClient)(nil)
