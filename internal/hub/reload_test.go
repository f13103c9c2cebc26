package hub_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

// setupOf returns the config that edits make, for a running hub.
func setupOf(h *hubtest.Hub, edits ...hubtest.Edit) *config.Config {
	s := hubtest.Default()
	s.Config.Listen, s.Config.Data = []string{"127.0.0.1:0"}, h.Data
	for _, edit := range edits {
		edit(s)
	}
	return &s.Config
}

func echoSpec(name string, tools ...string) peer.Spec {
	spec := peer.Spec{Name: name, Tools: []peer.Tool{{Name: "echo"}, {Name: "env", Behaviour: peer.Do(peer.Env)}, {Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 300 * time.Millisecond}}}}
	for _, t := range tools {
		spec.Tools = append(spec.Tools, peer.Tool{Name: t})
	}
	return spec
}

func pids(h *hubtest.Hub) map[string]string {
	all := map[string]string{}
	for _, s := range h.Upstreams() {
		all[s.Name] = fmt.Sprint(s.Pids)
	}
	return all
}

func offers(c *hubtest.Client, tool string) bool {
	return strings.Contains(string(c.Call("tools/list", "{}").Result), `"`+tool+`"`)
}

func described(changes []hub.Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.String())
	}
	return strings.Join(all, ", ")
}

func TestReloadChangesOnlyWhatChanged(t *testing.T) {
	hubtest.Parallel(t)
	keep, change, gone := hubtest.Stdio("keep", echoSpec("keep")), hubtest.Stdio("change", echoSpec("change")), hubtest.Stdio("gone", echoSpec("gone"))
	h := hubtest.New(t, keep, change, gone)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcp"})
	await.Until(t, "all are listed", func() bool {
		return offers(c, "keep__echo") && offers(c, "change__echo") && offers(c, "gone__echo")
	})
	before := pids(h)
	running := c.Go("tools/call", hubtest.ToolParams("change__slow", "{}")) // it may end on the process that goes
	await.Until(t, "the call runs", func() bool {
		for _, s := range h.Upstreams() {
			if s.Name == "change" {
				return s.Running == 1
			}
		}
		return false
	})
	next := setupOf(h, keep, hubtest.Stdio("change", echoSpec("change", "more")), hubtest.Stdio("fresh", echoSpec("fresh")))
	changes, err := h.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	if got := described(changes); got != "server change replaced, server fresh added, server gone removed" {
		t.Errorf("changes: %s", got)
	}
	if resp := running.Response(); resp.Error != nil {
		t.Errorf("the call that was running: %s", resp.Error)
	}
	await.Until(t, "the new lists are there", func() bool {
		return offers(c, "change__more") && offers(c, "fresh__echo") && !offers(c, "gone__echo")
	})
	after := pids(h)
	if after["keep"] != before["keep"] {
		t.Errorf("the unchanged upstream was started anew: %v, then %v", before, after)
	}
	if after["change"] == before["change"] {
		t.Errorf("the changed upstream runs as before: %v", after)
	}
	if changes, err = h.Reload(setupOf(h, keep, hubtest.Stdio("change", echoSpec("change", "more")), hubtest.Stdio("fresh", echoSpec("fresh")))); err != nil || len(changes) != 0 {
		t.Errorf("the same config again: %v, %v", changes, err)
	}
	if resp := c.Tool("change__more", `{"a":1}`); resp.Error != nil {
		t.Errorf("call after the change: %s", resp.Error)
	}
}

func TestReloadSeesSecrets(t *testing.T) {
	hubtest.Parallel(t)
	withToken := func(token string) hubtest.Edit {
		return hubtest.Stdio("up", echoSpec("up"), func(s *config.Server) {
			s.Env = maps.Clone(s.Env)
			s.Env["TOKEN"] = secret.New(token)
		})
	}
	h := hubtest.New(t, withToken("one"))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcps/up/mcp"})
	if got := c.Tool("env", "{}").Text(); !strings.Contains(got, "TOKEN=one") && !strings.Contains(got, `"TOKEN":"one"`) {
		t.Fatalf("environment: %s", got)
	}
	if changes, err := h.Reload(setupOf(h, withToken("one"))); err != nil || len(changes) != 0 {
		t.Errorf("the same secret: %v, %v", changes, err)
	}
	if changes, err := h.Reload(setupOf(h, withToken("two"))); err != nil || described(changes) != "server up replaced" {
		t.Fatalf("another secret: %v, %v", changes, err)
	}
	if got := c.Tool("env", "{}").Text(); !strings.Contains(got, "two") {
		t.Errorf("environment after the change: %s", got)
	}
}

func TestReloadRefusesWhole(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", echoSpec("up")))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcp"})
	await.Until(t, "it is listed", func() bool { return offers(c, "up__echo") })
	before := pids(h)
	next := setupOf(h, hubtest.Stdio("other", echoSpec("other")))
	next.Listen, next.Data = []string{"127.0.0.1:1"}, h.Data+"2"
	_, err := h.Reload(next)
	if err == nil || !strings.Contains(err.Error(), "listen, data cannot change while the hub runs; nothing was changed") {
		t.Fatalf("refusal: %v", err)
	}
	if after := pids(h); !maps.Equal(before, after) || !offers(c, "up__echo") {
		t.Errorf("a refused change had an effect: %v, then %v", before, after)
	}
}

func TestReloadLimits(t *testing.T) {
	hubtest.Parallel(t)
	up := hubtest.Stdio("up", echoSpec("up"))
	h := hubtest.New(t, up)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/up/mcp"})
	long := `{"text":"` + strings.Repeat("x", 2000) + `"}`
	if resp := c.Tool("echo", long); resp.Error != nil {
		t.Fatalf("before: %s", resp.Error)
	}
	changes, err := h.Reload(setupOf(h, up, hubtest.Config(func(c *config.Config) {
		c.Limits.ArgumentBytes, c.Limits.Sessions, c.Pool.Max = 1000, 1, 5
	})))
	if err != nil || described(changes) != "limits changed, pool changed" {
		t.Fatalf("changes %v, %v", changes, err)
	}
	if resp := c.Tool("echo", long); !strings.Contains(string(resp.Error), "over the limit of 1000") {
		t.Errorf("after: %s %s", resp.Result, resp.Error)
	}
}

func TestReloadTellsClients(t *testing.T) {
	hubtest.Parallel(t)
	up := hubtest.Stdio("up", echoSpec("up"))
	h := hubtest.New(t, up)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcp"})
	await.Until(t, "it is listed", func() bool { return offers(c, "up__echo") })
	listen := c.Listen(`{"toolsListChanged":true}`)
	defer listen.Close()
	if _, err := h.Reload(setupOf(h, up, hubtest.Stdio("two", echoSpec("two")))); err != nil {
		t.Fatal(err)
	}
	listen.Await("notifications/tools/list_changed")
	await.Until(t, "the new one is listed", func() bool { return offers(c, "two__echo") })
	if _, err := h.Reload(setupOf(h, up)); err != nil {
		t.Fatal(err)
	}
	listen.Await("notifications/tools/list_changed")
	if offers(c, "two__echo") {
		t.Error("what was removed is still listed")
	}
}

// A change of one upstream costs the calls of another nothing, however often
// it comes.
func TestReloadStorm(t *testing.T) {
	hubtest.Parallel(t)
	keep := hubtest.Stdio("keep", echoSpec("keep"))
	h := hubtest.New(t, keep)
	clients := soak(4, 16)
	var wg sync.WaitGroup
	var stop atomic.Bool
	var calls, failures atomic.Int64
	for i := range clients {
		era := []hubtest.Era{hubtest.Legacy, hubtest.Modern}[i%2]
		face, name := "/mcp", "keep__echo"
		if i%4 > 1 {
			face, name = "/mcps/keep/mcp", "echo"
		}
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face})
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				resp := c.Tool(name, fmt.Sprintf(`{"n":%d}`, n))
				calls.Add(1)
				if resp.Error != nil || !strings.Contains(resp.Text(), fmt.Sprint(n)) {
					failures.Add(1)
					t.Errorf("call %d: %s %s", n, resp.Result, resp.Error)
					return
				}
			}
		})
	}
	await.Until(t, "clients call", func() bool { return calls.Load() > int64(clients) })
	before := pids(h)["keep"]
	for i := range soak(20, 1000) {
		edits := []hubtest.Edit{keep}
		if i%3 != 0 {
			// A third of the changes removes it, the others make it another.
			edits = append(edits, hubtest.Stdio("flux", echoSpec("flux", fmt.Sprintf("tool%d", i))))
		}
		edits = append(edits, hubtest.Config(func(c *config.Config) { c.Limits.Sessions = 1000 + i }))
		if _, err := h.Reload(setupOf(h, edits...)); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if after := pids(h)["keep"]; after != before {
		t.Errorf("the unchanged upstream ran as %s, then as %s", before, after)
	}
	t.Logf("%d calls, %d failures", calls.Load(), failures.Load())
}

// Who listens hears of the upstream that takes another's place, without asking
// again: of its lists, and of the resources subscribed to before.
func TestReloadKeepsListeners(t *testing.T) {
	hubtest.Parallel(t)
	spec := func(tools ...string) peer.Spec {
		s := echoSpec("up", tools...)
		s.Tools = append(s.Tools, peer.Tool{Name: "touch", Behaviour: peer.Behaviour{Kind: peer.Touch, URI: "note://one"}})
		s.Resources = []peer.Resource{{URI: "note://one", Text: "one"}}
		return s
	}
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		for _, face := range []string{"/mcp", "/mcps/up/mcp"} {
			t.Run(string(era)+face, func(t *testing.T) {
				one, two := spec(), spec("more")
				one.Era, two.Era = era, era
				h := hubtest.New(t, hubtest.Stdio("up", one))
				c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: face})
				name := map[string]string{"/mcp": "up__"}[face]
				await.Until(t, "it is listed", func() bool { return offers(c, name+"touch") })
				listen := c.Listen(`{"toolsListChanged":true,"resourceSubscriptions":["note://one"]}`)
				defer listen.Close()
				if changes, err := h.Reload(setupOf(h, hubtest.Stdio("up", two))); err != nil || described(changes) != "server up replaced" {
					t.Fatalf("%v, %v", changes, err)
				}
				for !offers(c, name+"more") { // the start may be told of first
					listen.Await("notifications/tools/list_changed")
				}
				told := make(chan struct{})
				go func() {
					defer close(told)
					listen.Await("notifications/resources/updated")
				}()
				// The new one is subscribed to behind our back.
				await.Until(t, "the update is told", func() bool {
					if resp := c.Tool(name+"touch", "{}"); resp.Error != nil {
						t.Errorf("touch: %s", resp.Error)
					}
					select {
					case <-told:
						return true
					default:
						return false
					}
				})
			})
		}
	}
}

// Calls on an upstream that is replaced while they come end on one or the
// other.
func TestReloadLosesNoCallOfTheReplaced(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", echoSpec("up")))
	var wg sync.WaitGroup
	var stop atomic.Bool
	var calls atomic.Int64
	for range soak(4, 16) {
		c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/up/mcp"})
		wg.Go(func() {
			for !stop.Load() {
				if resp := c.Tool("echo", `{"n":1}`); resp.Error != nil {
					t.Errorf("a call was lost: %s", resp.Error)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range soak(8, 200) {
		before := calls.Load()
		await.Until(t, "calls pass", func() bool { return calls.Load() > before+4 || t.Failed() })
		if _, err := h.Reload(setupOf(h, hubtest.Stdio("up", echoSpec("up", fmt.Sprintf("tool%d", i))))); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}
