package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process of the run that serves on a loopback address.
type child struct {
	name    string
	address string
	pid     int
	token   string // of a hub: its owner's
	crowd   string // of a hub: the flooding caller's token; empty until it is created
	data    string // of a hub: its folder
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *os.File
	exited  chan struct{}
	stderr  *tail
}

// tail keeps the last bytes a child wrote to stderr, for the error that says
// why it ended.
type tail struct{ bytes.Buffer }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	n, _ := t.Buffer.Write(p)
	if extra := t.Len() - tailBytes; extra > 0 {
		t.Next(extra)
	}
	return n, nil
}

// stage starts and ends the processes of a run.
type stage struct {
	self string // this binary, which is every role but the hub
	stoa string // the hub's binary
	dir  string // for data folders and configuration files
	env  []string
	next int
}

// environment is the same for all measured processes. Nothing else of the
// caller's environment reaches them: a stray AIUR_ or STOA_ variable would
// make the hub's configuration other than the default.
func environment(dir string, gogc, memLimit string, procs int) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir,
		"GOGC=" + gogc, "GOMEMLIMIT=" + memLimit, "GOMAXPROCS=" + strconv.Itoa(procs),
	}
}

// role starts one of this binary's servers and waits for its address.
func (s *stage) role(ctx context.Context, args ...string) (*child, error) {
	c, err := s.start(ctx, args[0], s.self, append([]string{"role"}, args...))
	if err != nil {
		return nil, err
	}
	line := make(chan []byte, 1)
	go func() {
		b, _ := bufio.NewReader(c.stdout).ReadBytes('\n')
		line <- b
	}()
	select {
	case b := <-line:
		var r ready
		if err := json.Unmarshal(b, &r); err != nil {
			stopped := c.stop()
			return nil, errors.Join(fmt.Errorf("role %s did not say its address: %s", args[0], c.complaint()), stopped)
		}
		c.address = r.Address
		return c, nil
	case <-time.After(10 * time.Second):
		return nil, errors.Join(fmt.Errorf("role %s did not listen within 10 s", args[0]), c.stop())
	}
}

func (s *stage) start(ctx context.Context, name, binary string, args []string) (*child, error) {
	c := &child{name: name, stderr: new(tail), exited: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, binary, args...)
	c.cmd.Env = s.env
	c.cmd.Dir = s.dir
	c.cmd.Stderr = c.stderr
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 5 * time.Second
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	// An own pipe: Wait closes the one of StdoutPipe under its reader.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.cmd.Stdout = write
	err = c.cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.stdout, c.pid = read, c.cmd.Process.Pid
	go func() {
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// complaint is what the child last wrote to stderr; it must have ended.
func (c *child) complaint() string { return strings.TrimSpace(c.stderr.String()) }

// stop asks the child to end, then makes it.
func (c *child) stop() error {
	defer c.stdout.Close()
	_ = c.stdin.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.exited:
		return nil
	case <-time.After(10 * time.Second):
	}
	_ = c.cmd.Process.Kill()
	<-c.exited
	return fmt.Errorf("%s (process %d) did not end within 10 s of SIGTERM and was killed", c.name, c.pid)
}

// hub starts stoa with its default configuration in front of an upstream of so
// many tools, and waits until both faces answer calls.
func (s *stage) hub(ctx context.Context, upstream *child, tools int) (*child, error) {
	s.next++
	dir := filepath.Join(s.dir, "hub-"+strconv.Itoa(s.next))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the hub's folder: %w", err)
	}
	file, data := filepath.Join(dir, "stoa.jsonc"), filepath.Join(dir, "data")
	// One caller holds every idle connection, and may hold half of all.
	config := fmt.Sprintf(`{"stoa":1,"servers":{"x":{"url":"http://%s/mcp"}},"limits":{"connections":20000}}`, upstream.address)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write the hub's configuration: %w", err)
	}
	c, err := s.start(ctx, "stoa", s.stoa, []string{"serve", "--config", file, "--listen", "127.0.0.1:0", "--data", data})
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, c.stdout) }()
	if err := c.awaitHub(ctx, filepath.Join(data, "hub.json"), tools); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the hub's token: %w", err), c.stop())
	}
	c.token, c.data = strings.TrimSpace(string(token)), data
	return c, nil
}

// awaitHub polls, within 30 s, for the address and then for a call on each
// face and era: the hub connects its upstreams after it listens.
func (c *child) awaitHub(ctx context.Context, file string, tools int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	last := errors.New("hub.json was not written")
	for {
		if b, err := os.ReadFile(file); err == nil {
			var r ready
			if err := json.Unmarshal(b, &r); err == nil && r.Address != "" {
				c.address = r.Address
				if last = c.probe(tools); last == nil {
					return nil
				}
			}
		}
		select {
		case <-c.exited:
			return fmt.Errorf("stoa ended before it was ready (%v): %s", c.cmd.ProcessState, c.complaint())
		case <-ctx.Done():
			return fmt.Errorf("stoa was not ready within 30 s: %w", last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// probe calls the last of the tools once per face and era.
func (c *child) probe(tools int) error {
	for _, t := range []target{oneFace, allFace} {
		for _, e := range []era{legacy, modern} {
			l := load{endpoint: endpoint{c.address, t.path()}, Tools: tools, Prefix: t.prefix(),
				scenario: scenario{Era: e, Conns: tools, Size: 100}}
			one, err := l.newClient(tools-1, time.Now().Add(5*time.Second))
			if one != nil {
				one.end()
			}
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.path(), e, err)
			}
		}
	}
	return nil
}

// measure runs one loader to its end.
func (s *stage) measure(ctx context.Context, l load) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Warm+l.Window+90*time.Second)
	defer cancel()
	in, err := json.Marshal(l)
	if err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, s.self, "role", "loader")
	var complaint tail
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stderr = s.env, s.dir, bytes.NewReader(in), &complaint
	out, err := cmd.Output()
	if err != nil {
		return sample{}, fmt.Errorf("loader: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	var got sample
	if err := json.Unmarshal(out, &got); err != nil {
		return sample{}, fmt.Errorf("loader: read its result: %w", err)
	}
	return got, nil
}

// fetch gets a page of a child, whole, within limits.
func (c *child) fetch(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get %s of %s: %w", path, c.name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s of %s: HTTP %d", path, c.name, resp.StatusCode)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 8<<20))
}
