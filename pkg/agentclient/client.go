package agentclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options say where the router is. The zero value takes everything from the
// environment.
type Options struct {
	URL   string // of the router, such as https://hub.example.com:8443; over Host and Port
	Host  string // empty: ROUTER_HOST, or localhost
	Port  int    // 0: ROUTER_PORT, or 8088
	Token string // empty: AGENT_TOKEN, or none

	// HTTPClient makes the requests; nil means http.DefaultClient. Its Timeout
	// should be 0: calls end with their context.
	HTTPClient *http.Client
	// Retries is how often a call is made again that could not be begun and
	// may succeed later, such as one that found the agent's queue full. Between
	// attempts it waits, longer each time. 0 means never.
	Retries int
	// MaxBytes bounds an answer; 0 means 64 MiB.
	MaxBytes int64
	// Name is what the client calls itself; empty means agentclient.
	Name string
}

// Client asks agents through one router.
type Client struct {
	base  *url.URL
	opt   Options
	chain Chain // of the process
	next  atomic.Int64

	mu   sync.Mutex
	eras map[string]era // by agent: what it is spoken to in
}

// New returns a client. It sends nothing.
func New(opt Options) (*Client, error) {
	base, err := opt.router()
	if err != nil {
		return nil, err
	}
	opt.Token = cmp.Or(opt.Token, os.Getenv("AGENT_TOKEN"))
	opt.HTTPClient = cmp.Or(opt.HTTPClient, http.DefaultClient)
	opt.MaxBytes = cmp.Or(opt.MaxBytes, 64<<20)
	opt.Name = cmp.Or(opt.Name, "agentclient")
	return &Client{base: base, opt: opt, chain: FromEnv(), eras: map[string]era{}}, nil
}

func (o *Options) router() (*url.URL, error) {
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("agentclient: router %q is no address: write it as http://host:port", o.URL)
		}
		return u, nil
	}
	port := strconv.Itoa(o.Port)
	if o.Port == 0 {
		port = cmp.Or(os.Getenv("ROUTER_PORT"), "8088")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("agentclient: %q is no port: set ROUTER_PORT or Options.Port to one from 1 to 65535", port)
	}
	host := cmp.Or(o.Host, os.Getenv("ROUTER_HOST"), "localhost")
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(strings.Trim(host, "[]"), port)}, nil
}

// URL is where the MCP endpoint of an agent is.
func (c *Client) URL(agent string) string {
	return strings.TrimRight(c.base.String(), "/") + "/mcps/" + url.PathEscape(agent) + "/mcp"
}

// Request makes any request of the protocol and returns its result as it came.
// params must encode to a JSON object; nil means an empty one.
func (c *Client) Request(ctx context.Context, agent, method string, params any) (json.RawMessage, error) {
	return c.request(ctx, ask{agent: agent, method: method, params: params})
}

// ask is one request on its way.
type ask struct {
	agent, method string
	params        any
	meta          map[string]any
	progress      func(Progress)
}

func (c *Client) request(ctx context.Context, a ask) (json.RawMessage, error) {
	for attempt := 0; ; attempt++ {
		result, err := c.attempt(ctx, a)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Retryable || attempt >= c.opt.Retries {
			return result, err
		}
		if pause(ctx, attempt) != nil {
			return nil, err // what was wrong says more than that time is up
		}
	}
}

// pause waits before the next attempt: 100 ms and twice as long each time up
// to 5 s, spread, so that many callers do not come back at once.
func pause(ctx context.Context, attempt int) error {
	wait := min(100*time.Millisecond<<min(attempt, 10), 5*time.Second)
	timer := time.NewTimer(wait/2 + rand.N(wait/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt asks once, in the era that the agent is known to speak.
func (c *Client) attempt(ctx context.Context, a ask) (json.RawMessage, error) {
	era, err := c.era(ctx, a.agent)
	if err != nil {
		return nil, err
	}
	result, err := c.exchange(ctx, era, a)
	if e, ok := errors.AsType[*Error](err); ok && era == modern && e.Code == codeHeaders {
		// The tool wants arguments repeated in headers. The era before knows no
		// such thing, and the router repeats them for us.
		if again, other := c.exchange(ctx, legacy, a); other == nil {
			return again, nil
		}
	}
	return result, err
}

// era finds out which era an agent is to be asked in. A router of this hub
// speaks both; one that only passes bodies on speaks what the agent does.
func (c *Client) era(ctx context.Context, agent string) (era, error) {
	c.mu.Lock()
	known, ok := c.eras[agent]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	found := modern
	result, err := c.exchange(ctx, modern, ask{agent: agent, method: "server/discover"})
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.meansLegacy() {
			return found, err
		}
		found = legacy
	} else if !speaksModern(result) {
		found = legacy
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eras[agent] = found
	return found, nil
}

func speaksModern(hello json.RawMessage) bool {
	var h struct {
		Versions []string `json:"supportedVersions"`
	}
	if json.Unmarshal(hello, &h) != nil {
		return false
	}
	for _, v := range h.Versions {
		if v == modernVersion {
			return true
		}
	}
	return false
}

// meansLegacy reports whether a refused probe comes from a server that does
// not know the modern era, rather than from one that cannot be asked.
func (e *Error) meansLegacy() bool {
	switch {
	case e.Status == 0, e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden,
		e.Status == http.StatusTooManyRequests, e.Status >= 500, e.Kind == "unknown_agent":
		return false
	}
	return true
}
