package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/wire"
)

func TestOutboxIsBoundedAndSaysThingsOnce(t *testing.T) {
	var o outbox
	o.put(NoteToolsChanged, nil)
	o.put(NoteToolsChanged, nil)
	for i := range maxNotes + 10 {
		o.put(NoteResourceUpdated, fmt.Appendf(nil, `{"uri":"x://%d"}`, i))
	}
	select {
	case <-o.wake():
	default:
		t.Error("nobody is told of what waits")
	}
	notes := o.take()
	if len(notes) != maxNotes || string(notes[len(notes)-1].params) != fmt.Sprintf(`{"uri":"x://%d"}`, maxNotes+9) {
		t.Errorf("%d notes, last %s", len(notes), notes[len(notes)-1].params)
	}
	if o.take() != nil {
		t.Error("told twice")
	}
}

func TestAudience(t *testing.T) {
	var a Audience
	heard := map[string][]string{}
	listener := func(name string, f Filter) *Listener {
		l := &Listener{Filter: f, Deliver: func(method string, params []byte) {
			heard[name] = append(heard[name], strings.TrimPrefix(method, "notifications/")+string(params))
		}}
		a.Add(l)
		return l
	}
	all, tools := listener("all", Everything), listener("tools", Filter{Tools: true})
	if !a.Subscribe(all, "up mem://x", "mem://x") || a.Subscribe(tools, "up mem://x", "up+mem://x") {
		t.Error("who is first")
	}
	for _, method := range []string{NoteToolsChanged, NotePromptsChanged, NoteResourcesChanged, "notifications/other"} {
		a.Tell(method, func(l *Listener) bool { return true })
	}
	a.Tell(NoteToolsChanged, func(l *Listener) bool { return l == tools })
	a.Updated("up mem://x", []byte(`{"uri":"mem://x","k":1}`), nil)
	a.Updated("up mem://x", []byte(`{"uri":"mem://x","k":2}`), func(l *Listener) bool { return l == tools })
	a.Updated("up mem://y", []byte(`{"uri":"mem://y"}`), nil)
	if diff := cmp.Diff(map[string][]string{
		"all":   {"tools/list_changed", "prompts/list_changed", "resources/list_changed", `resources/updated{"uri":"mem://x","k":1}`},
		"tools": {"tools/list_changed", "tools/list_changed", `resources/updated{"uri":"up+mem://x","k":1}`, `resources/updated{"uri":"up+mem://x","k":2}`},
	}, heard); diff != "" {
		t.Error(diff)
	}
	for range 2 { // the second time it is not subscribed any more
		if a.Unsubscribe(all, "up mem://x") {
			t.Error("another is still subscribed")
		}
	}
	if diff := cmp.Diff([]string{"up mem://x"}, a.Remove(tools)); diff != "" {
		t.Error(diff)
	}
	if a.Subscribe(all, "up mem://x", "mem://x"); !a.Unsubscribe(all, "up mem://x") || a.Remove(all) != nil {
		t.Error("who is last")
	}
}

func TestReplayIsBounded(t *testing.T) {
	var all replays
	r := all.open()
	for i := range 40 {
		r.add(append(bytes.Repeat([]byte("x"), 100<<10), fmt.Sprintf("-%d\n\n", i)...), false)
	}
	events, last, done, _ := r.after(-1)
	size := 0
	for _, e := range events {
		size += len(e)
	}
	if size > replayBytes || last != 39 || done || !bytes.HasPrefix(events[len(events)-1], []byte("id: 1-39\n")) {
		t.Errorf("%d events of %d bytes, last %d", len(events), size, last)
	}
	for range replayStreams + 3 {
		all.open()
	}
	if found, _ := all.find("1-0"); found != nil || len(all.all) != replayStreams {
		t.Errorf("%d answers are kept", len(all.all))
	}
	for _, id := range []string{"", "x", "1", "-", "a-b", "99-0", "5-"} {
		if found, _ := all.find(id); found != nil {
			t.Errorf("%q is found", id)
		}
	}
}

// A log message without a name for its request is given to whoever can be
// meant, and only at the level that was asked for.
func TestLogMessages(t *testing.T) {
	legacy := func(level string) *Client {
		c := &Client{Era: Legacy, Connection: "c"}
		if level != "" {
			c.setLogLevel(level)
		}
		return c
	}
	for _, tc := range []struct {
		o     *Outgoing
		level string
		want  bool
	}{
		{&Outgoing{Client: legacy("")}, "debug", true},
		{&Outgoing{Client: legacy("warning")}, "info", false},
		{&Outgoing{Client: legacy("warning")}, "warning", true},
		{&Outgoing{Client: legacy("warning")}, "emergency", true},
		{&Outgoing{Client: legacy("warning")}, "loud", false},
		{&Outgoing{Client: &Client{Era: Modern}}, "error", false},
		{&Outgoing{Client: &Client{Era: Modern}, LogLevel: "info"}, "error", true},
		{&Outgoing{Client: &Client{Era: Modern}, LogLevel: "info"}, "debug", false},
		{&Outgoing{}, "error", false},
	} {
		var m wire.Message
		if err := m.Scan([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`+tc.level+`"}}`), wire.FromUpstream); err != nil {
			t.Fatal(err)
		}
		f := inflight{}
		f.opts.defaults()
		p, err := f.open(t.Context(), tc.o)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		f.notification(&m, nil, Legacy, func(to *pending, _ string, _ []byte) { got = to == p })
		if got != tc.want {
			t.Errorf("%+v, message of level %s: told %t", tc.o, tc.level, got)
		}
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	var a asks
	release := make(chan struct{})
	var wg sync.WaitGroup
	var sent atomic.Int32
	for range maxAsks {
		wg.Go(func() {
			_, err := a.ask(t.Context(), Discard, func([]byte) bool {
				if sent.Add(1) == maxAsks {
					close(release)
				}
				return true
			})
			if !fault.Is(err, fault.Cancelled) {
				t.Errorf("a question that the end cut short: %v", err)
			}
		})
	}
	<-release
	if _, err := a.ask(t.Context(), Discard, func([]byte) bool { return true }); !fault.Is(err, fault.Limit) {
		t.Errorf("one too many: %v", err)
	}
	a.close()
	wg.Wait()
	if _, err := a.ask(t.Context(), Discard, func([]byte) bool { return true }); !fault.Is(err, fault.Cancelled) {
		t.Errorf("after the end: %v", err)
	}
}

// A body that does not come costs a connection for a bounded time only.
func TestSlowBody(t *testing.T) {
	sessions := NewSessions(1, time.Hour)
	e := NewEndpoint(EndpointOptions{Sessions: sessions, BodyTimeout: 50 * time.Millisecond})
	defer e.Close()
	srv := httptest.NewServer(e.InTime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.Serve(w, r, auth.Local, "/mcp", &sage{}) })))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"")
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) || !bytes.Contains(answer, []byte("did not arrive whole")) {
		t.Errorf("%s, %v", answer, err)
	}
}

// Nor does one that nobody wants, and what is sent after a body that was read
// takes as long as it likes.
func TestBodyThatIsNotRead(t *testing.T) {
	e := NewEndpoint(EndpointOptions{Sessions: NewSessions(1, time.Hour), BodyTimeout: 50 * time.Millisecond})
	defer e.Close()
	errLate := errors.New("the body did not arrive in time")
	gone := make(chan error, 1)
	srv := httptest.NewServer(e.InTime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write(make([]byte, 1<<16))
		case "/works":
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				gone <- errLate
				return
			}
			select {
			case <-r.Context().Done():
				gone <- r.Context().Err()
			case <-time.After(200 * time.Millisecond):
				gone <- nil
			}
		}
	})))
	defer srv.Close()
	for _, path := range []string{"/short", "/long"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nfirst", path)
		if _, err := io.ReadAll(conn); err != nil { // up to the end of the connection
			t.Errorf("%s: %v", path, err)
		}
		conn.Close()
	}
	await.Until(t, "a body arrives in time", func() bool {
		resp, err := http.Post(srv.URL+"/works", "text/plain", strings.NewReader("all of it"))
		if err == nil {
			resp.Body.Close()
		}
		ended := <-gone
		if ended == errLate { // the machine is busy
			return false
		}
		if err != nil || ended != nil {
			t.Fatalf("a request that takes longer than its body: %v, %v", err, ended)
		}
		return true
	})
}

func TestRefuse(t *testing.T) {
	e := NewEndpoint(EndpointOptions{Sessions: NewSessions(1, time.Hour)})
	defer e.Close()
	for body, id := range map[string]string{`{"jsonrpc":"2.0","id":"x","method":"ping"}`: `"id":"x"`, `nonsense`: `"id":null`} {
		w := httptest.NewRecorder()
		e.Refuse(w, httptest.NewRequest("POST", "/mcps/no/mcp", strings.NewReader(body)), auth.Local, fault.New(fault.UnknownAgent, "no", "there is no such agent"))
		if w.Code != 404 || !strings.Contains(w.Body.String(), id) || !strings.Contains(w.Body.String(), "-32601") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// Our own HTTP client uses connections again, and bounds what a server says
// before it says anything.
func TestLeanTransport(t *testing.T) {
	var conns atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var m wire.Message
		_ = m.Scan(b, wire.FromClient)
		if r.URL.Query().Get("as") == "events" {
			w.Header().Set("Content-Type", sseAnswer)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", m.ID)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	rt := newLean(u, &net.Dialer{})
	for _, as := range []string{"json", "events"} {
		conns.Store(0)
		target := *u
		target.RawQuery = "as=" + as
		c := HTTPTo(&target, nil, rt, ConnOptions{})
		for range 20 {
			start(t.Context(), c, request("tools/list", "")).want(t, `{}`)
		}
		c.Close()
		if n := conns.Load(); n > 3 {
			t.Errorf("%s: %d connections for 20 calls one after the other", as, n)
		}
	}
	rt.CloseIdleConnections()
}

func TestLeanTransportBoundsHeaders(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var sent atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		line := []byte("X-Pad: " + strings.Repeat("x", 1000) + "\r\n")
		for sent.Load() < 64<<20 {
			n, err := conn.Write(line)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	u := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	rt := newLean(u, &net.Dialer{})
	c := HTTPTo(u, nil, rt, ConnOptions{})
	if _, err := c.Call(t.Context(), request("tools/list", "")); !errors.Is(err, errLongHeader) || !isLost(err) {
		t.Errorf("got %v after %d bytes", err, sent.Load())
	}
	c.Close()
	rt.CloseIdleConnections()
}
