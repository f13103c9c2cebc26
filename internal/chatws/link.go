package chatws

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// goodbye is how long a client may take to answer that we close.
const goodbye = time.Second

// skipped is how many times the limit a frame may have that is refused and
// passed over; a longer one ends the socket.
const skipped = 8

var (
	errLong   = errors.New("the frame is longer than the limit")
	errBinary = errors.New("the frame is binary")
)

// link is one socket of a client. One goroutine calls next; send may be called
// by several.
type link struct {
	ws    *websocket.Conn
	raw   net.Conn      // below ws: what ws does not bound in time is bounded here
	limit int           // of a frame
	write time.Duration // for a frame to be taken

	heard   atomic.Int64 // unix nanoseconds of the last sign of life
	reading atomic.Bool  // in next; only then pongs are seen
	writing atomic.Int32 // frames that are on their way
}

// accept takes over the connection of a request that asks for a socket. On an
// error the client has been answered.
func accept(w http.ResponseWriter, r *http.Request, limit int, write time.Duration) (*link, error) {
	l := &link{limit: limit, write: write}
	below := &hijacked{ResponseWriter: w}
	ws, err := websocket.Accept(below, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // the guard before us knows which origins are ours
		OnPongReceived:     func(context.Context, []byte) { l.alive() },
		OnPingReceived:     func(context.Context, []byte) bool { l.alive(); return true },
	})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1) // ours can be told to the client
	l.ws, l.raw = ws, below.conn
	l.alive()
	return l, nil
}

func (l *link) alive() { l.heard.Store(time.Now().UnixNano()) }

// next returns the next text frame. After errLong and errBinary there may be
// more frames; after any other error there are none.
func (l *link) next() ([]byte, error) {
	l.reading.Store(true)
	defer l.reading.Store(false)
	kind, r, err := l.ws.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(lively{r, l}, int64(l.limit)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > l.limit {
		most := int64(l.limit) * skipped
		if n, err := io.Copy(io.Discard, io.LimitReader(lively{r, l}, most)); err != nil || n == most {
			return nil, errors.Join(io.ErrShortBuffer, err)
		}
		return nil, errLong
	}
	if kind != websocket.MessageText {
		return nil, errBinary
	}
	return b, nil
}

// lively takes what is read for a sign of life.
type lively struct {
	r io.Reader
	l *link
}

func (v lively) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.l.alive()
	return n, err
}

// send sends a text frame. A client that does not take it in time is cut off:
// after an error the link can only be closed.
func (l *link) send(b []byte) error {
	l.writing.Add(1)
	defer l.writing.Add(-1)
	ctx, cancel := context.WithTimeout(context.Background(), l.write)
	defer cancel()
	err := l.ws.Write(ctx, websocket.MessageText, b)
	if err != nil {
		l.cut()
	}
	return err
}

// cut ends the link at once, and with it next and send.
func (l *link) cut() { l.raw.Close() }

// finish makes next return an error. Sending goes on.
func (l *link) finish() { _ = l.raw.SetReadDeadline(time.Unix(1, 0)) } // a closed one needs none

// hurry gives the client a last moment to take what is being sent.
func (l *link) hurry() { _ = l.raw.SetWriteDeadline(time.Now().Add(goodbye)) } // as above

// close says goodbye and waits a moment for the answer. Nobody may be in next.
func (l *link) close(code websocket.StatusCode, reason string) {
	_ = l.raw.SetReadDeadline(time.Now().Add(goodbye)) // as above
	late := time.AfterFunc(goodbye, l.cut)
	defer late.Stop()
	_ = l.ws.Close(code, reason[:min(len(reason), 120)]) // the client may be gone already
	l.cut()
}

// beat pings the client every so often until ctx ends, and cuts the link if
// nothing was heard of it for two times that.
func (l *link) beat(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if l.stale(every) {
			l.cut()
			return
		}
		l.ping(ctx, every)
	}
}

// stale reports whether nothing was heard of the client for twice as long as
// every. While we do not look, or the client is still taking a frame (which has
// a time of its own), silence says nothing.
func (l *link) stale(every time.Duration) bool {
	silent := time.Since(time.Unix(0, l.heard.Load()))
	return silent >= 2*every && l.reading.Load() && l.writing.Load() == 0
}

// ping pings the client, and waits so long for its answer at most.
func (l *link) ping(ctx context.Context, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = l.ws.Ping(ctx) // what counts is whether something is heard
}

// hijacked remembers the connection that was taken over, and gives it buffers
// of its own: those of the server are for requests, and most frames are small.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

const (
	readBuffer  = 512
	writeBuffer = 1 << 10
)

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = conn
	in := rw.Reader
	if in.Buffered() == 0 { // else the client did not wait for our answer
		in = bufio.NewReaderSize(conn, readBuffer)
	}
	return conn, bufio.NewReadWriter(in, bufio.NewWriterSize(conn, writeBuffer)), nil
}
