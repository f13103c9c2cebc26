package auth

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lookAgain is how often the token of a request that lasts is looked at.
const lookAgain = time.Second

// stay is a request that a token let in, for as long as it is served, or the
// connection that was taken over from it is open. Streams and sockets last for
// days, and a token that is revoked or expires meanwhile must not go on hearing
// what happens: then the request's context ends, and the connection is closed.
type stay struct {
	g      *Guard
	who    *Principal
	cancel context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer
	conn  net.Conn // taken over; nil before
	over  bool     // the request is
}

// stay returns what a handler is to be called with, and what ends the stay.
func (g *Guard) stay(w http.ResponseWriter, r *http.Request, who *Principal) (http.ResponseWriter, *http.Request, func()) {
	ctx, cancel := context.WithCancel(r.Context())
	s := &stay{g: g, who: who, cancel: cancel}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w = &taken{w, s}
	}
	s.mu.Lock() // or look might come before its timer is known
	s.timer = time.AfterFunc(lookAgain, s.look)
	s.mu.Unlock()
	return w, r.WithContext(ctx), s.leave
}

// leave is called when the handler returns; its connection may be served on by
// another goroutine.
func (s *stay) leave() {
	s.mu.Lock()
	s.over = true
	if s.conn == nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.cancel()
}

// look ends the request if its token is valid no more, or that could not be found
// out for too long. A file that cannot be read says nothing of the token: it lets
// nobody in, and sends nobody off.
func (s *stay) look() {
	_, err := s.g.again(context.Background(), s.who)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over && (s.conn == nil || !open(s.conn)):
		return
	case !errors.Is(err, ErrBadToken) && !errors.Is(err, ErrUntrusted):
		s.timer.Reset(lookAgain)
		return
	}
	s.g.opt.Logger.Info("a token ended under a request, which ends too", "action", "authenticate", "principal", s.who.Name)
	s.cancel()
	if s.conn != nil {
		_ = s.conn.Close() // whoever has it closes it too
	}
}

// open reports whether a connection was not closed yet. One that cannot be
// asked was not made by a listener of the system; it counts as closed.
func open(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	return err == nil && raw.Control(func(uintptr) {}) == nil
}

// taken is the writer of a request whose connection may be taken over.
type taken struct {
	http.ResponseWriter
	s *stay
}

// Unwrap is for http.ResponseController.
func (t *taken) Unwrap() http.ResponseWriter { return t.ResponseWriter }

func (t *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.conn = conn
	t.s.timer.Reset(0) // the token may have ended before there was a connection to close
	return conn, rw, nil
}
