package lobby

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// Lobby counts the connections of one or more listeners.
type Lobby struct {
	room  int // all connections
	known int // of all callers but the owner
	each  int // of one of these

	mu        sync.Mutex
	here      int
	strangers list.List // *Guest, the one who came first at the front
	holds     map[string]int
	held      int // the sum of holds, without the owner's
}

// New makes room for so many connections; 0 means for as many as the system's
// limit on open files allows, with as much left for servers and files.
func New(room int) *Lobby {
	if room <= 0 {
		room = min(openFiles()/2, most)
	}
	return &Lobby{room: max(room, 8), known: max(room*3/4, 4), each: max(room/2, 2), holds: map[string]int{}}
}

// most connections that make sense: beyond are more than one machine's work.
const most = 100_000

// Listener counts the connections that ln accepts.
func (l *Lobby) Listener(ln net.Listener) net.Listener { return &listener{ln, l} }

type listener struct {
	net.Listener
	lobby *Lobby
}

func (ln *listener) Accept() (net.Conn, error) {
	for {
		c, err := ln.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return c, nil // not from outside
		}
		if g := ln.lobby.admit(tcp); g != nil {
			return g, nil
		}
		c.Close()
	}
}

// admit takes a connection in, at the cost of the oldest stranger's if need be.
// It returns nil if there is no room, since all that is here is known.
func (l *Lobby) admit(c *net.TCPConn) *Guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.here >= l.room {
		oldest := l.strangers.Front()
		if oldest == nil {
			return nil
		}
		g := oldest.Value.(*Guest)
		l.leave(g)
		g.TCPConn.Close()
	}
	l.here++
	g := &Guest{TCPConn: c, lobby: l}
	g.place = l.strangers.PushBack(g)
	return g
}

// leave takes a connection out. Called with mu held.
func (l *Lobby) leave(g *Guest) {
	if g.gone {
		return
	}
	g.gone = true
	l.here--
	l.release(g)
}

// release takes a connection from who holds it. Called with mu held.
func (l *Lobby) release(g *Guest) {
	if g.place != nil {
		l.strangers.Remove(g.place)
		g.place = nil
		return
	}
	who := g.holder.Load()
	if !who.owner {
		l.held--
	}
	if l.holds[who.name]--; l.holds[who.name] == 0 {
		delete(l.holds, who.name)
	}
}

// Guest is a connection that was let in.
type Guest struct {
	*net.TCPConn
	lobby  *Lobby
	holder atomic.Pointer[holder] // nil: a stranger's

	looked sync.Once
	uid    int
	err    error

	// The rest belongs to the lobby's mutex.
	place *list.Element // among the strangers
	gone  bool
}

type holder struct {
	name  string
	owner bool
}

// Close closes the connection.
func (g *Guest) Close() error {
	g.lobby.mu.Lock()
	g.lobby.leave(g)
	g.lobby.mu.Unlock()
	return g.TCPConn.Close()
}

// Hold says who uses the connection, as a request on it has shown. It reports
// false if they hold too many already; the connection is then still another's,
// or a stranger's, and should be closed.
func (g *Guest) Hold(name string, owner bool) bool {
	if now := g.holder.Load(); now != nil && now.name == name && now.owner == owner {
		return true
	}
	l := g.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.gone {
		return true // what is left of the request ends by itself
	}
	if !owner && (l.holds[name] >= l.each || l.held >= l.known) {
		return false
	}
	l.release(g)
	g.holder.Store(&holder{name, owner})
	if l.holds[name]++; !owner {
		l.held++
	}
	return true
}

// User is the user of this machine at the other end of a connection on
// loopback. ErrUnknown means that the system does not say.
func (g *Guest) User() (uid int, err error) {
	g.looked.Do(func() { g.uid, g.err = userOf(g.LocalAddr(), g.RemoteAddr()) })
	return g.uid, g.err
}

type guestKey struct{}

// Context tells a server's requests which connection they came on. It is for
// http.Server.ConnContext.
func Context(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if g, ok := c.(*Guest); ok {
		return context.WithValue(ctx, guestKey{}, g)
	}
	return ctx
}

// Of is the connection that a request came on, or nil if it is not known.
func Of(ctx context.Context) *Guest {
	g, _ := ctx.Value(guestKey{}).(*Guest)
	return g
}
