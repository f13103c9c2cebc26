package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/port"
)

// maxBody bounds what a peer reads of one request.
const maxBody = 64 << 20

// Request is one HTTP request as it arrived.
type Request struct {
	Verb   string // GET, POST, DELETE
	Method string // of the JSON-RPC message; empty for responses and bad bodies
	Header http.Header
	Body   []byte
}

// HTTPServer is a peer on a loopback port.
type HTTPServer struct {
	URL string // of the MCP endpoint

	tb      testing.TB
	spec    Spec
	journal *journal

	mu   sync.Mutex
	life *httpLife // nil while the server is down
	seen []Request
}

// Serve starts a peer over HTTP that is killed when the test ends.
func Serve(tb testing.TB, spec Spec) *HTTPServer {
	tb.Helper()
	spec, err := spec.check()
	if err != nil {
		tb.Fatal(err)
	}
	h := &HTTPServer{tb: tb, spec: spec, journal: &journal{path: spec.StatePath}}
	l := port.Listen(tb, port.Address(tb))
	h.URL = "http://" + l.Addr().String() + "/mcp"
	h.start(l)
	tb.Cleanup(h.Kill)
	return h
}

func (h *HTTPServer) start(l net.Listener) {
	life := newHTTPLife(h.spec, h.journal, h.record)
	h.mu.Lock()
	h.life = life
	h.mu.Unlock()
	life.wg.Go(func() {
		if err := life.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.tb.Errorf("peer %s: serve: %v", h.spec.Name, err)
		}
	})
}

// Kill drops the listener and every connection and waits for the handlers. The
// port refuses connections until Restart.
func (h *HTTPServer) Kill() {
	h.mu.Lock()
	life := h.life
	h.life = nil
	h.mu.Unlock()
	if life != nil {
		life.stop()
	}
}

// Restart kills the server and starts it again on its port: sessions, lists and
// counters are those of a new process, Requests and State are kept.
func (h *HTTPServer) Restart() {
	h.tb.Helper()
	h.Kill()
	h.start(port.Listen(h.tb, h.URL[len("http://"):len(h.URL)-len("/mcp")]))
}

// EndStreams ends every subscriptions/listen with its result, as a server that
// shuts down in good order does; later ones end at once.
func (h *HTTPServer) EndStreams() {
	if life := h.alive(); life != nil {
		life.server.endListens()
	}
}

// Requests returns all requests so far, in order of arrival.
func (h *HTTPServer) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// Sessions returns the ids of the legacy sessions that are alive, sorted.
func (h *HTTPServer) Sessions() []string {
	life := h.alive()
	if life == nil {
		return nil
	}
	life.mu.Lock()
	defer life.mu.Unlock()
	return slices.Sorted(maps.Keys(life.sessions))
}

// OpenStreams counts the standalone streams: legacy GETs and modern
// subscriptions/listen that were acknowledged.
func (h *HTTPServer) OpenStreams() int {
	life := h.alive()
	if life == nil {
		return 0
	}
	life.server.mu.Lock()
	defer life.server.mu.Unlock()
	return len(life.server.listeners)
}

// State returns what has happened to the peer.
func (h *HTTPServer) State() State {
	h.tb.Helper()
	st, err := h.journal.state()
	if err != nil {
		h.tb.Error(err)
	}
	return st
}

func (h *HTTPServer) alive() *httpLife {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life
}

func (h *HTTPServer) record(r Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, r)
}

// httpLife is an HTTPServer between a start and a kill.
type httpLife struct {
	server *server
	http   *http.Server
	record func(Request)
	ctx    context.Context
	end    context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
}

func newHTTPLife(spec Spec, j *journal, record func(Request)) *httpLife {
	ctx, end := context.WithCancel(context.Background())
	s := newServer(ctx, spec, j)
	l := &httpLife{server: s, record: record, ctx: ctx, end: end, sessions: map[string]*session{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if !l.enter() {
			panic(http.ErrAbortHandler)
		}
		defer l.wg.Done()
		l.serve(w, r)
	})
	l.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	return l
}

// enter counts a handler in, unless the server stops: nothing may be added to
// a group that is waited for.
func (l *httpLife) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.wg.Add(1)
	return true
}

func (l *httpLife) stop() {
	l.server.down.Store(true)
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	// Closing fails only for a listener that is closed already.
	_ = l.http.Close()
	l.wg.Wait()
	l.server.wg.Wait()
}

// serve records a request and hands it to the era it belongs to.
func (l *httpLife) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, fmt.Sprintf("read the body: %v", err), http.StatusBadRequest)
		return
	}
	m, code, perr := parse(body)
	l.record(Request{Verb: r.Method, Method: m.Method, Header: r.Header.Clone(), Body: body})
	x := &exchange{life: l, r: r, msg: m, out: &httpOut{w: w, opts: l.server.spec.HTTP}}
	defer x.out.close()
	spec := l.server.spec
	if spec.HTTP.Token != "" && r.Header.Get("Authorization") != "Bearer "+spec.HTTP.Token {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost {
		x.standalone()
		return
	}
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		x.refuse(http.StatusNotAcceptable, refuse(codeServer, nil,
			"Accept must hold application/json and text/event-stream"))
		return
	}
	if perr != nil {
		x.refuse(http.StatusBadRequest, refuse(code, nil, "%v", perr))
		return
	}
	header := r.Header.Get("Mcp-Protocol-Version")
	if spec.modern() && (header >= Modern || hasVersion(m.Params) || !spec.legacy()) {
		x.modern()
	} else {
		x.legacy()
	}
}
