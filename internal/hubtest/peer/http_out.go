package peer

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

var errClosed = errors.New("the stream is closed")

// httpOut writes one HTTP response: an SSE stream from the first message that
// is sent before the answer, else what the peer prefers.
type httpOut struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	opts   HTTP
	sse    bool // the stream has begun
	closed bool // the handler returned; the writer must not be touched
	events int
}

func (o *httpOut) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// send writes a message as an event.
func (o *httpOut) send(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errClosed
	}
	return o.event(line)
}

// open begins the stream before there is anything to say.
func (o *httpOut) open() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin()
	return o.flush()
}

func (o *httpOut) begin() {
	if o.sse {
		return
	}
	o.sse = true
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
	if o.opts.Decorated {
		_, _ = o.w.Write([]byte(": welcome\r\n\r\nid: 0\r\nretry: 3000\r\ndata:\r\n\r\n"))
	}
}

func (o *httpOut) flush() error { return http.NewResponseController(o.w).Flush() }

func (o *httpOut) event(line []byte) error {
	o.begin()
	o.events++
	if _, err := o.w.Write(o.frame(line)); err != nil {
		return err
	}
	return o.flush()
}

// frame is one event. Decorated, its data is split where JSON allows a newline:
// after the opening brace.
func (o *httpOut) frame(line []byte) []byte {
	if !o.opts.Decorated {
		return join("event: message\ndata: ", string(line), "\n\n")
	}
	head, tail, _ := bytes.Cut(line, []byte("{"))
	return fmt.Appendf(nil, ":ping\r\nid: %d\r\nevent:message\r\ndata: %s{\r\ndata:%s\r\n\r\n", o.events, head, tail)
}

// answer writes the response, as JSON with a status unless the stream has begun
// or is preferred.
func (o *httpOut) answer(status int, line []byte, partial bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sse || status == http.StatusOK && !o.opts.JSON {
		if partial {
			o.begin()
			_, _ = o.w.Write(o.frame(line)[:len(line)/2])
			_ = o.flush()
			return
		}
		// Nobody is left to tell if the client is gone.
		_ = o.event(line)
		return
	}
	o.w.Header().Set("Content-Type", "application/json")
	if partial {
		o.w.Header().Set("Content-Length", fmt.Sprint(len(line)))
		line = line[:len(line)/2]
	}
	o.w.WriteHeader(status)
	_, _ = o.w.Write(line)
	_ = o.flush()
}

// accepts reports whether the Accept header allows a media type.
func accepts(r *http.Request, media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	for _, v := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(v, ",") {
			part, _, _ = strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(part)) {
			case media, "*/*", kind + "/*":
				return true
			}
		}
	}
	return false
}
