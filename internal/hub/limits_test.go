package hub_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/upstream"
)

func TestQueue(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}}, {Name: "echo"}}}
	eachCell(t, spec, queueOf(2, 1, time.Hour), func(t *testing.T, w *world) {
		if w.transport == "json" {
			t.Skip("as sse")
		}
		running := func(n, queued int) func() bool {
			return func() bool {
				s := status(t, w.Hub, "up")
				return s.Running == n && s.Queued == queued
			}
		}
		var busy []*hubtest.Exchange
		for i := range 2 {
			busy = append(busy, w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), "")))
			await.Until(t, "the call runs", running(i+1, 0))
		}
		waits := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "echo"), `{"a":1}`))
		await.Until(t, "the third waits", running(2, 1))
		full := w.call("echo", "")
		code := map[hubtest.Era]int{hubtest.Legacy: -32002, hubtest.Modern: -31002}[w.era]
		if f := full.Fault(); f.Data.Kind != "queue_full" || f.Code != code || !f.Data.Retryable {
			t.Errorf("the fourth: %s", full.Raw)
		}
		busy[0].Close()
		if m := waits.Response(); m.Text() != `{"a":1}` {
			t.Errorf("one whose turn came: %s", m.Raw)
		}
		if m := w.client.Call("tools/list", "{}"); m.Error != nil {
			t.Errorf("a list waits for nobody: %s", m.Raw)
		}
		busy[1].Close()
		await.Until(t, "all is over", running(0, 0))
	})
}

// queueOf is a world whose server has a queue.
func queueOf(concurrency, capacity int, timeout time.Duration) worldOptions {
	return worldOptions{server: func(s *config.Server) {
		s.Queue = &config.Queue{Concurrency: concurrency, Capacity: capacity, Timeout: timeout}
	}}
}

func TestQueueEndsWaiting(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}}, {Name: "echo"}}}
	eachCell(t, spec, queueOf(1, 1, 300*time.Millisecond), func(t *testing.T, w *world) {
		if w.transport == "json" {
			t.Skip("as sse")
		}
		busy := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), ""))
		await.Until(t, "the call runs", func() bool { return status(t, w.Hub, "up").Running == 1 })
		if m := w.call("echo", `{"a":1}`); m.Fault().Data.Kind != "timeout" {
			t.Errorf("one that waited too long: %s", m.Raw)
		}
		busy.Close()
	})
}

func TestBreakerOfTool(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "bad", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32603,"message":"broken"}`}}, {Name: "echo"}}}
	o := worldOptions{server: func(s *config.Server) {
		s.Breaker = config.Breaker{Failures: 3, Window: time.Minute, Cooldown: 300 * time.Millisecond}
	}}
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, merged := range []bool{true, false} {
			c := cell{era, "sse", merged}
			t.Run(c.String(), func(t *testing.T) {
				w := newWorld(t, c, spec, o)
				for range 3 {
					if m := w.call("bad", ""); m.Fault().Message != "broken" {
						t.Fatalf("the tool's own error: %s", m.Raw)
					}
				}
				// A busy machine may have let the pause pass before the next call.
				var m hubtest.Message
				called := 0
				await.Until(t, "a call is refused", func() bool {
					called = len(w.peerState(t).Called)
					m = w.call("bad", "")
					return m.Fault().Message != "broken"
				})
				code := map[hubtest.Era]int{hubtest.Legacy: -32000, hubtest.Modern: -31004}[era]
				if f := m.Fault(); f.Data.Kind != "breaker_open" || f.Code != code || !f.Data.Retryable || f.Data.RetryAfterMs <= 0 || !strings.Contains(f.Message, "broken") {
					t.Errorf("after three failures: %s", m.Raw)
				}
				if n := len(w.peerState(t).Called); n != called {
					t.Error("the call reached the server")
				}
				if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
					t.Errorf("another tool: %s", m.Raw)
				}
				await.Until(t, "the tool is tried again", func() bool { return w.call("bad", "").Fault().Message == "broken" })
			})
		}
	}
}

// Whoever asks is told which tool is left alone, and that its server is not.
func TestBreakerOfToolIsTold(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "bad", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32603,"message":"broken"}`}}, {Name: "echo"}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec, func(s *config.Server) {
		s.Breaker = config.Breaker{Failures: 2, Window: time.Minute, Cooldown: time.Hour}
	}), func(s *hubtest.Setup) {
		s.Config.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up:bad"}, Principals: []string{"eve"}, Action: "deny"}}
	})
	waitTools(t, h)
	c, eve := apiClient{t, h, h.Token}, tokenFor(t, h, "eve", "up")
	type status struct {
		Breaker   string
		OpenTools int
		OpenNames []string

		OpenErrors map[string]string
	}
	for _, want := range []status{{Breaker: "closed"}, {"closed", 1, []string{"bad"}, map[string]string{"bad": "the server answered error -32603: broken"}}} {
		got := hubtest.Decode[struct{ Server status }](c.ok("GET", "/api/v1/servers/up", "")).Server
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the server (-want +got):\n%s", diff)
		}
		breakers := map[string]string{}
		for _, one := range hubtest.Decode[struct {
			Tools []struct{ Tool, Breaker string }
		}](c.ok("GET", "/api/v1/tools?upstream=up", "")).Tools {
			breakers[one.Tool] = one.Breaker
		}
		if diff := cmp.Diff(map[string]string{"echo": "", "bad": map[int]string{1: "open"}[want.OpenTools]}, breakers); diff != "" {
			t.Errorf("the tools (-want +got):\n%s", diff)
		}
		for range 2 {
			c.tool("up__bad", `{}`)
		}
	}
	// Who cannot see the tool is not told of it.
	got := hubtest.Decode[struct{ Server status }](eve.ok("GET", "/api/v1/servers/up", "")).Server
	if diff := cmp.Diff(status{Breaker: "closed"}, got); diff != "" {
		t.Errorf("the server, for who does not see the tool (-want +got):\n%s", diff)
	}
}

// An upstream that loses its calls is given a rest and comes back.
func TestBreakerOfUpstream(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "crash", Behaviour: peer.Do(peer.Crash)}, {Name: "echo"}}}
	o := worldOptions{server: func(s *config.Server) {
		s.Breaker = config.Breaker{Failures: 2, Window: time.Minute, Cooldown: 300 * time.Millisecond}
	}}
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Modern, transport, true}, spec, o)
			// A busy machine may let the pause pass before the next call: then the
			// breaker has closed, and calls have to be lost anew.
			await.Until(t, "a call is refused after two losses", func() bool {
				for range 2 {
					if m := w.call("crash", ""); m.Fault().Data.Kind != "upstream_lost" {
						t.Fatalf("a call that is lost: %s", m.Raw)
					}
				}
				m := w.call("echo", "")
				if kind := m.Fault().Data.Kind; kind != "" && kind != "breaker_open" {
					t.Fatalf("after two losses: %s", m.Raw)
				}
				return m.Fault().Data.Kind == "breaker_open"
			})
			await.Until(t, "it is used again", func() bool { return w.call("echo", `{"a":1}`).Text() == `{"a":1}` })
			if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
				t.Errorf("after it came back: %s", m.Raw)
			}
		})
	}
}

// A call that may have taken effect is repeated only if that does no harm.
func TestRetryOnlyWhereSafe(t *testing.T) {
	hubtest.Parallel(t)
	crash := func(name, rest string) peer.Tool {
		tl := tool(name, `,"inputSchema":{"type":"object"}`+rest)
		tl.Behaviour = peer.Do(peer.Crash)
		return tl
	}
	spec := peer.Spec{Tools: []peer.Tool{crash("once", ""), crash("again", `,"annotations":{"idempotentHint":true}`),
		crash("reads", `,"annotations":{"readOnlyHint":true}`), {Name: "partial", Behaviour: peer.Do(peer.Partial)}}}
	o := worldOptions{server: func(s *config.Server) { s.Breaker.Failures = 1000 }}
	eachCell(t, spec, o, func(t *testing.T, w *world) {
		settled(t, w.Hub, "up")
		for name, times := range map[string]int{"once": 1, "again": 2, "reads": 2, "partial": 1} {
			if m := w.call(name, ""); m.Fault().Data.Kind != "upstream_lost" {
				t.Errorf("%s: %s", name, m.Raw)
			}
			n := 0
			for _, called := range w.peerState(t).Called {
				if called == name {
					n++
				}
			}
			if n != times {
				t.Errorf("%s was called %d times, want %d", name, n, times)
			}
		}
	})
}

func poolStats(t testing.TB, h *hubtest.Hub) upstream.Stats {
	t.Helper()
	_, body := h.Get("/api/v1/servers")
	var all struct{ Pool upstream.Stats }
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	return all.Pool
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{
		server: func(s *config.Server) { s.Idle = 100 * time.Millisecond },
		edits:  []hubtest.Edit{hubtest.Config(func(c *config.Config) { c.Pool.CleanupInterval = 20 * time.Millisecond })},
	}
	eachCell(t, recoverySpec(), o, func(t *testing.T, w *world) {
		others := 0 // connections of what else is there
		for range 2 {
			if m := w.call("count", ""); m.Text() != "1" && m.Text() != "2" {
				t.Fatalf("call: %s", m.Raw)
			}
			await.Until(t, "the connection is closed", func() bool {
				s := status(t, w.Hub, "up")
				return s.Connections == 0 && s.State == upstream.Disconnected
			})
			now := poolStats(t, w.Hub)
			created := now.Created
			others = now.Open
			if got := toolNames(t, w.client); w.merged && len(got) != 3 {
				t.Errorf("listed while closed: %v", got)
			}
			if w.merged && poolStats(t, w.Hub).Created != created {
				t.Error("a list made a connection")
			}
		}
		s := poolStats(t, w.Hub)
		if s.Created < 2 || s.Reaped < 2 || s.Open > others+1 {
			t.Errorf("statistics: %+v", s)
		}
		if w.http == nil {
			await.Until(t, "no process is left", func() bool {
				return !slices.ContainsFunc(w.peerState(t).Pids, proc.Alive) || len(status(t, w.Hub, "up").Pids) > 0
			})
		}
	})
}

// A connection that somebody is subscribed on is not idle.
func TestSubscribedConnectionIsKept(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{
		server: func(s *config.Server) { s.Idle = 50 * time.Millisecond },
	}
	idle := peer.Serve(t, peer.Spec{Era: peer.EraLegacy, Tools: echoTool()})
	o.edits = []hubtest.Edit{hubtest.HTTP("idle", idle.URL, o.server), hubtest.Config(func(c *config.Config) { c.Pool.CleanupInterval = 10 * time.Millisecond })}
	w := newWorld(t, cell{hubtest.Legacy, "sse", true}, recoverySpec(), o)
	x := w.subscribe(t, w.client)
	sessions := w.http.Sessions()
	if m := w.client.Tool("idle__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Fatalf("%s", m.Raw)
	}
	await.Until(t, "a connection that was used later is closed", func() bool { return status(t, w.Hub, "idle").Connections == 0 })
	w.touch(t, x)
	if got := w.http.Sessions(); !slices.Equal(got, sessions) {
		t.Errorf("the session changed from %v to %v", sessions, got)
	}
}

func TestPoolMaximum(t *testing.T) {
	hubtest.Parallel(t)
	edits := []hubtest.Edit{hubtest.Config(func(c *config.Config) { c.Pool.Max, c.AutoDiscover = 2, false })}
	for _, name := range []string{"a", "b", "c"} {
		edits = append(edits, hubtest.HTTP(name, peer.Serve(t, peer.Spec{Era: peer.EraModern, Tools: []peer.Tool{{Name: "echo"},
			{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}}}}).URL))
	}
	h := hubtest.New(t, edits...)
	on := func(up string) *hubtest.Client {
		return h.Client(t, hubtest.ClientOptions{Face: "/mcps/" + up + "/mcp"})
	}
	var busy []*hubtest.Exchange
	for _, up := range []string{"a", "b"} {
		busy = append(busy, on(up).Go("tools/call", hubtest.ToolParams("slow", "")))
		await.Until(t, up+" is busy", func() bool { return status(t, h, up).Running > 0 })
	}
	if m := on("c").Tool("echo", ""); m.Fault().Data.Kind != "limit" || !strings.Contains(m.Fault().Message, "in use") {
		t.Errorf("a third connection: %s", m.Raw)
	}
	busy[0].Close()
	await.Until(t, "the idle one makes room", func() bool { return on("c").Tool("echo", `{"a":1}`).Text() == `{"a":1}` })
	if s := poolStats(t, h); s.Open > 2 {
		t.Errorf("statistics: %+v", s)
	}
}

// With auto_discover off nothing is dialled until somebody asks.
func TestNothingIsDialledUntilAsked(t *testing.T) {
	hubtest.Parallel(t)
	for _, merged := range []bool{true, false} {
		c := cell{hubtest.Modern, "sse", merged}
		t.Run(c.String(), func(t *testing.T) {
			o := worldOptions{edits: []hubtest.Edit{hubtest.Config(func(c *config.Config) { c.AutoDiscover = false })}}
			w := newWorld(t, c, recoverySpec(), o)
			readyz(t, w.Hub)
			if s := status(t, w.Hub, "up"); s.State != upstream.Disconnected || s.Tools != 0 || len(w.http.Requests()) > 0 {
				t.Errorf("before anybody asked: %+v", s)
			}
			if got := toolNames(t, w.client); len(got) != 3 {
				t.Errorf("listed: %v", got)
			}
			if m := w.call("count", ""); m.Text() != "1" {
				t.Errorf("called: %s", m.Raw)
			}
		})
	}
}
