package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// listenSocket serves a sage on a real socket. cut ends all connections
// without a word.
func listenSocket(t *testing.T, limit int) (u *url.URL, h *sage, cut func()) {
	t.Helper()
	sessions := NewSessions(10, time.Hour)
	e := NewEndpoint(EndpointOptions{MessageBytes: limit, Sessions: sessions})
	h = &sage{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		e.ServeSocket(w, r, auth.Local, h)
	}))
	var mu sync.Mutex
	var taken []net.Conn
	srv.Config.ConnState = func(c net.Conn, st http.ConnState) {
		if st == http.StateHijacked {
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, c)
		}
	}
	srv.Start()
	u, _ = url.Parse(strings.Replace(srv.URL, "http", "ws", 1) + "/mcp/ws")
	t.Cleanup(func() {
		e.Close()
		e.Wait(context.Background())
		sessions.Close()
		srv.Close()
	})
	return u, h, func() {
		srv.Listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range taken {
			c.Close()
		}
	}
}

var goodHeader = http.Header{"Authorization": {"Bearer good"}}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// awaitWaiting returns once a call of the tool wait runs.
func (s *sage) awaitWaiting(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; <-time.After(time.Millisecond) {
		s.mu.Lock()
		waits := s.gate != nil
		s.mu.Unlock()
		if waits {
			return
		}
		if time.Now().After(end) {
			t.Fatal("no call waits")
		}
	}
}

func TestSocketTo(t *testing.T) {
	u, _, _ := listenSocket(t, 1<<20)
	ctx := within(t)
	c := SocketTo(u, goodHeader, nil, ConnOptions{}, nil)
	defer c.Close()
	h, err := Discover(ctx, c)
	if err != nil || h.Era != Modern {
		t.Fatalf("discover: %+v, %v", h, err)
	}
	old := SocketTo(u, goodHeader, nil, ConnOptions{}, nil)
	defer old.Close()
	if h, err = Initialize(ctx, old, []byte(`{"elicitation":{}}`), nil); err != nil || h.Version != LegacyVersion {
		t.Fatalf("initialize: %+v, %v", h, err)
	}
	st := &recorder{ask: func(context.Context, string) (Response, error) {
		return Response{Result: []byte(`{"action":"accept"}`)}, nil
	}}
	o := request("tools/call", `{"name":"speak"}`)
	o.Stream, o.Token = st, []byte(`"mine"`)
	if resp, err := old.Call(ctx, o); err != nil || !strings.Contains(string(resp.Result), "spoken") || len(st.heard()) != 2 || !strings.Contains(st.heard()[0], `"mine"`) {
		t.Errorf("speak: %s, %v, heard %q", resp.Result, err, st.heard())
	}
	o = request("tools/call", `{"name":"ask"}`)
	o.Stream, o.Client = st, &Client{Era: Legacy, Capabilities: []byte(`{"elicitation":{}}`)}
	if resp, err := old.Call(ctx, o); err != nil || !strings.Contains(string(resp.Result), "accept") {
		t.Errorf("ask: %s, %v", resp.Result, err)
	}
}

func TestSocketToNobody(t *testing.T) {
	u, _, cut := listenSocket(t, 1<<20)
	ctx := within(t)
	c := SocketTo(u, nil, nil, ConnOptions{}, nil)
	_, err := Discover(ctx, c)
	if st, ok := errors.AsType[*StatusError](err); !ok || st.Status != http.StatusUnauthorized || !errors.Is(err, ErrNotSent) {
		t.Errorf("without a token: %v", err)
	}
	c.Close()
	cut()
	c = SocketTo(u, goodHeader, nil, ConnOptions{}, nil)
	if _, err := Discover(ctx, c); !errors.Is(err, ErrNotSent) {
		t.Errorf("with nobody there: %v", err)
	}
	c.Close()
}

// A server that takes the connection and says nothing does not keep Close
// from returning.
func TestSocketToSilence(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	u := &url.URL{Scheme: "ws", Host: ln.Addr().String()}
	c := SocketTo(u, nil, nil, ConnOptions{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	out := start(ctx, c, request("ping", ""))
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		t.Fatal(err)
	}
	cancel()
	out.wantErr(t, func(err error) bool { return errors.Is(err, context.Canceled) })
	c.Close()
}

func TestSocketToServerThatEnds(t *testing.T) {
	u, h, cut := listenSocket(t, 1<<20)
	c := SocketTo(u, goodHeader, nil, ConnOptions{}, nil)
	defer c.Close()
	ctx := within(t)
	if _, err := Initialize(ctx, c, []byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	st := &recorder{}
	o := request("tools/call", `{"name":"wait"}`)
	o.Stream = st
	out := start(ctx, c, o)
	h.awaitWaiting(t)
	cut()
	out.wantErr(t, func(err error) bool { return errors.Is(err, ErrLost) && !errors.Is(err, ErrNotSent) })
	<-c.Done()
	if _, err := c.Call(ctx, request("ping", "")); !errors.Is(err, ErrNotSent) {
		t.Errorf("after the end: %v", err)
	}
}

func TestSocketToTalkativeServer(t *testing.T) {
	u, _, _ := listenSocket(t, 1<<20)
	ctx := within(t)
	for _, tc := range []struct {
		limit int
		over  func(error) bool
		says  string
		then  bool // the connection can be used afterwards
	}{
		{100, func(err error) bool { return errors.Is(err, ErrLost) }, "far over the limit of 100 bytes", false},
		{1024, func(err error) bool { return fault.Is(err, fault.Limit) }, "larger than 1024 bytes", true}, // of a file that comes twice, as text and as data, ten times the limit is nothing unusual
		{4096, func(err error) bool { return fault.Is(err, fault.Limit) }, "larger than 4096 bytes", true},
	} {
		c := SocketTo(u, goodHeader, nil, ConnOptions{MessageBytes: tc.limit}, nil)
		c.agree(Legacy, LegacyVersion)
		if _, err := c.Call(ctx, request("tools/call", `{"name":"big"}`)); !tc.over(err) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("an answer over the limit of %d: %v", tc.limit, err)
		}
		if _, err := c.Call(ctx, request("ping", "")); (err == nil) != tc.then {
			t.Errorf("after an answer over the limit of %d: %v", tc.limit, err)
		}
		c.Close()
	}
}

// FuzzSocket feeds anything to the face after the handshake. It must not
// panic, and must end when the connection does.
func FuzzSocket(f *testing.F) {
	text := func(payload string) []byte {
		b := []byte{0x81, 0x80 | byte(len(payload)), 0, 0, 0, 0}
		return append(b, payload...)
	}
	f.Add(text(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	f.Add(append(text(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`), 0x88, 0x80, 0, 0, 0, 0))
	f.Add([]byte{0x01, 0x81, 0, 0, 0, 0, '{', 0x89, 0x80, 0, 0, 0, 0, 0x80, 0x81, 0, 0, 0, 0, '}'})
	f.Add([]byte{0x82, 0x80, 0, 0, 0, 0})
	f.Add([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 'x'})
	f.Add([]byte{0x81, 0xfe, 0xff, 0xff, 0, 0, 0, 0})
	sessions := NewSessions(10, time.Hour)
	e := NewEndpoint(EndpointOptions{MessageBytes: 4096, Sessions: sessions})
	f.Fuzz(func(t *testing.T, in []byte) {
		near, far := net.Pipe()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.ServeSocket(w, r, auth.Local, &sage{}) })}
		m := &memnet{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		m.conns <- far
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Serve(m) })
		wg.Go(func() { io.Copy(io.Discard, near) })
		io.WriteString(near, "GET / HTTP/1.1\r\nHost: memory\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		near.SetWriteDeadline(time.Now().Add(time.Second))
		near.Write(in)
		near.Close()
		await.Until(t, "the face ends with its connection", func() bool { return sessions.Len() == 0 })
		srv.Close()
		wg.Wait()
	})
}
