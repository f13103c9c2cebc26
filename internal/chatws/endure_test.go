package chatws

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// silent opens a socket by hand and leaves it to the test to read from it: it
// answers no ping.
func (b *bench) silent(query string) net.Conn {
	b.t.Helper()
	dialer := net.Dialer{}
	conn, err := dialer.DialContext(b.t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /ws?%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		query, strings.TrimPrefix(b.url, "http://"))
	return conn
}

// sockets are how many a principal has.
func (b *bench) sockets() int {
	b.host.gate.mu.Lock()
	defer b.host.gate.mu.Unlock()
	return b.host.gate.open[auth.LocalName]
}

func TestHeartbeat(t *testing.T) {
	const every = 50 * time.Millisecond
	b := open(t, Options{Heartbeat: every})
	began := time.Now()
	dead := b.silent("")
	if _, err := io.Copy(io.Discard, dead); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*every {
		t.Errorf("closed after %v", took)
	}
	// A machine may be too busy to answer so soon, but not each time.
	await.NoError(t, "one that answers is there still, many beats later", func() error { return b.lives(6) })
}

// lives opens a socket that answers pings, and after so many of them asks for a
// sign of life. It is an error that the socket was closed before.
func (b *bench) lives(pings int) error {
	b.t.Helper()
	var ws *websocket.Conn
	ping := func(ctx context.Context, _ []byte) bool {
		if pings--; pings == 0 {
			_ = ws.Write(ctx, websocket.MessageText, []byte(`{"type":"ping"}`)) // else no answer comes
		}
		return true
	}
	ws, _, err := websocket.Dial(b.t.Context(), "ws"+strings.TrimPrefix(b.url, "http")+"/ws", &websocket.DialOptions{HTTPClient: b.http, OnPingReceived: ping})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	_, err = (&client{b.t, ws}).upTo("pong")
	return err
}

// A client that takes nothing holds up neither the turn nor its neighbours, and
// is closed in the end; one that was only slow has lost nothing.
func TestSlowSockets(t *testing.T) {
	b := open(t, Options{WriteTimeout: time.Minute})
	fast := b.dial("sessionId=s", "")
	fast.find("connection")
	slow := b.silent("sessionId=s&after_seq=0")
	await.Until(t, "both are there", func() bool { return b.sockets() == 2 })
	fast.message("Speak")
	fast.find("turn.started")
	ref := newLedger()
	ref.at = place{Seq: 2}
	var wg sync.WaitGroup
	wg.Go(func() { ref.read(fast) })
	const large, small = 120, 500 // more than what the system takes for a client that does not read
	piece := strings.Repeat("0123456789abcdef", 4000)
	for range large {
		b.says(piece)
	}
	for i := range small {
		b.says(fmt.Sprintf("<%d>", i))
	}
	b.stops()
	wg.Wait()
	if ref.err != nil {
		t.Fatal(ref.err)
	}
	// Now it reads: a few large frames in place of very many small ones.
	l := newLedger()
	ws := &byHand{t: t, r: bufio.NewReaderSize(slow, 1<<16)}
	ws.handshake()
	little := 0
	for f := ws.next(); ; f = ws.next() {
		l.add(f)
		if f.Type == "text" && len(f.get("content")) < len(piece) {
			little++
		}
		if l.err != nil || f.Type == "turn.ended" {
			break
		}
	}
	text := func(l *ledger) (all string) {
		for seq := uint64(1); seq <= l.at.Seq; seq++ {
			all += l.parts[seq]
		}
		return all
	}
	if l.err != nil || text(l) != text(ref) || len(text(l)) < large*len(piece) {
		t.Errorf("%v: %d bytes, %d", l.err, len(text(l)), len(text(ref)))
	}
	if little > small/4 {
		t.Errorf("%d frames for %d small pieces", little, small)
	}
}

func TestStalledSocket(t *testing.T) {
	b := open(t, Options{WriteTimeout: time.Minute})
	other := b.beside(Options{WriteTimeout: time.Second})
	fast := b.dial("sessionId=s", "")
	fast.find("connection")
	stalled := other.silent("sessionId=s")
	await.Until(t, "it is there", func() bool { return other.sockets() == 1 })
	fast.message("Speak")
	fast.find("turn.started")
	ref := newLedger()
	ref.at = place{Seq: 2}
	var wg sync.WaitGroup
	wg.Go(func() { ref.read(fast) })
	const pieces = 120
	piece := strings.Repeat("0123456789abcdef", 4000)
	for range pieces {
		b.says(piece)
	}
	b.stops()
	wg.Wait()
	if ref.err != nil {
		t.Error(ref.err)
	}
	await.Until(t, "the stalled one was closed", func() bool { return other.sockets() == 0 })
	// What is left is what was on the way.
	n, _ := io.Copy(io.Discard, stalled)
	if n >= pieces*int64(len(piece)) {
		t.Errorf("it was sent all of it: %d bytes", n)
	}
}

// byHand reads the frames of a socket without the help of a library, since
// those read ahead.
type byHand struct {
	t *testing.T
	r *bufio.Reader
}

func (w *byHand) handshake() {
	w.t.Helper()
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatal(resp, err)
	}
}

func (w *byHand) next() said {
	w.t.Helper()
	for {
		var head [2]byte
		w.full(head[:])
		n := int(head[1] & 0x7f)
		ext := make([]byte, map[int]int{126: 2, 127: 8}[n])
		w.full(ext)
		if len(ext) > 0 {
			n = 0
			for _, c := range ext {
				n = n<<8 | int(c)
			}
		}
		payload := make([]byte, n)
		w.full(payload)
		if head[0] == 0x81 {
			return parseSaid(w.t, payload)
		}
	}
}

func (w *byHand) full(p []byte) {
	w.t.Helper()
	if _, err := io.ReadFull(w.r, p); err != nil {
		w.t.Fatal(err)
	}
}

func TestDrain(t *testing.T) {
	b := open(t, Options{}, func(s *chat.Settings) { s.Texts.Maintenance = "Back soon." })
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Hi")
	b.says("Still ")
	c.find("text")
	b.host.Close()
	f := c.find("connection")
	if f.get("state") != "reconnecting" || f.get("message") != "Back soon." || f.get("sessionId") != "s" {
		t.Error(f.raw)
	}
	if code := c.closed(); code != websocket.StatusGoingAway {
		t.Error(code)
	}
	if resp := b.get("/ws", "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body(t, resp), "Back soon.") {
		t.Error(resp.Status)
	}
	if resp := b.post("/api/chat", `{"text":"hi"}`); resp.StatusCode != http.StatusServiceUnavailable {
		t.Error(resp.Status)
	}
	b.host.Wait(t.Context())
	// The turn has gone on meanwhile.
	b.says("here.")
	b.stops()
	await.Until(t, "the turn is over", func() bool {
		return strings.Contains(body(t, b.get("/api/chat/s")), `"content":"Still here."`)
	})
}

func TestConnectionLimit(t *testing.T) {
	b := open(t, Options{Connections: 2})
	one, two := b.dial("", ""), b.dial("", "")
	one.find("connection")
	two.find("connection")
	three := b.dial("", "")
	if f := three.find("connection"); f.get("state") != "error" || f.get("kind") != "limit" || !strings.Contains(f.get("message"), "2 connections") {
		t.Error(f.raw)
	}
	if code := three.closed(); code != websocket.StatusTryAgainLater {
		t.Error(code)
	}
	b.dial("", "alice").find("connection")
	if resp := b.post("/api/chat", `{"text":"hi"}`); resp.StatusCode != http.StatusTooManyRequests {
		t.Error(resp.Status)
	}
	one.ws.Close(websocket.StatusNormalClosure, "")
	await.Until(t, "there is room again", func() bool { return b.sockets() < 2 })
	if f := b.dial("", "").find("connection"); f.get("state") != "connected" {
		t.Error(f.raw)
	}
}

func TestDegraded(t *testing.T) {
	var names atomic.Pointer[[]Degraded]
	b := open(t, Options{Heartbeat: 50 * time.Millisecond, Degraded: func(*auth.Principal) []Degraded { return *names.Load() }})
	// A machine may be too busy to answer pings so soon, but not each time.
	await.NoError(t, "a socket is told twice", func() error {
		names.Store(&[]Degraded{{"github", "no answer"}, {"jira", "the key is wrong"}})
		c := b.dial("", "")
		defer c.ws.CloseNow()
		f, err := c.upTo("status")
		if err != nil {
			return err
		}
		if !strings.Contains(f.get("message"), "github: no answer; jira: the key is wrong") || f.get("data") != `{"degraded":["github","jira"]}` {
			t.Fatal(f.raw)
		}
		names.Store(&[]Degraded{})
		if f, err = c.upTo("status"); err != nil {
			return err
		}
		if f.get("data") != `{"degraded":[]}` || !strings.Contains(f.get("message"), "work again") {
			t.Fatal(f.raw)
		}
		return nil
	})
}

// A Session that ends takes its conversation with it, and whoever watches.
func TestSessionEnds(t *testing.T) {
	b := openOn(t, storetest.Open(t, store.Options{}), Options{})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("Hi")
	b.says("Hello.")
	b.stops()
	c.find("turn.ended")
	s, err := b.sessions.Bind(session.Binding{Principal: auth.LocalName, Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Put(t.Context(), session.New{Name: "x", Data: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if err := b.sessions.Remove(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if f := c.find("connection"); f.get("state") != "error" || f.get("kind") != "unknown_session" || f.get("hint") == "" {
		t.Error(f.raw)
	}
	if code := c.closed(); code != websocket.StatusPolicyViolation {
		t.Error(code)
	}
	await.Until(t, "the name is free again", func() bool {
		return b.dial("sessionId=s", "").find("connection").get("state") == "connected"
	})
}
