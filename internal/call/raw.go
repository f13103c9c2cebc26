package call

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// headOf is what the record of a call says of its exchange.
func headOf(r *event.Record) exchange.Head {
	return exchange.Head{Call: r.Call, Method: r.Method, Upstream: r.Upstream, Tool: r.Tool, Session: r.Session, Principal: r.Principal}
}

// tapTo keeps what passes on the wire.
func tapTo(raw *exchange.Recording) mcp.Tap {
	return func(what mcp.Passing, body []byte) {
		switch what {
		case mcp.Sent:
			raw.Add(exchange.Request, "", body)
		case mcp.CameError:
			raw.Add(exchange.Error, "", body)
		case mcp.CameResult:
			raw.Add(exchange.Result, "", body)
		}
	}
}

// answered keeps what a call was answered with, where that did not pass with
// it: the client's input may have gone to a call that waited for it.
func (t *toolCall) answered(resp mcp.Response, err error) {
	if err == nil && !t.raw.Answered() {
		keepAnswer(t.raw, resp, nil)
	}
}

// end closes the exchange of a call. One that was refused before it reached its
// upstream has none: then what was asked for is kept.
func (d *Door) end(c *Call, t *toolCall, tool, kind string, err error, took time.Duration) {
	if t.raw == nil {
		if !d.events.Watched() {
			return
		}
		if t.call == "" {
			t.call = d.names.next()
		}
		var r event.Record
		record(&r, c, t)
		if r.Tool = tool; c.Item == nil && c.Req.Method == "tools/call" {
			r.Tool, _ = c.Req.Text("name")
		}
		t.raw = d.raw.Begin(headOf(&r))
		t.raw.Add(exchange.Asked, "", c.Req.Params)
	}
	if err != nil {
		t.raw.Add(exchange.Fault, "", fault.Of(err).Wire(true))
	}
	t.raw.End(kind, took)
}

// Own tells those who watch of a request that the hub makes for itself, such as
// that for a server's lists, and keeps what passes. What it returns is called
// when the request is over; nil means that nobody watches.
func (d *Door) Own(upstream string, o *mcp.Outgoing) func(mcp.Response, error) {
	if !d.Watching() {
		return nil
	}
	r := event.Record{Type: event.CallOwn, Level: event.Debug, Call: d.names.next(), Upstream: upstream, Tool: o.Method, Method: o.Method}
	raw := d.raw.Begin(headOf(&r))
	if raw != nil {
		o.Tap = tapTo(raw)
	}
	if o.Method == methodListen { // it may be open for days
		started := r
		started.Type = event.CallStarted
		d.events.Emit(started)
	}
	began := time.Now()
	return func(resp mcp.Response, err error) {
		switch {
		case err != nil:
			f := fault.Of(err)
			if _, named := errors.AsType[*fault.Error](err); !named && f.Kind == fault.Internal {
				// Something between the hub and the server, and no mistake of the hub's.
				f = fault.New(fault.Unreachable, upstream, "it did not answer: %v", err)
			}
			r.Kind, r.Level = f.Kind.String(), missing(o.Method)
			raw.Add(exchange.Fault, "", f.Wire(true))
		case resp.Error != nil:
			r.Kind, r.Level = obs.ToolError, missing(o.Method)
		}
		took := time.Since(began)
		r.Bytes, r.TookUS = len(resp.Result), took.Microseconds()
		raw.End(r.Kind, took)
		d.events.Emit(r)
	}
}

// Watching reports whether somebody watches.
func (d *Door) Watching() bool { return d.events != nil && d.events.Watched() }

// Saw tells those who watch of a message between a client and the hub that no
// server has to do with, and keeps it.
func (d *Door) Saw(s *mcp.Spoken) {
	r := event.Record{Type: event.CallAnswered, Level: event.Debug, Call: d.names.next(), Principal: s.Client.Actor.Name(), Upstream: s.Face,
		Session: cmp.Or(s.Session, s.Client.Connection), Tool: cmp.Or(s.Method, unreadable), Method: s.Method, TookUS: s.Took.Microseconds()}
	if name, ok := s.Text("name"); ok && s.Method == "tools/call" {
		r.Tool = name
	}
	r.Trace, _, _ = origin(s.Request)
	clipNames(&r)
	head := headOf(&r)
	head.Upstream = "" // it has said nothing of this
	raw := d.raw.Begin(head)
	switch s.What {
	case mcp.Heard:
		r.Type, r.Bytes = event.CallHeard, len(s.Params)
		raw.Add(exchange.Asked, r.Method, s.Params)
	case mcp.Said:
		r.Type, r.Bytes = event.CallSaid, len(s.Params)
		raw.Add(exchange.Notification, r.Method, s.Params)
	default:
		r.Bytes = len(s.Response.Result)
		raw.Add(exchange.Asked, "", s.Params)
		r.Kind = keepAnswer(raw, s.Response, s.Err)
	}
	if r.Kind != "" {
		r.Level = event.Warning
	}
	raw.End(r.Kind, s.Took)
	d.events.Emit(r)
}

// unreadable stands for the method of a message that has none.
const unreadable = "unreadable message"

// keepAnswer keeps what a request was answered with, and returns what is wrong
// with it.
func keepAnswer(raw *exchange.Recording, resp mcp.Response, err error) (kind string) {
	switch {
	case err != nil:
		f := fault.Of(err)
		raw.Add(exchange.Fault, "", f.Wire(true))
		return f.Kind.String()
	case resp.Error != nil:
		raw.Add(exchange.Error, "", resp.Error)
		return obs.ToolError
	}
	raw.Add(exchange.Result, "", resp.Result)
	if string(wire.Get(resp.Result, "isError")) != "true" {
		return ""
	}
	return cmp.Or(envelope.FaultKind(resp.Result), obs.ToolError)
}

const methodListen = "subscriptions/listen"

// missing is how important it is that a request of the hub's own got no result.
// That is the usual end of a stream, and how servers of the legacy era answer
// the question for their era.
func missing(method string) string {
	if method == methodListen || method == "server/discover" {
		return event.Debug
	}
	return event.Warning
}

// Heard tells those who watch of a notification that belongs to no request.
func (d *Door) Heard(upstream, method string, params []byte) {
	d.Aside(upstream, mcp.Aside{Method: method, Params: params})
}

// Aside tells those who watch of a message that belongs to no request, and
// keeps it.
func (d *Door) Aside(upstream string, a mcp.Aside) {
	if !d.Watching() {
		return
	}
	r := event.Record{Type: event.CallHeard, Level: event.Debug, Call: d.names.next(), Upstream: upstream, Tool: a.Method, Method: a.Method, Bytes: len(a.Params)}
	if a.Sent {
		r.Type = event.CallSaid
	}
	clipNames(&r)
	raw := d.raw.Begin(headOf(&r))
	switch {
	case a.Sent:
		raw.Add(exchange.Request, r.Method, a.Params)
	case a.Answer != nil:
		raw.Add(exchange.Question, r.Method, a.Params)
		raw.Add(exchange.Answer, r.Method, a.Answer)
	default:
		raw.Add(exchange.Notification, r.Method, a.Params)
	}
	raw.End("", 0)
	d.events.Emit(r)
}

// maxName bounds what a record says of names that nobody has checked: a message
// may be made of one, and thousands of records are kept.
const maxName = 256

func clipNames(r *event.Record) {
	for _, name := range []*string{&r.Session, &r.Tool, &r.Method} {
		if len(*name) > maxName {
			*name = strings.ToValidUTF8((*name)[:maxName], "") + "…"
		}
	}
}

var _ mcp.Witness = (*Door)(nil)
