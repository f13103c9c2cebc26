package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// ErrSessionLost is wrapped by errors of calls that a legacy server refused
// because it does not know the session any more. The call was not begun.
var ErrSessionLost = fmt.Errorf("%w: the server does not know the session any more", ErrNotSent)

// HTTPConn is a connection to a server over streamable HTTP.
type HTTPConn struct {
	terms
	flight  inflight
	url     *url.URL
	header  http.Header // of every request; never changed
	rt      http.RoundTripper
	session atomic.Pointer[string]
	done    chan struct{}
	once    sync.Once
	ctx     context.Context // ends with the connection
	cancel  context.CancelFunc
	posted  atomic.Pointer[http.Header] // the headers of a POST, ready made

	mu     sync.Mutex // guards closed and the growth of wg
	closed bool
	wg     sync.WaitGroup
}

// HTTPTo returns a connection that posts to u by rt, with header on every
// request. Nothing is sent before the first call.
func HTTPTo(u *url.URL, header http.Header, rt http.RoundTripper, opts ConnOptions) *HTTPConn {
	opts.defaults()
	ctx, cancel := context.WithCancel(context.Background())
	c := &HTTPConn{url: u, header: header, rt: rt, done: make(chan struct{}), ctx: ctx, cancel: cancel}
	c.flight.opts = opts
	c.prepare()
	return c
}

func (c *HTTPConn) Done() <-chan struct{} { return c.done }
func (c *HTTPConn) Err() error            { return c.flight.failure() }

func (c *HTTPConn) agree(era Era, version string) {
	c.terms.agree(era, version)
	c.prepare()
}

// prepare makes the headers that all POSTs share. Values are shared between
// requests, which net/http's transport only reads.
func (c *HTTPConn) prepare() {
	h := c.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h["Content-Type"] = jsonType
	h["Accept"] = []string{"application/json, text/event-stream"}
	if v := c.version(); v != "" {
		h[headerVersion] = []string{v}
	}
	if s := c.session.Load(); s != nil {
		h[headerSession] = []string{*s}
	}
	c.posted.Store(&h)
}

func (c *HTTPConn) headers(o *Outgoing, method string) http.Header {
	base := *c.posted.Load()
	if c.Era() != Modern {
		return base
	}
	h := make(http.Header, len(base)+2)
	for k, v := range base {
		h[k] = v
	}
	h[headerMethod] = []string{method}
	if o == nil {
		return h
	}
	if o.Name != "" {
		h[headerName] = []string{EncodeHeader(o.Name)}
	}
	for _, p := range o.Headers {
		h[http.CanonicalHeaderKey(p[0])] = []string{p[1]}
	}
	return h
}

// post sends one message.
func (c *HTTPConn) post(ctx context.Context, body *sentBody, h http.Header) (*http.Response, error) {
	req := &http.Request{
		Method: http.MethodPost, URL: c.url, Host: c.url.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body.b)), Body: body,
	}
	resp, err := c.rt.RoundTrip(req.WithContext(ctx))
	if err != nil && ended(ctx) {
		err = context.Cause(ctx)
	}
	return resp, err
}

// ended reports whether ctx is over. A connection that has the same deadline
// may notice first.
func ended(ctx context.Context) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// sentBody is a request's body that is whole in memory. A transport may go on
// reading it after it has returned an answer or an error, so its memory must
// not be used for anything else before taken says that all of it was read.
type sentBody struct {
	b     []byte
	off   int
	taken atomic.Bool
}

func (b *sentBody) Read(p []byte) (int, error) {
	if b.off == len(b.b) {
		return 0, io.EOF
	}
	n := copy(p, b.b[b.off:])
	if b.off += n; b.off == len(b.b) {
		b.taken.Store(true)
	}
	return n, nil
}

// Bytes is for a transport that copies them before it does anything else.
func (b *sentBody) Bytes() []byte {
	b.taken.Store(true)
	return b.b
}

func (b *sentBody) Close() error { return nil }

func (c *HTTPConn) Call(ctx context.Context, o *Outgoing) (Response, error) {
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
	out := newBuffer()
	params := o.params(c.Era(), c.version(), token)
	o.Tap.sent(params)
	out.b = wire.AppendRequest(out.b, id, o.Method, params)
	body := &sentBody{b: out.b}
	defer func() {
		if body.taken.Load() {
			out.free()
		}
	}()
	resp, err := c.post(ctx, body, c.headers(o, o.Method))
	if err != nil {
		if ctx.Err() != nil {
			c.cancelled(p, id)
		}
		return Response{}, c.sendError(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := c.answer(resp, p)
	if err != nil && ctx.Err() != nil {
		c.cancelled(p, id)
		err = context.Cause(ctx)
	}
	if err == nil {
		o.Tap.came(&answer)
	}
	return answer, err
}

// sendError says what a failed round trip means for the call.
func (c *HTTPConn) sendError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if notSent(err) {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// cancelled tells a legacy server that nobody waits any more. For a modern
// one, closing the answer says it, and it has no stream to say more on.
func (c *HTTPConn) cancelled(p *pending, id []byte) {
	if c.Era() != Legacy || p.o.Method == "initialize" {
		return
	}
	c.flight.abandon(p)
	params := append(append([]byte(`{"requestId":`), id...), '}')
	c.background(func() {
		ctx, stop := context.WithTimeout(c.ctx, 5*time.Second)
		defer stop()
		_ = c.Notify(ctx, noteCancelled, params) // best effort: the call is over for us
	})
}

// background runs f unless the connection is closed; Close waits for it.
func (c *HTTPConn) background(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(f)
	}
}

// answer reads the answer to p.
func (c *HTTPConn) answer(resp *http.Response, p *pending) (Response, error) {
	if p.o.Method == "initialize" {
		if s := resp.Header.Get(headerSession); s != "" {
			c.session.Store(&s)
			c.prepare()
		}
	}
	ct := resp.Header.Get("Content-Type")
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(ct, "text/event-stream") {
		return c.events(resp.Body, p)
	}
	buf := newBuffer()
	long, err := buf.fill(resp.Body, resp.ContentLength, c.flight.opts.MessageBytes)
	switch {
	case long:
		buf.free()
		return Response{}, longAnswer(c.flight.opts.MessageBytes)
	case err != nil:
		buf.free()
		return Response{}, fmt.Errorf("%w: read the answer: %w", ErrLost, err)
	}
	if err := c.forgotten(p.ctx, resp.StatusCode, buf.b); err != nil {
		buf.free()
		return Response{}, err
	}
	var m wire.Message
	if err := m.Scan(buf.b, wire.FromUpstream); err != nil || !m.IsResponse() {
		defer buf.free()
		return Response{}, &StatusError{Status: resp.StatusCode, Type: ct, Body: string(buf.b[:min(len(buf.b), 200)]), Err: err}
	}
	if id, ok := parseID(m.ID); resp.StatusCode == http.StatusOK && (!ok || id != p.id) {
		defer buf.free()
		return Response{}, fmt.Errorf("%w: the answer has id %s instead of %d", ErrLost, m.ID, p.id)
	}
	return Response{Result: m.Result, Error: m.Error, buf: buf}, nil
}

// forgotten finds out whether a legacy server refused a request because it does
// not know the session; then the connection has ended and the error says so.
// Servers say it by 404, 410 or 400, which may as well be about the request, so
// the session is asked for by something that nothing can be wrong with.
func (c *HTTPConn) forgotten(ctx context.Context, status int, body []byte) error {
	if !refusesSession(status) || c.Era() != Legacy || c.session.Load() == nil {
		return nil
	}
	if err := c.flight.failure(); err != nil {
		return err // another request has found out
	}
	again, err := c.ping(ctx)
	if err == nil && !refusesSession(again) {
		return nil
	}
	if err != nil && ctx.Err() != nil {
		return nil // nobody waits for the answer
	}
	lost := fmt.Errorf("%w (HTTP %d%s)", ErrSessionLost, status, saidIn(body))
	c.shut(lost)
	return lost
}

// refusesSession reports whether servers answer so where they do not know a
// session.
func refusesSession(status int) bool {
	return status == http.StatusNotFound || status == http.StatusBadRequest || status == http.StatusGone
}

// ping asks on the session and returns the status of the answer. What it says
// besides does not matter.
func (c *HTTPConn) ping(ctx context.Context) (status int, err error) {
	frame := wire.AppendRequest(nil, []byte(`"ping"`), "ping", nil)
	resp, err := c.post(ctx, &sentBody{b: frame}, c.headers(nil, "ping"))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // a server may take a broken answer amiss
	return resp.StatusCode, nil
}

// saidIn is what a refusal says for people, as the end of a sentence.
func saidIn(body []byte) string {
	if text, ok := wire.String(wire.Get(wire.Get(body, "error"), "message")); ok && text != "" {
		return fmt.Sprintf(": %.200s", text)
	}
	return ""
}

// StatusError is an HTTP answer that carries no JSON-RPC response.
type StatusError struct {
	Status int
	Type   string
	Body   string // the beginning
	Err    error  // why the body is no response
}

func (e *StatusError) Error() string {
	if e.Status == http.StatusOK {
		if e.Err == nil {
			return "the answer is no JSON-RPC response"
		}
		return fmt.Sprintf("the answer is no JSON-RPC response: %v", e.Err)
	}
	return fmt.Sprintf("HTTP status %d %s", e.Status, http.StatusText(e.Status))
}

// Refused reports whether the status says that the request was not begun. Any
// other may come after it took effect: from a server that failed at the end of
// it, or from a proxy that did not wait, which is why 503 is among them also
// where it says when to come again.
func (e *StatusError) Refused() bool {
	switch e.Status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusGone, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity,
		http.StatusUpgradeRequired, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return false
}

// Text is what the server said in plain words, on one line; empty if it said
// nothing that is meant to be read as it is.
func (e *StatusError) Text() string {
	if kind, _, _ := strings.Cut(e.Type, ";"); strings.TrimSpace(kind) != "text/plain" {
		return ""
	}
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(e.Body, ""), func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
}

// rebase returns the part of to that part is of from.
func rebase(to, from, part []byte) []byte {
	if part == nil {
		return nil
	}
	start := cap(from) - cap(part)
	return to[start : start+len(part)]
}

// message takes a notification or request that came on the stream of p, or,
// with p nil, on the stream of the session.
func (c *HTTPConn) message(m *wire.Message, p *pending) {
	if m.IsNotification() {
		c.flight.notification(m, p, c.Era(), func(to *pending, method string, params []byte) {
			to.tell(method, params)
			if to != p {
				to.stream.Flush()
			}
		})
		return
	}
	c.flight.request(m, p, c.reply)
}

func (c *HTTPConn) reply(id []byte, resp Response, err error) {
	var frame []byte
	switch {
	case err != nil:
		frame = wire.AppendError(nil, id, fault.Of(err).Wire(false))
	case resp.Error != nil:
		frame = wire.AppendError(nil, id, resp.Error)
	default:
		frame = wire.AppendResult(nil, id, resp.Result)
	}
	ctx, stop := context.WithTimeout(c.ctx, 10*time.Second)
	defer stop()
	_ = c.send(ctx, frame, *c.posted.Load()) // the server notices that no answer comes
}

// send posts a message that has no answer.
func (c *HTTPConn) send(ctx context.Context, frame []byte, h http.Header) error {
	resp, err := c.post(ctx, &sentBody{b: frame}, h)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 300 {
		return &StatusError{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type")}
	}
	return nil
}

func (c *HTTPConn) Notify(ctx context.Context, method string, params []byte) error {
	if c.Era() == Modern {
		return nil // the era defines no notifications from clients over HTTP
	}
	c.flight.opts.Aside(Aside{Sent: true, Method: method, Params: params})
	return c.send(ctx, wire.AppendRequest(nil, nil, method, params), c.headers(nil, method))
}

func (c *HTTPConn) shut(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.flight.fail(err)
		c.cancel()
		close(c.done)
	})
}

// Close ends the connection; a legacy session is deleted on the server.
func (c *HTTPConn) Close() {
	c.mu.Lock()
	c.closed = true // what the server does now is no loss
	c.mu.Unlock()
	if s := c.session.Load(); s != nil && c.flight.failure() == nil {
		ctx, stop := context.WithTimeout(c.ctx, 2*time.Second)
		req := (&http.Request{Method: http.MethodDelete, URL: c.url, Host: c.url.Host, Header: *c.posted.Load(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
		if resp, err := c.rt.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
		stop()
	}
	c.shut(fmt.Errorf("%w: closed by the hub", ErrLost))
	c.wg.Wait()
}

var _ Conn = (*HTTPConn)(nil)
