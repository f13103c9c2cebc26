package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// key names a connection: its era and, where connections are not shared, the
// client connection it belongs to, or whose requests it is for that came by none.
type key struct {
	era    mcp.Era
	client string
	alone  bool // it is for requests that stand alone
}

// A link is one connection to the upstream, with its process if it has one.
type link struct {
	key   key
	owner string // of a connection for one client: its principal
	conn  mcp.Conn
	hello *mcp.Hello
	proc  *process
	// speaks is what the probe found out that the upstream speaks; 0 if this
	// connection was made without.
	speaks mcp.Eras
	born   time.Time
	ready  chan struct{} // closed once calls may be sent: what the server says meanwhile is heard
	used   atomic.Int64  // unix nanoseconds
	busy   atomic.Int32  // calls that use it

	listen chan struct{} // a token makes the listen stream open anew with what is wanted now
	heard  reached       // modern: up to which change of subs the listen stream has what is wanted
	level  atomic.Int32  // legacy: 1 + rank of the log level that was set; 0 if none
	// levelling is closed when the server has been told the log level; nil while
	// it need not be.
	levelling atomic.Pointer[chan struct{}]
	stop      context.CancelFunc
	wg        sync.WaitGroup // goroutines that serve the link
}

func newLink(k key, conn mcp.Conn, hello *mcp.Hello, proc *process, speaks mcp.Eras) *link {
	return &link{key: k, conn: conn, hello: hello, proc: proc, speaks: speaks, born: time.Now(), ready: make(chan struct{}), listen: make(chan struct{}, 1)}
}

func (l *link) alive() bool {
	select {
	case <-l.conn.Done():
		return false
	default:
		return true
	}
}

// close ends the connection and its process and waits for both.
func (l *link) close() {
	if l.stop != nil {
		l.stop()
	}
	closeConn(l.conn, l.proc)
	l.wg.Wait()
}

func closeConn(conn mcp.Conn, proc *process) {
	if proc == nil {
		conn.Close()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.Close() // closes stdin, returns when stdout has ended
	}()
	proc.stop()
	<-done
	proc.stdout.Close()
}

// raw opens a transport without a handshake.
func (u *Upstream) raw() (mcp.Conn, *process, error) {
	opts := mcp.ConnOptions{
		MessageBytes: u.opts.MessageBytes,
		Note:         u.note,
		Aside:        func(a mcp.Aside) { u.pool.onAside(u.opts.Name, a) },
		Refused: func(method string) {
			u.health("unattributed", "a %s request of the server could not be attributed to one call and was refused; `sharing: session` gives each session a connection of its own", method)
		},
		Panicked: func(v any, stack []byte) {
			u.opts.Logger.Error("an upstream made the hub stumble", "upstream", u.opts.Name, "err", fmt.Sprint(v), "stack", string(stack))
		},
	}
	if u.opts.Handler != nil {
		return mcp.LocalTo(u.opts.Handler, opts), nil, nil
	}
	if u.opts.URL != "" {
		conn, err := u.remote(opts)
		return conn, nil, err
	}
	proc, err := startProcess(&u.opts, &u.tail)
	if err != nil {
		return nil, nil, err
	}
	u.starts.Add(1)
	return mcp.PipeOver(proc.stdout, proc.stdin, opts, u.garbage), proc, nil
}

// dial makes a connection for k. With k.era 0 it finds out the era first.
func (u *Upstream) dial(ctx context.Context, k key, caps []byte) (*link, error) {
	if k.era == 0 {
		return u.probe(ctx, caps)
	}
	conn, proc, err := u.raw()
	if err != nil {
		return nil, err
	}
	hello, err := u.shake(ctx, conn, k.era, caps)
	if err != nil {
		err = u.explain(err, proc)
		closeConn(conn, proc)
		if l := u.older(ctx, k, caps, err); l != nil {
			return l, nil
		}
		return nil, err
	}
	return newLink(k, conn, hello, proc, 0), nil
}

func (u *Upstream) shake(ctx context.Context, conn mcp.Conn, era mcp.Era, caps []byte) (_ *mcp.Hello, err error) {
	defer u.caught(&err) // here, where the connection is closed that it was about
	ctx, cancel := context.WithTimeoutCause(ctx, u.opts.Connect, errSlowHello)
	defer cancel()
	var hello *mcp.Hello
	if era == mcp.Modern {
		hello, err = mcp.Discover(ctx, shaking{conn, u})
	} else {
		hello, err = mcp.Initialize(ctx, shaking{conn, u}, caps, nil)
	}
	if err != nil {
		return nil, err
	}
	return hello, u.circle(hello.Hubs)
}

// shaking is a connection during its handshake, which is told of as all requests
// of the hub's own are.
type shaking struct {
	mcp.Conn
	u *Upstream
}

func (s shaking) Call(ctx context.Context, o *mcp.Outgoing) (mcp.Response, error) {
	return s.u.tellOf(ctx, s.Conn, o)
}

var (
	errSlowHello = errors.New("no answer to the handshake in time")
	errSilent    = errors.New("no answer to the probe")
)

// probe finds out which eras the upstream speaks. A modern answer settles it.
// So does a refusal of the version that names modern ones alone: such a server
// is not sent initialize. Anything else, silence and death included, means
// legacy: never one code alone, since servers differ.
func (u *Upstream) probe(ctx context.Context, caps []byte) (*link, error) {
	conn, proc, err := u.raw()
	if err != nil {
		return nil, err
	}
	pctx, cancel := context.WithTimeoutCause(ctx, u.opts.Probe, errSilent)
	hello, err := mcp.Discover(pctx, shaking{conn, u})
	cancel()
	if err == nil {
		if err := u.circle(hello.Hubs); err != nil {
			closeConn(conn, proc)
			return nil, err
		}
		return newLink(key{era: mcp.Modern}, conn, hello, proc, hello.Eras()), nil
	}
	rejected, _ := errors.AsType[*mcp.Rejected](err)
	modern := rejected != nil && rejected.Eras() == mcp.Eras(mcp.Modern) // by its own words, whatever else is wrong
	if ctx.Err() != nil || modern || u.opts.URL != "" && errors.Is(err, mcp.ErrNotSent) {
		err = u.explain(err, proc)
		closeConn(conn, proc)
		return nil, err
	}
	if errors.Is(err, errSilent) || gone(err) {
		// The probe may have upset it: begin anew.
		closeConn(conn, proc)
	} else if hello, err2 := u.shake(ctx, conn, mcp.Legacy, caps); err2 == nil {
		return newLink(key{era: mcp.Legacy}, conn, hello, proc, mcp.Eras(mcp.Legacy)), nil
	} else {
		closeConn(conn, proc)
	}
	l, err := u.dial(ctx, key{era: mcp.Legacy}, caps)
	if err == nil {
		l.speaks = mcp.Eras(mcp.Legacy)
	}
	return l, err
}

// explain adds to an error what a person needs to mend it.
func (u *Upstream) explain(err error, proc *process) error {
	if proc != nil {
		select {
		case <-proc.exited:
			return u.endedBy(proc.err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if st, ok := errors.AsType[*mcp.StatusError](err); ok && (st.Status == http.StatusUnauthorized || st.Status == http.StatusForbidden) {
		return &fault.Error{Kind: fault.Unreachable, Subject: u.opts.Name, Msg: fmt.Sprintf("the server refuses our credentials (HTTP %d)", st.Status), Hint: "Check the headers of this server in the config."}
	}
	return err
}
