package lobby

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hall is a lobby with a listener, and the connections that came in.
type hall struct {
	t  *testing.T
	l  *Lobby
	ln net.Listener
}

func newHall(t *testing.T, room int) *hall {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hall{t, New(room), nil}
	h.ln = h.l.Listener(ln)
	t.Cleanup(func() { ln.Close() })
	return h
}

// enter dials, and returns both ends; ours is nil if there was no room.
func (h *hall) enter() (theirs net.Conn, ours *Guest) {
	h.t.Helper()
	theirs, err := net.Dial("tcp", h.ln.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { theirs.Close() })
	c, err := h.ln.Accept()
	if err != nil {
		h.t.Fatal(err)
	}
	ours, ok := c.(*Guest)
	if !ok {
		h.t.Fatalf("%T", c)
	}
	h.t.Cleanup(func() { ours.Close() })
	return theirs, ours
}

// ended reports whether the far end was closed.
func ended(t *testing.T, c net.Conn) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// The stranger who came first makes room, never one who is known.
func TestStrangersMakeRoom(t *testing.T) {
	h := newHall(t, 8)
	known, g := h.enter()
	if !g.Hold("ann", false) {
		t.Fatal("the first is not let in")
	}
	var strangers []net.Conn
	for range 20 {
		c, _ := h.enter()
		strangers = append(strangers, c)
	}
	for i, c := range strangers {
		if got, want := ended(t, c), i < 20-7; got != want {
			t.Errorf("stranger %d: ended %v, want %v", i, got, want)
		}
	}
	if ended(t, known) {
		t.Error("one who is known had to leave")
	}
}

// One caller has half of the room, all callers three quarters, and the owner
// gets in.
func TestShares(t *testing.T) {
	h := newHall(t, 16)
	count := func(name string, owner bool, tries int) (n int) {
		for range tries {
			if _, g := h.enter(); g.Hold(name, owner) {
				n++
			} else {
				g.Close()
			}
		}
		return n
	}
	if n := count("ann", false, 16); n != 8 {
		t.Errorf("ann holds %d", n)
	}
	if n := count("bob", false, 16); n != 4 {
		t.Errorf("bob holds %d", n)
	}
	if n := count("local", true, 3); n != 3 {
		t.Errorf("the owner holds %d", n)
	}
}

// What is closed leaves its place, whoever closes it and however often; a
// connection that another uses next is the other's.
func TestPlacesAreLeft(t *testing.T) {
	h := newHall(t, 16)
	for range 50 {
		_, g := h.enter()
		for range 2 {
			if !g.Hold("ann", false) {
				t.Fatal("no room")
			}
		}
		if !g.Hold("bob", false) {
			t.Fatal("no room for the other")
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { g.Close() })
		}
		wg.Wait()
		if !g.Hold("ann", false) {
			t.Fatal("one that is gone is refused")
		}
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	if h.l.here != 0 || h.l.held != 0 || len(h.l.holds) != 0 || h.l.strangers.Len() != 0 {
		t.Errorf("left: %d, %d, %v, %d", h.l.here, h.l.held, h.l.holds, h.l.strangers.Len())
	}
}

func TestUserOfAConnection(t *testing.T) {
	if !Knows() {
		t.Skip("the system does not say")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		h := &hall{t, New(16), nil}
		h.ln = h.l.Listener(ln)
		_, g := h.enter()
		if uid, err := g.User(); err != nil || uid != os.Geteuid() {
			t.Errorf("%s: %d, %v", address, uid, err)
		}
		// One whose far end is closing is nobody's: the system may call it root's.
		theirs, g := h.enter()
		theirs.Close()
		if uid, err := g.User(); err == nil {
			t.Errorf("%s: a connection that was closed is user %d's", address, uid)
		}
		ln.Close()
	}
}
