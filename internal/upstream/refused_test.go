package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
)

// curt is a legacy server that answers what it does not like by a status and
// plain text.
type curt struct {
	status   int
	typ      string
	sessions atomic.Int32
	gone     atomic.Bool // it knows no session any more
}

func (c *curt) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch {
	case m.Method == "initialize":
		c.gone.Store(false)
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", c.sessions.Add(1)))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, m.ID)
	case c.gone.Load():
		w.WriteHeader(http.StatusNotFound)
	case m.Method == "ping" || m.Method == "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", c.typ)
		w.WriteHeader(c.status)
		fmt.Fprintf(w, "%s:\n  what <b>?\x07", m.Method)
	}
}

func (c *curt) serve(t *testing.T) *Upstream {
	t.Helper()
	web := httptest.NewServer(c)
	t.Cleanup(web.Close)
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	u, err := pool.Add(Options{Name: "up", URL: web.URL, Era: mcp.Legacy, Breaker: guard.Options{Failures: 3}})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func legacyCall(u *Upstream, method string) (mcp.Response, error) {
	return u.Do(context.Background(), &mcp.Outgoing{
		Method: method,
		Client: &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Capabilities: []byte("{}"), Actor: actor.New(actor.HTTP, &auth.Principal{Name: "a"})},
	}, Call{})
}

// A server that refuses a request by a status alone is understood: the client
// is told what is wrong with its request, and the server is not given a rest.
func TestRefusalByStatusAlone(t *testing.T) {
	const plain = "text/plain; charset=utf-8"
	for name, tc := range map[string]struct {
		method string
		status int
		typ    string
		kind   fault.Kind
		says   string
		counts bool // as a failure of the server
	}{
		"unknown, 400":       {"no/such", 400, plain, fault.UnknownMethod, "HTTP status 400 Bad Request: no/such: what <b>?", false},
		"unknown, 404":       {"no/such", 404, plain, fault.UnknownMethod, "no/such: what <b>?", false},
		"unknown, 405":       {"no/such", 405, plain, fault.UnknownMethod, `does not know the method "no/such"`, false},
		"unknown, a page":    {"no/such", 400, "text/html", fault.UnknownMethod, "HTTP status 400 Bad Request", false},
		"of the protocol":    {"prompts/get", 400, plain, fault.InvalidParams, "prompts/get: what <b>?", false},
		"too large":          {"prompts/get", 413, plain, fault.TooLarge, "larger than the server takes", false},
		"not there":          {"prompts/get", 405, plain, fault.Unreachable, "HTTP status 405", true},
		"unknown, forbidden": {"no/such", 403, plain, fault.Unreachable, "HTTP status 403", true},
		"unknown, failing":   {"no/such", 500, plain, fault.UpstreamLost, "HTTP status 500", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &curt{status: tc.status, typ: tc.typ}
			u := c.serve(t)
			for range 4 {
				resp, err := legacyCall(u, tc.method)
				if tc.counts && fault.Is(err, fault.BreakerOpen) {
					continue
				}
				if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %s, %v", resp.Result, err)
				}
				if f := fault.Of(err); f.Subject != "up" || tc.typ == "text/html" && strings.Contains(f.Msg, "what") {
					t.Errorf("the client is told %q of %q", f.Msg, f.Subject)
				}
			}
			if resp, err := legacyCall(u, "tools/list"); err == nil == tc.counts {
				t.Errorf("afterwards: %s, %v", resp.Result, err)
			}
			if n := c.sessions.Load(); n != 1 {
				t.Errorf("%d sessions were opened", n)
			}
		})
	}
}

// 404 that does mean the session is understood too, whatever was asked.
func TestUnknownMethodInAForgottenSession(t *testing.T) {
	c := &curt{status: 404}
	u := c.serve(t)
	if _, err := legacyCall(u, "tools/list"); err != nil {
		t.Fatal(err)
	}
	c.gone.Store(true)
	if resp, err := legacyCall(u, "no/such"); !fault.Is(err, fault.UnknownMethod) {
		t.Errorf("got %s, %v", resp.Result, err)
	}
	if n := c.sessions.Load(); n != 2 {
		t.Errorf("%d sessions were opened", n)
	}
}
