//go:build unix

package peer

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// child is a stdio peer driven by raw lines.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // stdout; closed at its end
	err   *strings.Builder
}

func startChild(t *testing.T, spec Spec) *child {
	t.Helper()
	name, args, env := Command(spec)
	c := &child{t: t, cmd: exec.Command(name, args...), lines: make(chan string, 1024), err: &strings.Builder{}}
	c.cmd.Env = os.Environ()
	for k, v := range env {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stderr = c.err
	ownGroup(c.cmd)
	in, out, err := proc.Start(c.cmd)
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	go func() {
		defer close(c.lines)
		for {
			line, err := out.ReadString('\n')
			if line != "" {
				c.lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		killGroup(c.cmd)
		for range c.lines {
		}
		_ = c.cmd.Wait() // killed, or waited for already
	})
	return c
}

func (c *child) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatalf("write to the peer: %v", err)
	}
}

// next returns the next line; ok is false at the end of stdout.
func (c *child) next() (line string, ok bool) {
	c.t.Helper()
	timeout := time.NewTimer(deadline)
	defer timeout.Stop()
	select {
	case line, ok = <-c.lines:
		return line, ok
	case <-timeout.C:
		c.t.Fatal("the peer is silent")
		return "", false
	}
}

func (c *child) read() message {
	c.t.Helper()
	line, ok := c.next()
	if !ok {
		c.t.Fatal("the peer's stdout ended")
	}
	m, _, err := parse([]byte(line))
	if err != nil {
		c.t.Fatalf("bad frame %q: %v", line, err)
	}
	return m
}

// exit drains stdout and returns the exit code.
func (c *child) exit() int {
	c.t.Helper()
	for {
		if _, ok := c.next(); !ok {
			break
		}
	}
	_ = c.cmd.Wait() // the code is read from the state
	return c.cmd.ProcessState.ExitCode()
}

func (c *child) initialize() {
	c.t.Helper()
	c.send(initLine)
	if m := c.read(); m.Result == nil {
		c.t.Fatalf("initialize: %s", m.Error)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *child) call(id, tool, args string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `,"_meta":{"progressToken":7}}}`)
}

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends a child and what it started; it may be gone already.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func terminate(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) }
