package chatws

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/pace"
)

// Socket serves a conversation on a WebSocket. Who asks, and from where, has
// been checked by the caller.
func (h *Host) Socket(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		refuse(w, http.StatusUpgradeRequired, fault.New(fault.InvalidRequest, "", "this address speaks WebSocket only; POST /api/chat is the one for HTTP"))
		return
	}
	v, full := h.gate.enter(r, who, kindSocket, "")
	if full == errClosing {
		h.away(w)
		return
	}
	l, err := accept(w, r, h.opts.MessageBytes, h.opts.WriteTimeout)
	if err != nil {
		if v != nil {
			v.leave()
		}
		return // the client has been told
	}
	if full != nil {
		h.turnAway(l, "", websocket.StatusTryAgainLater, full)
		return
	}
	// The connection is ours now. The server's goroutine, with all that it has
	// on its stack, would only wait: the gate knows who is here.
	v.link.Store(l)
	go h.welcome(l, visitor{who: who, query: r.URL.Query(), trace: traceOf(r), remote: r.RemoteAddr}, v)
}

// visitor is who comes to a socket, as the handshake says.
type visitor struct {
	who    *auth.Principal
	query  url.Values
	trace  obs.Parent
	remote string
}

// traceOf is what a handshake says of the trace that the socket is part of: by
// headers or, since browsers cannot set them, by the query.
func traceOf(r *http.Request) obs.Parent {
	if p := obs.ParentOf(r.Header); p.Traceparent != "" {
		return p
	}
	q := r.URL.Query()
	if p := (obs.Parent{Traceparent: q.Get("traceparent"), Tracestate: q.Get("tracestate")}); p.Trace() != "" {
		return p
	}
	return obs.Parent{}
}

// welcome serves a client until it goes.
func (h *Host) welcome(l *link, from visitor, v *visit) {
	defer v.leave()
	defer l.cut() // also if something panics
	defer caught(h.opts.Logger, l)
	s := &socket{h: h, l: l, who: from.who, trace: from.trace, tells: h.restater()}
	now := time.Now()
	s.messages, s.others = pace.New(h.opts.Rate, h.opts.Burst, now), pace.New(otherRate, otherBurst, now)
	attend, err := s.enter(from.query, v)
	if attend != nil {
		defer attend()
	}
	if err != nil {
		h.turnAway(l, from.query.Get("sessionId"), websocket.StatusPolicyViolation, err)
		return
	}
	s.log = v.log(h.opts.Logger, from.remote, from.trace).With(obs.KeySession, obs.Short(s.conv.Name()))
	s.log.Info("client connected", obs.KeyAction, "connect")
	s.serve()
	s.log.Info("client disconnected", obs.KeyAction, "disconnect", obs.KeyTook, time.Since(now), "code", int(s.code), "reason", s.why)
}

// log is the logger of a socket, which has the id there that lists of connections
// show.
func (v *visit) log(log *slog.Logger, remote string, trace obs.Parent) *slog.Logger {
	log = log.With(obs.KeySocket, v.about.ID, obs.KeyPrincipal, v.about.Principal, obs.KeyRemote, remote)
	if id := trace.Trace(); id != "" {
		log = log.With(obs.KeyCorrelation, id)
	}
	return log
}

// caught, deferred, cuts a client off where serving it panics: it comes again,
// and the rest of the hub works on.
func caught(log *slog.Logger, l *link) {
	if p := recover(); p != nil {
		_ = obs.Stumbled(log, p, "a socket of the chat stumbled", obs.KeyAction, "serve")
		l.cut()
	}
}

// enter finds the conversation and greets the client.
func (s *socket) enter(q url.Values, v *visit) (leave func(), err error) {
	if s.conv, err = s.h.engine.Conversation(s.who, q.Get("sessionId")); err != nil {
		return nil, err
	}
	v.at(s.conv.Name())
	// Before the client knows that it is connected: what it does next may
	// make somebody be asked.
	attended, replies := s.h.attend(s.who, s.conv), canReply(q, s.conv)
	return func() {
		attended()
		replies()
	}, s.start(q)
}

// away refuses somebody who comes while the hub stops.
func (h *Host) away(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	f := fault.New(fault.Unreachable, "", "%s", h.texts().Maintenance)
	f.Hint = "The hub is stopping; come again when it is back."
	refuse(w, http.StatusServiceUnavailable, f)
}

// turnAway tells a client by a frame why it cannot be served: a browser does
// not show it the answer to the handshake.
func (h *Host) turnAway(l *link, session string, code websocket.StatusCode, err error) {
	f := h.explain(err)
	if f.Kind == fault.Internal {
		code = websocket.StatusInternalError
	}
	_ = l.send(encode(outgoing{Type: "connection", Payload: connection{State: stateError, Message: f.Text(), Session: session, Kind: f.Kind.String(), Hint: f.Advice()}}))
	l.close(code, f.Kind.String())
}
