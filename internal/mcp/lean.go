package mcp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Transport carries requests to one server.
type Transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// NewTransport returns a transport for calls to the server at u. Redirects are
// not followed and nothing is decompressed behind our back, so that
// credentials stay with the host they are for and bytes stay what they were.
//
// To a server in plain HTTP, which is how those on the same machine are
// reached, requests go by connections of our own: one goroutine per call
// instead of three saves about a fifth of a call's CPU time. TLS, HTTP/2 and
// proxies are left to net/http. secure is nil for the usual rules of TLS.
//
// control may refuse the addresses that connections would be made to; nil
// allows all. Where it decides, no proxy is used, which would decide otherwise.
func NewTransport(u *url.URL, secure *tls.Config, control Control) Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: control}
	if u.Scheme == "http" {
		if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); control != nil || err == nil && proxy == nil {
			return newLean(u, dialer)
		}
	}
	t := newStandard(dialer)
	t.TLSClientConfig = secure
	if control != nil {
		t.Proxy = nil
	}
	return t
}

// Control is asked before each connection whether its address may be dialled;
// see net.Dialer.
type Control = func(network, address string, c syscall.RawConn) error

// lean keeps connections to one host and speaks HTTP/1.1 on them.
type lean struct {
	addr   string
	dialer *net.Dialer

	mu     sync.Mutex
	idle   []*leanConn // newest last
	closed bool
	wg     sync.WaitGroup // connections that are being emptied
}

type leanConn struct {
	net.Conn
	in    *bufio.Reader
	out   []byte
	since time.Time // when it became idle
	head  int       // what the header of an answer may still have; less than 0 means that it is there
}

// Read bounds the header of an answer, which http.ReadResponse does not.
func (c *leanConn) Read(p []byte) (int, error) {
	if c.head < 0 {
		return c.Conn.Read(p)
	}
	if c.head == 0 {
		return 0, errLongHeader
	}
	n, err := c.Conn.Read(p[:min(len(p), c.head)])
	c.head -= n
	return n, err
}

var errLongHeader = fmt.Errorf("the header of the answer is over %d bytes", leanHead)

const (
	leanIdle  = 256                    // connections kept
	leanAge   = 60 * time.Second       // how long one is kept unused
	leanHead  = 1 << 20                // the header of an answer
	leanDrain = 200 * time.Millisecond // to wait for the end of an answer that we have all of
)

func newLean(u *url.URL, dialer *net.Dialer) *lean {
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), "80")
	}
	return &lean{addr: addr, dialer: dialer}
}

// CloseIdleConnections closes what is idle and, since a transport belongs to
// one upstream, keeps nothing from now on. It waits for what is being emptied.
func (t *lean) CloseIdleConnections() {
	t.mu.Lock()
	t.closed = true
	idle := t.idle
	t.idle = nil
	t.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
	t.wg.Wait()
}

// take returns an idle connection that the server has not closed, or nil.
func (t *lean) take() *leanConn {
	for {
		t.mu.Lock()
		if len(t.idle) == 0 {
			t.mu.Unlock()
			return nil
		}
		c := t.idle[len(t.idle)-1]
		t.idle = t.idle[:len(t.idle)-1]
		t.mu.Unlock()
		if time.Since(c.since) < leanAge && quiet(c.Conn) {
			return c
		}
		c.Close()
	}
}

func (t *lean) put(c *leanConn) {
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.idle) >= leanIdle {
		c.Close()
		return
	}
	// The oldest are at the front; they go first.
	for len(t.idle) > 0 && c.since.Sub(t.idle[0].since) > leanAge {
		t.idle[0].Close()
		t.idle = t.idle[1:]
	}
	t.idle = append(t.idle, c)
}

func (t *lean) dial(ctx context.Context) (*leanConn, error) {
	conn, err := t.dialer.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	c := &leanConn{Conn: conn}
	c.in = bufio.NewReaderSize(c, 4<<10)
	return c, nil
}

// RoundTrip sends a request and returns the answer once its header is there.
func (t *lean) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c := t.take()
	reused := c != nil
	if c == nil {
		var err error
		if c, err = t.dial(ctx); err != nil {
			return nil, err
		}
	}
	body := &leanBody{t: t, c: c, ctx: ctx}
	body.stop = context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	resp, err := c.exchange(req)
	if err != nil {
		body.stop()
		c.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if reused && errors.Is(err, errNothingWritten) {
			return t.RoundTrip(req) // it was closed between uses
		}
		return nil, err
	}
	body.Reader, body.keep = resp.Body, !resp.Close
	if resp.Body == http.NoBody {
		body.done()
	}
	resp.Body = body
	return resp, nil
}

var errNothingWritten = errors.New("the connection was closed")

// exchange writes the request in one piece and reads the answer's header.
func (c *leanConn) exchange(req *http.Request) (*http.Response, error) {
	out, err := appendRequest(c.out[:0], req)
	if err != nil {
		return nil, err
	}
	if c.out = out; cap(out) > 64<<10 {
		c.out = nil
	}
	if n, err := c.Write(out); err != nil {
		if n == 0 {
			return nil, fmt.Errorf("%w: %w", errNothingWritten, err)
		}
		return nil, err
	}
	for c.head = leanHead; ; {
		resp, err := http.ReadResponse(c.in, req)
		if err != nil {
			if err == io.ErrUnexpectedEOF || err == io.EOF {
				err = errors.New("the server closed the connection without an answer")
			}
			return nil, err
		}
		if resp.StatusCode >= 200 {
			c.head = -1
			return resp, nil
		}
	}
}

var errHeader = errors.New("a header holds a line break")

func appendRequest(dst []byte, req *http.Request) ([]byte, error) {
	dst = append(append(append(dst, req.Method...), ' '), req.URL.RequestURI()...)
	dst = append(append(append(dst, " HTTP/1.1\r\nHost: "...), req.URL.Host...), "\r\n"...)
	for name, values := range req.Header {
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") || strings.ContainsAny(name, "\r\n\x00: ") {
				return nil, errHeader
			}
			dst = append(append(append(append(dst, name...), ": "...), v...), "\r\n"...)
		}
	}
	if req.Body == nil {
		return append(dst, "\r\n"...), nil
	}
	dst = append(strconv.AppendInt(append(dst, "Content-Length: "...), req.ContentLength, 10), "\r\n\r\n"...)
	if b, ok := req.Body.(bytesBody); ok {
		return append(dst, b.Bytes()...), nil
	}
	all, err := io.ReadAll(req.Body)
	return append(dst, all...), err
}

// bytesBody is a request's body that can be had without reading it.
type bytesBody interface{ Bytes() []byte }

// leanBody is the body of an answer; it gives the connection back at its end.
type leanBody struct {
	io.Reader
	t     *lean
	c     *leanConn
	ctx   context.Context
	stop  func() bool
	keep  bool
	ended bool
}

func (b *leanBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.done()
	} else if err != nil && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// done is called once the answer has been read to its end.
func (b *leanBody) done() {
	if b.ended {
		return
	}
	b.ended = true
	if b.stop() && b.keep {
		b.t.put(b.c)
		return
	}
	b.c.Close()
}

// Close gives the connection up, unless the answer's end is near: after the
// response on an event stream, the server has only to say that it is over.
func (b *leanBody) Close() error {
	if b.ended {
		return nil
	}
	b.ended = true
	if !b.stop() || !b.keep || b.ctx.Err() != nil {
		return b.c.Close()
	}
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	if b.t.closed {
		return b.c.Close()
	}
	b.t.wg.Go(func() {
		b.c.SetReadDeadline(time.Now().Add(leanDrain))
		n, err := io.Copy(io.Discard, io.LimitReader(b.Reader, 4<<10))
		if err != nil || n == 4<<10 {
			b.c.Close()
			return
		}
		b.c.SetReadDeadline(time.Time{})
		b.t.put(b.c)
	})
	return nil
}
