package mcp

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/wire"
)

// Client is who asks: one connection of the legacy era, or one request of the
// modern era.
type Client struct {
	Era          Era
	Version      string
	Info         []byte      // clientInfo, raw; nil if it was not said
	Capabilities []byte      // raw object; nil if none were said
	Connection   string      // the legacy session or the pipe; empty for a request that stands alone
	Actor        actor.Actor // on whose behalf it asks

	level atomic.Pointer[string] // legacy: what logging/setLevel asked for
	once  sync.Once
	can   [noCapability]bool
	tasks bool
}

// Capability is something a server may ask a client for.
type Capability int

const (
	Elicitation Capability = iota
	Sampling
	Roots
	Addresses // elicitation that sends the user to an address; the capability alone means forms
	noCapability
)

var askable = map[string]Capability{
	"elicitation/create": Elicitation,
	MethodSample:         Sampling,
	"roots/list":         Roots,
}

// Can reports whether the client declared the capability.
func (c *Client) Can(what Capability) bool {
	c.read()
	return what >= 0 && int(what) < len(c.can) && c.can[what]
}

// Tasks reports whether the client can be given a task in place of a result.
func (c *Client) Tasks() bool {
	c.read()
	return c.tasks && c.Era == Modern
}

func (c *Client) read() {
	c.once.Do(func() {
		for _, f := range wire.Members(c.Capabilities) {
			switch string(f.Name) {
			case "elicitation":
				c.can[Elicitation], c.can[Addresses] = true, wire.Get(f.Value, "url") != nil
			case "sampling":
				c.can[Sampling] = true
			case "roots":
				c.can[Roots] = true
			case "extensions":
				c.tasks = wire.Get(f.Value, TasksExtension) != nil
			}
		}
	})
}

// LogLevel is what the client asked for by logging/setLevel, or "".
func (c *Client) LogLevel() string {
	if p := c.level.Load(); p != nil {
		return *p
	}
	return ""
}

// As is the same client, acting on behalf of another actor.
func (c *Client) As(a actor.Actor) *Client {
	other := &Client{Era: c.Era, Version: c.Version, Info: c.Info, Capabilities: c.Capabilities, Connection: c.Connection, Actor: a}
	other.level.Store(c.level.Load())
	return other
}

// By is the same client, acting through one more delegate.
func (c *Client) By(d actor.Delegate) *Client { return c.As(c.Actor.By(d)) }

// WantLogs has a client that is taken up hear the logs that it asked for.
func (c *Client) WantLogs(level string) {
	if level != "" {
		c.setLogLevel(level)
	}
}

func (c *Client) setLogLevel(level string) { c.level.Store(&level) }

// Stream is where everything goes that belongs to one running request, in the
// order of the calls. Its methods may block while the client is slow.
type Stream interface {
	// Notify sends a notification. It is dropped where the client cannot
	// receive one (an answer in plain JSON). What it sends may be held back
	// until Flush, so that what came together goes together.
	Notify(method string, params []byte)
	// Flush sends what Notify has held back. Whoever is going to wait calls it.
	Flush()
	// CanAsk reports whether Ask can reach the client.
	CanAsk() bool
	// Ask sends a request of the server and waits for the client's answer.
	Ask(ctx context.Context, method string, params []byte) (Response, error)
}

// Request is one request on its way from a client to a server.
type Request struct {
	Method   string
	ID       []byte       // as the client gave it, raw; nil for one of our own
	Params   []byte       // raw object; nil if absent
	Fields   []wire.Field // members of Params
	Meta     []wire.Field // members of Params._meta
	Client   *Client
	Token    []byte      // progress token, raw; nil if none
	LogLevel string      // modern: the level this request asks for
	Header   http.Header // modern over HTTP: where Mcp-Param-* are; else nil
	Stream   Stream      // never nil inside Handle
	IsNote   bool        // a notification: nobody waits for the answer
	Told     bool        // set by a handler that has told those who watch of it

	// Say is where Tell goes for a call that another request makes, such as one
	// of a batch; nil for a client's own.
	Say func(text string)

	Asked // what it asks of the hub
}

// Param returns a member of the params, raw, or nil.
func (r *Request) Param(name string) []byte {
	for i := range r.Fields {
		if string(r.Fields[i].Name) == name {
			return r.Fields[i].Value
		}
	}
	return nil
}

// Text returns a string member of the params.
func (r *Request) Text(name string) (string, bool) { return wire.String(r.Param(name)) }

// Response is what a server answered: a result or an error object, raw.
type Response struct {
	Result []byte
	Error  []byte
	buf    *buffer
}

// Release gives the memory of the response back. The caller must not use the
// response afterwards. Releasing is optional.
func (r *Response) Release() {
	if r.buf != nil {
		r.buf.free()
	}
	*r = Response{}
}

// Handler is what a face serves.
type Handler interface {
	// Handle answers one request. An error is a fault of ours; an error of
	// the server behind is a Response.
	Handle(ctx context.Context, req *Request) (Response, error)
	// Attach registers a listener for changes until stop is called. It takes
	// out of l.Filter what it never tells.
	Attach(l *Listener) (stop func())
	// Subscribe adds a resource to what l hears of; Unsubscribe removes it.
	Subscribe(ctx context.Context, l *Listener, uri string) error
	Unsubscribe(ctx context.Context, l *Listener, uri string) error
}

// Listener hears of what changes outside any request.
type Listener struct {
	Client  *Client
	Session string // the name of the Session it asked for; empty for none
	Filter  Filter
	// Deliver is called with a notification; it must not block.
	Deliver func(method string, params []byte)
}

// discard is the Stream of requests nobody listens to.
type discard struct{}

// Discard is a Stream that drops notifications and cannot ask.
var Discard Stream = discard{}

func (discard) Notify(string, []byte) {}
func (discard) Flush()                {}
func (discard) CanAsk() bool          { return false }
func (discard) Ask(context.Context, string, []byte) (Response, error) {
	return Response{}, errCannotAsk
}
