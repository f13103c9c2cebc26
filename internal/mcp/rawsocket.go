package mcp

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/coder/websocket"
)

// ErrStopping ends a Socket whose other end is a hub that stops in order: it
// has answered every request that it has read, so what it has not answered has
// not been begun.
var ErrStopping = errors.New("the hub is stopping")

// Socket carries messages as they are, for those who hand them on. One
// goroutine may call Next and one Write at a time.
type Socket struct {
	s      *socket
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// OpenSocket opens a socket to the server at a ws or wss URL, with header on
// the handshake. secure is nil for the usual rules of TLS. Messages of the
// server have at most limit bytes.
func OpenSocket(ctx context.Context, u *url.URL, header http.Header, secure *tls.Config, limit int) (*Socket, error) {
	s, err := openSocket(ctx, u, header, secure, limit)
	if err != nil {
		return nil, err
	}
	k := &Socket{s: s}
	ctx, k.cancel = context.WithCancel(context.Background())
	k.wg.Go(func() { s.keepAlive(ctx, socketPing) })
	return k, nil
}

// Next returns the next message, which is valid until the next call.
func (k *Socket) Next() ([]byte, error) {
	b, err := k.s.Next()
	if websocket.CloseStatus(err) == websocket.StatusGoingAway {
		return nil, ErrStopping
	}
	return b, err
}

// Write sends one message. After an error the socket can only be closed;
// whether the message has arrived is not known.
func (k *Socket) Write(b []byte) error {
	_, err := k.s.Write(b)
	return err
}

// Abort ends the socket at once, and with it Next and Write.
func (k *Socket) Abort() { k.s.raw.Close() }

// Close says goodbye, for which it waits a moment, and frees what is held.
func (k *Socket) Close() {
	k.s.close()
	k.cancel()
	k.wg.Wait()
	k.s.raw.Close()
}
