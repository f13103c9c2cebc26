package hub_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func TestListChangesReachClients(t *testing.T) {
	hubtest.Parallel(t)
	eachCell(t, recoverySpec(), worldOptions{}, func(t *testing.T, w *world) {
		others := []*hubtest.Client{w.client}
		for range 2 {
			others = append(others, w.Hub.Client(t, hubtest.ClientOptions{Era: w.era, Face: w.face("up")}))
		}
		var streams []*hubtest.Exchange
		for _, c := range others {
			streams = append(streams, c.Listen(`{"toolsListChanged":true}`))
		}
		for _, want := range []string{"extra_1", "extra_2"} {
			if m := w.call("grow", ""); m.Text() != want {
				t.Fatalf("grow: %s", m.Raw)
			}
			for i, x := range streams {
				// What the hub learned while it started may be told first.
				await.Until(t, "the change is told and listed", func() bool {
					m := x.Await("notifications/tools/list_changed")
					if w.era == hubtest.Modern && !strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":`+x.ID) {
						t.Fatalf("the notification is not tagged: %s", m.Raw)
					}
					return strings.Contains(string(others[i].Call("tools/list", "{}").Result), `"`+w.name("up", want)+`"`)
				})
			}
		}
	})
}

// The filter of a listen is kept to: who did not ask is not told.
func TestListenFilterIsKept(t *testing.T) {
	hubtest.Parallel(t)
	w := newWorld(t, cell{hubtest.Modern, "sse", true}, recoverySpec(), worldOptions{})
	only := w.client.Listen(`{"resourceSubscriptions":["mem://a"]}`)
	all := w.client.Listen(`{"toolsListChanged":true}`)
	w.listening(t)
	w.call("grow", "")
	all.Await("notifications/tools/list_changed")
	w.call("touch", `{"uri":"mem://a"}`)
	if m := only.Next(); m.Method != "notifications/resources/updated" {
		t.Errorf("got %s", m.Raw)
	}
	x := w.client.Go("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["nobody://x"]}}`)
	if m := x.Next(); m.Method != "notifications/subscriptions/acknowledged" || strings.Contains(string(m.Params), "nobody") {
		t.Errorf("a resource that nobody has: %s", m.Raw)
	}
}

func TestUpdatesReachSubscribersOnly(t *testing.T) {
	hubtest.Parallel(t)
	spec := recoverySpec()
	eachCell(t, spec, worldOptions{}, func(t *testing.T, w *world) {
		a, b := w.client, w.Hub.Client(t, hubtest.ClientOptions{Era: w.era, Face: w.face("up")})
		ax, bx := w.subscribe(t, a), w.subscribe(t, b)
		w.listening(t)
		w.touch(t, ax)
		bx.Await("notifications/resources/updated")
		if w.era == hubtest.Modern {
			ax.Close() // that is how it unsubscribes
		} else if m := a.Call("resources/unsubscribe", `{"uri":"mem://a"}`); m.Error != nil {
			t.Fatalf("unsubscribe: %s", m.Error)
		}
		w.touch(t, bx)
		if w.era == hubtest.Legacy && w.heard(ax, "notifications/resources/updated") {
			t.Error("one that has unsubscribed is told")
		}
	})
}

// However many clients subscribe, the upstream is asked once, and told when
// the last one has left, in whichever way.
func TestSubscriptionsAreCounted(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		for _, merged := range []bool{true, false} {
			c := cell{hubtest.Legacy, transport, merged}
			t.Run(c.String(), func(t *testing.T) {
				spec := recoverySpec()
				spec.RecordPath = t.TempDir() + "/record"
				w := newWorld(t, c, spec, worldOptions{})
				count := func(method string) int {
					return strings.Count(w.received(t, spec.RecordPath), `"method":"resources/`+method+`"`)
				}
				var clients []*hubtest.Client
				for range 3 {
					clients = append(clients, w.Hub.Client(t, hubtest.ClientOptions{Era: c.era, Face: c.face("up")}))
				}
				for _, client := range clients {
					for range 2 { // twice is once
						if m := client.Call("resources/subscribe", `{"uri":"mem://a"}`); m.Error != nil {
							t.Fatal(string(m.Error))
						}
					}
				}
				clients[0].Call("resources/unsubscribe", `{"uri":"mem://a"}`)
				clients[0].Call("resources/unsubscribe", `{"uri":"mem://a"}`)
				clients[1].End()
				if n, m := count("subscribe"), count("unsubscribe"); n != 1 || m != 0 {
					t.Errorf("%d subscriptions and %d ends of them while one client is left", n, m)
				}
				clients[2].End()
				await.Until(t, "the upstream is told that nobody is left", func() bool { return count("unsubscribe") == 1 })
				if m := w.client.Call("resources/subscribe", `{"uri":"nobody://x"}`); m.Fault().Code != -32002 {
					t.Errorf("a resource that nobody has: %s", m.Raw)
				}
			})
		}
	}
}

// The connection to an agent is everybody's. Who has none with the hub cannot end
// what others have subscribed to by it, nor name their tasks.
func TestSubscriptionsAreNotEndedByOthers(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			spec := recoverySpec()
			spec.RecordPath = t.TempDir() + "/record"
			w := newWorld(t, cell{hubtest.Legacy, transport, false}, spec, worldOptions{})
			ax := w.subscribe(t, w.client)
			w.listening(t)
			w.touch(t, ax)
			bob := w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: w.face("up"), Sessionless: true, Token: tokenFor(t, w.Hub, "bob", "*").token})
			for _, ask := range [][2]string{
				{"resources/subscribe", `{"uri":"mem://a"}`}, {"resources/unsubscribe", `{"uri":"mem://a"}`},
				{"tasks/list", `{}`}, {"tasks/get", `{"taskId":"1"}`}, {"tasks/result", `{"taskId":"1"}`}, {"tasks/cancel", `{"taskId":"1"}`},
			} {
				if f := bob.Call(ask[0], ask[1]).Fault(); f.Code != -32601 {
					t.Errorf("%s: %+v", ask[0], f)
				}
			}
			w.touch(t, ax)
			if sent := w.received(t, spec.RecordPath); strings.Contains(sent, `"tasks/`) || strings.Contains(sent, `"resources/unsubscribe"`) {
				t.Errorf("the server was sent %s", sent)
			}
		})
	}
}

// What a rule hides from a client is not there for it, and neither is that it has
// changed.
func TestHiddenChangesOfAnAgentAreNotTold(t *testing.T) {
	hubtest.Parallel(t)
	rules := hubtest.Config(func(c *config.Config) {
		c.Policy.Rules.Rules = []config.Rule{{Tools: []string{"up:extra_*"}, Principals: []string{"bob"}, Action: "deny"}}
	})
	for _, merged := range []bool{true, false} {
		c := cell{hubtest.Legacy, "stdio", merged}
		t.Run(c.String(), func(t *testing.T) {
			w := newWorld(t, c, recoverySpec(), worldOptions{edits: []hubtest.Edit{rules}})
			w.listening(t)
			alice := w.client.Listen("")
			grow := func(tools int) {
				t.Helper()
				w.call("grow", "")
				await.Until(t, "the change is told and known", func() bool {
					alice.Await("notifications/tools/list_changed")
					return status(t, w.Hub, "up").Tools == tools
				})
			}
			grow(4) // what was learned at the start is told by now
			bob := w.Hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: w.face("up"), Token: tokenFor(t, w.Hub, "bob", "*").token})
			x := w.subscribe(t, bob)
			grow(5)
			w.call("touch", `{"uri":"mem://a"}`)
			if m := x.Next(); m.Method != "notifications/resources/updated" {
				t.Errorf("bob was told %s", m.Raw)
			}
		})
	}
}

// received is all that the upstream was sent.
func (w *world) received(t testing.TB, record string) string {
	t.Helper()
	var all strings.Builder
	if w.http != nil {
		for _, r := range w.http.Requests() {
			all.Write(r.Body)
			all.WriteByte('\n')
		}
		return all.String()
	}
	b, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPipeClientHearsChanges(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "sse"} {
			t.Run(string(era)+"/"+transport, func(t *testing.T) {
				w := newWorld(t, cell{era, transport, true}, recoverySpec(), worldOptions{})
				w.listening(t)
				p := w.Pipe(t)
				if era == hubtest.Legacy {
					p.Initialize("{}")
					p.Send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"mem://a"}}`)
					if m := p.Await(""); m.Error != nil {
						t.Fatalf("subscribe: %s", m.Raw)
					}
				} else {
					p.Send(w.client.Request(`"L"`, "subscriptions/listen", `{"notifications":`+listenAll+`}`).Body)
					p.Await("notifications/subscriptions/acknowledged")
				}
				w.call("touch", `{"uri":"mem://a"}`)
				p.Await("notifications/resources/updated")
				w.call("grow", "")
				m := p.Await("notifications/tools/list_changed")
				if tagged := strings.Contains(string(m.Params), `subscriptionId":"L"`); tagged != (era == hubtest.Modern) {
					t.Errorf("got %s", m.Raw)
				}
			})
		}
	}
}

// A resource that two upstreams have is known by a prefixed name, and updates
// of it come under the name that the client used.
func TestUpdatesOfCollidingResources(t *testing.T) {
	hubtest.Parallel(t)
	one, two := peer.Serve(t, recoverySpec()), peer.Serve(t, recoverySpec())
	h := hubtest.New(t, hubtest.HTTP("one", one.URL), hubtest.HTTP("two", two.URL))
	for _, up := range []string{"one", "two"} {
		await.Until(t, up+" is listed", func() bool { return status(t, h, up).Resources > 0 })
	}
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	x := c.Listen("")
	list := string(c.Call("resources/list", "{}").Result)
	if !strings.Contains(list, `"one+mem://a"`) || !strings.Contains(list, `"two+mem://a"`) {
		t.Fatalf("the list: %s", list)
	}
	if m := c.Call("resources/subscribe", `{"uri":"two+mem://a"}`); m.Error != nil {
		t.Fatalf("subscribe: %s", m.Raw)
	}
	c.Tool("one__touch", `{"uri":"mem://a"}`)
	c.Tool("two__touch", `{"uri":"mem://a"}`)
	if m := x.Await("notifications/resources/updated"); hubtest.Decode[struct{ URI string }](m.Params).URI != "two+mem://a" {
		t.Errorf("got %s", m.Raw)
	}
	if m := c.Call("resources/read", `{"uri":"two+mem://a"}`); !strings.Contains(string(m.Result), "a (version 1)") {
		t.Errorf("read: %s", m.Raw)
	}
}
