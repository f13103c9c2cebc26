package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
)

// tardy is a legacy server that is slow to open the stream of a session, as one
// is on a busy machine. What it has to say before goes nowhere.
type tardy struct {
	mu    sync.Mutex
	order []string
	over  chan struct{}
}

func (s *tardy) happened(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = append(s.order, what)
}

func (s *tardy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-s.over:
			return
		}
		s.happened("stream")
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case <-s.over:
		case <-r.Context().Done():
		}
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}}}}`, m.ID)
	case "logging/setLevel":
		select {
		case <-time.After(200 * time.Millisecond):
		case <-s.over:
		}
		s.happened("level")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case "tools/call":
		s.happened("call")
		fallthrough
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
	}
}

// A call is not sent before the server can ask something during it, nor before
// it knows which messages are wanted. Calls wait for that only so long, and a
// machine may be too busy for it, but not each time.
func TestCallsWaitForTheStream(t *testing.T) {
	await.NoError(t, "calls come after what they wait for", func() error {
		began := time.Now()
		order := tardily(t)
		if fmt.Sprint(order) == "[stream call level call]" {
			return nil
		}
		err := fmt.Errorf("what happened, in order: %v", order)
		if time.Since(began) < min(openTime, levelTime) {
			t.Fatal(err) // no wait can have been over
		}
		return err
	})
}

// tardily makes two calls of such a server, and returns what happened there.
func tardily(t *testing.T) []string {
	s := &tardy{over: make(chan struct{})}
	web := httptest.NewServer(s)
	defer web.Close()
	defer close(s.over)
	pool := Open(catalog.New(0), PoolOptions{})
	defer pool.Close()
	u, err := pool.Add(Options{Name: "up", URL: web.URL, Era: mcp.Legacy})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := legacyCall(u, "tools/call"); err != nil {
		t.Fatal(err)
	}
	u.WantLevel("info")
	if _, err := legacyCall(u, "tools/call"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}
