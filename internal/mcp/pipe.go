package mcp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// PipeOptions bound what ServePipe takes.
type PipeOptions struct {
	MessageBytes int           // largest message; 0 means 10 MiB
	Depth        int           // deepest nesting of a message; 0 means wire.MaxDepth
	Concurrent   int           // requests that run at once; 0 means 256
	Grace        time.Duration // how long running requests may go on after the input ends; 0 means 5 s
	// Session is the name of the Session of requests that name none.
	Session string
	// Header is that of the request by which the pipe was opened: what it asks
	// for, all messages do. nil for none.
	Header http.Header
	// Panicked is told of a handler that panicked; the request is then answered
	// by an error. If it is nil, nothing is caught.
	Panicked func(value any, stack []byte)
	// Witness is told of what no handler tells of; nil means that nobody wants
	// to know.
	Witness Witness

	path actor.Path // how messages come; "" means on a pipe
}

// A pipe is one client on a pair of streams, such as stdin and stdout, or on
// anything else that carries whole messages both ways. Both eras may be mixed
// on it.
type pipe struct {
	opts  PipeOptions
	who   *auth.Principal
	h     Handler
	told  told
	calls calls
	asks  asks
	queue chan struct{}  // requests that have been read, running or waiting for a slot
	slots chan struct{}  // requests that run
	work  sync.WaitGroup // requests
	wg    sync.WaitGroup // all goroutines

	mu  sync.Mutex // guards w and out
	w   io.Writer  // each Write is one message with its line end
	out []byte
	err error // the first failed write

	legacy   *Client // set by initialize; only the reading goroutine uses it
	listener *Listener
	stop     func()
}

// actor is who asks.
func (p *pipe) actor() actor.Actor {
	return actor.New(cmp.Or(p.opts.path, actor.Stdio), p.who).From(CallingHub(p.opts.Header))
}

// maxWaiting bounds the requests that wait for a slot. Beyond it nothing more
// is read; up to it, the answers and cancellations that running requests need
// in order to end still get through.
const maxWaiting = 1024

// ServePipe answers the messages that come from r, one per line, on w. It
// returns nil when r ends, or the error of a failed read or write.
func ServePipe(ctx context.Context, r io.Reader, w io.Writer, who *auth.Principal, h Handler, opts PipeOptions) error {
	if opts.MessageBytes == 0 {
		opts.MessageBytes = 10 << 20
	}
	return serveFrames(ctx, wire.NewLineReader(r, opts.MessageBytes), w, who, h, opts)
}

// serveFrames is ServePipe on any framing. Each Write on w is one message with
// a line end.
func serveFrames(ctx context.Context, in frames, w io.Writer, who *auth.Principal, h Handler, opts PipeOptions) error {
	if opts.Concurrent == 0 {
		opts.Concurrent = 256
	}
	if opts.Grace == 0 {
		opts.Grace = 5 * time.Second
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pipe{opts: opts, who: who, h: h, told: told{to: opts.Witness}, w: w, slots: make(chan struct{}, opts.Concurrent),
		queue: make(chan struct{}, opts.Concurrent+maxWaiting)}
	err := p.read(ctx, in)
	if err == nil {
		p.drain(ctx)
	}
	cancel(errClientGone)
	p.asks.close()
	p.wg.Wait()
	if p.stop != nil {
		p.stop()
	}
	if err == nil {
		err = p.failure()
	}
	return err
}

func (p *pipe) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// drain lets running requests end, within the grace.
func (p *pipe) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Grace)
	defer cancel()
	idle := make(chan struct{})
	p.wg.Go(func() {
		p.work.Wait()
		close(idle)
	})
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

func (p *pipe) read(ctx context.Context, in frames) error {
	for {
		line, err := in.Next()
		long, _ := errors.AsType[*wire.TooLong](err)
		switch {
		case long != nil && (long.Method || long.ID == nil):
			p.refuse(nil, &wire.Message{ID: long.ID}, nil, tooLarge(p.opts.MessageBytes))
			continue
		case long != nil:
			p.asks.tooLong(long.ID, p.opts.MessageBytes)
			continue
		case errors.Is(err, wire.ErrTooLong):
			p.refuse(nil, &wire.Message{}, nil, tooLarge(p.opts.MessageBytes))
			continue
		case err == io.EOF:
			return nil
		case err == io.ErrUnexpectedEOF:
			p.refuse(nil, &wire.Message{}, nil, fault.New(fault.Parse, "", "the input ended inside a message"))
			return nil
		case err != nil:
			if ctx.Err() != nil || errors.Is(err, io.ErrClosedPipe) {
				return nil
			}
			return err
		}
		if err := p.message(ctx, line); err != nil {
			return err
		}
		if p.failure() != nil || ctx.Err() != nil {
			return nil
		}
	}
}

// message takes one frame. Requests run on their own; all else is done at once,
// so that a cancellation never overtakes the request it names.
func (p *pipe) message(ctx context.Context, line []byte) error {
	if isBatch(line) && p.legacy != nil && p.legacy.Version == batchVersion {
		return p.batch(ctx, line)
	}
	return p.one(ctx, line, nil)
}

// one takes one message; in is its place in a batch, or nil.
func (p *pipe) one(ctx context.Context, line []byte, in *slot) error {
	buf := newBuffer()
	buf.b = append(buf.b, line...)
	m := messages.Get().(*wire.Message)
	free := func() {
		messages.Put(m)
		buf.free()
		in.done()
	}
	m.Depth = p.opts.Depth
	if err := m.Scan(buf.b, wire.FromClient); err != nil {
		p.refuse(in, m, line, scanFault(err))
		free()
		return nil
	}
	modern := m.MetaValue(metaVersion) != nil
	switch {
	case m.IsResponse():
		p.asks.answer(m)
	case m.Method == noteCancelled:
		p.heard(m)
		p.calls.cancel(m)
	case m.IsNotification():
		p.heard(m)
		p.relay(ctx, m)
	case in != nil && (modern || m.Method == "initialize"):
		p.refuse(in, m, nil, notInBatch(m.Method))
	case m.Method == "initialize" && !modern:
		p.initialize(ctx, m)
	default:
		return p.start(ctx, m, modern, in, free)
	}
	free()
	return nil
}

func (p *pipe) initialize(ctx context.Context, m *wire.Message) {
	defer p.caught(nil, m.ID, false)
	if p.legacy != nil {
		p.refuse(nil, m, nil, fault.New(fault.InvalidRequest, "initialize", "the connection is initialised already"))
		return
	}
	client, err := legacyClient(m)
	if err != nil {
		p.refuse(nil, m, nil, err)
		return
	}
	client.Actor = p.actor()
	client.Connection = "pipe-" + newSessionID()
	req := &Request{Method: m.Method, Params: m.Params, Fields: m.Fields, Meta: m.Meta, Client: client, Stream: Discard, Asked: p.asked(m)}
	began := p.told.began()
	resp, err := p.h.Handle(ctx, req)
	p.told.answered(began, req, resp, err)
	if err == nil && resp.Error == nil {
		p.legacy = client
		var out outbox
		p.listener = &Listener{Client: client, Session: p.asked(m).Session, Filter: Everything, Deliver: out.put}
		p.stop = p.h.Attach(p.listener)
		p.wg.Go(func() {
			defer p.caught(nil, nil, false)
			p.follow(ctx, &out, p.told.plain(p.listener))
		})
	}
	p.respond(nil, m.ID, false, resp, err)
}

// asked is what a message on the pipe asks for.
func (p *pipe) asked(m *wire.Message) Asked { return asked(p.opts.Header, m, p.opts.Session) }

// start runs a request on its own goroutine.
func (p *pipe) start(ctx context.Context, m *wire.Message, modern bool, in *slot, free func()) error {
	client, err := p.client(m, modern)
	if err != nil {
		p.told.refused(m, nil, p.who, err)
		p.fault(in, m.ID, modern, err)
		free()
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if err := p.calls.add(m.ID, cancel); err != nil {
		cancel(nil)
		p.told.refused(m, nil, p.who, err)
		p.fault(in, m.ID, modern, err)
		free()
		return nil
	}
	if m.Method == "subscriptions/listen" {
		// Listening is no work and must not keep others from working.
		p.wg.Go(func() {
			defer free()
			defer cancel(nil)
			defer p.calls.remove(m.ID)
			defer p.caught(in, m.ID, modern)
			p.listen(ctx, m, client)
		})
		return nil
	}
	select {
	case p.queue <- struct{}{}:
	case <-ctx.Done():
		cancel(nil)
		p.calls.remove(m.ID)
		free()
		return nil
	}
	p.work.Add(1)
	p.wg.Go(func() {
		defer p.work.Done()
		defer free()
		defer cancel(nil)
		defer p.calls.remove(m.ID)
		defer func() { <-p.queue }()
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
			defer p.caught(in, m.ID, modern)
			p.run(ctx, m, client, in)
		case <-ctx.Done():
		}
	})
	return nil
}

// client returns who asks, after the checks of the era.
func (p *pipe) client(m *wire.Message, modern bool) (*Client, error) {
	if modern {
		c, err := modernClient(m)
		if err != nil {
			return nil, err
		}
		c.Actor = p.actor()
		return c, modernMethod(m.Method)
	}
	if err := legacyMethod(m.Method); err != nil {
		return nil, err
	}
	if p.legacy != nil {
		return p.legacy, nil
	}
	return &Client{Era: Legacy, Version: LegacyVersion, Actor: p.actor()}, nil
}

func (p *pipe) run(ctx context.Context, m *wire.Message, client *Client, in *slot) {
	modern := client.Era == Modern
	if m.Method == "ping" {
		p.told.own(m, client, p.asked(m), pong, nil)
		p.respond(in, m.ID, modern, pong, nil)
		return
	}
	if !modern && p.listener != nil {
		if handled, resp, err := ownMethod(ctx, m, p.h, p.listener); handled {
			p.told.own(m, client, p.asked(m), resp, err)
			p.respond(in, m.ID, modern, resp, err)
			return
		}
	}
	req := &Request{
		Method: m.Method, ID: m.ID, Params: m.Params, Fields: m.Fields, Meta: m.Meta,
		Client: client, Token: progressToken(m), Stream: &pipeStream{p: p, asks: !modern}, Asked: p.asked(m),
	}
	if modern {
		req.LogLevel, _ = wire.String(m.MetaValue(metaLogLevel))
	}
	began := p.told.began()
	resp, err := handle(ctx, p.h, req, p.opts.Panicked)
	p.told.answered(began, req, resp, err)
	if ctx.Err() != nil && context.Cause(ctx) == errClientCancelled {
		resp.Release() // a cancelled request gets no answer
		return
	}
	p.respond(in, m.ID, modern, resp, err)
	resp.Release()
}

// refuse answers a message that no handler is asked for; all is the text of one
// that could not be read.
func (p *pipe) refuse(in *slot, m *wire.Message, all []byte, err error) {
	p.told.refused(m, all, p.who, err)
	p.fault(in, m.ID, false, err)
}

// heard tells of a notification.
func (p *pipe) heard(m *wire.Message) {
	client, a := p.legacy, p.asked(m)
	if client == nil {
		client = &Client{Actor: p.actor()}
	}
	if a.Session == "" && p.listener != nil {
		a.Session = p.listener.Session // as the handshake named it
	}
	p.told.heard(m, client, a)
}

func (p *pipe) fault(in *slot, id []byte, modern bool, err error) {
	p.respond(in, id, modern, Response{}, err)
}

// respond answers a request, by itself or in its place in a batch.
func (p *pipe) respond(in *slot, id []byte, modern bool, resp Response, err error) {
	frame := func(dst []byte) []byte { return appendAnswer(dst, id, modern, resp, err) }
	if in != nil {
		in.put(id, frame)
		return
	}
	p.send(frame)
}

// send writes one frame.
func (p *pipe) send(frame func([]byte) []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return false
	}
	p.out = wire.OneLine(frame(p.out[:0]))
	p.out = append(p.out, '\n')
	_, p.err = p.w.Write(p.out)
	if cap(p.out) > 1<<20 {
		p.out = nil
	}
	return p.err == nil
}
