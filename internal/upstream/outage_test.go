package upstream

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/port"
	"github.com/stoahub/stoa/internal/mcp"
)

// restarted is a server over HTTP that forgets its sessions when it is started
// again, and lists nothing while list is held.
type restarted struct {
	era     mcp.Era
	address string
	started atomic.Int32
	list    atomic.Pointer[chan struct{}] // nil: lists are given at once
}

func (s *restarted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	session := fmt.Sprint("s", s.started.Load())
	result := `{"content":[],"resultType":"complete"}`
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", session)
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`
	case m.Method == "server/discover":
		result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"public"}`
	case s.era == mcp.Legacy && r.Header.Get("Mcp-Session-Id") != session:
		w.WriteHeader(http.StatusNotFound)
		return
	case m.Method == "tools/list":
		if gate := s.list.Load(); gate != nil {
			select {
			case <-*gate:
			case <-r.Context().Done():
				return
			}
		}
		result = `{"tools":[{"name":"act","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (s *restarted) start(t *testing.T) *httptest.Server {
	t.Helper()
	web := httptest.NewUnstartedServer(s)
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	web.Listener.Close()
	web.Listener = l
	s.started.Add(1)
	web.Start()
	return web
}

func stop(web *httptest.Server) {
	web.CloseClientConnections()
	web.Close()
}

// The state tells the truth at every moment: one that is an error has a text, and
// a loss that is cured is none, also while the lists are still to be read.
func TestCuredLossIsNoError(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			s := &restarted{era: era, address: port.Address(t)}
			web := s.start(t)
			t.Cleanup(func() { stop(web) })
			pool := Open(catalog.New(0), PoolOptions{OnState: func(c Transition) {
				if c.To.Down() && c.Err == nil {
					t.Errorf("it is %s, and nothing says why", c.To)
				}
			}})
			t.Cleanup(pool.Close)
			u, err := pool.Add(Options{Name: "up", URL: "http://" + s.address, Era: era})
			if err != nil {
				t.Fatal(err)
			}
			state := func() Status {
				st := u.Status()
				if st.State.Down() && st.Error == "" {
					t.Errorf("it is %s, and no error is shown", st.State)
				}
				return st
			}
			await.Until(t, "it is connected", func() bool { return state().State == Connected })
			for range 3 {
				stop(web)
				gate := make(chan struct{})
				s.list.Store(&gate)
				said := make(chan error, 1)
				go func() {
					_, err := u.Do(t.Context(), &mcp.Outgoing{Method: "tools/call", Client: &mcp.Client{Era: era, Version: mcp.LegacyVersion, Capabilities: []byte("{}")}}, Call{Tool: "act", Repeat: true})
					said <- err
				}()
				await.Until(t, "it is missed", func() bool { return state().State == Failed })
				web = s.start(t)
				if err := <-said; err != nil {
					t.Fatalf("the call: %v", err)
				}
				if st := state(); st.State.Down() || st.Error != "" {
					t.Errorf("a call has succeeded, and it is %s: %q", st.State, st.Error)
				}
				s.list.Store(nil)
				close(gate)
				await.Until(t, "it is connected again", func() bool { return state().State == Connected })
			}
		})
	}
}
