package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/wire"
)

// eventFace serves HTTP+SSE; the header X-Test-Principal says who asks.
func eventFace(e *Endpoint, h Handler) http.Handler {
	mux := http.NewServeMux()
	who := func(r *http.Request) *auth.Principal {
		return caller(r.Header.Get("X-Test-Principal"))
	}
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) { e.ServeEvents(w, r, who(r), "/message", h) })
	mux.HandleFunc("POST /message", func(w http.ResponseWriter, r *http.Request) { e.ServeMessage(w, r, who(r)) })
	return mux
}

// caller is who has a name; "name/loopback" is the same one without a token.
func caller(text string) *auth.Principal {
	name, via, said := strings.Cut(text, "/")
	if !said {
		via = string(auth.ViaToken)
	}
	return &auth.Principal{Name: name, Scopes: auth.Scopes{"*"}, Via: auth.Via(via)}
}

// subscriber is a client of HTTP+SSE, played by the test.
type subscriber struct {
	t    *testing.T
	c    *http.Client
	resp *http.Response
	in   *wire.EventReader
	post string
	who  string
}

func subscribe(t *testing.T, rt http.RoundTripper, who string) *subscriber {
	t.Helper()
	s := &subscriber{t: t, c: &http.Client{Transport: rt}, who: who}
	s.resp = s.do(http.MethodGet, "/sse", "")
	if s.resp.StatusCode != http.StatusOK {
		t.Fatal(s.resp.Status)
	}
	s.in = wire.NewEventReader(s.resp.Body, 1<<20)
	ev, err := s.in.Next()
	if err != nil || ev.Name != "endpoint" || !strings.HasPrefix(string(ev.Data), "/message?sessionId=") {
		t.Fatalf("the first event is %q %s, %v", ev.Name, ev.Data, err)
	}
	s.post = string(ev.Data)
	return s
}

func (s *subscriber) do(method, path, body string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequest(method, "http://memory"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Test-Principal", s.who)
	resp, err := s.c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// send posts a message and checks how it was taken.
func (s *subscriber) send(status int, body string) {
	s.t.Helper()
	resp := s.do(http.MethodPost, s.post, body)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status {
		s.t.Fatalf("POST %.100s: %s %s; want %d", body, resp.Status, b, status)
	}
}

func (s *subscriber) got(want string) {
	s.t.Helper()
	ev, err := s.in.Next()
	if err != nil || ev.Name != "message" || !strings.Contains(string(ev.Data), want) {
		s.t.Fatalf("got %q %s, %v; want %s", ev.Name, ev.Data, err, want)
	}
}

func onEvents(t *testing.T, opts EndpointOptions, test func(t *testing.T, f *face)) {
	synctest.Test(t, func(t *testing.T) {
		f := &face{sage: &sage{}, sessions: NewSessions(3, time.Hour)}
		opts.Sessions = f.sessions
		opts.MessageBytes = 4096
		f.Endpoint = NewEndpoint(opts)
		var stop func()
		f.rt, stop = serveMem(t, eventFace(f.Endpoint, f.sage))
		test(t, f)
		f.Close()
		f.sessions.Close()
		stop()
	})
}

const hello2024 = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`

func TestEventsFace(t *testing.T) {
	onEvents(t, EndpointOptions{}, func(t *testing.T, f *face) {
		s := subscribe(t, f.rt, "ann")
		s.send(202, hello2024)
		s.got(`"id":0,"result":{"capabilities":{"tools":{"listChanged":true}},"protocolVersion":"2024-11-05"`)
		s.send(202, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		s.send(202, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"speak","_meta":{"progressToken":7}}}`)
		s.got(`"progressToken":7,"progress":1`)
		s.got(`"progressToken":7,"progress":2`)
		s.got(`"id":1,"result"`)
		s.send(202, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`)
		s.got(`"id":"stoa-1","method":"elicitation/create"`)
		s.send(202, `{"jsonrpc":"2.0","id":"stoa-1","result":{"a":1}}`)
		s.got(`result {\"a\":1}`)
		s.send(202, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"announce"}}`)
		s.got(`announced`)
		s.got(`notifications/tools/list_changed`)
		s.send(202, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"wait"}}`)
		s.send(202, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		s.send(202, "nonsense")
		s.got(`"code":-32700`)
		s.send(202, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		s.got(`a batch is not supported`)
		s.send(413, `{"jsonrpc":"2.0","id":5,"method":"ping","params":{"pad":"`+strings.Repeat("x", 4096)+`"}}`)
		s.resp.Body.Close()
		synctest.Wait()
		if f.sessions.Len() != 0 {
			t.Error("the connection is still there")
		}
		s.send(404, `{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	})
}

// A session is its principal's, is no session of /mcp, and takes one of the
// places of all sessions.
func TestEventSessionsAreBoundAndBounded(t *testing.T) {
	onEvents(t, EndpointOptions{}, func(t *testing.T, f *face) {
		s := subscribe(t, f.rt, "ann")
		for _, who := range []string{"bob", "ann/loopback"} { // nor the same name, come in another way
			thief := &subscriber{t: t, c: s.c, who: who, post: s.post}
			thief.send(404, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		}
		if _, err := f.sessions.get(strings.TrimPrefix(s.post, "/message?sessionId="), "", caller("ann")); err == nil {
			t.Error("the session is one of /mcp too")
		}
		others := []*subscriber{subscribe(t, f.rt, "bob"), subscribe(t, f.rt, "bob")}
		resp := s.do(http.MethodGet, "/sse", "")
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("a fourth connection was opened")
		}
		s.send(202, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		s.got(`"id":1,"result":{}`)
		for _, o := range append(others, s) {
			o.resp.Body.Close()
		}
	})
}

func TestEventsEnd(t *testing.T) {
	onEvents(t, EndpointOptions{KeepAlive: 30 * time.Second, WriteTimeout: 5 * time.Second}, func(t *testing.T, f *face) {
		gone, asleep, s := subscribe(t, f.rt, "gone"), subscribe(t, f.rt, "asleep"), subscribe(t, f.rt, "ann")
		gone.send(202, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
		synctest.Wait()
		gone.resp.Body.Close()
		// One that does not read is given up.
		read := make(chan string)
		go func() {
			b, _ := io.ReadAll(s.resp.Body)
			read <- string(b)
		}()
		asleep.send(202, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"big"}}`)
		<-time.After(40 * time.Second)
		synctest.Wait()
		if n := f.sessions.Len(); n != 1 {
			t.Errorf("%d connections are left", n)
		}
		f.sage.mu.Lock()
		if len(f.sage.ended) != 1 {
			t.Errorf("ended: %q", f.sage.ended)
		}
		f.sage.mu.Unlock()
		// The rest end with the hub, once what runs is answered.
		s.send(202, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait"}}`)
		synctest.Wait()
		f.Close()
		f.sage.mu.Lock()
		close(f.sage.gate)
		f.sage.gate = nil
		f.sage.mu.Unlock()
		if rest := <-read; !strings.Contains(rest, ": keep-alive\n\n") || !strings.Contains(rest, `"id":9,"result"`) {
			t.Errorf("the stream ended with %q", rest)
		}
		asleep.resp.Body.Close()
	})
}

func TestSSETo(t *testing.T) {
	sessions := NewSessions(10, time.Hour)
	e := NewEndpoint(EndpointOptions{Sessions: sessions})
	h := &sage{}
	srv := httptest.NewServer(eventFace(e, h))
	t.Cleanup(func() {
		e.Close()
		srv.Close()
		sessions.Close()
	})
	u, _ := url.Parse(srv.URL + "/sse")
	rt := NewTransport(u, nil, nil)
	defer rt.CloseIdleConnections()
	ctx := within(t)
	c := SSETo(u, nil, rt, ConnOptions{}, nil)
	if hello, err := Initialize(ctx, c, []byte(`{"elicitation":{}}`), nil); err != nil || hello.Era != Legacy {
		t.Fatalf("initialize: %+v, %v", hello, err)
	}
	st := &recorder{ask: func(context.Context, string) (Response, error) {
		return Response{Result: []byte(`{"action":"accept"}`)}, nil
	}}
	o := request("tools/call", `{"name":"speak"}`)
	o.Stream, o.Token = st, []byte(`"mine"`)
	if resp, err := c.Call(ctx, o); err != nil || !strings.Contains(string(resp.Result), "spoken") || len(st.heard()) != 2 {
		t.Errorf("speak: %s, %v, heard %q", resp.Result, err, st.heard())
	}
	o = request("tools/call", `{"name":"ask"}`)
	o.Stream, o.Client = st, &Client{Era: Legacy, Capabilities: []byte(`{"elicitation":{}}`)}
	if resp, err := c.Call(ctx, o); err != nil || !strings.Contains(string(resp.Result), "accept") {
		t.Errorf("ask: %s, %v", resp.Result, err)
	}
	out := start(ctx, c, request("tools/call", `{"name":"wait"}`))
	h.awaitWaiting(t)
	srv.CloseClientConnections()
	out.wantErr(t, func(err error) bool { return errors.Is(err, ErrLost) && !errors.Is(err, ErrNotSent) })
	<-c.Done()
	c.Close()
}

// odd is a server of HTTP+SSE with ways of its own.
func odd(t *testing.T, endpoint string, post http.HandlerFunc) (*PipeConn, *httptest.Server) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		startEvents(w)
		if endpoint != "" {
			fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
		}
		flush(w)
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /message", post)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL + "/sse")
	rt := NewTransport(u, nil, nil)
	c := SSETo(u, http.Header{"Authorization": {"secret"}}, rt, ConnOptions{}, nil)
	t.Cleanup(func() {
		c.Close()
		rt.CloseIdleConnections()
	})
	return c, srv
}

func TestSSEToForeignEndpoint(t *testing.T) {
	var mu sync.Mutex
	var stolen []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		stolen = append(stolen, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	c, _ := odd(t, other.URL+"/message", refuseAll)
	if _, err := c.Call(within(t), request("ping", "")); !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "another origin") {
		t.Errorf("%v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if stolen != nil {
		t.Errorf("the other origin got %q", stolen)
	}
}

func refuseAll(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) }

func TestEndpointOf(t *testing.T) {
	base, _ := url.Parse("http://host/a/sse?x=1")
	for said, want := range map[string]string{
		"/message?sessionId=1": "http://host/message?sessionId=1",
		"message":              "http://host/a/message",
		"?s=1":                 "http://host/a/sse?s=1",
		"http://HOST:80/m":     "http://HOST:80/m",
		"https://host/m":       "", "http://host:81/m": "", "//evil/m": "", "http://host@evil/m": "", "http://u:p@host/m": "", "javascript:x": "", ":": "",
	} {
		u, err := endpointOf(base, said)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%s: %v, %v; want %q", said, u, err, want)
		}
	}
}

func TestSSEToServerThatRefuses(t *testing.T) {
	c, _ := odd(t, "/message", refuseAll)
	_, err := c.Call(within(t), request("ping", ""))
	if st, ok := errors.AsType[*StatusError](err); !ok || st.Status != 404 || !errors.Is(err, ErrNotSent) {
		t.Errorf("%v", err)
	}
	<-c.Done()
}

func TestSSEToServerThatDropsAMessage(t *testing.T) {
	c, _ := odd(t, "/message", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := c.Call(within(t), request("ping", "")); !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
		t.Errorf("a message that may have arrived: %v", err)
	}
}

// A server that accepts a message only when it is done with it does not keep
// the next one waiting for ever.
func TestSSEToServerThatAcceptsLate(t *testing.T) {
	second := make(chan struct{})
	var once sync.Once
	c, _ := odd(t, "/message", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), "first") {
			select {
			case <-second:
			case <-r.Context().Done():
			}
		} else {
			once.Do(func() { close(second) })
		}
		w.WriteHeader(http.StatusAccepted)
	})
	ctx := within(t)
	if err := c.Notify(ctx, "first", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Notify(ctx, "second", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-second:
	case <-ctx.Done():
		t.Error("the second message did not arrive")
	}
}

func TestSSEToSilence(t *testing.T) {
	c, srv := odd(t, "", refuseAll)
	ctx, cancel := context.WithCancel(context.Background())
	out := start(ctx, c, request("ping", ""))
	cancel()
	out.wantErr(t, func(err error) bool { return errors.Is(err, context.Canceled) })
	c.Close()
	srv.CloseClientConnections()
}
