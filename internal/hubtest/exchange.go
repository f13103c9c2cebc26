package hubtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Exchange is a request under way.
type Exchange struct {
	ID     string // the request's, raw
	Status int    // valid after the first Next
	Header http.Header

	tb     testing.TB
	c      *Client
	cancel context.CancelFunc
	ready  chan struct{}
	resp   *http.Response
	err    error
	ev     *events // nil for an answer in JSON
	over   bool
	once   sync.Once
}

// Go sends a request and returns at once. The exchange is closed when the test
// ends, if not before.
func (c *Client) Go(method, params string, meta ...Meta) *Exchange {
	c.tb.Helper()
	id := strconv.FormatInt(c.next.Add(1), 10)
	return c.Exchange(id, c.Request(id, method, params, meta...))
}

// Exchange sends s, whose request has that id, and returns at once.
func (c *Client) Exchange(id string, s Sent) *Exchange {
	c.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	x := &Exchange{ID: id, tb: c.tb, c: c, cancel: cancel, ready: make(chan struct{})}
	req := c.request(ctx, s)
	go func() {
		defer close(x.ready)
		x.resp, x.err = c.http.Do(req)
	}()
	c.tb.Cleanup(x.Close)
	return x
}

// Close closes the connection of the exchange, as a client that goes away.
func (x *Exchange) Close() {
	x.once.Do(func() {
		x.cancel()
		<-x.ready
		if x.resp != nil {
			x.resp.Body.Close()
		}
	})
}

// HasBegun reports whether the answer has begun.
func (x *Exchange) HasBegun() bool {
	select {
	case <-x.ready:
		return true
	default:
		return false
	}
}

// begin waits for the header of the answer.
func (x *Exchange) begin() error {
	timeout := time.NewTimer(await.Patience)
	defer timeout.Stop()
	select {
	case <-x.ready:
	case <-timeout.C:
		return errors.New("no answer began in time")
	}
	if x.err != nil || x.Header != nil {
		return x.err
	}
	x.Status, x.Header = x.resp.StatusCode, x.resp.Header
	if strings.HasPrefix(x.Header.Get("Content-Type"), "text/event-stream") {
		x.ev = &events{bufio.NewReader(x.resp.Body)}
	}
	return nil
}

// Read returns the next message of the answer; io.EOF at its end.
func (x *Exchange) Read() (Message, error) {
	if err := x.begin(); err != nil {
		return Message{}, err
	}
	if x.over {
		return Message{}, io.EOF
	}
	// A test that waits for ever would say less than one that fails.
	stop := time.AfterFunc(await.Patience, x.cancel)
	defer stop.Stop()
	var b []byte
	var err error
	if x.ev != nil {
		b, err = x.ev.next()
	} else {
		x.over = true
		b, err = io.ReadAll(x.resp.Body)
		if err == nil && len(bytes.TrimSpace(b)) == 0 {
			err = io.EOF
		}
	}
	if err != nil {
		return Message{}, err
	}
	return ParseMessage(b)
}

// Next is Read for tests that expect a message.
func (x *Exchange) Next() Message {
	x.tb.Helper()
	m, err := x.Read()
	if err != nil {
		x.tb.Fatalf("request %s: %v", x.ID, err)
	}
	return m
}

// Wait returns the response, with the messages that came before it. It fails
// if something follows.
func (x *Exchange) Wait() (before []Message, response Message) {
	x.tb.Helper()
	for {
		m := x.Next()
		if !m.IsResponse() {
			before = append(before, m)
			continue
		}
		if x.ID != "" && string(m.ID) != x.ID {
			x.tb.Fatalf("the response to %s has the id %s: %s", x.ID, m.ID, m.Raw)
		}
		if extra, err := x.Read(); err != io.EOF {
			x.tb.Fatalf("after the response to %s: %s, %v", x.ID, extra.Raw, err)
		}
		x.Close()
		return before, m
	}
}

// Response is Wait without the messages before.
func (x *Exchange) Response() Message {
	x.tb.Helper()
	_, m := x.Wait()
	return m
}

// Await passes over messages until one of that method.
func (x *Exchange) Await(method string) Message {
	x.tb.Helper()
	for {
		if m := x.Next(); m.Method == method {
			return m
		}
	}
}
