package mcp

import (
	"context"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// legacy answers a POST of the legacy era: with a session, to get one, or
// without any for clients that drop it.
func (x *exchange) legacy(header string) {
	id, err := one(x.r.Header, headerSession)
	if err == nil && header != "" && EraOf(header) == 0 {
		err = badVersion(header)
	}
	if err != nil {
		x.refuse(false, err)
		return
	}
	var s *session
	if id != "" {
		if s, err = x.e.session(id, x.scope, x.who, x.r, x.h); err != nil {
			x.refuse(false, err)
			return
		}
	}
	switch {
	case x.m.IsResponse():
		if s != nil {
			s.asks.answer(x.m)
		}
		x.w.WriteHeader(http.StatusAccepted)
	case x.m.IsNotification():
		x.note(s)
		x.w.WriteHeader(http.StatusAccepted)
	case x.m.Method == "initialize":
		x.initialize(s)
	default:
		x.request(s, header)
	}
}

// note takes a notification of the client.
func (x *exchange) note(s *session) {
	if s == nil {
		x.told.heard(x.m, &Client{Actor: x.actor()}, Asked{})
		return
	}
	x.told.heard(x.m, s.client, Asked{Session: s.listener.Session})
	switch x.m.Method {
	case noteCancelled:
		s.calls.cancel(x.m)
	case noteInitialized:
	default:
		relayNote(x.r.Context(), x.h, s.client, x.m)
	}
}

func relayNote(ctx context.Context, h Handler, c *Client, m *wire.Message) {
	resp, _ := h.Handle(ctx, &Request{
		Method: m.Method, Params: m.Params, Fields: m.Fields, Meta: m.Meta,
		Client: c, Stream: Discard, IsNote: true,
	})
	resp.Release()
}

// relay passes a notification of a legacy client on.
func (p *pipe) relay(ctx context.Context, m *wire.Message) {
	defer p.caught(nil, nil, false)
	if p.legacy != nil && m.Method != noteInitialized {
		relayNote(ctx, p.h, p.legacy, m)
	}
}

func (x *exchange) initialize(s *session) {
	if s != nil {
		x.refuse(false, fault.New(fault.InvalidRequest, "initialize", "the session is initialised already; send no Mcp-Session-Id to get a new one"))
		return
	}
	client, err := legacyClient(x.m)
	if err != nil {
		x.refuse(false, err)
		return
	}
	client.Actor = x.actor()
	client.Connection = newSessionID()
	st := x.stream(x.r.Context(), false, nil)
	req := &Request{
		Method: "initialize", Params: x.m.Params, Fields: x.m.Fields, Meta: x.m.Meta, Client: client, Stream: Discard, Asked: x.asked(x.m),
	}
	began := x.told.began()
	resp, err := x.h.Handle(st.ctx, req)
	x.told.answered(began, req, resp, err)
	defer resp.Release()
	if err == nil && resp.Error == nil {
		var fresh *session
		if fresh, err = x.e.open(client, x.scope, x.asked(x.m).Session, x.h); err == nil {
			if x.e.opts.Keep.Opened != nil {
				x.e.opts.Keep.Opened(st.ctx, fresh.kept())
			}
			x.w.Header()[headerSession] = []string{fresh.id}
		}
	}
	st.finish(resp, err)
}

// open makes and keeps a session for a client that has initialised, and that
// asked for the Session of that name.
func (e *Endpoint) open(client *Client, scope, name string, h Handler) (*session, error) {
	s := &session{id: client.Connection, scope: scope, client: client, handler: h, over: make(chan struct{})}
	s.listener = &Listener{Client: client, Session: name, Filter: Everything, Deliver: s.out.put}
	s.detach = h.Attach(s.listener)
	s.touch()
	if err := e.opts.Sessions.add(s); err != nil {
		s.detach()
		return nil, err
	}
	return s, nil
}

// session returns the session of that id, also one that was opened before the
// process was started. Agents keep no state, so that there is nothing to take
// up again on their faces.
func (e *Endpoint) session(id, scope string, who *auth.Principal, r *http.Request, h Handler) (*session, error) {
	s, err := e.opts.Sessions.get(id, scope, who)
	if err == nil || e.opts.Sessions.has(id) {
		return s, err
	}
	e.recalls.Lock() // two requests may come at once
	defer e.recalls.Unlock()
	if s, err := e.opts.Sessions.get(id, scope, who); err == nil {
		return s, nil
	}
	if e.opts.Keep.Take != nil {
		if k := e.opts.Keep.Take(id, who); k != nil && k.Scope == scope {
			return e.take(r.Context(), k, h)
		}
	}
	if e.opts.Recall == nil || isAgent(scope) {
		return nil, err
	}
	client := e.opts.Recall(id, who)
	if client == nil {
		return nil, err
	}
	return e.open(client, scope, r.Header.Get(HeaderSession), h)
}

// legacyClient reads who asks from initialize. What it returns outlives the
// message.
func legacyClient(m *wire.Message) (*Client, error) {
	version, ok := wire.String(m.Param("protocolVersion"))
	if !ok {
		return nil, fault.New(fault.InvalidParams, "initialize", "protocolVersion is missing or not a string")
	}
	if EraOf(version) != Legacy {
		version = LegacyVersion
	}
	c := &Client{Era: Legacy, Version: version}
	c.Info = clone(m.Param("clientInfo"))
	c.Capabilities = clone(m.Param("capabilities"))
	return c, nil
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte(nil), b...)
}

// request answers any other request.
func (x *exchange) request(s *session, header string) {
	if x.m.Method == "ping" {
		client := &Client{Actor: x.actor()}
		if s != nil {
			client = s.client
		}
		x.told.own(x.m, client, x.asked(x.m), pong, nil)
		writeJSON(x.w, http.StatusOK, wire.AppendResult(nil, x.m.ID, pong.Result))
		return
	}
	if err := legacyMethod(x.m.Method); err != nil {
		x.refuse(false, err)
		return
	}
	ctx := x.r.Context()
	if s == nil {
		if header == "" {
			header = "2025-03-26" // what the protocol says to assume
		}
		x.run(ctx, x.stream(ctx, false, nil), &Client{Era: Legacy, Version: header, Actor: x.actor()})
		return
	}
	var st *httpStream
	var cancel context.CancelCauseFunc
	if s.client.Version == resumeVersion {
		ctx, cancel, st = x.outlive(s)
	} else {
		ctx, cancel = context.WithCancelCause(ctx)
		st = x.stream(ctx, false, s)
	}
	defer cancel(nil)
	if err := s.calls.add(x.m.ID, cancel); err != nil {
		x.refuse(false, err)
		return
	}
	defer s.calls.remove(x.m.ID)
	if handled, resp, err := s.own(ctx, x.m); handled {
		if err == nil && resp.Error == nil {
			s.changes(ctx, x.e, x.m)
		}
		x.told.own(x.m, s.client, x.asked(x.m), resp, err)
		st.finish(resp, err)
		return
	}
	s.changes(ctx, x.e, x.m) // of the level of logs; nobody waits for more
	x.run(ctx, st, s.client)
}

// pong answers a ping.
var pong = Response{Result: []byte("{}")[:2:2]} // whoever appends to it gets a copy

// own answers what concerns the session itself.
func (s *session) own(ctx context.Context, m *wire.Message) (bool, Response, error) {
	return ownMethod(ctx, m, s.handler, s.listener)
}

// ownMethod answers the legacy methods that change a connection's state
// besides asking the handler.
func ownMethod(ctx context.Context, m *wire.Message, h Handler, l *Listener) (bool, Response, error) {
	empty := Response{Result: []byte("{}")}
	switch m.Method {
	case "logging/setLevel":
		level, _ := wire.String(m.Param("level"))
		if LogRank(level) < 0 {
			return true, Response{}, fault.New(fault.InvalidParams, "logging/setLevel", "level %q is not one of %v", level, logLevels)
		}
		l.Client.setLogLevel(level)
		return false, Response{}, nil // the handler may have to tell upstreams
	case "resources/subscribe", "resources/unsubscribe":
		uri, ok := wire.String(m.Param("uri"))
		if !ok || uri == "" {
			return true, Response{}, fault.New(fault.InvalidParams, m.Method, "uri is missing or not a string")
		}
		change := h.Unsubscribe
		if m.Method == "resources/subscribe" {
			change = h.Subscribe
		}
		resp, err := Refusal(empty, change(ctx, l, uri))
		return true, resp, err
	}
	return false, Response{}, nil
}

func legacyMethod(method string) error {
	switch method {
	case "server/discover", "subscriptions/listen":
		return unknownMethod(method, LegacyVersion)
	}
	return nil
}
