package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/wire"
)

// A legacy server may end the event stream of a call before its response, on
// purpose or because the way to us broke. If its events had ids, the rest is to
// be had by GET, as often as it takes: a server that polls us so ends each
// stream after a while. The call's own time bounds all of it.

const (
	resumeSoonest = 50 * time.Millisecond // whatever the server says: it may say 0 and end every stream at once
	resumeDefault = time.Second           // where it says nothing
	resumeFailing = 3                     // attempts in a row that may fail before the call is lost
)

// place is how far an event stream has been read.
type place struct {
	id    string        // of the last event; empty if there is nowhere to resume
	retry time.Duration // what the server wants to pass before; below 0 if it did not say
}

// move takes over what the stream said. A later stream need not say it again.
func (at *place) move(in *events) {
	id, retry := in.Place()
	if id != "" && !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		at.id = id // else no header can carry it
	}
	if retry >= 0 {
		at.retry = retry
	}
}

// pause is how long to wait before the next attempt after so many failed.
func (at *place) pause(failed int) time.Duration {
	d := resumeDefault
	if at.retry >= 0 {
		d = max(at.retry, resumeSoonest)
	}
	if failed > 0 {
		d = max(d, resumeDefault<<(failed-1))
	}
	return d
}

var errStreamEnded = errors.New("the event stream ended before the response")

// events reads the event stream of p, and those that continue it, until the
// response.
func (c *HTTPConn) events(body io.Reader, p *pending) (Response, error) {
	at := place{retry: -1}
	resp, err := c.read(body, p, &at)
	for err != nil && p.ctx.Err() == nil && c.Era() == Legacy && at.id != "" && !errors.Is(err, wire.ErrTooLong) {
		next, failed := c.reopen(p.ctx, &at)
		if failed != nil {
			err = fmt.Errorf("%w: %w", err, failed)
			break
		}
		resp, err = c.read(next, p, &at)
		next.Close()
	}
	if errors.Is(err, wire.ErrTooLong) {
		return Response{}, longAnswer(c.flight.opts.MessageBytes)
	}
	if err != nil {
		return Response{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return resp, nil
}

// read reads one event stream until the response to p.
func (c *HTTPConn) read(body io.Reader, p *pending, at *place) (Response, error) {
	in := newEvents(body, c.flight.opts.MessageBytes, &c.terms)
	defer func() {
		at.move(in)
		in.Release()
	}()
	var m wire.Message
	for {
		if !in.Ready() {
			p.stream.Flush()
		}
		ev, err := in.Next()
		if long, ok := errors.AsType[*wire.TooLong](err); ok {
			if id, ok := parseID(long.ID); long.Method || ok && id != p.id {
				continue // it was something else that was said on the way
			}
			return Response{}, err
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			return Response{}, err
		}
		if err := m.Scan(ev.Data, wire.FromUpstream); err != nil {
			continue
		}
		if m.IsResponse() {
			if id, ok := parseID(m.ID); ok && id == p.id {
				buf := newBuffer()
				buf.b = append(buf.b, ev.Data...)
				resp := Response{buf: buf}
				resp.Result, resp.Error = rebase(buf.b, ev.Data, m.Result), rebase(buf.b, ev.Data, m.Error)
				return resp, nil
			}
			continue
		}
		c.message(&m, p)
	}
}

// reopen asks for what follows at, and says why that is not to be had.
func (c *HTTPConn) reopen(ctx context.Context, at *place) (io.ReadCloser, error) {
	for failed := 0; ; {
		if err := c.sleep(ctx, at.pause(failed)); err != nil {
			return nil, err
		}
		resp, err := c.get(ctx, at.id)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				resp.Body.Close()
			}
			return nil, context.Cause(ctx)
		case err == nil && isEvents(resp):
			return resp.Body, nil
		case err == nil:
			resp.Body.Close()
			err = &StatusError{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type")}
			if !mayRecover(resp.StatusCode) {
				return nil, fmt.Errorf("the server does not let it be resumed: %w", err)
			}
		}
		if failed++; failed == resumeFailing {
			return nil, fmt.Errorf("it could not be resumed in %d attempts: %w", failed, err)
		}
	}
}

// mayRecover reports whether a GET that was answered so may succeed later:
// there may be a proxy whose server is being restarted, or a server that has
// not noticed yet that the stream before is over.
func mayRecover(status int) bool {
	switch status {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

func isEvents(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// sleep waits, unless there is nothing left to wait for.
func (c *HTTPConn) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return errors.New("the connection is closed")
	}
}

// get opens an event stream of the session, after the event of that id if
// there is one.
func (c *HTTPConn) get(ctx context.Context, last string) (*http.Response, error) {
	h := c.posted.Load().Clone()
	h["Accept"] = sseType
	delete(h, "Content-Type")
	if last != "" {
		h["Last-Event-Id"] = []string{last}
	}
	req := &http.Request{Method: http.MethodGet, URL: c.url, Host: c.url.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return c.rt.RoundTrip(req.WithContext(ctx))
}
