package hub_test

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/upstream"
)

// ready is what /readyz says.
type ready struct {
	Ready     bool
	Gateway   struct{ OK bool }
	Upstreams []struct {
		Name, State, Reason string
		Tools               int
		List                struct {
			OK    bool
			Error string
		}
	}
}

func readyz(t testing.TB, h *hubtest.Hub) (code int, r ready) {
	t.Helper()
	code, body := h.Get("/readyz")
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("GET /readyz: %d %s", code, body)
	}
	return code, r
}

func echoTool() []peer.Tool { return []peer.Tool{{Name: "echo"}} }

// badCompany is a hub whose good upstreams have bad neighbours.
func badCompany(t *testing.T) *hubtest.Hub {
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	mute := peer.Serve(t, peer.Spec{Tools: echoTool(), Era: peer.EraLegacy, Quirks: peer.Quirks{HangInitialize: true}})
	return hubtest.New(t,
		hubtest.Stdio("good", peer.Spec{Tools: echoTool()}),
		hubtest.HTTP("web", web.URL),
		hubtest.Stdio("hang", peer.Spec{Tools: echoTool(), Era: peer.EraLegacy, Quirks: peer.Quirks{HangInitialize: true, SilentOnUnknown: true}}),
		hubtest.HTTP("mute", mute.URL),
		hubtest.Stdio("crash", peer.Spec{Tools: echoTool(), Quirks: peer.Quirks{CrashEvery: time.Second, SlowStart: 300 * time.Millisecond, StderrNoise: 2}}),
		hubtest.Stdio("slow", peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}}}}),
		hubtest.Stdio("noisy", peer.Spec{Tools: echoTool(), Quirks: peer.Quirks{Garbage: true, StderrNoise: 200}}),
		hubtest.HTTP("nobody", "http://127.0.0.1:1/mcp"),
	)
}

func TestBadUpstreamsCostOthersNothing(t *testing.T) {
	hubtest.Parallel(t)
	h := badCompany(t)
	for _, name := range []string{"slow", "good", "web", "noisy"} {
		await.Until(t, name+" is listed", func() bool { return status(t, h, name).Tools > 0 })
	}
	slow := h.Client(t, hubtest.ClientOptions{}).Go("tools/call", hubtest.ToolParams("slow__slow", ""))
	await.Until(t, "the slow one is at work", func() bool { return status(t, h, "slow").Running == 1 })
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, c := range []cell{{era: era, merged: true}, {era: era}} {
			for _, up := range []string{"good", "web", "noisy"} {
				client := h.Client(t, hubtest.ClientOptions{Era: era, Face: c.face(up)})
				for range 3 {
					if m := client.Call("tools/list", "{}"); !strings.Contains(string(m.Result), c.name(up, "echo")) {
						t.Errorf("%v of %s: list: %s", c, up, m.Raw)
					}
					if m := client.Tool(c.name(up, "echo"), `{"a":1}`); m.Text() != `{"a":1}` {
						t.Errorf("%v of %s: call: %s", c, up, m.Raw)
					}
				}
			}
		}
	}
	// The bad ones are still at it, so nobody has waited for them.
	if s := status(t, h, "slow"); s.Running != 1 {
		t.Errorf("the slow call is over already: %+v", s)
	}
	if s := status(t, h, "hang"); s.State != upstream.Connecting {
		t.Errorf("the hanging one does not hang any more: %+v", s)
	}
	slow.Close()
	tellsTheTruth(t, h)
}

// tellsTheTruth checks what /readyz and the API say of bad company.
func tellsTheTruth(t *testing.T, h *hubtest.Hub) {
	await.Until(t, "the bad ones show what they are", func() bool {
		crash, nobody := status(t, h, "crash"), status(t, h, "nobody")
		return crash.Starts >= 2 && nobody.State == upstream.Failed
	})
	code, r := readyz(t, h)
	if code != 200 || !r.Ready || !r.Gateway.OK {
		t.Errorf("/readyz: %d %+v", code, r)
	}
	for _, u := range r.Upstreams {
		switch u.Name {
		case "good", "web", "noisy", "slow":
			if u.State != "connected" || !u.List.OK || u.Tools == 0 {
				t.Errorf("/readyz of a good one: %+v", u)
			}
		case "hang", "mute":
			if u.State != "connecting" || u.List.OK {
				t.Errorf("/readyz of one that hangs: %+v", u)
			}
		case "nobody":
			if u.State != "error" || u.List.OK || u.Reason == "" {
				t.Errorf("/readyz of one that is not there: %+v", u)
			}
		}
	}
	if s := status(t, h, "noisy"); len(s.Stderr) == 0 || len(s.Stderr) > 50 || !hasHealth(s, "garbage") {
		t.Errorf("the noisy one: %d lines of stderr, health %+v", len(s.Stderr), s.Health)
	}
	if s := status(t, h, "nobody"); !strings.Contains(s.Error, "refused") {
		t.Errorf("the one that is not there: %+v", s)
	}
	var last upstream.Status
	await.Until(t, "the crashing one says how it ended", func() bool {
		last = status(t, h, "crash")
		return strings.Contains(last.Error, "exit status 3") && strings.Contains(strings.Join(last.Stderr, "\n"), "WARN")
	})
}

func hasHealth(s upstream.Status, code string) bool {
	for _, item := range s.Health {
		if item.Code == code {
			return true
		}
	}
	return false
}

// A call to an upstream that hangs in its handshake fails by itself and not
// with the client's patience; one to an upstream that is not there at once.
func TestCallToUnreachableUpstreamSaysSo(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("nobody", "http://127.0.0.1:1/mcp"),
		hubtest.Stdio("absent", peer.Spec{}, func(s *serverConfig) { s.Command = "/nonexistent/server" }))
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		for up, kind := range map[string]string{"nobody": "unreachable", "absent": "misconfigured"} {
			m := c.Tool(up+"__x", "")
			if f := m.Fault(); f.Data.Kind != kind || !strings.Contains(f.Message, up) || f.Code != -32603 {
				t.Errorf("%s: a call to %s: %s", era, up, m.Raw)
			}
			a := h.Client(t, hubtest.ClientOptions{Face: "/mcps/" + up + "/mcp"}).Do(
				h.Client(t, hubtest.ClientOptions{}).Request("1", "tools/list", "{}"))
			if a.Status != 502 || !strings.Contains(string(a.Body), `-32603`) {
				t.Errorf("the face of %s: %d %s", up, a.Status, a.Body)
			}
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	return len(entries)
}

// Restarts leave nothing behind: no process, no goroutine, no open file.
func TestRestartsLeaveNothing(t *testing.T) {
	cycles := soak(15, 200)
	spec := peer.Spec{Tools: echoTool(), Era: peer.EraLegacy, StatePath: t.TempDir() + "/state",
		Quirks: peer.Quirks{SpawnGrandchild: true, StderrNoise: 1}}
	state := func() peer.State {
		st, err := peer.ReadState(spec.StatePath)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	var pids []int
	files, routines := 0, 0
	h := hubtest.New(t, hubtest.Stdio("up", spec))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	for i := range cycles {
		if m := c.Tool("up__echo", `{"i":1}`); m.Text() != `{"i":1}` {
			t.Fatalf("cycle %d: %s", i, m.Raw)
		}
		if i == 5 { // by now all that is made once has been made
			files, routines = openFiles(t), runtime.NumGoroutine()
		}
		st := state()
		for _, pid := range st.Pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		pids = append(append(pids, st.Pids...), st.Grandchildren...)
		await.Until(t, "the group is gone", func() bool {
			running := slices.ContainsFunc(st.Grandchildren, proc.Alive)
			return !running && !slices.ContainsFunc(st.Pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
		})
	}
	c.Tool("up__echo", "{}")
	await.Until(t, "files and goroutines are no more than at first", func() bool {
		return openFiles(t) <= files+2 && runtime.NumGoroutine() <= routines+5
	})
	h.Stop()
	st := state()
	for _, pid := range append(append(pids, st.Pids...), st.Grandchildren...) {
		if proc.Alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
	if len(st.Pids) < cycles {
		t.Errorf("%d processes were started in %d cycles", len(st.Pids), cycles)
	}
}

// A process that heeds neither the end of its input nor TERM is killed, with
// what it started.
func TestStubbornProcessIsKilled(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: echoTool(), StatePath: t.TempDir() + "/state",
		Quirks: peer.Quirks{IgnoreEOF: true, IgnoreSIGTERM: true, SpawnGrandchild: true}}
	h := hubtest.New(t, hubtest.Stdio("up", spec))
	h.Client(t, hubtest.ClientOptions{}).Tool("up__echo", "{}")
	h.Stop()
	st, err := peer.ReadState(spec.StatePath)
	if err != nil {
		t.Fatal(err)
	}
	if st.Terms == 0 || len(st.Pids) == 0 || len(st.Grandchildren) == 0 {
		t.Errorf("the process was not asked first: %+v", st)
	}
	for _, pid := range append(st.Pids, st.Grandchildren...) {
		if proc.Alive(pid) {
			t.Errorf("process %d is alive", pid)
		}
	}
}
