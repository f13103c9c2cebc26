package hub_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const orderClients = 8

// orderSpec has one tool per client, which sends as many notifications of each
// kind as no other, so that what it says can be told from what others say.
func orderSpec() peer.Spec {
	var spec peer.Spec
	for i := range orderClients {
		spec.Tools = append(spec.Tools, peer.Tool{Name: fmt.Sprintf("p%d", i), Behaviour: peer.Behaviour{Kind: peer.Progress, N: i + 2}})
	}
	return spec
}

// orders checks the calls of one client, one after the other. Logs may be
// missing where the upstream's connection is shared and nothing on it says
// which call they belong to.
func orders(w *world, c *hubtest.Client, i, calls int, mayLoseLogs bool) error {
	n := i + 2
	for k := range calls {
		token := []string{"1", `"1"`, `"\u0031"`, "-5", `""`}[k%5] // the same for all clients
		x := c.Go("tools/call", hubtest.ToolParams(w.name("up", fmt.Sprintf("p%d", i)), ""),
			hubtest.Meta(`"progressToken":`+token), `"io.modelcontextprotocol/logLevel":"info"`)
		var got, want []string
		logs := 0
		for {
			m, err := x.Read()
			if err != nil {
				return fmt.Errorf("client %d, call %d: %w after %v", i, k, err, got)
			}
			if m.IsResponse() {
				if m.Text() != "done" {
					return fmt.Errorf("client %d, call %d: %s", i, k, m.Raw)
				}
				break
			}
			p := hubtest.Decode[struct {
				Progress      int
				ProgressToken rawText
				Message, Data string
			}](m.Params)
			if m.Method == "notifications/message" {
				logs++
				if mayLoseLogs {
					if want := fmt.Sprintf("of %d", n); len(p.Data) < len(want) || p.Data[len(p.Data)-len(want):] != want {
						return fmt.Errorf("client %d was told %q", i, p.Data)
					}
					continue
				}
				got = append(got, "log "+p.Data)
				continue
			}
			got = append(got, fmt.Sprintf("%d %s %s", p.Progress, p.Message, p.ProgressToken))
		}
		if m, err := x.Read(); err == nil {
			return fmt.Errorf("client %d, call %d: after the response came %s", i, k, m.Raw)
		}
		x.Close()
		for s := 1; s <= n; s++ {
			want = append(want, fmt.Sprintf("%d step %d of %d %s", s, s, n, token))
			if !mayLoseLogs {
				want = append(want, fmt.Sprintf("log step %d of %d", s, n))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("client %d, call %d:\n got %q\nwant %q", i, k, got, want)
		}
	}
	return nil
}

// rawText keeps a member as it stands.
type rawText string

func (r *rawText) UnmarshalJSON(b []byte) error {
	*r = rawText(b)
	return nil
}

func ordersOfAll(t *testing.T, w *world, calls int, mayLoseLogs bool) {
	errs := make([]error, orderClients)
	var wg sync.WaitGroup
	for i := range orderClients {
		c := w.Hub.Client(t, hubtest.ClientOptions{Era: w.era, Face: w.face("up")})
		wg.Go(func() { errs[i] = orders(w, c, i, calls, mayLoseLogs) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestNotificationsKeepTheirOrderAndOwner(t *testing.T) {
	hubtest.Parallel(t)
	calls := soak(1000, 10000) / 12 / orderClients
	oneHub(t, orderSpec(), worldOptions{}, func(t *testing.T, w *world) {
		ordersOfAll(t, w, calls, w.transport == "stdio")
	})
}

// With a connection per client, even the logs of a stdio server find theirs.
func TestLogsOfUnsharedServerFindTheirOwner(t *testing.T) {
	hubtest.Parallel(t)
	o := worldOptions{server: func(s *config.Server) { s.Sharing = config.PerSession }}
	for _, merged := range []bool{true, false} {
		t.Run(cell{merged: merged}.String(), func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Legacy, "stdio", merged}, orderSpec(), o)
			ordersOfAll(t, w, soak(5, 50), false)
		})
	}
}
