package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/wire"
)

const (
	// postPatience is how long the next message waits for the one before to be
	// accepted. A server that accepts one only once it is done with it must
	// not keep the others, of which it may need one in order to be done.
	postPatience = time.Second
	maxPosts     = 64 // messages under way at once
)

// SSETo starts a connection to a server of 2024-11-05 over HTTP+SSE, whose
// event stream is at u, with header on every request. garbage is as in
// PipeOver. That the server cannot be reached is told by the first call.
func SSETo(u *url.URL, header http.Header, rt http.RoundTripper, opts ConnOptions, garbage func([]byte)) *PipeConn {
	opts.defaults()
	s := &subscribed{url: u, header: header, rt: rt, limit: opts.MessageBytes, ready: make(chan struct{}), slots: make(chan struct{}, maxPosts)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.wg.Add(1) // before Close can wait, which may be as soon as there is a connection
	c := overFrames(s, s, opts, garbage)
	s.lost = c.shut
	context.AfterFunc(s.ctx, func() { s.lost(fmt.Errorf("%w: %w", ErrLost, context.Cause(s.ctx))) })
	go func() {
		defer s.wg.Done()
		<-c.done // a write that waits for the server must not hold up the end
		s.cancel(errFeedEnded)
	}()
	return c
}

var errFeedEnded = errors.New("the connection is closed")

// subscribed is the framing of a connection over HTTP+SSE. Next opens it
// first.
type subscribed struct {
	url    *url.URL
	header http.Header
	rt     http.RoundTripper
	limit  int
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	lost   func(error)

	begun bool // only the reader uses it, and what follows
	in    *wire.EventReader
	body  io.ReadCloser

	ready chan struct{} // closed when post or err is set
	post  *url.URL
	err   error
	slots chan struct{}
	wg    sync.WaitGroup
}

func (s *subscribed) Next() ([]byte, error) {
	if !s.begun {
		s.begun = true
		s.post, s.err = s.open()
		close(s.ready)
	}
	if s.err != nil {
		return nil, s.err
	}
	for {
		ev, err := s.in.Next()
		if err != nil {
			s.body.Close()
			return nil, err
		}
		if ev.Name == "" || ev.Name == "message" {
			return ev.Data, nil
		}
	}
}

func (s *subscribed) request(method string, u *url.URL) *http.Request {
	h := s.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	return &http.Request{Method: method, URL: u, Host: u.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// open opens the event stream and returns the address to post to.
func (s *subscribed) open() (*url.URL, error) {
	slow := fmt.Errorf("the server named no endpoint within %v", openTimeout)
	late := time.AfterFunc(openTimeout, func() { s.cancel(slow) })
	defer late.Stop()
	req := s.request(http.MethodGet, s.url)
	req.Header["Accept"] = sseType
	resp, err := s.rt.RoundTrip(req.WithContext(s.ctx))
	if err != nil {
		if s.ctx.Err() != nil {
			err = context.Cause(s.ctx)
		}
		return nil, err
	}
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil, fmt.Errorf("the server answers GET with %q instead of an event stream", ct)
		}
		return nil, &StatusError{Status: resp.StatusCode, Type: ct}
	}
	s.body = resp.Body
	s.in = wire.NewEventReader(resp.Body, s.limit)
	for {
		ev, err := s.in.Next()
		if err != nil {
			s.body.Close()
			if s.ctx.Err() != nil {
				err = context.Cause(s.ctx)
			}
			return nil, fmt.Errorf("wait for the endpoint: %w", err)
		}
		if ev.Name != "endpoint" {
			continue
		}
		u, err := endpointOf(s.url, string(ev.Data))
		if err != nil {
			s.body.Close()
		}
		return u, err
	}
}

// endpointOf resolves what an endpoint event says. Only the origin of the
// stream itself will do: our credentials go there.
func endpointOf(base *url.URL, said string) (*url.URL, error) {
	u, err := base.Parse(said)
	if err != nil {
		return nil, errors.New("the endpoint that the server named is no address")
	}
	if u.Scheme != base.Scheme || !strings.EqualFold(u.Hostname(), base.Hostname()) || portOf(u) != portOf(base) || u.User != nil && u.User.String() != base.User.String() {
		return nil, fmt.Errorf("the server named an endpoint on another origin, %s://%s, which is not followed", u.Scheme, u.Host)
	}
	return u, nil
}

func portOf(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Write posts one message and waits for it to be accepted, within reason.
func (s *subscribed) Write(b []byte) (int, error) {
	select {
	case <-s.ready:
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	if s.err != nil {
		return 0, s.err
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	}
	body := &sentBody{b: append([]byte(nil), b[:len(b)-1]...)}
	answered := make(chan error, 1)
	s.wg.Go(func() {
		err := s.send(body)
		<-s.slots
		if answered <- err; err != nil {
			s.lost(fmt.Errorf("%w: %w", ErrLost, err))
		}
	})
	patience := time.NewTimer(postPatience)
	defer patience.Stop()
	select {
	case err := <-answered:
		return len(b), err
	case <-patience.C:
		return len(b), nil
	}
}

func (s *subscribed) send(body *sentBody) error {
	req := s.request(http.MethodPost, s.post)
	req.Header["Content-Type"] = jsonType
	req.ContentLength, req.Body = int64(len(body.b)), body
	resp, err := s.rt.RoundTrip(req.WithContext(s.ctx))
	if err != nil {
		if notSent(err) {
			return err
		}
		return fmt.Errorf("%w: %w", errMayHaveArrived, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode < 300 {
		return nil
	}
	said := &StatusError{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type")}
	if said.Refused() {
		return said
	}
	return fmt.Errorf("%w: %w", errMayHaveArrived, said)
}

// Close is called once, after the last Write.
func (s *subscribed) Close() error {
	s.cancel(errFeedEnded)
	s.wg.Wait()
	return nil
}

var (
	_ frames         = (*subscribed)(nil)
	_ io.WriteCloser = (*subscribed)(nil)
)
