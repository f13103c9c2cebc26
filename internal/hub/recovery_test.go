package hub_test

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/upstream"
)

// status is that of one upstream as the API tells it.
func status(t testing.TB, h *hubtest.Hub, name string) upstream.Status {
	t.Helper()
	code, body := h.Get("/api/v1/servers")
	if code != 200 {
		t.Fatalf("GET /api/v1/servers: %d %s", code, body)
	}
	var all struct{ Servers []upstream.Status }
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatalf("GET /api/v1/servers: %v in %s", err, body)
	}
	for _, s := range all.Servers {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("GET /api/v1/servers: no %s in %s", name, body)
	return upstream.Status{}
}

// crash ends the upstream without a word: its process by KILL, or its listener
// and connections, which are then taken anew.
func (w *world) crash(t testing.TB) {
	t.Helper()
	if w.http != nil {
		w.http.Restart()
		return
	}
	pids := w.peerState(t).Pids
	for _, pid := range pids {
		if proc.Alive(pid) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
	}
	// Until then it may hold its input open and take what nobody will read.
	await.Until(t, "the killed process is reaped", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
}

func recoverySpec() peer.Spec {
	return peer.Spec{
		Tools: []peer.Tool{{Name: "count", Behaviour: peer.Do(peer.Count)}, {Name: "grow", Behaviour: peer.Do(peer.Notify)},
			{Name: "touch", Behaviour: peer.Do(peer.Touch)}},
		Resources: []peer.Resource{{URI: "mem://a", Text: "a"}},
	}
}

func TestNextCallAfterCrashSucceeds(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, recoverySpec(), worldOptions{}, func(t *testing.T, w *world) {
		for round := range 3 {
			if m := w.call("count", ""); m.Text() != "1" {
				t.Fatalf("round %d: first call: %s", round, m.Raw)
			}
			if m := w.call("count", ""); m.Text() != "2" {
				t.Fatalf("round %d: second call: %s", round, m.Raw)
			}
			w.crash(t)
		}
		if m := w.call("count", ""); m.Text() != "1" {
			t.Fatalf("after all: %s", m.Raw)
		}
	})
}

const listenAll = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["mem://a"]}`

// subscribe opens the client's stream and subscribes to mem://a.
func (w *world) subscribe(t testing.TB, c *hubtest.Client) *hubtest.Exchange {
	t.Helper()
	x := c.Listen(listenAll)
	if w.era == hubtest.Legacy {
		if m := c.Call("resources/subscribe", `{"uri":"mem://a"}`); m.Error != nil {
			t.Fatalf("subscribe: %s", m.Error)
		}
	}
	return x
}

// touch changes mem://a upstream and expects the subscriber to hear of it.
func (w *world) touch(t testing.TB, x *hubtest.Exchange) {
	t.Helper()
	if m := w.call("touch", `{"uri":"mem://a"}`); !strings.HasPrefix(m.Text(), "version") {
		t.Fatalf("touch: %s", m.Raw)
	}
	m := x.Await("notifications/resources/updated")
	if uri := hubtest.Decode[struct{ URI string }](m.Params).URI; uri != "mem://a" {
		t.Fatalf("updated: %s", m.Raw)
	}
}

// listening waits until the restarted upstream is subscribed to again, as far
// as that can be seen from outside.
func (w *world) listening(t testing.TB) {
	t.Helper()
	await.Until(t, "the upstream is connected and listed", func() bool {
		s := status(t, w.Hub, "up")
		return s.State == upstream.Connected && s.Tools > 0 && !s.Stale
	})
	if w.http != nil {
		await.Until(t, "the upstream has its stream", func() bool { return w.http.OpenStreams() > 0 })
	}
}

func TestSubscriptionsSurviveCrash(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, recoverySpec(), worldOptions{}, func(t *testing.T, w *world) {
		x := w.subscribe(t, w.client)
		w.listening(t)
		w.touch(t, x)
		for range 2 {
			starts := w.peerState(t).Starts
			w.crash(t)
			await.Until(t, "the upstream is started again", func() bool { return w.peerState(t).Starts > starts })
			w.listening(t)
			await.Until(t, "an update reaches the subscriber", func() bool {
				// Nobody can tell from outside when a legacy server is
				// subscribed to again, so touch until it is heard.
				if m := w.call("touch", `{"uri":"mem://a"}`); !strings.HasPrefix(m.Text(), "version") {
					t.Fatalf("touch: %s", m.Raw)
				}
				return w.heard(x, "notifications/resources/updated")
			})
		}
	})
}

// heard reports whether the next thing on the stream is of that method; it
// provokes a list change first, so that something comes in any case.
func (w *world) heard(x *hubtest.Exchange, method string) bool {
	w.call("grow", "")
	for {
		m := x.Next()
		if m.Method == method {
			return true
		}
		if m.Method == "notifications/tools/list_changed" {
			return false
		}
	}
}

// What changed while the upstream was away is told when it is back.
func TestChangesWhileAwayAreTold(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, recoverySpec(), worldOptions{}, func(t *testing.T, w *world) {
		if m := w.call("grow", ""); m.Text() != "extra_1" {
			t.Fatalf("grow: %s", m.Raw)
		}
		tools := func() string { return string(w.client.Call("tools/list", "{}").Result) }
		await.Until(t, "the new tool is listed", func() bool { return strings.Contains(tools(), "extra_1") })
		x := w.client.Listen(listenAll)
		w.crash(t) // its lists are as they were at first
		x.Await("notifications/tools/list_changed")
		await.Until(t, "the lost tool is gone", func() bool { return !strings.Contains(tools(), "extra_1") })
	})
}

// An upstream that cannot be reached is said to be so, and its lists are kept.
func TestStatusOfUpstreamThatIsAway(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			w := newWorld(t, cell{era, "sse", true}, recoverySpec(), worldOptions{})
			w.listening(t)
			w.http.Kill()
			await.Until(t, "the state says that it is away", func() bool {
				s := status(t, w.Hub, "up")
				return s.State != upstream.Connected && s.Error != "" && s.Stale
			})
			if got := string(w.client.Call("tools/list", "{}").Result); !strings.Contains(got, "up__count") || !strings.Contains(got, `"stoa/stale":["up"]`) {
				t.Errorf("the list while away: %s", got)
			}
			if m := w.call("count", ""); m.Fault().Data.Kind != "unreachable" {
				t.Errorf("a call while away: %s", m.Raw)
			}
			w.http.Restart()
			await.Until(t, "the state says that it is back", func() bool {
				s := status(t, w.Hub, "up")
				return s.State == upstream.Connected && !s.Stale
			})
		})
	}
}
