package peer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// exchange is one HTTP request on its way to its response.
type exchange struct {
	life *httpLife
	r    *http.Request
	msg  message
	out  *httpOut
}

// refuse answers with a status and an error; plainly, if the peer is one that
// speaks no JSON-RPC before it has accepted a request.
func (x *exchange) refuse(status int, rep reply) {
	if x.life.server.spec.HTTP.PlainErrors {
		http.Error(x.out.w, "Bad Request: "+string(rep.err), status)
		return
	}
	id := json.RawMessage("null")
	if x.msg.ID != nil && !x.msg.isResponse() && validID(x.msg.ID) {
		id = x.msg.ID
	}
	x.out.answer(status, rep.line(id), false)
}

// finish sends what became of a request.
func (x *exchange) finish(status int, rep reply) {
	switch {
	case rep.abort, rep.none && x.life.server.down.Load():
		panic(http.ErrAbortHandler)
	case rep.none:
		// The client cancelled or is gone: a stream that ends without a response.
		_ = x.out.open()
	default:
		x.out.answer(status, rep.line(x.msg.ID), rep.partial)
		if rep.partial {
			panic(http.ErrAbortHandler)
		}
	}
}

// modern serves a request of the stateless era.
func (x *exchange) modern() {
	s := x.life.server
	if x.msg.isResponse() {
		x.refuse(http.StatusBadRequest, refuse(codeInvalidRequest, nil, "a modern server sends no requests: there is nothing to respond to"))
		return
	}
	if x.msg.isNotification() {
		// The era defines none over HTTP; they are recorded and change nothing.
		x.out.w.WriteHeader(http.StatusAccepted)
		return
	}
	r := &request{ctx: x.r.Context(), id: x.msg.ID, method: x.msg.Method, raw: x.msg.Params,
		modern: true, header: x.r.Header, send: x.out.send}
	rep, ok := s.checkHeaders(r)
	if ok {
		rep, ok = s.admit(r)
	}
	if ok {
		rep = s.handle(r)
	}
	if rep.none && r.ctx.Err() == nil {
		<-r.ctx.Done() // silent, but the connection stays
	}
	x.finish(modernStatus(rep), rep)
}

func modernStatus(rep reply) int {
	switch rep.code() {
	case codeUnknownMethod:
		return http.StatusNotFound
	case codeInvalidParams, codeHeaderMismatch, codeNeedCapability, codeVersion, codeInvalidRequest:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// legacy serves a message of the era of sessions.
func (x *exchange) legacy() {
	s := x.life.server
	if v := x.r.Header.Get("Mcp-Protocol-Version"); v != "" && !slices.Contains(s.spec.LegacyVersions, v) {
		x.refuse(http.StatusBadRequest, refuse(codeServer, nil,
			"Bad Request: Unsupported protocol version: %s (supported versions: %s)", v, strings.Join(s.spec.LegacyVersions, ", ")))
		return
	}
	sess, ok := x.session()
	if !ok {
		return
	}
	if x.msg.isResponse() || x.msg.isNotification() {
		s.note(sess, x.msg)
		x.out.w.WriteHeader(http.StatusAccepted)
		return
	}
	// A legacy client that hangs up has not cancelled anything, so the request
	// lives as long as its session.
	ctx, done, err := sess.calls.start(sess.ctx, x.msg.ID)
	if err != nil {
		x.refuse(http.StatusBadRequest, refuse(codeInvalidRequest, nil, "%v", err))
		return
	}
	r := &request{ctx: ctx, id: x.msg.ID, method: x.msg.Method, raw: x.msg.Params,
		session: sess, header: x.r.Header, send: x.out.send}
	rep, ok := s.admit(r)
	if ok {
		rep = s.handle(r)
	}
	if r.method == "initialize" && rep.result != nil && !s.spec.HTTP.Sessionless {
		x.life.keep(sess)
		x.out.w.Header().Set("Mcp-Session-Id", sess.id)
	}
	if rep.none && ctx.Err() == nil {
		<-x.r.Context().Done() // silent, but the connection stays
	}
	done() // a client that has its answer may use the id again
	x.finish(http.StatusOK, rep)
}

// session finds the session that a legacy message belongs to, or has refused it.
func (x *exchange) session() (*session, bool) {
	s := x.life.server
	id := x.r.Header.Get("Mcp-Session-Id")
	if x.msg.Method == "initialize" {
		if id != "" {
			x.refuse(http.StatusBadRequest, refuse(codeInvalidRequest, nil, "initialize within a session: send it without Mcp-Session-Id"))
			return nil, false
		}
		return newSession(x.life.ctx, rand.Text()), true
	}
	if s.spec.HTTP.Sessionless {
		sess := newSession(x.r.Context(), "")
		sess.initialize(client{version: s.spec.LegacyVersions[0]})
		return sess, true
	}
	if id == "" {
		x.refuse(http.StatusBadRequest, refuse(codeServer, nil, "Bad Request: Mcp-Session-Id header is required"))
		return nil, false
	}
	x.life.mu.Lock()
	sess := x.life.sessions[id]
	x.life.mu.Unlock()
	if sess == nil {
		x.refuse(http.StatusNotFound, refuse(codeNoSession, nil, "Session not found"))
		return nil, false
	}
	negotiated, sent := sess.client().version, x.r.Header.Get("Mcp-Protocol-Version")
	if sent != negotiated && (sent != "" || negotiated >= "2025-06-18") {
		x.refuse(http.StatusBadRequest, refuse(codeServer, nil,
			"Bad Request: MCP-Protocol-Version is %q but %s was negotiated", sent, negotiated))
		return nil, false
	}
	return sess, true
}

func (l *httpLife) keep(sess *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[sess.id] = sess
}

// standalone serves GET and DELETE, which only legacy sessions have.
func (x *exchange) standalone() {
	opts := x.life.server.spec.HTTP
	get := x.r.Method == http.MethodGet
	if !x.life.server.spec.legacy() || opts.Sessionless || get && opts.NoGET || !get && x.r.Method != http.MethodDelete {
		x.out.w.Header().Set("Allow", http.MethodPost)
		x.refuse(http.StatusMethodNotAllowed, refuse(codeServer, nil, "Method not allowed."))
		return
	}
	if get && !accepts(x.r, "text/event-stream") {
		x.refuse(http.StatusNotAcceptable, refuse(codeServer, nil, "Accept must hold text/event-stream"))
		return
	}
	sess, ok := x.session()
	if !ok {
		return
	}
	if get {
		x.stream(sess)
		return
	}
	x.life.mu.Lock()
	delete(x.life.sessions, sess.id)
	x.life.mu.Unlock()
	sess.end()
	x.out.w.WriteHeader(http.StatusNoContent)
}

// stream is the GET stream of a session; there is one at a time.
func (x *exchange) stream(sess *session) {
	if !sess.attach(x.out.send) {
		x.refuse(http.StatusConflict, refuse(codeServer, nil, "Conflict: Only one SSE stream is allowed per session"))
		return
	}
	defer sess.attach(nil)
	stop, err := x.life.server.hear(sess.listener(), x.out.open)
	if err != nil {
		return
	}
	defer stop()
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(sess.ctx, cancel)()
	<-ctx.Done()
}
