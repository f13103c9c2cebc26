package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// Filter is what a listener wants to hear of. Its JSON form is that of
// subscriptions/listen.
type Filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	Tasks     []string `json:"taskIds,omitempty"`
}

// Everything is the filter of a legacy connection: it is told of all lists.
var Everything = Filter{Tools: true, Prompts: true, Resources: true}

// Wants reports whether a list_changed notification passes the filter.
func (f *Filter) Wants(method string) bool {
	switch method {
	case NoteToolsChanged:
		return f.Tools
	case NotePromptsChanged:
		return f.Prompts
	case NoteResourcesChanged:
		return f.Resources
	}
	return false
}

func (f *Filter) empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 && len(f.Tasks) == 0
}

const maxListenURIs = 1000

// TaskFollower is a Handler that tells how tasks change.
type TaskFollower interface {
	// FollowTask adds a task to what l hears of, until it is detached.
	FollowTask(ctx context.Context, l *Listener, id string) error
}

// NeedsTasks refuses a client that did not declare the extension.
func NeedsTasks(c *Client) error {
	if c.Tasks() {
		return nil
	}
	f := fault.New(fault.MissingCapability, TasksExtension, "the request needs the extension, which the client did not declare")
	f.Hint = "Declare the extension in the request's _meta, or use the tool task_start."
	return f.With("requiredCapabilities", json.RawMessage(TasksCapability))
}

// subscription is one running subscriptions/listen.
type subscription struct {
	id       []byte
	listener Listener
	out      outbox
	stop     func()
}

// openSubscription reads the filter of a listen request, registers it with h
// and returns the acknowledgement to send first.
func openSubscription(ctx context.Context, h Handler, client *Client, m *wire.Message, session string) (*subscription, []byte, error) {
	raw := m.Param("notifications")
	var want Filter
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &want) != nil {
		return nil, nil, fault.New(fault.InvalidParams, "subscriptions/listen", "notifications is missing or not an object of the protocol's form")
	}
	if len(want.URIs) > maxListenURIs {
		return nil, nil, fault.New(fault.Limit, "subscriptions/listen", "%d resources are more than the limit of %d", len(want.URIs), maxListenURIs)
	}
	if len(want.Tasks) > 0 {
		if err := NeedsTasks(client); err != nil {
			return nil, nil, err
		}
	}
	if len(want.Tasks) > maxListenURIs {
		return nil, nil, fault.New(fault.Limit, "subscriptions/listen", "%d tasks are more than the limit of %d", len(want.Tasks), maxListenURIs)
	}
	uris, tasks := want.URIs, want.Tasks
	want.URIs, want.Tasks = nil, nil
	sub := &subscription{id: clone(m.ID)}
	client.Info, client.Capabilities = clone(client.Info), clone(client.Capabilities)
	sub.listener = Listener{Client: client, Session: session, Filter: want, Deliver: sub.out.put}
	sub.stop = h.Attach(&sub.listener)
	honoured := sub.listener.Filter
	for _, uri := range uris {
		if err := h.Subscribe(ctx, &sub.listener, uri); err == nil {
			honoured.URIs = append(honoured.URIs, uri)
		}
	}
	if f, ok := h.(TaskFollower); ok {
		for _, id := range tasks {
			if err := f.FollowTask(ctx, &sub.listener, id); err == nil {
				honoured.Tasks = append(honoured.Tasks, id)
			}
		}
	}
	// The rest of it is in use already.
	sub.listener.Filter.URIs, sub.listener.Filter.Tasks = honoured.URIs, honoured.Tasks
	ack, _ := json.Marshal(honoured)
	return sub, sub.tag(append(append([]byte(`{"notifications":`), ack...), '}')), nil
}

// tag marks a notification as belonging to the subscription.
func (s *subscription) tag(params []byte) []byte {
	meta := wire.Edit(nil, wire.Get(params, "_meta"), wire.Change{Name: metaSubscription, Value: s.id})
	return wire.Edit(nil, params, wire.Change{Name: "_meta", Value: meta})
}

// form gives a notification the form in which it is sent, and tells of it.
func (s *subscription) form(t told) func(note) []byte {
	return func(n note) []byte {
		params := s.tag(n.params)
		t.said(&s.listener, n.method, params)
		return params
	}
}

// result is sent when we end the subscription.
func (s *subscription) result() []byte {
	return s.tag([]byte(`{"resultType":"complete"}`))
}

// listen answers subscriptions/listen over HTTP. It is on the stack for as long
// as the stream lasts, and there may be thousands: what it does before and after
// is done elsewhere.
func (x *exchange) listen(st *httpStream, client *Client) {
	sub := x.subscribe(st, client)
	if sub == nil {
		return
	}
	defer sub.stop()
	if !sub.listener.Filter.empty() && x.e.follow(st.ctx, x.w, &sub.out, sub.form(x.told), nil, nil) != endClosing {
		return
	}
	x.unsubscribe(st, sub)
}

// subscribe begins the stream of a subscription; nil means that there is none,
// and why was answered.
func (x *exchange) subscribe(st *httpStream, client *Client) *subscription {
	asked := x.asked(x.m)
	sub, ack, err := (*subscription)(nil), []byte(nil), error(nil)
	if !st.sse {
		err = fault.New(fault.InvalidRequest, "subscriptions/listen", "the answer is an event stream; send Accept: text/event-stream")
	} else {
		sub, ack, err = openSubscription(st.ctx, x.h, client, x.m, asked.Session)
	}
	if err != nil {
		x.told.own(x.m, client, asked, Response{}, err)
		st.finish(Response{}, err)
		return nil
	}
	x.told.heard(x.m, client, asked)
	x.told.said(&sub.listener, noteAcknowledged, ack)
	startEvents(x.w)
	st.buf = appendEvent(nil, func(dst []byte) []byte { return wire.AppendRequest(dst, nil, noteAcknowledged, ack) })
	x.w.Write(st.buf)
	flush(x.w)
	st.id = sub.id // the message's buffer is not needed any more
	return sub
}

// unsubscribe ends the stream of a subscription that we end.
func (x *exchange) unsubscribe(st *httpStream, sub *subscription) {
	x.told.ended(&sub.listener, sub.result())
	st.buf = appendEvent(nil, func(dst []byte) []byte { return wire.AppendResult(dst, sub.id, sub.result()) })
	x.w.Write(st.buf)
}

// listen answers subscriptions/listen on a pipe.
func (p *pipe) listen(ctx context.Context, m *wire.Message, client *Client) {
	sub, ack, err := openSubscription(ctx, p.h, client, m, p.asked(m).Session)
	if err != nil {
		p.told.own(m, client, p.asked(m), Response{}, err)
		p.fault(nil, m.ID, true, err)
		return
	}
	defer sub.stop()
	p.told.heard(m, client, p.asked(m))
	p.told.said(&sub.listener, noteAcknowledged, ack)
	p.send(func(dst []byte) []byte { return wire.AppendRequest(dst, nil, noteAcknowledged, ack) })
	if !sub.listener.Filter.empty() {
		p.follow(ctx, &sub.out, sub.form(p.told))
	}
	if context.Cause(ctx) != errClientCancelled {
		p.told.ended(&sub.listener, sub.result())
		p.respond(nil, sub.id, true, Response{Result: sub.result()}, nil)
	}
}

// follow writes what comes into out, in its form, until ctx ends.
func (p *pipe) follow(ctx context.Context, out *outbox, form func(note) []byte) {
	wake := out.wake()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		for _, n := range out.take() {
			params := form(n)
			p.send(func(dst []byte) []byte { return wire.AppendRequest(dst, nil, n.method, params) })
		}
	}
}

type end int

const (
	endClient  end = iota // the client went away, or must come again
	endClosing            // the endpoint is closing
)

// follow writes what comes into out in its form, and keep-alives, until
// something ends it.
func (e *Endpoint) follow(ctx context.Context, w http.ResponseWriter, out *outbox, form func(note) []byte, replaced, over <-chan struct{}) end {
	wake := out.wake()
	quiet := time.NewTimer(e.opts.KeepAlive)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return endClient
		case <-replaced:
			return endClient
		case <-over:
			return endClient
		case <-e.closing:
			return endClosing
		case <-quiet.C:
			if _, err := w.Write([]byte(": keep-alive\n\n")); err != nil {
				return endClient
			}
		case <-wake:
			if !writeNotes(w, out.take(), form) {
				return endClient
			}
		}
		flush(w)
		quiet.Reset(e.opts.KeepAlive)
	}
}

func writeNotes(w http.ResponseWriter, notes []note, form func(note) []byte) bool {
	for _, n := range notes {
		params := form(n)
		b := appendEvent(nil, func(dst []byte) []byte { return wire.AppendRequest(dst, nil, n.method, params) })
		if _, err := w.Write(b); err != nil {
			return false
		}
	}
	return true
}

// named returns the session that a GET or DELETE names, or nil after having
// answered that there is none.
func (e *Endpoint) named(w http.ResponseWriter, r *http.Request, who *auth.Principal, scope string, h Handler) *session {
	id, err := one(r.Header, headerSession)
	if err == nil && id == "" {
		refuseMethod(w)
		return nil
	}
	var s *session
	if err == nil {
		if e.elsewhere(w, r, who, id, nil) {
			return nil
		}
		s, err = e.session(id, scope, who, r, h)
	}
	if err != nil {
		writeFault(w, nil, false, err)
		return nil
	}
	return s
}

// get serves the stream of a legacy session.
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request, who *auth.Principal, scope string, h Handler) {
	s := e.named(w, r, who, scope, h)
	if s == nil {
		return
	}
	if sse, _ := accepts(r); !sse {
		w.Header()["Content-Type"] = jsonType
		writeJSON(w, http.StatusNotAcceptable, wire.AppendError(nil, nil,
			fault.New(fault.InvalidRequest, "Accept", "the answer to GET is an event stream; send Accept: text/event-stream").Wire(false)))
		return
	}
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		if kept, n := s.replays.find(last); kept != nil {
			e.resume(r.Context(), w, s, kept, n)
			return
		}
	}
	s.streams.Add(1)
	defer func() {
		s.touch()
		s.streams.Add(-1)
	}()
	replaced := s.takeStream()
	startEvents(w)
	w.Write([]byte(": stream open\n\n"))
	flush(w)
	e.follow(r.Context(), w, &s.out, e.told(scope).plain(s.listener), replaced, s.over)
}

// delete ends a legacy session.
func (e *Endpoint) delete(w http.ResponseWriter, r *http.Request, who *auth.Principal, scope string, h Handler) {
	s := e.named(w, r, who, scope, h)
	if s == nil {
		return
	}
	e.opts.Sessions.remove(s)
	if e.opts.Deleted != nil {
		e.opts.Deleted(s.client)
	}
	w.WriteHeader(http.StatusNoContent)
}
