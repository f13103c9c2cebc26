package mcp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
)

// memnet is a network of one listener, without a kernel in between, so that
// HTTP can run on a test's own clock.
type memnet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (m *memnet) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *memnet) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

func (m *memnet) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (m *memnet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.conns <- far:
		return near, nil
	case <-m.done:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serveMem serves h until the test's function returns.
func serveMem(t *testing.T, h http.Handler) (rt *http.Transport, stop func()) {
	t.Helper()
	m := &memnet{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(m) })
	rt = &http.Transport{DialContext: m.dial, DisableCompression: true}
	return rt, func() {
		rt.CloseIdleConnections()
		srv.Close()
		wg.Wait()
	}
}
