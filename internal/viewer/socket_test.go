package viewer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = await.Patience

// stage is a gallery behind a real listener.
type stage struct {
	*Gallery
	bus *event.Bus
	url string
}

func open(t testing.TB, size int, o Options, f *event.Filter) *stage {
	t.Helper()
	s := &stage{bus: event.New(size)}
	s.Gallery = New(s.bus, o)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after := uint64(0)
		if r.URL.Query().Get("after") == "99" {
			after = 99
		}
		if err := s.Serve(w, r, Wish{After: after, Hub: r.URL.Query().Get("hub"), Filter: f, Batch: r.URL.Query().Get("batch") != ""}); err != nil {
			w.WriteHeader(fault.Of(err).Status(false))
			_, _ = w.Write([]byte(fault.Of(err).Text()))
		}
	}))
	t.Cleanup(func() {
		s.Close()
		srv.Close()
	})
	s.url = "ws" + strings.TrimPrefix(srv.URL, "http")
	return s
}

func (s *stage) dial(t testing.TB, query string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, s.url+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	c.SetReadLimit(-1)
	return c
}

// frame is any frame.
type frame struct {
	Type      string
	Seq, Next uint64
	Lost      uint64
	Hub       string
	Restarted bool
	Upstream  string
	Data      json.RawMessage
}

func next(t testing.TB, c *websocket.Conn) frame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, b, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return f
}

// A viewer is greeted, sent what it wants in order, and given signs of life
// where nothing happens.
func TestWatch(t *testing.T) {
	f, err := event.NewFilter("", "a", "", "", "", "")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, 0, Options{Beat: 30 * time.Millisecond, Pause: time.Millisecond}, f)
	s.bus.Emit(event.Record{Type: event.CallDone, Upstream: "a"})
	s.bus.Emit(event.Record{Type: event.CallDone, Upstream: "b"})
	c := s.dial(t, "")
	if got := next(t, c); got.Type != "hello" || got.Restarted {
		t.Fatalf("%+v", got)
	}
	if !s.bus.Watched() || s.Len() != 1 {
		t.Error("nobody seems to watch")
	}
	if got := next(t, c); got.Type != event.CallDone || got.Seq != 1 || got.Upstream != "a" {
		t.Fatalf("%+v", got)
	}
	if got := next(t, c); got.Type != "heartbeat" || got.Next != 2 {
		t.Fatalf("%+v", got)
	}
	s.bus.Emit(event.Record{Type: event.UpstreamState, Upstream: "b"})
	s.bus.Emit(event.Record{Type: event.UpstreamState, Upstream: "a"})
	got := next(t, c)
	for got.Type == "heartbeat" {
		got = next(t, c)
	}
	if got.Seq != 4 {
		t.Fatalf("%+v", got)
	}
	_ = c.CloseNow()
	await.Until(t, "the viewer has left", func() bool { return s.Len() == 0 })
}

// Who wants it is sent many records in one frame, all of them and in order.
func TestBatch(t *testing.T) {
	s := open(t, 0, Options{Batch: 100}, nil)
	const n = 1000
	long := strings.Repeat("x", 10<<10)
	for i := range n {
		r := event.Record{Type: event.CallDone, Data: long}
		if i == n/2 {
			r.Data = func() {} // nobody can be told that
		}
		s.bus.Emit(r)
	}
	c := s.dial(t, "?batch=1")
	next(t, c)
	seen, frames := []uint64{}, 0
	for len(seen) < n-1 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, b, err := c.Read(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Type   string
			Events []frame
		}
		if err := json.Unmarshal(b, &f); err != nil || f.Type != "batch" || len(b) > maxFrame+len(long)+100 {
			t.Fatalf("%d bytes of %s: %v", len(b), f.Type, err)
		}
		frames++
		for _, e := range f.Events {
			seen = append(seen, e.Seq)
		}
	}
	if frames > n/5 || !slices.IsSorted(seen) || len(slices.Compact(seen)) != n-1 {
		t.Errorf("%d records in %d frames", len(seen), frames)
	}
}

// The number of another hub's record means to begin anew.
func TestRestarted(t *testing.T) {
	s := open(t, 0, Options{}, nil)
	s.bus.Emit(event.Record{Type: event.Health})
	c := s.dial(t, "?after=99")
	if got := next(t, c); !got.Restarted || got.Next != 0 {
		t.Fatalf("%+v", got)
	}
	if got := next(t, c); got.Seq != 1 {
		t.Fatalf("%+v", got)
	}
	if got := next(t, s.dial(t, "?hub=another")); !got.Restarted || got.Hub != s.bus.Name() {
		t.Errorf("a number that this hub has too, of another: %+v", got)
	}
	if got := next(t, s.dial(t, "?hub="+s.bus.Name())); got.Restarted {
		t.Errorf("a number of this hub: %+v", got)
	}
}

// Who was too slow is told how much is lost before what is left.
func TestGap(t *testing.T) {
	s := open(t, 10, Options{}, nil)
	s.bus.Emit(event.Record{Type: event.Health})
	for range 100 {
		s.bus.Emit(event.Record{Type: event.CallDone})
	}
	c := s.dial(t, "")
	next(t, c)
	if got := next(t, c); got.Type != "gap" || got.Lost != 90 {
		t.Fatalf("%+v", got)
	}
	if got := next(t, c); got.Type != event.Health || got.Seq != 1 {
		t.Fatalf("what is no detail: %+v", got)
	}
	if got := next(t, c); got.Seq != 92 || s.Lost() != 90 {
		t.Fatalf("%+v, %d lost", got, s.Lost())
	}
}

// Those who take nothing hold nobody up, and do not make the hub keep more than
// it would; one who does take sees everything.
func TestStalledViewers(t *testing.T) {
	s := open(t, 0, Options{Write: time.Hour, Pause: time.Millisecond}, nil) // who waited for one would do so for ever
	const stalled = 50
	for range stalled {
		s.dial(t, "") // never read from
	}
	good := s.dial(t, "")
	await.Until(t, "all watch", func() bool { return s.Len() == stalled+1 })
	next(t, good)
	const n = 20_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			s.bus.Emit(large)
			if i%500 == 0 {
				<-time.After(2 * time.Millisecond)
			}
		}
		s.bus.Emit(event.Record{Type: event.Health})
	}()
	var seen, lost uint64
	for {
		got := next(t, good)
		if got.Type == "gap" {
			lost += got.Lost
		} else if got.Seq > 0 {
			seen++
		}
		if got.Type == event.Health {
			break
		}
	}
	if seen+lost != n+1 || seen < n/10 {
		t.Errorf("%d were seen and %d lost of %d", seen, lost, n+1)
	}
	<-done
	if s.Len() != stalled+1 {
		t.Errorf("%d watch still: those who take nothing were to be there", s.Len())
	}
}

// large is a record of which few are taken for a viewer that does not read.
var large = event.Record{Type: event.CallDone, Data: map[string]string{"text": strings.Repeat("x", 200)}}

// Those who take nothing are cut off after a time.
func TestStalledViewersAreCutOff(t *testing.T) {
	s := open(t, 0, Options{Write: 100 * time.Millisecond, Pause: time.Millisecond}, nil)
	for range 3 {
		s.dial(t, "")
	}
	await.Until(t, "those who take nothing are cut off", func() bool {
		for range 500 {
			s.bus.Emit(large)
		}
		return s.Len() == 0
	})
}

func TestRefusals(t *testing.T) {
	s := open(t, 0, Options{Max: 2}, nil)
	s.dial(t, "")
	s.dial(t, "")
	await.Until(t, "both watch", func() bool { return s.Len() == 2 })
	_, resp, err := websocket.Dial(t.Context(), s.url, nil)
	if err == nil || resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		t.Errorf("one too many was let in: %v", err)
	}
	plain, err := http.Get("http" + strings.TrimPrefix(s.url, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	plain.Body.Close()
	if plain.Header.Get("Upgrade") != "websocket" || plain.StatusCode < 400 {
		t.Errorf("no socket: %v", plain.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A hub that stops sends its viewers off, also those who do not listen.
func TestClose(t *testing.T) {
	s := open(t, 0, Options{Write: time.Hour, Beat: time.Hour}, nil)
	c := s.dial(t, "")
	s.dial(t, "")
	next(t, c)
	await.Until(t, "both watch", func() bool { return s.Len() == 2 })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.Close()
	}()
	_, _, err := c.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("it was told %v", err)
	}
	await.Value(t, "all are gone", closed)
	if s.Len() != 0 {
		t.Errorf("%d are left", s.Len())
	}
}

// kindOf is a connection of a listener that hands out its own kind.
type kindOf struct{ *net.TCPConn }

// The system holds little for a viewer, whatever kind its connection is.
func TestLittleIsInFlight(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, kind := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return c },
		"own":   func(c net.Conn) net.Conn { return kindOf{c.(*net.TCPConn)} },
		"tls":   func(c net.Conn) net.Conn { return tls.Client(kindOf{c.(*net.TCPConn)}, &tls.Config{}) },
	} {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		bound(kind(c))
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var size int
		failed := raw.Control(func(fd uintptr) { size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF) })
		if failed != nil || err != nil || size > 2*inFlight { // the system counts what it needs for itself
			t.Errorf("%s: %d bytes may be in flight, %v %v", name, size, failed, err)
		}
	}
}
