package mcp

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// socketScope is that of the sessions which sockets are counted as; no face
// has this name.
const socketScope = "/ws"

// ServeSocket serves h on a WebSocket: a message per text frame, both eras
// mixed, as on a pipe. Who asks, and from where, has been checked by the
// caller.
func (e *Endpoint) ServeSocket(w http.ResponseWriter, r *http.Request, who *auth.Principal, h Handler) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		writeJSON(w, http.StatusUpgradeRequired, wire.AppendError(nil, nil,
			fault.New(fault.InvalidRequest, "", "this address speaks WebSocket only; /mcp is the one for HTTP").Wire(false)))
		return
	}
	if !e.sockets.enter() {
		w.WriteHeader(http.StatusServiceUnavailable) // it is stopping
		return
	}
	defer e.sockets.leave()
	held, err := e.hold(actor.WebSocket, who, socketScope, nil)
	if err != nil {
		full(w, err)
		return
	}
	defer e.opts.Sessions.remove(held)
	below := &hijacked{ResponseWriter: w}
	c, err := websocket.Accept(below, r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // the guard before us knows which origins are ours
	})
	if err != nil {
		return // Accept has said why
	}
	e.serveSocket(newSocket(c, below.conn, e.opts.MessageBytes, farOfClient, e.opts.WriteTimeout), held, who, h, e.pipeOptions(actor.WebSocket, r))
}

func (e *Endpoint) serveSocket(s *socket, held *session, who *auth.Principal, h Handler, opts PipeOptions) {
	defer s.raw.Close() // also if the handler panics
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.keepAlive(ctx, e.opts.KeepAlive) })
	wg.Go(func() {
		select {
		case <-e.closing:
		case <-held.over:
		case <-ctx.Done():
			return
		}
		s.finish()
	})
	defer wg.Wait()
	defer cancel()
	err := serveFrames(ctx, s, s, who, h, opts)
	if err == nil && s.asked.Load() {
		s.decide(websocket.StatusGoingAway, "the hub is stopping")
	}
	s.close()
}

// hijacked remembers the connection that was taken over.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, rw, err
}
