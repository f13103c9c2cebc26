package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/wire"
)

// subprotocol is what MCP over WebSocket is called in the handshake.
const subprotocol = "mcp"

// socketClose is how long the other end may take to say goodbye.
const socketClose = time.Second

var errSocketOver = errors.New("the socket is closed")

// socket carries one message per text frame of a WebSocket, on either end. It
// is the framing of a pipe: one goroutine calls Next, one at a time Write.
type socket struct {
	c     *websocket.Conn
	raw   net.Conn // below c: what c does not bound in time is bounded here
	limit int
	far   int           // times the limit a message may be and be passed over
	write time.Duration // for one frame
	in    buffer

	heard   atomic.Int64 // unix nanoseconds of the last sign of life
	reading atomic.Bool  // in Next; only then pongs are seen
	writing atomic.Bool
	asked   atomic.Bool // to end: Next returns io.EOF

	mu     sync.Mutex
	code   websocket.StatusCode // to close with; 0 if nothing was decided
	reason string
}

func newSocket(c *websocket.Conn, raw net.Conn, limit, far int, write time.Duration) *socket {
	c.SetReadLimit(-1) // ours has a reason that says what the limit is
	s := &socket{c: c, raw: raw, limit: limit, far: far, write: write}
	s.heard.Store(time.Now().UnixNano())
	return s
}

// How many times the limit a message may be and still be passed over. After a
// longer one, or one that is no text, the socket can only be closed. A client
// harms itself by that; with a server's socket the calls of all others end too.
const (
	farOfClient = 8
	farOfServer = 64
)

// Next returns the next message, or what one was that is over the limit.
func (s *socket) Next() ([]byte, error) {
	if s.decided() {
		return nil, errSocketOver
	}
	s.reading.Store(true)
	defer s.reading.Store(false)
	if cap(s.in.b) > 1<<20 {
		s.in.b = nil
	}
	s.in.b = s.in.b[:0]
	kind, r, err := s.c.Reader(context.Background())
	if err == nil && kind != websocket.MessageText {
		s.decide(websocket.StatusUnsupportedData, "messages are text frames, each a JSON-RPC message")
		return nil, errSocketOver
	}
	long := false
	var over *wire.TooLong
	if err == nil {
		if long, err = s.in.fill(r, -1, s.limit); long {
			over, err = wire.Skim(s.in.b, r, int64(s.far-1)*int64(s.limit))
		}
	}
	s.heard.Store(time.Now().UnixNano())
	switch {
	case s.asked.Load():
		return nil, io.EOF
	case over != nil:
		return nil, over
	case long && errors.Is(err, wire.ErrTooLong):
		s.decide(websocket.StatusMessageTooBig, tooLarge(s.limit).Error())
		return nil, err
	case err != nil:
		return nil, err
	}
	return s.in.b, nil
}

// Write sends one message.
func (s *socket) Write(b []byte) (int, error) {
	s.writing.Store(true)
	defer s.writing.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), s.write)
	defer cancel()
	if err := s.c.Write(ctx, websocket.MessageText, bytes.TrimSuffix(b, []byte("\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// finish makes Next return io.EOF, now and from now on. Writing goes on.
func (s *socket) finish() {
	s.asked.Store(true)
	_ = s.raw.SetReadDeadline(time.Unix(1, 0)) // a closed one needs none
}

// decide says how the socket is to be closed; the first to do so wins.
func (s *socket) decide(code websocket.StatusCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code == 0 {
		s.code, s.reason = code, reason[:min(len(reason), 120)]
	}
}

func (s *socket) decided() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code != 0
}

// close says goodbye as was decided, and waits a moment for the answer.
func (s *socket) close() {
	s.decide(websocket.StatusNormalClosure, "")
	_ = s.raw.SetReadDeadline(time.Now().Add(socketClose)) // as below
	late := time.AfterFunc(socketClose, func() { s.raw.Close() })
	defer late.Stop()
	_ = s.c.Close(s.code, s.reason) // the other end may be gone, or too slow to be told
}

// keepAlive pings a silent peer until stop, and ends the socket of one that
// does not answer.
func (s *socket) keepAlive(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(time.Unix(0, s.heard.Load())) < every {
			continue
		}
		wait, cancel := context.WithTimeout(ctx, every)
		err := s.c.Ping(wait)
		cancel()
		switch {
		case err == nil:
			s.heard.Store(time.Now().UnixNano())
		case ctx.Err() != nil:
			return
		case s.reading.Load() && !s.writing.Load():
			s.raw.Close()
			return
			// Otherwise it is we who did not look, or the peer is still
			// taking a message, which has a time of its own.
		}
	}
}

var (
	_ frames    = (*socket)(nil)
	_ io.Writer = (*socket)(nil)
)
