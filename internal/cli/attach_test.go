package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

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
	await.NoError(t, "the next hub", func() error {
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
				await.NoError(t, "the hub ends", func() error {
					if left := s.processes(t); len(left) > 0 {
						return fmt.Errorf("%q", left)
					}
					return nil
				})
			}
		})
	}
}

// A hub that is started by hand at the same time, and one that is just ending,
// are in the way of a launch, but only for a while.
func TestLaunchBesideAnotherHub(t *testing.T) {
	s := newStage(t, "rival", peer.Tool{Name: "hang", Behaviour: peer.Do(peer.Hang)}, peer.Tool{Name: "echo"})
	for range 5 {
		rival := s.command("serve")
		if err := rival.Start(); err != nil {
			t.Fatal(err)
		}
		c := s.converse(t)
		c.hello()
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rival__echo","arguments":{}}}`)
		if a := c.answer(1); a.Error != nil {
			t.Errorf("%+v", a.Error)
		}
		c.end()
		if out, err := s.command("stop").CombinedOutput(); err != nil {
			t.Fatalf("stoa stop: %v: %s", err, out)
		}
		_ = rival.Wait() // with an error, if it came second
	}
	c := s.converse(t)
	c.hello()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rival__hang","arguments":{}}}`)
	await.NoError(t, "the call runs", func() error {
		if st, err := peer.ReadState(s.state); err != nil || !slices.Contains(st.Called, "hang") {
			return fmt.Errorf("%+v, %v", st, err)
		}
		return nil
	})
	note, err := hub.ReadRunning(s.data)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(note.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d := s.converse(t)
	d.hello()
	d.end()
	if a := c.answer(1); a.Error == nil || a.Error.Data.Kind != "upstream_lost" {
		t.Errorf("the call that the hub gave up: %+v", a)
	}
	c.end()
}

// A client that can never have a hub is answered all the same, and told why: all
// it would see otherwise is that its server has ended.
func TestStdioThatCannotStart(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		home bool
		want string
	}{
		"data folder": {[]string{"--data", "/dev/null"}, true, "choose another with --data"},
		"no home":     {nil, false, "there is no home folder to keep the data in"},
		"session":     {[]string{"--session", "a b"}, true, "is no name of a session. Use up to 128 letters"},
		"hub":         {[]string{"--hub", "ftp://x"}, true, "is not the address of a hub. Write it as http://"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("stoa", append([]string{"stdio"}, tc.args...)...)
			cmd.Dir = t.TempDir()
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "AIUR_SERVER_PORT=0", "GORACE=atexit_sleep_ms=0"}
			if tc.home {
				cmd.Env = append(cmd.Env, "HOME="+cmd.Dir)
			}
			cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","arguments":{}}}` + "\n")
			out, err := cmd.Output()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if err == nil || len(lines) != 2 || !strings.Contains(lines[0], `"instructions"`) || !strings.Contains(lines[0], tc.want) || !strings.Contains(lines[1], tc.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
