package hub_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// thing is something durable that two hubs on one store have in common. A table
// is made of all of them: each is made at one hub, seen and changed at the other,
// removed, and looked for after both were started again.
type thing struct {
	name  string
	keeps []string // the logs that it is in
	// waits says why it has no cell at all for now. When it has, delete this.
	waits string
	// without says why it has no cell of that name.
	without map[string]string

	make   func(c apiClient, key string)
	look   func(c apiClient, key string) string // what it is now; "" if it is not there
	change func(c apiClient, key string)
	remove func(c apiClient, key string)
}

// The cells of a thing, in the order in which they are looked at.
const (
	cellSeen    = "seen by the other hub"
	cellChanged = "changed there"
	cellDeleted = "deleted here"
	cellRestart = "after a restart of either"
)

// ofNoThing are the logs of what is no thing of its own, and why.
var ofNoThing = map[string]string{
	"bucket_planlease": "it says which hub drives a run now",
	"bucket_tasklease": "it says which hub runs a task now",
	"bucket_chatlease": "it says which hub answers a conversation now",
	"bucket_authlease": "it says which hub removes what an earlier token has left",
	"bucket_approvals": "it says what waits at which hub, and who is there to be asked",
	"bucket_hubs":      "it says which hubs there are now",
	"bucket_version":   "it says which releases can read the store",
	"bucket_learned":   "it grows by itself: TestHubsShareFigures",
	"bucket_vault":     "it is made once: TestHubsSignAlike",
}

// pair are two hubs on one server. Each can be started again.
type pair struct {
	t     *testing.T
	start [2]func() *hubtest.Hub
	hubs  [2]apiClient
}

func newPair(t *testing.T, url string) *pair {
	p := &pair{t: t}
	up := peer.Spec{Tools: []peer.Tool{
		{Name: "echo"},
		{Name: "elicit", Behaviour: peer.Do(peer.Elicit)},
		{Name: "write", RawDefinition: `{"name":"write","inputSchema":{"type":"object"}}`},
		{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}},
	}}
	for i := range p.hubs {
		data := t.TempDir() + "/data"
		p.start[i] = func() *hubtest.Hub {
			return hubtest.New(t, hubtest.Stdio("up", up, hubtest.Within("slow", time.Hour)), hubtest.Modules(), hubtest.Data(data), hubtest.Config(func(c *config.Config) {
				c.Store.URL, c.Store.Key, c.SSE = url, secret.New(clusterKey), true
				c.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up:write"}, Action: "ask"}}
			}))
		}
		p.open(i)
	}
	return p
}

func (p *pair) open(i int) {
	h := p.start[i]()
	waitTools(p.t, h)
	p.hubs[i] = apiClient{p.t, h, h.Token}
}

// at is the client of a hub in a test.
func (p *pair) at(t *testing.T, i int) apiClient {
	c := p.hubs[i]
	c.t = t
	return c
}

// Everything durable is seen by the other hub, changed there, gone when it was
// deleted, and as it was after a restart of either.
func TestEverythingDurableIsShared(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	all := things(server, peer.Serve(t, peer.Spec{Tools: echoTool()}).URL)
	p := newPair(t, server.URL)
	made := map[string]bool{} // what came to be, by thing and key
	each := func(cell string, has func(x *thing) bool, f func(t *testing.T, x *thing)) {
		t.Run(cell, func(t *testing.T) {
			for _, x := range all {
				t.Run(x.name, func(t *testing.T) {
					why := x.without[cell]
					switch {
					case x.waits != "":
						t.Skip("it is not shared yet: " + x.waits)
					case !has(x) && why == "":
						t.Fatal("it has no such cell, and no reason is given")
					case !has(x):
						t.Skip(why)
					case why != "":
						t.Fatal("it has the cell, and a reason why not: " + why)
					}
					f(t, x)
				})
			}
		})
	}
	always := func(*thing) bool { return true }
	each(cellSeen, always, func(t *testing.T, x *thing) {
		keys := []string{"kept"}
		if x.remove != nil {
			keys = append(keys, "gone")
		}
		for _, key := range keys {
			x.make(p.at(t, 0), key)
			want := x.look(p.at(t, 0), key)
			if want == "" {
				t.Fatal("it was not made")
			}
			made[x.name+" "+key] = true
			p.becomes(t, 1, x, key, want)
		}
	})
	each(cellChanged, func(x *thing) bool { return x.change != nil }, func(t *testing.T, x *thing) {
		before := x.look(p.at(t, 1), "kept")
		x.change(p.at(t, 1), "kept")
		now := x.look(p.at(t, 1), "kept")
		if now == before || now == "" {
			t.Fatalf("it was %s and is %q", before, now)
		}
		p.becomes(t, 0, x, "kept", now)
	})
	each(cellDeleted, func(x *thing) bool { return x.remove != nil }, func(t *testing.T, x *thing) {
		x.remove(p.at(t, 0), "gone")
		if now := x.look(p.at(t, 0), "gone"); now != "" {
			t.Fatalf("it is %s still", now)
		}
		p.becomes(t, 1, x, "gone", "")
	})
	was := map[string]string{}
	for _, x := range all {
		if made[x.name+" kept"] {
			was[x.name] = x.look(p.at(t, 0), "kept")
		}
	}
	for i := range p.hubs {
		p.hubs[i].hub.Stop()
		p.open(i)
	}
	each(cellRestart, always, func(t *testing.T, x *thing) {
		if !made[x.name+" kept"] {
			t.Fatal("it was never made")
		}
		for i := range p.hubs {
			if now := x.look(p.at(t, i), "kept"); now != was[x.name] {
				t.Errorf("hub %d: it was %s and is %q", i, was[x.name], now)
			}
			if x.remove == nil {
				continue
			}
			if now := x.look(p.at(t, i), "gone"); now != "" {
				t.Errorf("hub %d: it was deleted and is %s", i, now)
			}
		}
	})
	t.Run("every log has a row", func(t *testing.T) { covered(t, all, server.Logs(t)) })
}

// becomes waits until a thing is at a hub as it is at the other.
func (p *pair) becomes(t *testing.T, i int, x *thing, key, want string) {
	t.Helper()
	await.NoError(t, "the other hub knows it", func() error {
		if now := x.look(p.at(t, i), key); now != want {
			return fmt.Errorf("%s is %q there, and %q here", key, now, want)
		}
		return nil
	})
}

// covered wants each log that the store holds to belong to a thing, or to have a
// reason why not, and each thing's logs to be there.
func covered(t *testing.T, all []*thing, logs []string) {
	rows := maps.Clone(ofNoThing)
	for _, x := range all {
		if len(x.keeps) == 0 && x.waits == "" {
			t.Errorf("%s says nothing of where it is kept", x.name)
		}
		for _, log := range x.keeps {
			rows[log] = x.name
		}
	}
	for _, log := range logs {
		if rows[log] == "" {
			t.Errorf("the log %s belongs to no row: what is in it need not be shared", log)
		}
		delete(rows, log)
	}
	for _, log := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("the log %s of %s is not there", log, rows[log])
	}
}

// missingIs is "" for what is not there, and what read makes of the answer else.
func missingIs(c apiClient, path string, read func(body []byte) string) string {
	c.t.Helper()
	a := c.do(http.MethodGet, path, "")
	switch a.Status {
	case http.StatusNotFound:
		return ""
	case http.StatusOK:
		return read(a.Body)
	}
	c.t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
	return ""
}

// whole is what is read of a short answer.
func whole(body []byte) string { return strings.TrimSpace(string(body)) }
