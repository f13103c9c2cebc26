package attach

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
)

// link is one attachment to a hub.
type link struct {
	s    *mcp.Socket
	in   chan []byte   // from the hub; closed when the link is lost
	out  chan []byte   // to the hub; what was taken may have been sent
	stop chan struct{} // closed when nobody uses the link any more
	err  error         // why it was lost; set before in is closed
	wg   sync.WaitGroup
}

// hubBytes is the largest message that is taken from a hub. Merged lists are
// longer than anything that a client may send.
const hubBytes = 64 << 20

func openLink(ctx context.Context, t *Target, limit int) (*link, error) {
	s, err := mcp.OpenSocket(ctx, t.URL, t.Header, t.TLS, max(hubBytes, limit))
	if err != nil {
		return nil, err
	}
	l := &link{s: s, in: make(chan []byte), out: make(chan []byte), stop: make(chan struct{})}
	l.wg.Go(l.read)
	l.wg.Go(l.write)
	return l, nil
}

func (l *link) read() {
	defer close(l.in)
	for {
		b, err := l.s.Next()
		if err != nil {
			l.err = err
			return
		}
		select {
		case l.in <- append([]byte(nil), b...):
		case <-l.stop:
			l.err = context.Canceled
			return
		}
	}
}

func (l *link) write() {
	for {
		select {
		case b := <-l.out:
			if l.s.Write(b) != nil {
				l.s.Abort() // the reader tells
				return
			}
		case <-l.stop:
			return
		}
	}
}

// close ends the link; it takes a moment, since the hub is told.
func (l *link) close() {
	close(l.stop)
	l.s.Close()
	l.wg.Wait()
}

// How long a hub that has just started may take to reach its servers before a
// client's first messages, and before those of one that had its lists already:
// that one would take a tool that is not there yet for one that is gone.
const (
	firstSettle = 5 * time.Second
	laterSettle = 15 * time.Second
)

// final is an error that trying again will not mend.
type final struct{ error }

func (f *final) Unwrap() error { return f.error }

// connect finds a hub, or launches one, and attaches to it.
func (p *pump) connect(ctx context.Context, again bool) (*link, error) {
	t, err := p.opts.Find(ctx)
	if err == nil && t == nil {
		if p.opts.Launch == nil {
			return nil, &final{ErrNoHub}
		}
		if t, err = p.launcher.launch(ctx); err != nil {
			return nil, &final{err}
		}
	}
	if err != nil {
		return nil, err
	}
	if t.Settle != nil {
		limit := firstSettle
		if again {
			limit = laterSettle
		}
		settle, cancel := context.WithTimeout(ctx, limit)
		t.Settle(settle)
		cancel()
	}
	l, err := openLink(ctx, t, p.opts.MessageBytes)
	if status, ok := errors.AsType[*mcp.StatusError](err); ok && status.Status >= 400 && status.Status < http.StatusInternalServerError {
		return nil, &final{refused(t, status)}
	}
	return l, err
}

// refused says why the hub does not let us in.
func refused(t *Target, status *mcp.StatusError) error {
	switch {
	case status.Status != http.StatusUnauthorized:
		return fmt.Errorf("the hub at %s refuses to be attached to: %w", t.URL.Host, status)
	case t.Header.Get("Authorization") == "":
		return fmt.Errorf("the hub at %s wants a token: %w. Give one with --token or STOA_TOKEN; `stoa token create` makes one there", t.URL.Host, status)
	}
	return fmt.Errorf("the hub at %s does not accept the token that it is given: %w. Give the right one with --token or STOA_TOKEN; `stoa token create` makes one there", t.URL.Host, status)
}
