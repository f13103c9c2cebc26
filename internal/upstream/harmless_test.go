package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
)

// hanging is a server whose calls do not end.
func hanging(t *testing.T) (address string, begun *atomic.Int32) {
	t.Helper()
	begun = &atomic.Int32{}
	over := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if m.Method == "tools/call" {
			begun.Add(1)
			select {
			case <-over:
			case <-r.Context().Done():
			}
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"tools":[]}}`, m.ID)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(over) })
	return web.URL, begun
}

// Retryable means that repeating a call does no harm: one that may have taken
// effect is not, unless it bears repetition; one that only waited is.
func TestOnlyHarmlessCallsAreRetryable(t *testing.T) {
	address, begun := hanging(t)
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	add := func(name string, waits time.Duration) *Upstream {
		u, err := pool.Add(Options{Name: name, URL: address, Era: mcp.Legacy, Timeout: time.Minute, Queue: &Queue{Concurrency: 1, Capacity: 10, Timeout: waits}})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	u := add("up", time.Minute)
	call := func(ctx context.Context, c Call) *fault.Error {
		_, err := u.Do(ctx, &mcp.Outgoing{Method: "tools/call", Client: &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Capabilities: []byte("{}")}}, c)
		return fault.Of(err)
	}
	// cut cancels a call once the server is at work on it.
	cut := func(c Call) *fault.Error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := begun.Load()
		told := make(chan *fault.Error, 1)
		go func() { told <- call(ctx, c) }()
		await.Until(t, "the call is at work", func() bool {
			select {
			case f := <-told:
				t.Fatalf("the call ended before it was at work: %v", f)
			default:
			}
			return begun.Load() > before
		})
		cancel()
		return <-told
	}
	if f := cut(Call{Tool: "act"}); f.Kind != fault.Cancelled || f.Retryable() {
		t.Errorf("one that may have taken effect: %v, retryable %t", f, f.Retryable())
	}
	if f := cut(Call{Tool: "look", Repeat: true}); f.Kind != fault.Cancelled || !f.Retryable() {
		t.Errorf("one that bears repetition: %v, retryable %t", f, f.Retryable())
	}
	// Where the machine is so busy that it was not even sent, it is.
	await.NoError(t, "one that was not answered in time is not retryable", func() error {
		if f := call(t.Context(), Call{Tool: "slow", Timeout: 100 * time.Millisecond}); f.Kind != fault.Timeout || f.Retryable() {
			return fmt.Errorf("%w, retryable %t", f, f.Retryable())
		}
		return nil
	})

	// busy has an upstream that a call keeps busy, which ends with the test.
	busy := func(name string, waits time.Duration) {
		u = add(name, waits)
		before, ended := begun.Load(), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			call(ctx, Call{Tool: "act"})
		}()
		t.Cleanup(func() { cancel(); <-ended })
		await.Until(t, "another call is at work", func() bool { return begun.Load() > before })
	}
	busy("impatient", 50*time.Millisecond)
	before := begun.Load()
	if f := call(t.Context(), Call{Tool: "act"}); f.Kind != fault.Timeout || !f.Retryable() {
		t.Errorf("one that waited in the queue for too long: %v, retryable %t", f, f.Retryable())
	}
	if begun.Load() != before {
		t.Error("one that only waited was begun")
	}
	busy("patient", time.Minute)
	before = begun.Load()
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	told := make(chan *fault.Error, 1)
	go func() { told <- call(gone, Call{Tool: "act"}) }()
	await.Until(t, "it waits in the queue", func() bool { return u.Status().Queued == 1 })
	leave()
	if f := <-told; f.Kind != fault.Cancelled || !f.Retryable() {
		t.Errorf("one that was cancelled in the queue: %v, retryable %t", f, f.Retryable())
	}
	if begun.Load() != before {
		t.Error("one that only waited was begun")
	}
}
