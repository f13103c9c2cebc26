package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var memURL = &url.URL{Scheme: "http", Host: "memory", Path: "/mcp"}

// session is a legacy server whose GET stream the test plays.
type sessionServer struct {
	gets  atomic.Int32
	get   func(n int, w http.ResponseWriter, r *http.Request)
	post  func(w http.ResponseWriter, r *http.Request, body string)
	reply chan string // answers of the connection to the server's requests
	lost  bool        // it does not know the session any more
}

func (s *sessionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.get(int(s.gets.Add(1)), w, r)
		return
	}
	b, _ := io.ReadAll(r.Body)
	switch body := string(b); {
	case strings.Contains(body, `"initialize"`):
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
	case strings.Contains(body, `"id":"ping"`) && s.lost:
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(body, `"id":"ping"`):
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":"ping","result":{}}`)
	case strings.Contains(body, `"method"`) && strings.Contains(body, `"id"`):
		s.post(w, r, body)
	case strings.Contains(body, `"id"`):
		w.WriteHeader(http.StatusAccepted)
		s.reply <- body
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func say(w http.ResponseWriter, messages ...string) {
	for _, m := range messages {
		fmt.Fprintf(w, "data: %s\n\n", m)
	}
	w.(http.Flusher).Flush()
}

func hearing(t *testing.T, s *sessionServer, opts ConnOptions) (*HTTPConn, func()) {
	s.reply = make(chan string, 10)
	rt, stop := serveMem(t, s)
	c := HTTPTo(memURL, nil, rt, opts)
	if _, err := Initialize(t.Context(), c, []byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	return c, func() {
		c.Close()
		stop()
	}
}

func TestHearKeepsTheStreamOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []string
		s := &sessionServer{get: func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 1, 3: // a stream that ends after a while
				w.Header().Set("Content-Type", sseAnswer)
				say(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","id":5,"method":"ping"}`, "nonsense")
				<-time.After(time.Minute)
			case 2:
				w.WriteHeader(http.StatusBadGateway)
			default:
				w.Header().Set("Content-Type", sseAnswer)
				say(w)
				<-r.Context().Done()
			}
		}}
		c, stop := hearing(t, s, ConnOptions{Note: func(method string, _ []byte) { notes = append(notes, method) }})
		var attempts []int
		missed := 0
		c.Hear(func(attempt int) time.Duration {
			attempts = append(attempts, attempt)
			return time.Second
		}, func() { missed++ })
		<-time.After(10 * time.Minute)
		synctest.Wait()
		// Twice opened and ended, once opened; the attempt that failed counts.
		if s.gets.Load() != 4 || missed != 5 || len(notes) != 2 || notes[0] != NoteToolsChanged || <-s.reply != `{"jsonrpc":"2.0","id":5,"result":{}}` {
			t.Errorf("%d streams, %d times missed, notes %q", s.gets.Load(), missed, notes)
		}
		if diff := cmp.Diff([]int{0, 1, 0}, attempts); diff != "" {
			t.Errorf("attempts: %s", diff)
		}
		stop()
	})
}

func TestHearLeavesOthersInPeace(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		lost   bool
	}{"no stream": {405, false}, "nothing there": {404, false}, "unknown session": {404, true}, "unknown, by 400": {400, true}, "not a stream": {200, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sessionServer{lost: tc.lost, get: func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.status) }}
				c, stop := hearing(t, s, ConnOptions{})
				missed := 0
				c.Hear(func(int) time.Duration { return time.Second }, func() { missed++ })
				<-time.After(time.Hour)
				synctest.Wait()
				select {
				case <-c.Done():
					if !tc.lost {
						t.Errorf("the connection ended: %v", c.Err())
					}
				default:
					if tc.lost {
						t.Error("the session is gone and nobody noticed")
					}
				}
				if want := map[bool]int{false: 1, true: 0}[tc.lost]; s.gets.Load() != 1 || missed != want {
					t.Errorf("%d attempts, said %d times that something may have been missed", s.gets.Load(), missed)
				}
				stop()
			})
		})
	}
}

// What comes by the stream of the session is given to the call it names or
// the only call it can be for.
func TestHearAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		speak := make(chan string)
		s := &sessionServer{
			get: func(_ int, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", sseAnswer)
				say(w)
				for {
					select {
					case m := <-speak:
						say(w, m)
					case <-r.Context().Done():
						return
					}
				}
			},
			post: func(w http.ResponseWriter, r *http.Request, _ string) {
				<-time.After(time.Second)
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			},
		}
		c, stop := hearing(t, s, ConnOptions{})
		c.Hear(func(int) time.Duration { return time.Second }, func() {})
		rec := &recorder{ask: func(context.Context, string) (Response, error) {
			return Response{Result: []byte(`{"action":"decline"}`)}, nil
		}}
		call := start(t.Context(), c, &Outgoing{Method: "tools/call", Token: []byte("7"), Stream: rec, Client: &Client{Era: Legacy, Capabilities: []byte(`{"elicitation":{}}`)}})
		synctest.Wait()
		speak <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}`
		speak <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
		if got := <-s.reply; got != `{"jsonrpc":"2.0","id":"q","result":{"action":"decline"}}` {
			t.Errorf("the server got %s", got)
		}
		call.want(t, `{}`)
		speak <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":2}}`
		synctest.Wait()
		if diff := cmp.Diff([]string{`notifications/progress {"progressToken":7,"progress":1}`}, rec.heard()); diff != "" {
			t.Error(diff)
		}
		stop()
	})
}

// stuck is a Stream of a client that does not read.
type stuck struct {
	recorder
	enough chan struct{}
}

func (s *stuck) Notify(string, []byte) { <-s.enough }

// A client that does not read what its call says must not keep the calls of
// other clients waiting, whatever else the server says about the stuck one.
func TestStuckClientStopsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		speak := make(chan string, 1)
		s := &sessionServer{
			get: func(_ int, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", sseAnswer)
				say(w, <-speak)
				<-r.Context().Done()
			},
			post: func(w http.ResponseWriter, r *http.Request, body string) {
				if strings.Contains(body, "tools/list") {
					fmt.Fprint(w, `{"jsonrpc":"2.0","id":3,"result":{}}`)
					return
				}
				w.Header().Set("Content-Type", sseAnswer)
				say(w, `{"jsonrpc":"2.0","method":"notifications/vendor"}`)
				<-r.Context().Done()
			},
		}
		c, stop := hearing(t, s, ConnOptions{})
		c.Hear(func(int) time.Duration { return time.Second }, func() {})
		slow := &stuck{enough: make(chan struct{})}
		slow.ask = func(ctx context.Context, _ string) (Response, error) { return Response{}, ctx.Err() }
		ctx, cancel := context.WithCancel(t.Context())
		held := start(ctx, c, &Outgoing{Method: "tools/call", Stream: slow, Client: &Client{Era: Legacy, Capabilities: []byte(`{"elicitation":{}}`)}})
		synctest.Wait()
		speak <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
		synctest.Wait()
		start(t.Context(), c, request("tools/list", "")).want(t, `{}`)
		close(slow.enough)
		cancel()
		<-held.done
		stop()
	})
}

// hasty is a transport that returns as soon as there is an answer and goes on
// sending afterwards, as the contract of http.RoundTripper allows.
type hasty struct {
	resume chan struct{}
	sent   chan []byte
}

func (h *hasty) RoundTrip(req *http.Request) (*http.Response, error) {
	go func() {
		<-h.resume
		all, _ := io.ReadAll(req.Body)
		h.sent <- all
	}()
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody}, nil
}

// A transport may still be sending when the answer is there already; the
// memory of what it sends must not be used again before.
func TestHTTPConnKeepsWhatIsBeingSent(t *testing.T) {
	h := &hasty{resume: make(chan struct{}), sent: make(chan []byte)}
	c := HTTPTo(memURL, nil, h, ConnOptions{})
	if _, err := c.Call(t.Context(), request("tools/call", `{"pad":"`+strings.Repeat("a", 1<<16)+`"}`)); !isStatus(401)(err) {
		t.Fatal(err)
	}
	// What is free is used at once for other messages.
	others := make([]*buffer, 8)
	for i := range others {
		others[i] = newBuffer()
		others[i].b = append(others[i].b, bytes.Repeat([]byte("Z"), 1<<16)...)
	}
	close(h.resume)
	if slices.Contains(<-h.sent, 'Z') {
		t.Error("the server got the bytes of another message")
	}
	for _, b := range others {
		b.free()
	}
	c.Close()
}
