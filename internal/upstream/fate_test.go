package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
)

// broken is a legacy server, over streamable HTTP and over HTTP+SSE, that makes
// each call and then answers it by a status.
type broken struct {
	status     atomic.Int32
	body       string
	calls      atomic.Int32
	handshakes atomic.Int32
	refused    atomic.Int32
	forgets    atomic.Bool // every session, as soon as it is opened
	over       chan struct{}
	events     chan string // of the stream, if it is one
}

func (b *broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && b.events != nil {
		b.stream(w, r)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", b.handshakes.Add(1)))
		b.say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, m.ID))
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case b.forgets.Load():
		b.refused.Add(1)
		w.WriteHeader(http.StatusNotFound)
	case m.Method == "ping":
		b.say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
	default:
		b.calls.Add(1)
		w.WriteHeader(int(b.status.Load()))
		fmt.Fprint(w, b.body)
	}
}

func (b *broken) say(w http.ResponseWriter, message string) {
	if b.events == nil {
		fmt.Fprint(w, message)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	b.events <- message
}

func (b *broken) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
	for {
		_ = http.NewResponseController(w).Flush() // the reader notices
		select {
		case text := <-b.events:
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", text)
		case <-r.Context().Done():
			return
		case <-b.over:
			return
		}
	}
}

func (b *broken) serve(t *testing.T, way Way, o guard.Options) *Upstream {
	t.Helper()
	b.over = make(chan struct{})
	if way == SSE {
		b.events = make(chan string, 8)
	}
	web := httptest.NewServer(b)
	t.Cleanup(web.Close)
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	t.Cleanup(func() { close(b.over) })
	u, err := pool.Add(Options{Name: "up", URL: web.URL, Way: way, Era: mcp.Legacy, Lazy: true, Breaker: o})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func act(t *testing.T, u *Upstream, c Call) *fault.Error {
	t.Helper()
	resp, err := u.Do(t.Context(), &mcp.Outgoing{Method: "tools/call", Client: &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Capabilities: []byte("{}")}}, c)
	if err == nil {
		t.Errorf("the call is answered: %s %s", resp.Result, resp.Error)
		return &fault.Error{}
	}
	return fault.Of(err)
}

// A server that makes a call and fails to answer it is not called again by
// anybody, whatever it fails with: the error says that the call may have taken
// effect, and is not retryable.
func TestCallOfUnknownFateIsNotRepeated(t *testing.T) {
	for _, way := range []Way{Streamable, SSE} {
		for _, status := range []int{200, 202, 303, 408, 409, 418, 500, 502, 503, 504, 599} {
			if way == SSE && status < 300 {
				continue // it has accepted the call, and will answer
			}
			t.Run(fmt.Sprint(way, " ", status), func(t *testing.T) {
				b := &broken{body: "<html>"}
				b.status.Store(int32(status))
				u := b.serve(t, way, guard.Options{Failures: -1})
				f := act(t, u, Call{Tool: "act"})
				if f.Kind != fault.UpstreamLost || f.Retryable() || f.Status(false) != http.StatusOK {
					t.Errorf("%s, retryable %t, HTTP %d: %v", f.Kind, f.Retryable(), f.Status(false), f)
				}
				if n := b.calls.Load(); n != 1 {
					t.Errorf("it was called %d times", n)
				}
				if f := act(t, u, Call{Tool: "look", Repeat: true, Retries: new(int)}); !f.Retryable() {
					t.Errorf("a call that may be repeated is not retryable: %v", f)
				}
			})
		}
		for _, status := range []int{401, 403, 404, 429} {
			t.Run(fmt.Sprint(way, " ", status), func(t *testing.T) {
				b := &broken{}
				b.status.Store(int32(status))
				u := b.serve(t, way, guard.Options{Failures: -1})
				if f := act(t, u, Call{Tool: "act", Retries: new(int)}); f.Kind != fault.Unreachable || !f.Retryable() {
					t.Errorf("a refusal: %s, retryable %t: %v", f.Kind, f.Retryable(), f)
				}
				if n := b.handshakes.Load(); n > 2 {
					t.Errorf("%d handshakes were made", n)
				}
			})
		}
	}
}

// A server that knows none of the sessions that it opens costs one handshake for
// each loss, says so, and is given a rest in which its failure is not hidden.
func TestServerThatForgetsItsSessions(t *testing.T) {
	b := &broken{}
	u := b.serve(t, Streamable, guard.Options{Failures: 3})
	b.forgets.Store(true)
	f := act(t, u, Call{Tool: "act"})
	if n := b.handshakes.Load(); n != 2 || !strings.Contains(f.Text(), "opens sessions and does not know them") || !strings.Contains(f.Advice(), "instance") || !f.Retryable() {
		t.Errorf("%d handshakes: %s (%s), retryable %t", n, f.Text(), f.Advice(), f.Retryable())
	}
	for range 2 {
		act(t, u, Call{Tool: "act"})
	}
	f = act(t, u, Call{Tool: "act"})
	if f.Kind != fault.BreakerOpen || !strings.Contains(f.Text(), "opens sessions and does not know them") {
		t.Errorf("after three failures: %s: %s", f.Kind, f.Text())
	}
	if s := u.Status(); s.Breaker != "open" || !strings.Contains(s.BreakerError, "opens sessions and does not know them") {
		t.Errorf("the status: %s, %q", s.Breaker, s.BreakerError)
	}
	if n := b.handshakes.Load(); n != 6 || b.calls.Load() != 0 {
		t.Errorf("%d handshakes, %d calls were made", n, b.calls.Load())
	}

	many := &broken{}
	u = many.serve(t, Streamable, guard.Options{Failures: -1})
	many.forgets.Store(true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { act(t, u, Call{Tool: "act"}) })
	}
	wg.Wait()
	if n := many.handshakes.Load(); n > 16 {
		t.Errorf("eight calls made %d handshakes", n)
	}
}

// A server that asks for a model has begun the call: what goes wrong from then on
// is not retryable, and the call is not sent again.
func TestCallThatAskedForInputIsNotRepeated(t *testing.T) {
	for _, gone := range []bool{false, true} {
		for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
			var calls atomic.Int32
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				result := `{"supportedVersions":["2026-07-28"],"capabilities":{},"resultType":"complete","ttlMs":0,"cacheScope":"public"}`
				if m.Method == "tools/call" {
					calls.Add(1)
					result = `{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}}}`
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			}))
			t.Cleanup(web.Close)
			pool := Open(catalog.New(0), PoolOptions{})
			t.Cleanup(pool.Close)
			u, err := pool.Add(Options{Name: "up", URL: web.URL, Era: mcp.Modern, Lazy: true, Sampling: &Sampling{Answer: func(context.Context, Sample) ([]byte, error) {
				if gone {
					web.CloseClientConnections()
					web.Listener.Close()
					return []byte(said), nil
				}
				return nil, fault.New(fault.Unreachable, "sampling", "the hub's model gave no answer")
			}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = converse(t.Context(), u, era, "act")
			if f := fault.Of(err); err == nil || f.Retryable() || !strings.Contains(f.Advice(), "before repeating") {
				t.Errorf("%s, gone %t: %v, retryable %t (%s)", era, gone, err, f.Retryable(), f.Advice())
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("%s, gone %t: it was called %d times", era, gone, n)
			}
		}
	}
}
