package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// ErrLost is wrapped by errors of calls whose connection ended before the
// answer; whether the call took effect is not known.
var ErrLost = errors.New("connection lost")

// ErrNotSent is wrapped by errors of calls that the server cannot have begun.
var ErrNotSent = errors.New("not sent")

// errMayHaveArrived is wrapped by the error of a write that failed so late that
// the server may have got the message.
var errMayHaveArrived = errors.New("the message may have arrived")

// PipeConn is a connection to a server over a pair of streams, such as a
// process's stdin and stdout, or over anything else that carries whole
// messages both ways. It does not own the process.
type PipeConn struct {
	terms
	flight  inflight
	w       io.WriteCloser
	frames  chan frame // to the writing goroutine
	done    chan struct{}
	wrote   chan struct{} // closed when the writing goroutine has ended
	once    sync.Once
	wg      sync.WaitGroup
	garbage func(line []byte)
}

// frame is a message to write, with the request that it is, if it is one.
type frame struct {
	*buffer
	p *pending
}

// PipeOver starts a connection that reads r and writes w. garbage, if not nil,
// is given lines that are no messages; they are otherwise passed over.
func PipeOver(r io.Reader, w io.WriteCloser, opts ConnOptions, garbage func(line []byte)) *PipeConn {
	opts.defaults()
	return overFrames(wire.NewLineReader(r, opts.MessageBytes), w, opts, garbage)
}

// overFrames is PipeOver on any framing. Each Write on w is one message with a
// line end.
func overFrames(in frames, w io.WriteCloser, opts ConnOptions, garbage func(line []byte)) *PipeConn {
	if garbage == nil {
		garbage = func([]byte) {}
	}
	c := &PipeConn{w: w, frames: make(chan frame, 64), done: make(chan struct{}), wrote: make(chan struct{}), garbage: garbage}
	c.flight.opts = opts
	c.wg.Go(func() { c.read(in) })
	c.wg.Go(c.write)
	return c
}

func (c *PipeConn) Done() <-chan struct{} { return c.done }
func (c *PipeConn) Err() error            { return c.flight.failure() }

// Close stops writing, which a server on stdio takes as the end, and waits
// until reading has stopped too: whoever owns the process must see to that.
func (c *PipeConn) Close() {
	c.shut(fmt.Errorf("%w: closed by the hub", ErrLost))
	c.wg.Wait()
}

func (c *PipeConn) shut(err error) {
	c.once.Do(func() {
		c.flight.fail(err)
		close(c.done)
	})
}

// write is the only goroutine that writes, so that a server that does not
// read blocks its own callers and nobody else.
func (c *PipeConn) write() {
	defer close(c.wrote)
	defer c.w.Close()
	for {
		select {
		case <-c.done:
			return
		case f := <-c.frames:
			_, err := c.w.Write(f.b)
			f.free()
			if f.p != nil && (err == nil || errors.Is(err, errMayHaveArrived)) {
				f.p.sent.Store(true)
			}
			if err != nil {
				c.shut(fmt.Errorf("%w: write: %w", ErrLost, err))
				return
			}
		}
	}
}

// lost says what the end of the connection means for a request. One that was
// not written to its end cannot have been begun.
func (c *PipeConn) lost(p *pending, err error) error {
	late := time.NewTimer(200 * time.Millisecond)
	defer late.Stop()
	select {
	case <-c.wrote:
	case <-late.C: // it is stuck in the middle of something
		return err
	}
	if p.sent.Load() {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotSent, err)
}

// send queues one frame; p is the request that it is, or nil.
func (c *PipeConn) send(ctx context.Context, p *pending, build func([]byte) []byte) error {
	b := newBuffer()
	b.b = append(wire.OneLine(build(b.b)), '\n')
	if len(b.b) > c.flight.opts.MessageBytes {
		return fault.New(fault.TooLarge, "", "the message of %d bytes is over the limit of %d", len(b.b), c.flight.opts.MessageBytes)
	}
	select {
	case c.frames <- frame{b, p}:
		return nil
	case <-c.done:
		return fmt.Errorf("%w: %w", ErrNotSent, c.Err())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *PipeConn) Notify(ctx context.Context, method string, params []byte) error {
	c.flight.opts.Aside(Aside{Sent: true, Method: method, Params: params})
	return c.send(ctx, nil, func(dst []byte) []byte { return wire.AppendRequest(dst, nil, method, params) })
}

func (c *PipeConn) Call(ctx context.Context, o *Outgoing) (Response, error) {
	p, err := c.flight.open(ctx, o)
	if err != nil {
		<-c.done // at once; until then who tries again would get us again
		return Response{}, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	defer p.end()
	defer c.flight.close(p)
	id := idBytes(p.id)
	var token []byte
	if o.Token != nil {
		token = id
	}
	params := o.params(c.Era(), c.version(), token)
	o.Tap.sent(params)
	err = c.send(ctx, p, func(dst []byte) []byte { return wire.AppendRequest(dst, id, o.Method, params) })
	if err != nil {
		return Response{}, err
	}
	for {
		select {
		case <-p.ready:
		case <-ctx.Done():
			c.flight.abandon(p)
			c.cancel(id, o.Method, context.Cause(ctx))
			if o.Method == "subscriptions/listen" {
				p.linger(listenEnd)
			}
			return Response{}, context.Cause(ctx)
		}
		for _, e := range p.take() {
			switch {
			case e.resp != nil:
				o.Tap.came(e.resp)
				return *e.resp, nil
			case e.long:
				return Response{}, longAnswer(c.flight.opts.MessageBytes)
			case e.err != nil:
				return Response{}, c.lost(p, e.err)
			}
			p.stream.Notify(e.method, e.params)
		}
		p.stream.Flush()
	}
}

// listenEnd is how long a server is given to say that it has ended a listen
// stream. Some keep one for a whole connection and, ending the one before,
// would end the next one with it.
const listenEnd = 200 * time.Millisecond

// linger waits for the answer to a request that was cancelled.
func (p *pending) linger(atMost time.Duration) {
	late := time.NewTimer(atMost)
	defer late.Stop()
	for {
		for _, e := range p.take() {
			if e.resp != nil || e.long || e.err != nil {
				return
			}
		}
		select {
		case <-p.ready:
		case <-late.C:
			return
		}
	}
}

// cancel tells the server that nobody waits any more.
func (c *PipeConn) cancel(id []byte, method string, cause error) {
	if method == "initialize" || method == "server/discover" {
		return
	}
	params := append([]byte(`{"requestId":`), id...)
	params = append(params, `,"reason":`...)
	params = append(wire.AppendString(params, cause.Error()), '}')
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = c.Notify(ctx, noteCancelled, params) // a server that does not read is not told
}

func (c *PipeConn) read(in frames) {
	defer c.flight.stumbled(c.shut)
	var m wire.Message
	for {
		line, err := in.Next()
		if long, ok := errors.AsType[*wire.TooLong](err); ok {
			c.passedOver(long)
			continue
		}
		if errors.Is(err, wire.ErrTooLong) {
			err = fmt.Errorf("the server sent a message far over the limit of %d bytes (limits.messageBytes)", c.flight.opts.MessageBytes)
		}
		if err != nil {
			if err == io.EOF {
				err = errors.New("the server closed its output")
			}
			c.shut(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
		if isBatch(line) && c.version() == batchVersion {
			all, _ := wire.Elements(line)
			for _, one := range all {
				c.take(&m, one)
			}
			continue
		}
		c.take(&m, line)
	}
}

// passedOver deals with a message that was too long to be read. Whoever waits
// for it fails, and nobody else.
func (c *PipeConn) passedOver(long *wire.TooLong) {
	id, ok := parseID(long.ID)
	switch {
	case long.Method && long.ID != nil:
		c.reply(long.ID, Response{}, tooLarge(c.flight.opts.MessageBytes))
	case ok && !long.Method:
		if p := c.flight.get(id); p != nil {
			p.push(event{long: true})
			return
		}
		c.flight.exorcise(id)
	}
}

// longAnswer is the fault of an answer that is larger than the limit.
func longAnswer(limit int) error {
	f := fault.New(fault.Limit, "", "the answer is larger than %d bytes", limit).With("limit", limit)
	f.Hint = "Ask for less, or raise limits.messageBytes. The call itself may have taken effect."
	return f
}

// take reads one message.
func (c *PipeConn) take(m *wire.Message, line []byte) {
	buf := newBuffer()
	buf.b = append(buf.b, line...)
	if err := m.Scan(buf.b, wire.FromUpstream); err != nil {
		c.garbage(line)
		buf.free()
		return
	}
	c.dispatch(m, buf)
}

func (c *PipeConn) dispatch(m *wire.Message, buf *buffer) {
	switch {
	case m.IsResponse():
		id, ok := parseID(m.ID)
		if p := c.flight.get(id); ok && p != nil {
			p.push(event{resp: &Response{Result: m.Result, Error: m.Error, buf: buf}})
			return // buf goes with the response
		}
		c.flight.exorcise(id)
	case m.IsNotification():
		c.flight.notification(m, nil, c.Era(), func(p *pending, method string, params []byte) {
			p.push(event{method: method, params: params})
		})
	default:
		c.flight.request(m, nil, c.reply)
	}
	buf.free()
}

func (c *PipeConn) reply(id []byte, resp Response, err error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	_ = c.send(ctx, nil, func(dst []byte) []byte { // if it fails, the connection is lost, which is told elsewhere
		switch {
		case err != nil:
			return wire.AppendError(dst, id, fault.Of(err).Wire(c.Era() == Modern))
		case resp.Error != nil:
			return wire.AppendError(dst, id, resp.Error)
		}
		return wire.AppendResult(dst, id, resp.Result)
	})
}

var _ Conn = (*PipeConn)(nil)
