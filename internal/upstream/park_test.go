package upstream

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

func TestMain(m *testing.M) {
	peer.Main()
	goleak.VerifyTestMain(m)
}

// asker is a pool over a legacy server that asks its client.
func asker(t *testing.T, wait time.Duration, edit func(*Options)) (*Pool, *Upstream, *peer.HTTPServer) {
	t.Helper()
	web := peer.Serve(t, peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{{Name: "elicit", Behaviour: peer.Do(peer.Elicit)}}})
	pool := Open(catalog.New(0), PoolOptions{Wait: wait})
	t.Cleanup(pool.Close)
	o := Options{Name: "up", URL: web.URL}
	if edit != nil {
		edit(&o)
	}
	u, err := pool.Add(o)
	if err != nil {
		t.Fatal(err)
	}
	return pool, u, web
}

// ask is a modern client's call of elicit, with further params.
func ask(u *Upstream, who, extra string) (mcp.Response, error) {
	params := []byte(`{"name":"elicit","arguments":{}` + extra + `}`)
	return u.Do(context.Background(), &mcp.Outgoing{
		Method: "tools/call", Raw: params, Fields: wire.Members(params), Name: "elicit",
		Client: &mcp.Client{Era: mcp.Modern, Version: mcp.ModernVersion, Capabilities: []byte(`{"elicitation":{}}`), Actor: actor.New(actor.HTTP, &auth.Principal{Name: who})},
	}, Call{Tool: "elicit"})
}

// parkOne leaves a call parked and returns its state as it goes into params.
func parkOne(t *testing.T, u *Upstream, who string) string {
	t.Helper()
	resp, err := ask(u, who, "")
	if err != nil || !mcp.NeedsInput(resp.Result) {
		t.Fatalf("got %s, %v", resp.Result, err)
	}
	return `,"inputResponses":{"q1":{"action":"decline"}},"requestState":` + string(wire.Get(resp.Result, "requestState"))
}

// A call whose client does not come back is ended at the server too, and its
// place in the queue is kept until then and no longer.
func TestParkedCallExpires(t *testing.T) {
	const wait = 300 * time.Millisecond
	pool, u, _ := asker(t, wait, func(o *Options) {
		o.Queue = &Queue{Concurrency: 1, Capacity: 1, Timeout: time.Minute}
	})
	began := time.Now()
	state := parkOne(t, u, "a")
	if s := u.Status(); s.Running != 1 && time.Since(began) < wait {
		t.Errorf("%d run while one is parked", s.Running)
	}
	await.Until(t, "the place is free", func() bool { return u.Status().Running == 0 })
	if resp, err := ask(u, "a", state); !fault.Is(err, fault.ContinuationLost) {
		t.Errorf("too late: %s, %v", resp.Result, err)
	}
	pool.parking.mu.Lock()
	pool.parking.wait = time.Minute
	pool.parking.mu.Unlock()
	state = parkOne(t, u, "a")
	if resp, err := ask(u, "a", state); err != nil || !strings.Contains(string(resp.Result), "decline") {
		t.Errorf("in time: %s, %v", resp.Result, err)
	}
}

func TestParkedCallIsItsPrincipals(t *testing.T) {
	_, u, _ := asker(t, time.Minute, nil)
	state := parkOne(t, u, "a")
	if resp, err := ask(u, "b", state); !fault.Is(err, fault.InvalidParams) {
		t.Errorf("another: %s, %v", resp.Result, err)
	}
	if resp, err := ask(u, "a", state); err != nil || !strings.Contains(string(resp.Result), "decline") {
		t.Errorf("the owner: %s, %v", resp.Result, err)
	}
}

// Calls that died while they were parked say so to who comes back, and do not
// count against those that wait.
func TestParkedCallsDieWithTheServer(t *testing.T) {
	pool, u, web := asker(t, time.Minute, func(o *Options) { o.Breaker.Failures = 10 * parkedMax })
	var states []string
	for range parkedMax {
		states = append(states, parkOne(t, u, "a"))
	}
	web.Restart()
	await.Until(t, "all have ended", func() bool {
		pool.parking.mu.Lock()
		defer pool.parking.mu.Unlock()
		for _, p := range pool.parking.m {
			select {
			case <-p.done:
			default:
				return false
			}
		}
		return true
	})
	if resp, err := ask(u, "a", states[0]); !fault.Is(err, fault.UpstreamLost) {
		t.Errorf("after the crash: %s, %v", resp.Result, err)
	}
	for range 2 {
		await.Until(t, "there is room again", func() bool {
			resp, err := ask(u, "a", "")
			if fault.Is(err, fault.Limit) {
				t.Fatal(err)
			}
			return err == nil && mcp.NeedsInput(resp.Result)
		})
	}
}

// Closing the pool ends parked calls; TestMain sees what is left.
func TestCloseEndsParkedCalls(t *testing.T) {
	pool, u, _ := asker(t, time.Hour, nil)
	state := parkOne(t, u, "a")
	parkOne(t, u, "b")
	pool.Close()
	if resp, err := ask(u, "a", state); err == nil {
		t.Errorf("after the end: %s", resp.Result)
	}
}

type heardNotes struct {
	mcp.Stream
	notes []string
}

func (h *heardNotes) Notify(method string, params []byte) {
	h.notes = append(h.notes, method+" "+string(params))
}
func (h *heardNotes) Flush() {}

// Progress goes to the request that waits now, under the token of that.
func TestParkedProgressHasTheTokenOfItsRequest(t *testing.T) {
	p := &parked{open: map[string]*question{"q1": {}}}
	first, second, third := &heardNotes{}, &heardNotes{}, &heardNotes{}
	p.attach(&mcp.Outgoing{Stream: first, Token: []byte("1")})
	step := func(n string) { p.Notify("notifications/progress", []byte(`{"progressToken":1,"progress":`+n+`}`)) }
	step("1")
	p.demand()
	step("2")
	p.attach(&mcp.Outgoing{Stream: second, Token: []byte(`"b"`)})
	step("3")
	p.demand()
	p.attach(&mcp.Outgoing{Stream: third})
	step("4")
	got := strings.Join(first.notes, ";") + "|" + strings.Join(second.notes, ";") + "|" + strings.Join(third.notes, ";")
	want := `notifications/progress {"progressToken":1,"progress":1}|` +
		`notifications/progress {"progressToken":"b","progress":2};notifications/progress {"progressToken":"b","progress":3}|`
	if got != want {
		t.Errorf("got %s", got)
	}
}

// A server cannot make a call hold questions without end.
func TestParkedQuestionsAreBounded(t *testing.T) {
	p := &parked{open: map[string]*question{}, asked: make(chan struct{}, 1)}
	for n := range maxQuestions {
		p.open[strconv.Itoa(n)] = &question{}
	}
	if _, err := p.Ask(t.Context(), "elicitation/create", nil); !fault.Is(err, fault.Limit) {
		t.Errorf("one more: %v", err)
	}
}
