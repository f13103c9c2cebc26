package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// forgetful is a legacy server over HTTP that knows no session any more when it
// was restarted, and says so as one of the SDKs does.
type forgetful struct {
	style string

	mu       sync.Mutex
	sessions map[string]bool
	web      *http.Server
	address  string

	shakes atomic.Int64   // handshakes
	calls  sync.Map       // by the number that a call carries: how often it came
	double atomic.Int64   // calls that came twice
	served sync.WaitGroup // the server that runs
}

func (f *forgetful) start(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.address == "" {
		f.address = port.Address(t)
	}
	ln := port.Listen(t, f.address)
	f.sessions = map[string]bool{}
	f.web = &http.Server{Handler: f}
	f.served.Go(func() { f.web.Serve(ln) })
}

// stop breaks all connections, as the end of a process does.
func (f *forgetful) stop() {
	f.mu.Lock()
	web := f.web
	f.mu.Unlock()
	web.Close()
	f.served.Wait()
}

func (f *forgetful) knows(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[id]
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Arguments struct{ N json.Number }
		}
	}
	b, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(b, &m) // a GET has none
	id := r.Header.Get("Mcp-Session-Id")
	if m.Method == "initialize" {
		id = fmt.Sprintf("session-%d", f.shakes.Add(1))
		f.mu.Lock()
		f.sessions[id] = true
		f.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
	}
	switch {
	case !f.knows(id):
		f.refuse(w)
		return
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `"error":{"code":-32601,"message":"unknown"}`
	switch m.Method {
	case "initialize":
		result = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"forgetful","version":"1"}}`
	case "ping":
		result = `"result":{}`
	case "tools/list":
		result = `"result":{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"act","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		if n := m.Params.Arguments.N; n != "" {
			if _, twice := f.calls.LoadOrStore(n.String(), true); twice {
				f.double.Add(1)
			}
		}
		if strings.Contains(string(b), `"wrong"`) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"that is wrong"}}`, m.ID)
			return
		}
		result = `"result":{"content":[{"type":"text","text":"done"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
}

// refuse answers a request for a session that is not known.
func (f *forgetful) refuse(w http.ResponseWriter) {
	switch f.style {
	case "typescript":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
	case "python":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`)
	case "go":
		http.Error(w, "session not found", http.StatusNotFound)
	default:
		http.Error(w, "the session has ended", http.StatusGone)
	}
}

var forgetfulStyles = []string{"typescript", "python", "go", "gone"}

// A server that was restarted is used again with the first call, and with one
// handshake for each time that it was.
func TestServerThatForgets(t *testing.T) {
	hubtest.Parallel(t)
	for _, style := range forgetfulStyles {
		t.Run(style, func(t *testing.T) {
			f := &forgetful{style: style}
			f.start(t)
			t.Cleanup(f.stop)
			h := hubtest.New(t, hubtest.HTTP("up", "http://"+f.address, func(s *config.Server) { s.Retries = 0 }))
			c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
			if m := c.Tool("up__act", `{"n":1}`); m.Text() != "done" {
				t.Fatalf("at first: %s", m.Raw)
			}
			before := f.shakes.Load()
			f.mu.Lock()
			f.sessions = map[string]bool{} // it has lost them all, and nobody has noticed
			f.mu.Unlock()
			var wg sync.WaitGroup
			for n := range 8 {
				wg.Go(func() {
					one := h.Client(t, hubtest.ClientOptions{Era: []hubtest.Era{hubtest.Legacy, hubtest.Modern}[n%2]})
					if m := one.Tool("up__act", fmt.Sprintf(`{"n":%d}`, n+2)); m.Text() != "done" {
						t.Errorf("after it has forgotten: %s", m.Raw)
					}
				})
			}
			wg.Wait()
			if n := f.shakes.Load() - before; n != 1 {
				t.Errorf("%d handshakes for one loss", n)
			}
			if m := c.Tool("up__act", `{"wrong":true}`); m.Error == nil || !strings.Contains(string(m.Raw), "that is wrong") {
				t.Errorf("a refusal of the call: %s", m.Raw)
			}
			if n := f.shakes.Load() - before; n != 1 {
				t.Errorf("%d handshakes: a refused call is no lost session", n)
			}
		})
	}
}

// A server that is restarted again and again under clients of both eras: what
// may be repeated succeeds, nothing is done twice, and the breaker stays closed.
func TestServerRestarted(t *testing.T) {
	hubtest.Parallel(t)
	for _, style := range forgetfulStyles {
		t.Run(style, func(t *testing.T) {
			f := &forgetful{style: style}
			f.start(t)
			h := hubtest.New(t, hubtest.HTTP("up", "http://"+f.address))
			var wg sync.WaitGroup
			done := make(chan struct{})
			var number, looked atomic.Int64
			for n := range 8 {
				c := h.Client(t, hubtest.ClientOptions{Era: []hubtest.Era{hubtest.Legacy, hubtest.Modern}[n%2]})
				wg.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						if m := c.Tool("up__look", "{}"); m.Text() != "done" {
							t.Errorf("a call that may be repeated: %s", m.Raw)
							return
						}
						looked.Add(1)
						m := c.Tool("up__act", fmt.Sprintf(`{"n":%d}`, number.Add(1)))
						if m.Text() != "done" && (m.Error == nil || m.Fault().Data.Kind != "upstream_lost") {
							t.Errorf("a call that may not: %s", m.Raw)
							return
						}
					}
				})
			}
			for range soak(5, 50) {
				f.stop()
				f.start(t)
				last := looked.Load()
				await.Until(t, "calls go on", func() bool { return looked.Load() > last+8 || t.Failed() })
			}
			close(done)
			wg.Wait()
			f.stop()
			if n := f.double.Load(); n > 0 {
				t.Errorf("%d calls came twice", n)
			}
			if looked.Load() == 0 {
				t.Error("nothing was called")
			}
		})
	}
}
