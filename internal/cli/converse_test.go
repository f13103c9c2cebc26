package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// stage is a data folder with a config over one server, which is nobody's hub
// when the test ends.
type stage struct {
	config, data, state string
}

func newStage(t *testing.T, name string, tools ...peer.Tool) *stage {
	work := t.TempDir()
	s := &stage{filepath.Join(work, "stoa.jsonc"), filepath.Join(work, "data"), filepath.Join(work, "state")}
	writeConfig(t, s.config, map[string]any{name: entry(peer.Spec{Name: name, Tools: tools, StatePath: s.state})})
	t.Cleanup(func() {
		out, err := s.command("stop").CombinedOutput()
		if err != nil {
			t.Errorf("stoa stop: %v: %s", err, out)
		}
		endHub(s.data)
		await.NoError(t, "no process is left", func() error {
			if left := s.processes(t); len(left) > 0 {
				return fmt.Errorf("%q", left)
			}
			return nil
		})
		if t.Failed() {
			said, _ := os.ReadFile(filepath.Join(s.data, "logs", "launch.log"))
			t.Logf("the last hub says:\n%s", said)
		}
	})
	return s
}

func (s *stage) command(args ...string) *exec.Cmd {
	cmd := exec.Command("stoa", append(args, "--config", s.config, "--data", s.data)...)
	cmd.Env = append(os.Environ(), "AIUR_SERVER_PORT=0", "GORACE=atexit_sleep_ms=0", "HOME="+filepath.Dir(s.data))
	return cmd
}

// processes are the command lines of what runs on the data folder.
func (s *stage) processes(t *testing.T) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Skip("processes can be counted only where there is /proc")
	}
	for _, path := range all {
		b, err := os.ReadFile(path) // empty for one that has ended
		if err == nil && bytes.Contains(b, []byte(s.data)) {
			found = append(found, string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// conversation is one `stoa stdio` and what it has answered.
type conversation struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said bytes.Buffer // stderr
	over chan struct{}

	mu      sync.Mutex
	answers map[int][]answer
	notes   []string
}

type answer struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    struct{ Kind string }
	}
}

func (s *stage) converse(t *testing.T, env ...string) *conversation {
	t.Helper()
	c := &conversation{t: t, cmd: s.command("stdio"), over: make(chan struct{}), answers: map[int][]answer{}}
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = &c.said
	in, out, err := proc.Start(c.cmd)
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	go func() {
		defer close(c.over)
		for {
			line, err := out.ReadBytes('\n')
			if err != nil {
				return
			}
			c.take(line)
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // gone already if all went well
		<-c.over
		_ = c.cmd.Wait()
		if t.Failed() {
			t.Logf("the client says:\n%s", c.said.String())
		}
	})
	return c
}

func (c *conversation) take(line []byte) {
	var m struct {
		ID     *int
		Method string
		answer
	}
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Errorf("stdout has what is no message: %q", line)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Method != "" {
		c.notes = append(c.notes, m.Method)
	} else if m.ID != nil {
		c.answers[*m.ID] = append(c.answers[*m.ID], m.answer)
	}
}

func (c *conversation) say(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatalf("the client sees a closed pipe: %v\n%s", err, c.said.String())
	}
}

func (c *conversation) hello() {
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.answer(0)
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *conversation) answer(id int) answer {
	c.t.Helper()
	var got answer
	await.NoError(c.t, "answer to "+strconv.Itoa(id), func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.answers[id]) == 0 {
			return fmt.Errorf("none")
		}
		got = c.answers[id][0]
		return nil
	})
	return got
}

// end closes stdin, which has to end the client well.
func (c *conversation) end() {
	c.t.Helper()
	c.in.Close()
	<-c.over
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the client ended with %v: %s", err, c.said.String())
	}
	for id, all := range c.answers {
		if len(all) != 1 {
			c.t.Errorf("request %d was answered %d times", id, len(all))
		}
	}
}
