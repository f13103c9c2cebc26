package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/port"
)

// tally is the way between a hub and a server over HTTP. It passes all on and counts how often the server was given each
// call, by the mark in its arguments, and did not refuse it with its session. A call whose answer does not come is lost as without it: the connection ends.
type tally struct {
	address string
	proxy   *httputil.ReverseProxy
	below   *http.Transport
	web     *httptest.Server

	mu    sync.Mutex
	given map[string]int
}

func newTally(t *testing.T, server string) *tally {
	t.Helper()
	c := &tally{address: port.Address(t), below: &http.Transport{}, given: map[string]int{}}
	to := &url.URL{Scheme: "http", Host: server}
	c.proxy = &httputil.ReverseProxy{
		FlushInterval: -1, Transport: c,
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	t.Cleanup(c.close)
	return c
}

// open lets connections come; close refuses them and ends those that there are, as the end of a server does.
func (c *tally) open(t *testing.T) {
	t.Helper()
	c.web = httptest.NewUnstartedServer(c.proxy)
	c.web.Listener.Close()
	c.web.Listener = port.Listen(t, c.address)
	c.web.Start()
}

func (c *tally) close() {
	if c.web != nil {
		c.web.Listener.Close()
		c.web.CloseClientConnections()
		c.below.CloseIdleConnections()
		c.web.Close()
		c.web = nil
	}
}

func (c *tally) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	var m struct {
		Method string
		Params struct {
			Arguments struct{ Message, Mark string }
		}
	}
	mark := ""
	if json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
		mark = m.Params.Arguments.Message + m.Params.Arguments.Mark
	}
	resp, err := c.below.RoundTrip(r)
	op := (*net.OpError)(nil)
	missed := errors.As(err, &op) && op.Op == "dial"
	refused := err == nil && (resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusNotFound) // with its session
	if mark != "" && !missed && !refused {
		c.mu.Lock()
		c.given[mark]++
		c.mu.Unlock()
	}
	return resp, err
}

// count is how often the server was given the call of that mark.
func (c *tally) count(mark string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given[mark]
}
