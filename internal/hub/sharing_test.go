package hub_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// unshared is a world whose server keeps state for each client.
func unshared(t *testing.T, edits ...hubtest.Edit) *world {
	t.Helper()
	o := worldOptions{edits: edits, server: func(s *config.Server) {
		s.Sharing, s.MaxSessions, s.Breaker.Failures = config.PerSession, 100, 2
	}}
	spec := peer.Spec{Tools: []peer.Tool{{Name: "count", Behaviour: peer.Do(peer.Count)}, {Name: "env", Behaviour: peer.Do(peer.Env)}}}
	w := newWorld(t, cell{hubtest.Legacy, "stdio", false}, spec, o)
	w.listening(t)
	return w
}

// Each client has a process of its own, nobody sees another's state, all of
// them are to be seen in the API, and they end with their clients.
func TestUnsharedServerKeepsClientsApart(t *testing.T) {
	hubtest.Parallel(t)
	w := unshared(t)
	atFirst := status(t, w.Hub, "up")
	n := soak(12, 50)
	clients := make([]*hubtest.Client, n)
	for i := range clients {
		clients[i] = w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: w.face("up")})
	}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for call := range 1 + i%4 {
				m, err := read(c.Go("tools/call", hubtest.ToolParams("count", "")))
				if err != nil || m.Text() != strconv.Itoa(call+1) {
					t.Errorf("client %d, call %d: %s, %v", i, call, m.Raw, err)
				}
			}
		})
	}
	wg.Wait()
	for i, c := range clients { // all are there now
		if m := c.Tool("count", ""); m.Text() != strconv.Itoa(2+i%4) {
			t.Errorf("client %d afterwards: %s", i, m.Raw)
		}
	}
	s := status(t, w.Hub, "up")
	if s.Connections != atFirst.Connections+n || len(s.Pids) != s.Connections {
		t.Errorf("%d connections and %d processes, %d before %d clients came", s.Connections, len(s.Pids), atFirst.Connections, n)
	}
	for _, c := range clients {
		c.End()
	}
	await.Until(t, "their processes have ended", func() bool {
		for _, pid := range w.peerState(t).Pids {
			if proc.Alive(pid) && !strings.Contains(pidList(atFirst.Pids), pidList([]int{pid})) {
				return false
			}
		}
		return status(t, w.Hub, "up").Connections == atFirst.Connections
	})
}

func pidList(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		b.WriteString("<" + strconv.Itoa(pid) + ">")
	}
	return b.String()
}

// Where there is no room for another connection the client is told what to do.
// Nobody loses their own for it, nothing is held against the server, and there
// is room as soon as somebody leaves.
func TestUnsharedServerHasNoRoom(t *testing.T) {
	hubtest.Parallel(t)
	w := unshared(t, hubtest.Config(func(c *config.Config) { c.Pool.Max = 3 }))
	join := func() *hubtest.Client {
		return w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcp"})
	}
	count := func(c *hubtest.Client) hubtest.Message { return c.Tool("up__count", "") }
	var in []*hubtest.Client
	for i := range 6 {
		c := join()
		m := count(c)
		if m.Text() == "1" {
			in = append(in, c)
			continue
		}
		// No rest is imposed as on a server that fails: there may be room at once.
		if i < 2 || !strings.Contains(m.Text(), "raise pool.max") || strings.Contains(string(m.Raw), "retryAfterMs") {
			t.Errorf("client %d: %s", i, m.Raw)
		}
	}
	if len(in) < 2 || len(in) > 3 {
		t.Fatalf("%d clients had room among 3", len(in))
	}
	for _, c := range in {
		if m := count(c); m.Text() != "2" {
			t.Errorf("one that had room: %s", m.Raw)
		}
	}
	in[0].End()
	late := join()
	await.Until(t, "there is room again", func() bool {
		m := count(late)
		if m.Text() != "1" && !strings.Contains(m.Text(), "raise pool.max") {
			t.Fatalf("while there is no room: %s", m.Raw)
		}
		return m.Text() == "1"
	})
	if m := count(in[1]); m.Text() != "3" {
		t.Errorf("one that stayed: %s", m.Raw)
	}
}
