package relay_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/relay"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/vault"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

// open opens the relay of a process over a store of its own at that address.
func open(t testing.TB, url, process string) *relay.Relay {
	t.Helper()
	key, err := vault.NewKey("correct horse battery staple, and more")
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.Open(storetest.Open(t, store.Options{URL: url}), key, process, relay.Options{Beat: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// pair connects one process with another.
func pair(t testing.TB, a, b *relay.Relay, process string) (near, far net.Conn) {
	t.Helper()
	near, err := a.Dial(t.Context(), process)
	if err != nil {
		t.Fatal(err)
	}
	if far, err = b.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// It is a connection as the standard library understands it.
func TestIsConn(t *testing.T) {
	url := storetest.StartServer(t).URL
	a, b := open(t, url, "a"), open(t, url, "b")
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2 = pair(t, a, b, "b")
		return c1, c2, func() { _, _ = c1.Close(), c2.Close() }, nil
	})
}

// What is larger than the window arrives whole, at the pace of who reads.
func TestLargeArrivesWhole(t *testing.T) {
	url := storetest.StartServer(t).URL
	a, b := open(t, url, "a"), open(t, url, "b")
	near, far := pair(t, a, b, "b")
	want := make([]byte, 5<<20+123)
	_, _ = rand.Read(want)
	go func() {
		_, _ = near.Write(want)
		_ = near.Close()
	}()
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if err := far.Close(); err != nil {
		t.Error(err)
	}
}

// A process that is not there cannot be dialled, and connections to one that goes
// end.
func TestProcessThatGoes(t *testing.T) {
	url := storetest.StartServer(t).URL
	a := open(t, url, "a")
	if _, err := a.Dial(t.Context(), "nobody"); !errors.Is(err, relay.ErrGone) {
		t.Errorf("nobody was dialled: %v", err)
	}
	p := proxy.New(t, url)
	b := open(t, p.URL, "b")
	near, _ := pair(t, a, b, "b")
	p.Cut()
	read := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	if err := await.Value(t, "the connection ends", read); !errors.Is(err, relay.ErrLost) {
		t.Errorf("it ended with %v", err)
	}
}

// Messages that the engine loses end the connection; the bytes after them are
// never taken for those that were lost.
func TestLostMessagesEndIt(t *testing.T) {
	server := storetest.StartServer(t)
	p := proxy.New(t, server.URL)
	a, b := open(t, p.URL, "a"), open(t, server.URL, "b")
	near, far := pair(t, a, b, "b")
	p.Set(proxy.Lose, proxy.Pass)
	if _, err := near.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	p.Restore()
	got, err := io.ReadAll(far)
	if err == nil || len(got) > 0 {
		t.Errorf("%q arrived, and it ended with %v", got, err)
	}
}

// What waits for a process that closes its relay is told.
func TestCloseEndsAll(t *testing.T) {
	url := storetest.StartServer(t).URL
	a, b := open(t, url, "a"), open(t, url, "b")
	near, far := pair(t, a, b, "b")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading here: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the other end goes on")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := b.Dial(ctx, "a"); !errors.Is(err, relay.ErrGone) {
		t.Errorf("it was dialled: %v", err)
	}
}

// A request that is passed on is answered by the other process as if it had come
// there, in the name of who sent it, and without what let them in here.
func TestRequestIsPassedOn(t *testing.T) {
	url := storetest.StartServer(t).URL
	a, b := open(t, url, "a"), open(t, url, "b")
	there := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := relay.Sender(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %v %q %q", r.Method, r.URL, who.Name, who.Scopes, r.Header.Get("Authorization"), body)
	})}
	go func() { _ = there.Serve(b) }()
	t.Cleanup(func() { _ = there.Close() })
	p := relay.NewPasser(a)
	pass := func(process string) (*httptest.ResponseRecorder, error) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/mcp?x=1", strings.NewReader("hello"))
		r.Header.Set("Authorization", "Bearer secret")
		err := p.Pass(w, r, &auth.Principal{Name: "ann", Scopes: auth.Scopes{"files"}, Via: auth.ViaToken}, process, nil, func(w http.ResponseWriter, err error) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		})
		return w, err
	}
	w, err := pass("b")
	if want := `POST /mcp?x=1 ann [files] "" "hello"`; err != nil || w.Code != http.StatusTeapot || w.Body.String() != want {
		t.Errorf("%v %d %s", err, w.Code, w.Body)
	}
	if _, err := pass("nobody"); !errors.Is(err, relay.ErrGone) {
		t.Errorf("passed on to nobody: %v", err)
	}
}

// Who does not have the key reaches nobody, though it uses the same store.
func TestKeyIsNeeded(t *testing.T) {
	url := storetest.StartServer(t).URL
	a, b := open(t, url, "a"), open(t, url, "b")
	key, err := vault.NewKey("another horse, another battery, 12345")
	if err != nil {
		t.Fatal(err)
	}
	c, err := relay.Open(storetest.Open(t, store.Options{URL: url}), key, "c", relay.Options{Beat: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted := make(chan net.Conn)
	go func() {
		conn, _ := b.Accept()
		accepted <- conn
	}()
	if conn, err := c.Dial(t.Context(), "b"); err == nil {
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("it was answered")
		}
	}
	// The next one that is accepted is the one with the key.
	if _, err := a.Dial(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	conn := await.Value(t, "one is accepted", accepted)
	if conn.RemoteAddr().String() != a.Addr().String() {
		t.Error("one without the key was accepted")
	}
}

// A process that stopped hearing without the engine's knowing is found to be gone
// when the engine knows.
func TestDialAsksAgain(t *testing.T) {
	server := storetest.StartServer(t)
	p := proxy.New(t, server.URL)
	a := open(t, server.URL, "a")
	open(t, p.URL, "b")
	p.Set(proxy.Lose, proxy.Lose)
	dialled := make(chan error, 1)
	go func() {
		_, err := a.Dial(t.Context(), "b")
		dialled <- err
	}()
	p.Cut()
	if err := await.Value(t, "dialling ends", dialled); !errors.Is(err, relay.ErrGone) {
		t.Errorf("it ended with %v", err)
	}
}

// One that is there and never answers cannot be dialled.
func TestDialIsNotForEver(t *testing.T) {
	server := storetest.StartServer(t)
	p := proxy.New(t, server.URL)
	a := open(t, server.URL, "a")
	open(t, p.URL, "b")
	p.Set(proxy.Hold, proxy.Hold)
	if _, err := a.Dial(t.Context(), "b"); !errors.Is(err, relay.ErrGone) {
		t.Errorf("it ended with %v", err)
	}
	p.Restore()
}
