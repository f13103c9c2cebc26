package relay

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/vault"
)

// Window is how many bytes may be under way in one direction.
const Window = 256 << 10

// piece is how many bytes one message carries.
const piece = 64 << 10

// The kinds of messages of a connection. Each but the last has a number of bytes
// after it, counted from the connection's beginning.
const (
	kindData  = 'd' // how many were sent before it; then the bytes
	kindRead  = 'r' // how many were read
	kindEnd   = 'e' // how many were sent: no more come
	kindProbe = 'p' // how many were sent: are they there, and read?
	kindReset = 'x' // the connection is no good any more
)

const frameHead = 9

// conn is one end of a connection.
type conn struct {
	r    *Relay
	peer string
	id   string
	born time.Time

	mu      sync.Mutex
	changed *sync.Cond
	key     *vault.Key // of this connection alone
	known   bool       // the other end has shown that it has the key, too
	in      []byte     // what came and was not read
	got     uint64     // all that came
	read    uint64     // of it
	told    uint64     // what the other end knows of read
	sent    uint64
	room    uint64 // up to where we may send
	ended   bool   // nothing more comes
	err     error  // why nothing more can be read or written
	until   [2]time.Time
	alarms  [2]*time.Timer
	writing sync.Mutex // messages leave in the order of their bytes
}

// The sides of a connection that have deadlines.
const (
	reads = iota
	writes
)

func newConn(r *Relay, peer, id string) *conn {
	c := &conn{r: r, peer: peer, id: id, born: time.Now(), room: Window}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// encrypt makes the key of the connection.
func (c *conn) encrypt(salt string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key, err = vault.NewKey(hex.EncodeToString(c.r.key.Derive("relay " + c.id + " " + salt)))
	return err
}

// bound is what a message is bound to: who it is for, and its place.
func bound(to string, head []byte) string { return to + " " + string(head) }

func (c *conn) send(kind byte, n uint64, data []byte) error {
	head := binary.BigEndian.AppendUint64([]byte{kind}, n)
	return c.r.st.Send(wire(c.peer, c.id), append(head, c.key.Seal(bound(c.peer, head), data)...))
}

// open decrypts a message.
func (c *conn) open(m []byte) ([]byte, error) {
	c.mu.Lock()
	key := c.key
	c.mu.Unlock()
	if key == nil {
		return nil, vault.ErrSealed // nobody can have encrypted it
	}
	return key.Open(bound(c.r.self, m[:frameHead]), m[frameHead:])
}

// stranger reports whether the other end has had so long to show that it has the
// key, and has not.
func (c *conn) stranger(patience time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.known && time.Since(c.born) > patience
}

// take takes in a message of the other end. It must not wait.
func (c *conn) take(m []byte) {
	if len(m) < frameHead {
		if c.over() {
			return // it closed the connection before, as it said
		}
		c.fail(fmt.Errorf("the other hub ended the connection: %w", io.ErrUnexpectedEOF), false)
		return
	}
	kind, n := m[0], binary.BigEndian.Uint64(m[1:])
	data, err := c.open(m)
	if err != nil {
		c.fail(fmt.Errorf("what came is not from that hub: %w", err), true)
		return
	}
	c.mu.Lock()
	lost, first := false, !c.known
	c.known = true
	switch kind {
	case kindData:
		if lost = n != c.got || c.ended || len(c.in)+len(data) > Window; !lost {
			c.in = append(c.in, data...)
			c.got += uint64(len(data))
		}
	case kindRead:
		c.room = max(c.room, n+Window)
	case kindEnd:
		lost = n != c.got
		c.ended = true
	case kindProbe:
		lost = n != c.got
		c.told = c.read
	}
	read := c.read
	c.changed.Broadcast()
	c.mu.Unlock()
	if first {
		c.r.greeted(c)
	}
	switch {
	case lost:
		c.fail(fmt.Errorf("something that the other hub sent was lost: %w", io.ErrUnexpectedEOF), true)
	case kind == kindProbe:
		_ = c.send(kindRead, read, nil) // so that it need not ask again
	}
}

// over reports whether the other end has closed the connection.
func (c *conn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// probe has the other end look whether it got all.
func (c *conn) probe() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	n, waiting := c.sent, c.sent+Window > c.room && c.err == nil
	c.mu.Unlock()
	if waiting {
		_ = c.send(kindProbe, n, nil)
	}
}

// fail ends the connection for good.
func (c *conn) fail(err error, tell bool) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
	}
	for _, alarm := range c.alarms {
		if alarm != nil {
			alarm.Stop()
		}
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	c.r.drop(c)
	if first && tell {
		_ = c.r.st.Send(wire(c.peer, c.id), []byte{kindReset})
	}
}

func (c *conn) late(side int) bool {
	return !c.until[side].IsZero() && !time.Now().Before(c.until[side])
}

func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	for {
		switch {
		case c.err == net.ErrClosed:
			c.mu.Unlock()
			return 0, net.ErrClosed
		case c.late(reads):
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			c.mu.Unlock()
			return 0, nil
		case len(c.in) > 0:
			n := copy(p, c.in)
			if c.in = c.in[n:]; len(c.in) == 0 {
				c.in = nil
			}
			c.read += uint64(n)
			tell := c.read-c.told >= Window/4
			if tell {
				c.told = c.read
			}
			read := c.read
			c.mu.Unlock()
			if tell {
				_ = c.send(kindRead, read, nil)
			}
			return n, nil
		case c.ended && c.err == nil:
			c.mu.Unlock()
			return 0, io.EOF
		case c.err != nil:
			err := c.err
			c.mu.Unlock()
			return 0, err
		}
		c.changed.Wait()
	}
}

func (c *conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for {
		from, size, err := c.reserve(len(p) - n)
		if err != nil {
			return n, err
		}
		if err := c.send(kindData, from, p[n:n+size]); err != nil {
			c.fail(err, false)
			return n, err
		}
		if n += size; n == len(p) {
			return n, nil
		}
	}
}

// reserve waits until some of so many bytes may be sent.
func (c *conn) reserve(most int) (from uint64, size int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.err != nil:
			return 0, 0, c.err
		case c.late(writes):
			return 0, 0, os.ErrDeadlineExceeded
		case c.ended:
			return 0, 0, io.ErrClosedPipe
		case c.room > c.sent || most == 0:
			size = min(most, piece, int(c.room-c.sent))
			from = c.sent
			c.sent += uint64(size)
			return from, size, nil
		}
		c.changed.Wait()
	}
}

// Close lets the other end read what was sent.
func (c *conn) Close() error {
	c.writing.Lock()
	c.mu.Lock()
	n, over := c.sent, c.err != nil
	c.mu.Unlock()
	if !over {
		_ = c.send(kindEnd, n, nil)
	}
	c.writing.Unlock()
	c.fail(net.ErrClosed, false)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr(c.r.self) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.peer) }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.limit(reads, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.limit(writes, t) }

func (c *conn) limit(side int, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.alarms[side] != nil {
		c.alarms[side].Stop()
		c.alarms[side] = nil
	}
	c.until[side] = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		c.alarms[side] = time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
	}
	c.changed.Broadcast()
	return nil
}

var _ net.Conn = (*conn)(nil)
