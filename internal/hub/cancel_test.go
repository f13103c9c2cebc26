package hub_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

func slowSpec() peer.Spec {
	return peer.Spec{Tools: []peer.Tool{
		{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}},
		{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 16, For: 75 * time.Millisecond}},
		{Name: "endless", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 1000, For: 100 * time.Millisecond}},
		{Name: "echo"},
	}}
}

// called waits until the upstream is at work on a tool.
func (w *world) called(t testing.TB, tool string) {
	t.Helper()
	await.Until(t, tool+" is called", func() bool { return slices.Contains(w.peerState(t).Called, tool) })
}

// cancelled waits until the upstream knows that nobody waits for a tool.
func (w *world) cancelled(t testing.TB, tool string) {
	t.Helper()
	await.Until(t, tool+" is cancelled", func() bool { return slices.Contains(w.peerState(t).Cancelled, tool) })
}

func TestClientThatLeavesCancelsItsCall(t *testing.T) {
	hubtest.Parallel(t)
	for _, version := range []string{"", "2025-06-18"} {
		t.Run("version "+version, func(t *testing.T) {
			oneHub(t, slowSpec(), worldOptions{client: hubtest.ClientOptions{Version: version}}, func(t *testing.T, w *world) {
				if version != "" && w.era == hubtest.Modern {
					t.Skip("one version of the modern era is enough")
				}
				x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), ""))
				w.called(t, "slow")
				x.Close()
				w.cancelled(t, "slow")
				if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
					t.Errorf("afterwards: %s", m.Raw)
				}
			})
		})
	}
}

func TestLegacyCancellation(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, slowSpec(), worldOptions{}, func(t *testing.T, w *world) {
		if w.era == hubtest.Modern {
			t.Skip("the modern era has no cancellation over HTTP but leaving")
		}
		x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "slow"), ""))
		w.called(t, "slow")
		w.client.Notify("notifications/cancelled", `{"requestId":`+x.ID+`,"reason":"enough"}`)
		w.cancelled(t, "slow")
		for { // whatever comes, it ends
			m, err := x.Read()
			if err == io.EOF {
				break
			}
			if err != nil || m.Result != nil {
				t.Fatalf("after the cancellation: %s, %v", m.Raw, err)
			}
		}
	})
}

func TestPipeCancellation(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "sse"} {
			t.Run(string(era)+"/"+transport, func(t *testing.T) {
				w := newWorld(t, cell{era, transport, true}, slowSpec(), worldOptions{})
				p := w.Pipe(t)
				if era == hubtest.Legacy {
					p.Initialize("{}")
				}
				p.Send(w.client.Request("7", "tools/call", hubtest.ToolParams("up__slow", "")).Body)
				w.called(t, "slow")
				p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
				w.cancelled(t, "slow")
				p.Send(w.client.Request("8", "tools/call", hubtest.ToolParams("up__echo", `{"a":1}`)).Body)
				if m := p.Await(""); string(m.ID) != "8" || m.Text() != `{"a":1}` {
					t.Errorf("a cancelled request was answered: %s", m.Raw)
				}
			})
		}
	}
}

func TestTimeout(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, slowSpec(), worldOptions{server: hubtest.Within("slow", 400*time.Millisecond)}, func(t *testing.T, w *world) {
		code := -32003
		if w.era == hubtest.Modern {
			code = -31003
		}
		// On a busy machine the time may be over before the upstream has the call.
		await.Until(t, "a call that takes too long reaches the upstream", func() bool {
			m := w.call("slow", "")
			if f := m.Fault(); f.Data.Kind != "timeout" || f.Code != code {
				t.Fatalf("a call that takes too long: %s", m.Raw)
			}
			return slices.Contains(w.peerState(t).Called, "slow")
		})
		w.cancelled(t, "slow")
	})
}

// Progress gives a call more time; the maximum stands. A machine may be too busy
// for progress to come in time, but not each time: such calls are made again.
func TestProgressExtendsTimeout(t *testing.T) {
	hubtest.Parallel(t)
	within := func(tool string, most time.Duration) worldOptions {
		bound := hubtest.Within(tool, 600*time.Millisecond)
		return worldOptions{server: func(s *config.Server) { s.MaxTimeout = most; bound(s) }}
	}
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "sse"} {
			t.Run(string(era)+"/"+transport, func(t *testing.T) {
				w := newWorld(t, cell{era, transport, true}, slowSpec(), within("steps", time.Minute))
				await.NoError(t, "a call of 1.2 s with progress is answered", func() error {
					if m := w.call("steps", "", `"progressToken":1`); m.Text() != "done" {
						return errors.New(string(m.Raw))
					}
					return nil
				})
				w = newWorld(t, cell{era, transport, true}, slowSpec(), within("endless", 1500*time.Millisecond))
				var began time.Time
				await.NoError(t, "an endless call with progress ends at the maximum", func() error {
					began = time.Now()
					if m := w.call("endless", "", `"progressToken":1`); m.Fault().Data.Kind != "timeout" || !strings.Contains(string(m.Error), "within 1.5s") {
						return errors.New(string(m.Raw))
					}
					return nil
				})
				if took := time.Since(began); took < 1500*time.Millisecond {
					t.Errorf("an endless call ended after %v", took)
				}
				w.cancelled(t, "endless")
			})
		}
	}
}
