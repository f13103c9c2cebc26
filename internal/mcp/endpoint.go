package mcp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// EndpointOptions bound what an Endpoint takes.
type EndpointOptions struct {
	MessageBytes int           // largest message; 0 means 10 MiB
	Depth        int           // deepest nesting of a message; 0 means wire.MaxDepth
	BodyTimeout  time.Duration // time for a request's body to arrive, where InTime sees to it; 0 means 30 s
	KeepAlive    time.Duration // silence after which a comment is sent; 0 means 15 s
	WriteTimeout time.Duration // time for a client to take one message on a socket or an old event stream; 0 means 30 s
	Sessions     *Sessions     // required: legacy connections
	// Recall returns the client of a connection that this endpoint does not
	// know, if it is known from elsewhere, such as from before a restart. A
	// connection of its id is then opened anew. nil means that none is known.
	Recall func(id string, who *auth.Principal) *Client
	// Keep is what several processes know of each other's connections.
	Keep Keep
	// Deleted is told that a client has ended its connection for good; nil
	// means that nobody wants to know.
	Deleted func(c *Client)
	// Panicked is told of a handler that panicked where net/http would not
	// catch it; nil means that nobody wants to know.
	Panicked func(value any, stack []byte)
	// Witness is told of what no handler tells of; nil means that nobody wants
	// to know.
	Witness Witness
}

// Endpoint serves Handlers over HTTP, both eras on the same URL.
type Endpoint struct {
	opts    EndpointOptions
	closing chan struct{}
	sockets gate
	recalls sync.Mutex
	once    sync.Once
}

// NewEndpoint returns an endpoint; Close it to end its long streams.
func NewEndpoint(opts EndpointOptions) *Endpoint {
	if opts.MessageBytes == 0 {
		opts.MessageBytes = 10 << 20
	}
	if opts.BodyTimeout == 0 {
		opts.BodyTimeout = 30 * time.Second
	}
	if opts.KeepAlive == 0 {
		opts.KeepAlive = 15 * time.Second
	}
	if opts.WriteTimeout == 0 {
		opts.WriteTimeout = 30 * time.Second
	}
	if opts.Panicked == nil {
		opts.Panicked = func(any, []byte) {}
	}
	opts.Sessions.ended = opts.Keep.Ended
	return &Endpoint{opts: opts, closing: make(chan struct{})}
}

// Close ends the listen and GET streams and lets sockets end, so that a server
// can drain.
func (e *Endpoint) Close() {
	e.once.Do(func() {
		e.sockets.shut()
		close(e.closing)
	})
}

// Serve answers one HTTP request for the face called scope, which h serves.
func (e *Endpoint) Serve(w http.ResponseWriter, r *http.Request, who *auth.Principal, scope string, h Handler) {
	switch r.Method {
	case http.MethodPost:
		e.post(w, r, who, scope, h)
	case http.MethodGet:
		e.get(w, r, who, scope, h)
	case http.MethodDelete:
		e.delete(w, r, who, scope, h)
	default:
		refuseMethod(w)
	}
}

// Closing is closed when Close is called: what waits is to come to its end.
func (e *Endpoint) Closing() <-chan struct{} { return e.closing }

// Body reads the body of a request that is not of the protocol, within the
// bounds of those that are.
func (e *Endpoint) Body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	b := newBuffer()
	defer b.free()
	if err := e.read(w, r, b); err != nil {
		return nil, err
	}
	return bytes.Clone(b.b), nil
}

// Refuse answers a request for a face that does not exist, with the request's
// id if it has one. who is nil if nobody has looked who asks.
func (e *Endpoint) Refuse(w http.ResponseWriter, r *http.Request, who *auth.Principal, err error) {
	body := newBuffer()
	defer body.free()
	var m wire.Message
	if r.Method == http.MethodPost && e.read(w, r, body) == nil {
		_ = m.Scan(body.b, wire.FromClient) // the id is set where it can be read
	}
	version, _ := one(r.Header, headerVersion)
	if who != nil && r.Method == http.MethodPost {
		e.told("").refused(&m, body.b, who, err)
	}
	writeFault(w, m.ID, IsModern(version), err)
}

// RefuseRead is Refuse for a request whose body was read.
func (e *Endpoint) RefuseRead(w http.ResponseWriter, body []byte, err error) {
	var m wire.Message
	_ = m.Scan(body, wire.FromClient)
	writeFault(w, m.ID, false, err)
}

func refuseMethod(w http.ResponseWriter) {
	w.Header().Set("Allow", "GET, POST, DELETE")
	writeJSON(w, http.StatusMethodNotAllowed, wire.AppendError(nil, nil,
		fault.New(fault.InvalidRequest, "", "the MCP endpoint takes POST, and GET and DELETE with an Mcp-Session-Id").Wire(false)))
}

// exchange is one POST under way.
type exchange struct {
	e     *Endpoint
	w     http.ResponseWriter
	r     *http.Request
	who   *auth.Principal
	scope string
	h     Handler
	m     *wire.Message
	body  []byte // as it came
	told  told
}

// actor is who asks.
func (x *exchange) actor() actor.Actor {
	return actor.New(actor.HTTP, x.who).From(CallingHub(x.r.Header))
}

var messages = sync.Pool{New: func() any { return new(wire.Message) }}

func (e *Endpoint) post(w http.ResponseWriter, r *http.Request, who *auth.Principal, scope string, h Handler) {
	body := newBuffer()
	defer body.free()
	if err := e.read(w, r, body); err != nil {
		e.unread(w, who, scope, err)
		return
	}
	if id := r.Header[headerSession]; len(id) == 1 && e.elsewhere(w, r, who, id[0], body.b) {
		return
	}
	m := messages.Get().(*wire.Message)
	defer messages.Put(m)
	x := exchange{e: e, w: w, r: r, who: who, scope: scope, h: h, m: m, body: body.b, told: e.told(scope)}
	if isBatch(body.b) && x.batch(body.b) {
		return
	}
	m.Depth = e.opts.Depth
	if err := m.Scan(body.b, wire.FromClient); err != nil {
		x.unreadable(body.b, err)
		return
	}
	version, err := one(r.Header, headerVersion)
	if err != nil {
		x.refuse(true, err)
		return
	}
	if IsModern(version) || m.MetaValue(metaVersion) != nil {
		x.modern(version)
		return
	}
	x.legacy(version)
}

// told is who wants to know of what passes on a face.
func (e *Endpoint) told(scope string) told {
	if !isAgent(scope) {
		scope = ""
	}
	return told{e.opts.Witness, scope}
}

// unread answers a request whose body could not be read.
func (e *Endpoint) unread(w http.ResponseWriter, who *auth.Principal, scope string, err error) {
	e.told(scope).refused(&wire.Message{}, nil, who, err)
	writeFault(w, nil, false, err)
}

// unreadable answers a text that is no message.
func (x *exchange) unreadable(text []byte, err error) {
	err = scanFault(err)
	x.told.refused(x.m, text, x.who, err)
	writeFault(x.w, x.m.ID, false, err)
}

// refuse answers a message that no handler is asked for.
func (x *exchange) refuse(modern bool, err error) {
	x.told.refused(x.m, nil, x.who, err)
	writeFault(x.w, x.m.ID, modern, err)
}

func scanFault(err error) error { return Unreadable(err) }

// Unreadable is the fault of a message that wire.Message.Scan has refused.
func Unreadable(err error) *fault.Error {
	if shape, ok := errors.AsType[*wire.ShapeError](err); ok {
		return fault.New(fault.InvalidRequest, "", "%s", shape.Msg)
	}
	return fault.New(fault.Parse, "", "the message is not valid JSON: %v", err)
}

// read takes the body into b, in bounded size.
func (e *Endpoint) read(w http.ResponseWriter, r *http.Request, b *buffer) error {
	if ct := r.Header.Get("Content-Type"); ct != "" && !isJSON(ct) {
		return &fault.Error{Kind: fault.InvalidRequest, Subject: "Content-Type", Msg: "the body must be application/json, not " + ct}
	}
	if r.ContentLength > int64(e.opts.MessageBytes) {
		return tooLarge(e.opts.MessageBytes)
	}
	long, err := b.fill(r.Body, r.ContentLength, e.opts.MessageBytes)
	switch {
	case long:
		return tooLarge(e.opts.MessageBytes)
	case err != nil:
		w.Header().Set("Connection", "close")
		return fault.New(fault.Parse, "", "the body did not arrive whole within %v", e.opts.BodyTimeout).Because(err)
	}
	return nil
}

func isJSON(ct string) bool {
	ct, _, _ = strings.Cut(ct, ";")
	ct = strings.TrimSpace(ct)
	return strings.EqualFold(ct, "application/json") || len(ct) > 5 && strings.EqualFold(ct[len(ct)-5:], "+json")
}

func tooLarge(limit int) error {
	return fault.New(fault.TooLarge, "", "the message is larger than %d bytes", limit).With("limit", limit)
}

// accepts reports whether the client takes an event stream, and whether it
// would rather have one: because it names it first, or takes nothing else. A
// request that does not say is answered in JSON.
func accepts(r *http.Request) (sse, rather bool) {
	json := false
	for _, v := range r.Header["Accept"] {
		for v != "" {
			var one string
			one, v, _ = strings.Cut(v, ",")
			switch one, _, _ = strings.Cut(strings.TrimLeft(one, " "), ";"); strings.TrimRight(one, " ") {
			case "text/event-stream":
				sse = true
				rather = rather || !json
			case "application/json", "application/*", "*/*":
				json = true
			}
		}
	}
	return sse, rather
}

// stream returns the answer of this exchange.
func (x *exchange) stream(ctx context.Context, modern bool, s *session) *httpStream {
	sse, rather := accepts(x.r)
	return &httpStream{ctx: ctx, id: x.m.ID, modern: modern, agent: isAgent(x.scope), sse: sse, want: rather, session: s, w: x.w}
}

// run answers a request by the handler.
func (x *exchange) run(ctx context.Context, st *httpStream, client *Client) {
	req := &Request{
		Method: x.m.Method, ID: x.m.ID, Params: x.m.Params, Fields: x.m.Fields, Meta: x.m.Meta,
		Client: client, Token: progressToken(x.m), Stream: st, Asked: x.asked(x.m),
	}
	if client.Era == Modern {
		req.LogLevel, _ = wire.String(x.m.MetaValue(metaLogLevel))
		req.Header = x.r.Header
	}
	st.want = st.want || st.sse && (req.Token != nil || req.LogLevel != "")
	st.guardQuiet(x.e.opts.KeepAlive)
	began := x.told.began()
	resp, err := x.h.Handle(ctx, req)
	x.told.answered(began, req, resp, err)
	st.finish(resp, err)
	resp.Release()
}

func progressToken(m *wire.Message) []byte {
	t := m.MetaValue(metaProgress)
	if len(t) == 0 || t[0] != '"' && t[0] != '-' && (t[0] < '0' || t[0] > '9') {
		return nil
	}
	return t
}
