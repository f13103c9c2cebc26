package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest/peer"
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
		await(t, "no process is left", func() error {
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

func await(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
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
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.over)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
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
	await(c.t, "answer to "+strconv.Itoa(id), func() error {
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

func TestTenClientsLaunchOneHub(t *testing.T) {
	s := newStage(t, "crowded", peer.Tool{Name: "echo"})
	var clients []*conversation
	for range 10 {
		clients = append(clients, s.converse(t))
	}
	for _, c := range clients {
		c.hello()
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crowded__echo","arguments":{}}}`)
	}
	for i, c := range clients {
		if a := c.answer(1); a.Error != nil {
			t.Errorf("client %d: %+v", i, a.Error)
		}
	}
	hubs := 0
	for _, line := range s.processes(t) {
		if strings.Contains(line, " serve ") {
			hubs++
		}
	}
	if hubs != 1 {
		t.Errorf("%d hubs run: %q", hubs, s.processes(t))
	}
	launched := 0
	for _, c := range clients {
		c.end()
		launched += strings.Count(c.said.String(), "hub launched")
	}
	if launched != 1 {
		t.Errorf("%d hubs were launched", launched)
	}
}

func TestHubKilledDuringConversation(t *testing.T) {
	calls, kills := 40, 4
	if os.Getenv("STOA_SOAK") != "" {
		calls, kills = 200, 20
	}
	read := `{"name":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":%v}}`
	slow := peer.Behaviour{Kind: peer.Slow, For: 30 * time.Millisecond}
	s := newStage(t, "fragile",
		peer.Tool{Name: "look", RawDefinition: peer.Raw(fmt.Sprintf(read, "look", true)), Behaviour: slow},
		peer.Tool{Name: "act", RawDefinition: peer.Raw(fmt.Sprintf(read, "act", false)), Behaviour: slow})
	c := s.converse(t)
	c.hello()
	every := calls / kills
	killed, failures, last := 0, 0, 0
	for i := 1; i <= calls; i++ {
		tool := []string{"look", "act"}[i%2]
		c.say(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"fragile__%s","arguments":{}}}`, i, tool)
		doomed := i%every == every/2+i/every%2 // now the one tool, now the other
		if doomed {
			note, err := hub.ReadRunning(s.data)
			if err != nil || note.Pid == last {
				t.Fatalf("before kill %d: hub %+v, %v", killed, note, err)
			}
			last = note.Pid
			if err := syscall.Kill(note.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
		a := c.answer(i)
		switch {
		case a.Error == nil:
		case !doomed || tool == "look":
			t.Errorf("call %d of %s (hub killed: %v): %+v", i, tool, doomed, a.Error)
		case a.Error.Data.Kind != "upstream_lost" || !strings.Contains(a.Error.Message, "whether it took effect is not known"):
			t.Errorf("call %d of %s: %+v", i, tool, a.Error)
		default:
			failures++
		}
	}
	if killed != kills || failures > killed {
		t.Errorf("%d kills, %d of the calls failed", killed, failures)
	}
	t.Logf("%d calls, %d kills, %d calls could not be repeated", calls, killed, failures)
	c.end()
}

// A hub that stops in order has answered what it has read, so that nothing is
// lost, whatever the tools are.
func TestHubStoppedDuringConversation(t *testing.T) {
	s := newStage(t, "orderly", peer.Tool{Name: "act", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 30 * time.Millisecond}})
	c := s.converse(t)
	c.hello()
	const calls = 60
	for i := 1; i <= calls; i++ {
		c.say(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"orderly__act","arguments":{}}}`, i)
		if i%20 == 10 {
			c.answer(i - 5)
			if out, err := s.command("stop").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("stopped the hub")) {
				t.Fatalf("stoa stop: %v: %s", err, out)
			}
		}
	}
	for i := 1; i <= calls; i++ {
		if a := c.answer(i); a.Error != nil {
			t.Errorf("call %d: %+v", i, a.Error)
		}
	}
	c.end()
	st, err := peer.ReadState(s.state)
	if err != nil || len(st.Called) != calls {
		t.Errorf("the tool was called %d times for %d calls (%v)", len(st.Called), calls, err)
	}
}

// What a client has stored is there after its hub was killed: it comes back to
// the session that it had.
func TestSessionSurvivesTheHub(t *testing.T) {
	s := newStage(t, "keeper", peer.Tool{Name: "echo"})
	c := s.converse(t)
	c.hello()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keeper__echo","arguments":{"word":"olive"},"_meta":{"stoa/saveAs":"kept"}}}`)
	if a := c.answer(1); a.Error != nil {
		t.Fatalf("%+v", a.Error)
	}
	note, err := hub.ReadRunning(s.data)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(note.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the next hub", func() error {
		if now, err := hub.ReadRunning(s.data); err != nil || now.Pid == note.Pid {
			return fmt.Errorf("%+v, %v", now, err)
		}
		return nil
	})
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"keeper__echo","arguments":{"again":"@kept"}}}`)
	if a := c.answer(2); a.Error != nil || !strings.Contains(string(a.Result), "olive") {
		t.Errorf("%+v %s", a.Error, a.Result)
	}
	// Another client has another session.
	d := s.converse(t)
	d.hello()
	d.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"keeper__echo","arguments":{"again":"@kept"}}}`)
	if a := d.answer(2); strings.Contains(string(a.Result), "olive") {
		t.Errorf("a client reads what is another's: %s", a.Result)
	}
	d.end()
	c.end()
}

// A hub that was launched not to outlive its clients serves the others on, when
// the one that launched it leaves or dies, and ends with the last.
func TestHubEndsWithItsLastClient(t *testing.T) {
	for _, tc := range []struct {
		name, env string
		ends      bool // without a last client
	}{
		{"leash", "AIUR_SERVER_INDEPENDENT=false", true},
		{"stop", "AIUR_STOP_SERVER_ON_EXIT=true", false}, // the launcher has left; nobody else may stop it
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, "shared", peer.Tool{Name: "echo"})
			first := s.converse(t, tc.env)
			first.hello()
			second := s.converse(t, tc.env)
			second.hello()
			before, err := hub.ReadRunning(s.data)
			if err != nil {
				t.Fatal(err)
			}
			if tc.ends {
				_ = first.cmd.Process.Kill()
				<-first.over
			} else {
				first.end()
			}
			for i := 1; i <= 50; i++ {
				second.say(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"shared__echo","arguments":{}}}`, i)
				if a := second.answer(i); a.Error != nil {
					t.Errorf("call %d: %+v", i, a.Error)
				}
			}
			after, err := hub.ReadRunning(s.data)
			if err != nil || after.Pid != before.Pid {
				t.Errorf("the hub was %+v and is %+v, %v", before, after, err)
			}
			second.end()
			if strings.Contains(second.said.String(), "hub is gone") {
				t.Errorf("the second client lost its hub: %s", second.said.String())
			}
			if tc.ends {
				await(t, "the hub ends", func() error {
					if left := s.processes(t); len(left) > 0 {
						return fmt.Errorf("%q", left)
					}
					return nil
				})
			}
		})
	}
}
