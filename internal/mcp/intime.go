package mcp

import (
	"io"
	"net/http"
	"time"
)

// leftBody is how long we wait for what a handler has left of a body, which
// has to be read before the connection can carry another request.
const leftBody = time.Second

// InTime has the body of each request arrive within the endpoint's BodyTimeout,
// whoever sends it and whatever becomes of it: also a request that is refused,
// or whose handler does not want the body, must not hold its connection for as
// long as the client likes.
func (e *Endpoint) InTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		b := &timely{ReadCloser: r.Body, rc: http.NewResponseController(w)}
		// Some writers have no deadlines; what is before them has bounds of its own.
		_ = b.rc.SetReadDeadline(time.Now().Add(e.opts.BodyTimeout))
		r.Body = b
		next.ServeHTTP(w, r)
		if !b.whole {
			_ = b.rc.SetReadDeadline(time.Now().Add(leftBody))
		}
	})
}

// timely is a body that ends its deadline where it ends itself. What comes on
// the connection later is the next request, and may take its time.
type timely struct {
	io.ReadCloser
	rc    *http.ResponseController
	whole bool
}

func (b *timely) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.whole {
		b.whole = true
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
