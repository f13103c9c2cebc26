package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// HTTP+SSE is the transport of 2024-11-05: a GET whose answer is an event
// stream that lasts, and a second address, named by the stream's first event,
// to which the client posts. To us it is a pipe.

// feedScope is that of the sessions which these connections are; no face has
// this name.
const feedScope = "/sse"

// ServeEvents serves h on an event stream until the client goes. It names
// path as the address to post to, which is ServeMessage's.
func (e *Endpoint) ServeEvents(w http.ResponseWriter, r *http.Request, who *auth.Principal, path string, h Handler) {
	inbox := make(chan *buffer)
	held, err := e.hold(actor.SSE, who, feedScope, inbox)
	if err != nil {
		full(w, err)
		return
	}
	defer e.opts.Sessions.remove(held)
	if e.opts.Keep.Opened != nil {
		e.opts.Keep.Opened(r.Context(), held.kept())
	}
	f := &feed{ctx: r.Context(), in: inbox, over: held.over, closing: e.closing, failed: make(chan struct{}),
		w: w, rc: http.NewResponseController(w), time: e.opts.WriteTimeout}
	startEvents(w)
	f.put("event: endpoint\ndata: ", []byte(path+"?sessionId="+held.id))
	ctx, cancel := context.WithCancel(r.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f.keepAlive(ctx, e.opts.KeepAlive) })
	defer wg.Wait()
	defer cancel()
	// Why it ended does not matter: either the client is gone or we are going.
	_ = serveFrames(ctx, f, f, who, h, e.pipeOptions(actor.SSE, r))
	f.free()
	_ = f.rc.SetWriteDeadline(time.Time{}) // the connection may be used again
}

// ServeMessage takes a message for the connection that the address names. The
// answer comes on the connection's event stream.
func (e *Endpoint) ServeMessage(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	unknown := &fault.Error{Kind: fault.UnknownSession, Subject: "sessionId", Msg: "there is no event stream of that session", Hint: "Open a new one by GET /sse."}
	id := r.URL.Query().Get("sessionId")
	if e.elsewhere(w, r, who, id, nil) {
		return
	}
	s, err := e.opts.Sessions.get(id, feedScope, who)
	if err != nil {
		writeFault(w, nil, false, unknown)
		return
	}
	body := newBuffer()
	if err := e.read(w, r, body); err != nil {
		body.free()
		writeFault(w, nil, false, err)
		return
	}
	select {
	case s.inbox <- body: // and it is theirs
		w.WriteHeader(http.StatusAccepted)
		return
	case <-s.over:
		writeFault(w, nil, false, unknown)
	case <-r.Context().Done():
	}
	body.free()
}

// feed is the framing of a pipe over HTTP+SSE: what is posted comes in, events
// go out.
type feed struct {
	ctx           context.Context // ends when the client goes
	in            <-chan *buffer
	over, closing <-chan struct{}
	last          *buffer // what Next returned

	mu     sync.Mutex // guards what follows
	w      io.Writer
	rc     *http.ResponseController
	time   time.Duration // for one event to be taken
	out    []byte
	broken bool
	failed chan struct{} // closed when broken
}

var errFeedBroken = errors.New("the client takes no more events")

func (f *feed) Next() ([]byte, error) {
	f.free()
	select {
	case f.last = <-f.in:
		return f.last.b, nil
	case <-f.ctx.Done():
		return nil, errClientGone
	case <-f.failed:
		return nil, errFeedBroken
	case <-f.over:
	case <-f.closing:
	}
	return nil, io.EOF
}

func (f *feed) free() {
	if f.last != nil {
		f.last.free()
		f.last = nil
	}
}

// Write sends a message as an event.
func (f *feed) Write(b []byte) (int, error) {
	if !f.put("event: message\ndata: ", bytes.TrimSuffix(b, []byte("\n"))) {
		return 0, errFeedBroken
	}
	return len(b), nil
}

// put sends one event.
func (f *feed) put(head string, data []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.write(head, data)
}

// write is called with mu held.
func (f *feed) write(head string, data []byte) bool {
	if f.broken {
		return false
	}
	f.out = append(append(append(f.out[:0], head...), data...), "\n\n"...)
	_ = f.rc.SetWriteDeadline(time.Now().Add(f.time)) // where there are none, there is nothing to bound
	_, err := f.w.Write(f.out)
	if err == nil {
		err = f.rc.Flush()
	}
	if cap(f.out) > 1<<20 {
		f.out = nil
	}
	if err != nil {
		f.broken = true
		close(f.failed)
	}
	return err == nil
}

func (f *feed) keepAlive(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if f.mu.TryLock() { // else something is being sent, which does as well
			f.write(": keep-alive", nil)
			f.mu.Unlock()
		}
	}
}

var (
	_ frames    = (*feed)(nil)
	_ io.Writer = (*feed)(nil)
)
