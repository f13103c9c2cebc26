package mcp

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

var errCannotAsk = fault.New(fault.MissingCapability, "", "the client cannot be asked on this request's stream")

// Header values shared by all answers; net/http does not change them.
var (
	jsonType = []string{"application/json"}
	sseType  = []string{"text/event-stream"}
	noCache  = []string{"no-cache, no-transform"}
	noBuffer = []string{"no"}
)

// A httpStream is the answer to one POST. It stays undecided between plain
// JSON and an event stream until the first thing has to be written: if that is
// the response and nobody asked for a stream, the answer is JSON.
type httpStream struct {
	ctx       context.Context
	id        []byte
	modern    bool
	agent     bool     // the face is that of a single agent
	sse       bool     // the client accepts an event stream
	want      bool     // answer by an event stream even if only the response comes
	session   *session // where answers to Ask arrive; nil if there is none
	resumable bool     // what is sent is kept for a client that comes back

	mu      sync.Mutex // guards w and what follows: keep-alives come from a timer
	w       http.ResponseWriter
	started bool // the event stream has begun
	replay  *replay
	gone    bool // the client's connection has ended
	held    bool // something was written and not flushed
	done    bool
	quiet   *time.Timer
	every   time.Duration
	buf     []byte
}

// guardQuiet starts keep-alives: after a silence of every, an undecided answer
// becomes an event stream with a comment, so that nothing between us and the
// client takes a long call for a dead one.
func (s *httpStream) guardQuiet(every time.Duration) {
	if !s.sse || every <= 0 {
		return
	}
	s.every = every
	first := every
	if s.resumable {
		first = min(every, earlyStream)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = time.AfterFunc(first, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.done || s.gone {
			return
		}
		s.start()
		s.write([]byte(": keep-alive\n\n"))
		s.flush()
		s.quiet.Reset(s.every)
	})
}

// start begins the event stream. Called with mu held.
func (s *httpStream) start() {
	if s.started {
		return
	}
	s.started = true
	startEvents(s.w)
	if s.resumable {
		s.replay = s.session.replays.open()
		s.write(s.replay.add([]byte("retry: "+resumeAfter+"\ndata: \n\n"), false))
	}
}

// detach is called when the client's connection has ended. It reports whether
// the answer can be resumed.
func (s *httpStream) detach() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return s.replay != nil && !s.done
}

func (s *httpStream) kept() *replay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replay
}

func startEvents(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = sseType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffer
	w.WriteHeader(http.StatusOK)
}

// write sends bytes, at once or with what follows. Called with mu held. A
// failed write means that the client is gone, which the request's context
// tells too.
func (s *httpStream) write(b []byte) {
	if s.gone {
		return
	}
	if _, err := s.w.Write(b); err == nil {
		s.held = true
	}
}

// flush is called with mu held.
func (s *httpStream) flush() {
	if s.held && !s.gone {
		flush(s.w)
	}
	s.held = false
}

// Flush sends what has been written.
func (s *httpStream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.flush()
	}
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func appendEvent(dst []byte, frame func([]byte) []byte) []byte {
	dst = append(dst, "data: "...)
	from := len(dst)
	dst = frame(dst)
	wire.OneLine(dst[from:])
	return append(dst, "\n\n"...)
}

func (s *httpStream) event(frame func([]byte) []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || !s.sse {
		return false
	}
	s.start()
	s.buf = appendEvent(s.buf[:0], frame)
	out := s.buf
	if s.replay != nil {
		out = s.replay.add(out, false)
	}
	s.write(out)
	if s.quiet != nil {
		s.quiet.Reset(s.every)
	}
	return true
}

func (s *httpStream) Notify(method string, params []byte) {
	s.event(func(dst []byte) []byte { return wire.AppendRequest(dst, nil, method, params) })
}

func (s *httpStream) CanAsk() bool { return s.sse && s.session != nil }

func (s *httpStream) Ask(ctx context.Context, method string, params []byte) (Response, error) {
	if !s.CanAsk() {
		return Response{}, errCannotAsk
	}
	return s.session.asks.ask(ctx, s, func(id []byte) bool {
		sent := s.event(func(dst []byte) []byte { return wire.AppendRequest(dst, id, method, params) })
		s.Flush()
		return sent
	})
}

// end stops the keep-alives; afterwards nothing but the caller writes.
func (s *httpStream) end() (started bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.quiet != nil {
		s.quiet.Stop()
	}
	return s.started
}

// finish sends the response, in the form that was decided.
func (s *httpStream) finish(resp Response, err error) {
	started := s.end()
	if s.ctx.Err() != nil {
		switch cause := context.Cause(s.ctx); {
		case cause == errClientCancelled && s.sse:
			s.withdraw()
			return
		case !started && cause != errClientCancelled && cause != errSessionOver:
			return // nobody is there any more
		}
	}
	status := http.StatusOK
	result, object := resp.Result, resp.Error
	if err != nil {
		f := fault.Of(err)
		object, result = f.Wire(s.modern), nil
		if status = f.Status(s.modern); status >= 500 && !(s.agent && (f.Kind == fault.Unreachable || f.Kind == fault.Misconfigured)) {
			status = http.StatusOK // the request is answered; only the router of an agent calls it a bad gateway
		}
	} else if object != nil && s.modern {
		status = statusOfCode(errorCode(object))
	}
	frame := func(dst []byte) []byte {
		if object != nil {
			return wire.AppendError(dst, s.id, object)
		}
		return wire.AppendResult(dst, s.id, result)
	}
	if started || s.want && status == http.StatusOK {
		s.mu.Lock() // the client may be leaving
		defer s.mu.Unlock()
		if !started {
			s.start()
		}
		s.buf = appendEvent(s.buf[:0], frame)
		out := s.buf
		if s.replay != nil {
			out = s.replay.add(out, true)
		}
		s.write(out)
		return
	}
	if object == nil && len(result) > 16<<10 {
		s.largeResult(result)
		return
	}
	s.buf = frame(s.buf[:0])
	writeJSON(s.w, status, s.buf)
}

// withdraw ends the event stream of a request that the client has cancelled,
// which gets no response.
func (s *httpStream) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	if s.replay != nil {
		s.replay.close()
	}
}

// largeResult writes the response around result without copying it.
func (s *httpStream) largeResult(result []byte) {
	const head, mid = `{"jsonrpc":"2.0","id":`, `,"result":`
	h := s.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(head) + len(s.id) + len(mid) + len(result) + 1)}
	s.buf = append(append(append(s.buf[:0], head...), s.id...), mid...)
	s.w.Write(s.buf)
	s.w.Write(result)
	s.w.Write([]byte("}"))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if len(body) > 2000 { // below, net/http sets it by itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	w.Write(body)
}

// writeFault answers with a fault where there is no request to answer.
func writeFault(w http.ResponseWriter, id []byte, modern bool, err error) {
	f := fault.Of(err)
	writeJSON(w, f.Status(modern), wire.AppendError(nil, id, f.Wire(modern)))
}

func errorCode(object []byte) int {
	n, _ := strconv.Atoi(string(wire.Get(object, "code")))
	return n
}

// statusOfCode is the HTTP status of a modern response with this error code.
func statusOfCode(code int) int {
	switch code {
	case -32601:
		return http.StatusNotFound
	case -32020, -32021, -32022, -32600, -32602, -32700:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
