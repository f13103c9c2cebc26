package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// LocalConn is a connection to a Handler in this process: what a module is
// reached by. A call runs on the goroutine of whoever asks, so a handler that
// does not heed the end of its context is waited for.
type LocalConn struct {
	terms
	h      Handler
	opts   ConnOptions
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	closed   bool
	listener *Listener // legacy: who hears of changes once initialized
	detach   func()
	wg       sync.WaitGroup // calls that run
}

// LocalTo returns a connection to h. It speaks whichever era is agreed on.
func LocalTo(h Handler, opts ConnOptions) *LocalConn {
	opts.defaults()
	c := &LocalConn{h: h, opts: opts}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

var errModuleClosed = fmt.Errorf("%w: closed by the hub", ErrLost)

// enter counts a call in; it must be followed by wg.Done if it returns true.
func (c *LocalConn) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	return true
}

func (c *LocalConn) Call(ctx context.Context, o *Outgoing) (Response, error) {
	if !c.enter() {
		return Response{}, fmt.Errorf("%w: %w", ErrNotSent, errModuleClosed)
	}
	defer c.wg.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errModuleClosed) })()
	req := c.request(o)
	o.Tap.sent(req.Params)
	resp, err := c.guarded(ctx, req)
	if err == nil {
		o.Tap.came(&resp)
		return resp, nil
	}
	if ctx.Err() != nil {
		return Response{}, context.Cause(ctx)
	}
	// On a wire it would have come as an answer too.
	resp = Response{Error: fault.Of(err).Wire(c.Era() == Modern)}
	o.Tap.came(&resp)
	return resp, nil
}

// guarded has the handler answer. A panic of its is told and answered by an
// error: the goroutine is somebody else's, who may not expect one.
func (c *LocalConn) guarded(ctx context.Context, r *Request) (resp Response, err error) {
	if c.opts.Panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				c.opts.Panicked(v, debug.Stack())
				resp, err = Response{}, fault.New(fault.Internal, "", "the module stumbled")
			}
		}()
	}
	return c.answer(ctx, r)
}

// request makes of o what the handler would have been given by a face.
func (c *LocalConn) request(o *Outgoing) *Request {
	r := &Request{Method: o.Method, Params: o.params(c.Era(), c.version(), o.Token), Token: o.Token, LogLevel: o.LogLevel, Stream: o.Stream, Client: c.client(o.Client), Asked: o.Asked}
	r.Fields = wire.Members(r.Params)
	r.Meta = wire.Members(r.Param("_meta"))
	if r.Stream == nil {
		r.Stream = Discard
	}
	return r
}

// client is on whose behalf a request is made, in the era of the connection.
func (c *LocalConn) client(asks *Client) *Client {
	if asks != nil && asks.Era == c.Era() {
		return asks
	}
	own := &Client{Era: c.Era(), Version: c.version(), Actor: actor.New(actor.Hub, auth.Local)}
	if own.Version == "" {
		own.Version = LegacyVersion // what Initialize asks for
	}
	if asks != nil {
		own.Actor, own.Info, own.Capabilities, own.Connection = asks.Actor, asks.Info, asks.Capabilities, asks.Connection
	}
	return own
}

func (c *LocalConn) answer(ctx context.Context, r *Request) (Response, error) {
	switch {
	case r.Method == "ping" && r.Client.Era == Legacy:
		return Response{Result: []byte("{}")}, nil
	case r.Method == "subscriptions/listen" && r.Client.Era == Modern:
		return c.listen(ctx, r)
	case r.Method == "resources/subscribe" || r.Method == "resources/unsubscribe":
		uri, ok := r.Text("uri")
		l := c.attach()
		if !ok || l == nil {
			return Response{}, fault.New(fault.InvalidParams, r.Method, "uri is missing, or the connection is closing")
		}
		if r.Method == "resources/subscribe" {
			return Response{Result: []byte("{}")}, c.h.Subscribe(ctx, l, uri)
		}
		return Response{Result: []byte("{}")}, c.h.Unsubscribe(ctx, l, uri)
	}
	return c.h.Handle(ctx, r)
}

// attach makes a legacy connection hear of changes, once.
func (c *LocalConn) attach() *Listener {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener == nil && !c.closed {
		l := &Listener{Client: c.client(nil), Filter: Everything, Deliver: c.opts.Note}
		c.listener, c.detach = l, c.h.Attach(l)
	}
	return c.listener
}

// listen hears of what the filter wants until ctx ends.
func (c *LocalConn) listen(ctx context.Context, r *Request) (Response, error) {
	var want Filter
	if err := json.Unmarshal(r.Param("notifications"), &want); err != nil {
		return Response{}, fault.New(fault.InvalidParams, r.Method, "notifications is missing or not an object of the protocol's form")
	}
	l := &Listener{Client: r.Client, Session: r.Session, Filter: want, Deliver: c.opts.Note}
	l.Filter.URIs = nil
	defer c.h.Attach(l)()
	honoured := l.Filter
	for _, uri := range want.URIs {
		if c.h.Subscribe(ctx, l, uri) == nil {
			honoured.URIs = append(honoured.URIs, uri)
		}
	}
	ack, err := json.Marshal(map[string]any{"notifications": honoured})
	if err != nil {
		return Response{}, fmt.Errorf("acknowledge a subscription: %w", err)
	}
	r.Stream.Notify(noteAcknowledged, ack)
	r.Stream.Flush()
	<-ctx.Done()
	return Response{}, context.Cause(ctx)
}

// Notify hands a notification to the handler. That a client is ready is the
// connection's own affair.
func (c *LocalConn) Notify(ctx context.Context, method string, params []byte) error {
	if method == noteInitialized {
		c.attach()
		return nil
	}
	if !c.enter() {
		return fmt.Errorf("%w: %w", ErrNotSent, errModuleClosed)
	}
	defer c.wg.Done()
	_, err := c.h.Handle(ctx, &Request{Method: method, Params: params, Fields: wire.Members(params), Client: c.client(nil), Stream: Discard, IsNote: true})
	return err
}

func (c *LocalConn) Done() <-chan struct{} { return c.ctx.Done() }

func (c *LocalConn) Err() error {
	if err := context.Cause(c.ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Close cancels what runs and waits for it.
func (c *LocalConn) Close() {
	c.mu.Lock()
	c.closed = true
	detach := c.detach
	c.detach = nil
	c.mu.Unlock()
	if detach != nil {
		detach()
	}
	c.cancel(errModuleClosed)
	c.wg.Wait()
}

var _ Conn = (*LocalConn)(nil)
