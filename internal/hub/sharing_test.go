package hub_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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

// nth calls count by the API, and returns which call of it that is for its server.
func nth(c apiClient) string {
	c.t.Helper()
	_, e := c.tool("up__count", "{}")
	return hubtest.Decode[string](e.Data)
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

// Nor do callers share that come by no connection: programs, and clients of the
// modern era or without a session. Each has one of its own for each session that
// it names, which ends with the session, and what it does beside its requests goes
// there too.
func TestUnsharedServerKeepsCallersApart(t *testing.T) {
	hubtest.Parallel(t)
	w := unshared(t, hubtest.Modules())
	alice, bob := tokenFor(t, w.Hub, "alice", "*"), tokenFor(t, w.Hub, "bob", "*")
	modern := func(c apiClient, session string) string {
		o := hubtest.ClientOptions{Era: hubtest.Modern, Token: c.token}
		if session != "" {
			o.Header = in(session)
		}
		return w.Hub.Client(t, o).Tool("up__count", "").Text()
	}
	batch := func(c apiClient) string {
		_, e := c.tool("tools_batch", `{"calls":[{"tool":"up__count","arguments":{}}]}`)
		r := hubtest.Decode[struct{ Results []struct{ Data any } }](e.Data)
		if len(r.Results) != 1 {
			t.Fatalf("the batch: %s %s", e.Data, e.Error)
		}
		return fmt.Sprint(r.Results[0].Data)
	}
	for _, step := range []struct{ what, got, want string }{
		{"alice's first call", nth(alice), "1"},
		{"bob's first call", nth(bob), "1"},
		{"alice's second, by another way", modern(alice, ""), "2"},
		{"alice's third", w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true, Token: alice.token}).Tool("up__count", "").Text(), "3"},
		{"alice's at the agent", w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: w.face("up"), Token: alice.token}).Tool("count", "").Text(), "4"},
		{"alice's in a session", modern(alice, "work"), "1"},
		{"bob's in one of that name", modern(bob, "work"), "1"},
		{"alice's once more in hers", modern(alice, "work"), "2"},
		{"a legacy client of hers", w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: alice.token}).Tool("up__count", "").Text(), "1"},
		{"bob's second call", nth(bob), "2"},
	} {
		if step.got != step.want {
			t.Errorf("%s: the server counted %s instead of %s", step.what, step.got, step.want)
		}
	}
	if got := batch(bob); got != "3" {
		t.Errorf("bob's in a batch: %s", got)
	}
	before := status(t, w.Hub, "up").Connections
	alice.ok("POST", "/api/tools/context_add", `{"name":"a","data":"b"}`, "Stoa-Session", "work")
	alice.ok("DELETE", "/api/v1/sessions/work", "")
	await.Until(t, "what her session had has ended with it", func() bool { return status(t, w.Hub, "up").Connections == before-1 })
	if got := modern(alice, "work"); got != "1" {
		t.Errorf("a new session of that name goes on with %s", got)
	}
	if got := modern(bob, "work"); got != "2" {
		t.Errorf("bob's was ended with it: %s", got)
	}
}

// A token that is made again under a name does not find what the server kept for
// the one before.
func TestUnsharedServerForgetsARevokedToken(t *testing.T) {
	hubtest.Parallel(t)
	w := unshared(t)
	bob := tokenFor(t, w.Hub, "bob", "*")
	if got := nth(bob) + nth(bob); got != "12" {
		t.Fatalf("it counted %s", got)
	}
	revoke(t, w.Hub, "bob")
	if got := nth(tokenFor(t, w.Hub, "bob", "*")); got != "1" {
		t.Errorf("the new token's first call is number %s", got)
	}
}

// What requests without a connection had is closed when it was not used for as
// long as a silent client's connection is kept.
func TestUnsharedServerEndsWhatNobodyUses(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{{Name: "count", Behaviour: peer.Do(peer.Count)}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec, func(s *config.Server) { s.Sharing = config.PerSession }), hubtest.Config(func(c *config.Config) {
		c.Limits.SessionIdle, c.Pool.CleanupInterval = 50*time.Millisecond, 10*time.Millisecond
	}))
	waitTools(t, h)
	before := status(t, h, "up")
	if got := nth(apiClient{t, h, h.Token}); got != "1" {
		t.Fatalf("it counted %s", got)
	}
	await.Until(t, "its process has ended", func() bool {
		s := status(t, h, "up")
		return s.Starts > before.Starts && s.Connections == before.Connections
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
