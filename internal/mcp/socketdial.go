package mcp

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// How long opening a connection that lasts may take, how often its server is
// asked whether it lives, and how long it may take to read a message.
const (
	openTimeout  = 10 * time.Second
	socketPing   = 20 * time.Second
	socketWriter = 30 * time.Second
)

// SocketTo starts a connection to the server at a ws or wss URL, with header
// on the handshake. secure is nil for the usual rules of TLS. garbage is as in
// PipeOver. That the server cannot be reached is told by the first call.
func SocketTo(u *url.URL, header http.Header, secure *tls.Config, opts ConnOptions, garbage func([]byte)) *PipeConn {
	opts.defaults()
	d := &dialled{url: u, header: header, secure: secure, limit: opts.MessageBytes, ready: make(chan struct{})}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.over = make(chan struct{})
	d.wg.Add(1) // before Close can wait, which may be as soon as there is a connection
	c := overFrames(d, d, opts, garbage)
	go func() {
		defer d.wg.Done()
		d.hurry(c.done)
	}()
	return c
}

// dialled is a socket that Next opens first.
type dialled struct {
	url    *url.URL
	header http.Header
	secure *tls.Config
	limit  int
	ctx    context.Context // ends when the connection is to end
	cancel context.CancelFunc

	begun bool          // only the reader uses it
	ready chan struct{} // closed when s and err are set
	s     *socket
	err   error
	over  chan struct{} // closed when the socket is
	wg    sync.WaitGroup
}

func (d *dialled) Next() ([]byte, error) {
	if !d.begun {
		d.begun = true
		d.s, d.err = d.open()
		close(d.ready)
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.s.Next()
}

func (d *dialled) Write(b []byte) (int, error) {
	select {
	case <-d.ready:
	case <-d.ctx.Done():
		return 0, errSocketOver
	}
	if d.err != nil {
		return 0, d.err
	}
	return d.s.Write(b)
}

// Close is called once, after the last Write.
func (d *dialled) Close() error {
	d.cancel()
	<-d.ready
	if d.s != nil {
		d.s.close()
	}
	close(d.over)
	d.wg.Wait()
	return nil
}

// hurry sees to it that the end of the connection does not wait for long for a
// server that does not answer, or does not read.
func (d *dialled) hurry(done <-chan struct{}) {
	<-done
	d.cancel()
	<-d.ready
	if d.s == nil {
		return
	}
	late := time.AfterFunc(2*socketClose, func() { d.s.raw.Close() })
	defer late.Stop()
	<-d.over
}

func (d *dialled) open() (*socket, error) {
	s, err := openSocket(d.ctx, d.url, d.header, d.secure, d.limit)
	if err == nil {
		d.wg.Go(func() { s.keepAlive(d.ctx, socketPing) })
	}
	return s, err
}

// openSocket opens a socket to a server, in bounded time.
func openSocket(ctx context.Context, u *url.URL, header http.Header, secure *tls.Config, limit int) (*socket, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTimeout, fmt.Errorf("no answer to the handshake within %v", openTimeout))
	defer cancel()
	var below net.Conn
	dialer := &net.Dialer{Timeout: openTimeout, KeepAlive: 30 * time.Second}
	// HTTP/2 is not on: it has no upgrade.
	rt := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure.Clone(), TLSHandshakeTimeout: openTimeout,
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			conn, err = dialer.DialContext(ctx, network, addr)
			below = conn
			return conn, err
		}}
	defer rt.CloseIdleConnections()
	c, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: []string{subprotocol},
		HTTPClient: &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // credentials stay with the host they are for
		}},
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case resp != nil && resp.StatusCode >= 300:
		return nil, &StatusError{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type"), Err: err}
	default:
		return nil, err
	}
	return newSocket(c, below, limit, farOfServer, socketWriter), nil
}

var (
	_ frames         = (*dialled)(nil)
	_ io.WriteCloser = (*dialled)(nil)
)
