package ailumina

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/wire"
)

// What is used where Options say nothing.
const (
	DefaultTimeout = 30 * time.Second
	DefaultMax     = 10 * time.Minute
	DefaultRetries = 3
)

// firstPause is how long the first new attempt to connect waits; each further
// one waits twice as long as the one before it.
const firstPause = 100 * time.Millisecond

// Options say how an agent is reached.
type Options struct {
	Header  http.Header   // of the handshake
	TLS     *tls.Config   // for wss; nil means the usual rules
	Connect time.Duration // to connect, all attempts together; 0 means Timeout
	Timeout time.Duration // to wait for each message; 0 means DefaultTimeout
	Max     time.Duration // for a whole answer; 0 means DefaultMax
	Retries int           // further attempts to connect; 0 means DefaultRetries, below zero none
}

func (o *Options) defaults() {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Connect == 0 {
		o.Connect = o.Timeout
	}
	if o.Max == 0 {
		o.Max = DefaultMax
	}
	if o.Retries == 0 {
		o.Retries = DefaultRetries
	}
}

// ParseURL reads the address of a server of agents as people write it: ws and
// wss, or http and https for them.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("it is not a URL") // what the parser says repeats the text, which may hold a password
	}
	switch strings.ToLower(u.Scheme) {
	case "ws", "http":
		u.Scheme = "ws"
	case "wss", "https":
		u.Scheme = "wss"
	default:
		return nil, errors.New("it does not begin with ws:// or wss://")
	}
	switch {
	case u.Hostname() == "":
		return nil, errors.New("it names no host")
	case u.User != nil:
		return nil, errors.New("it has a user or password in it")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has more after its path")
	}
	return u, nil
}

// Endpoint is where an agent of the server at base is.
func Endpoint(base *url.URL, agent string) *url.URL {
	u := *base
	if u.Path == "" {
		u.Path = "/" // JoinPath makes a relative path of an empty one
	}
	return u.JoinPath("ws", url.PathEscape(agent))
}

// Conn is an open socket to an agent.
type Conn struct {
	ws   *websocket.Conn
	raw  net.Conn // below ws: what ws does not bound in time is bounded here
	opts Options
	to   *url.URL
	hide *secret.Hider // takes what the agent was sent out of what it says of errors
}

// Dial connects to the agent at u. What may be different a moment later is
// tried again: nothing has been asked of the agent yet.
func Dial(ctx context.Context, u *url.URL, o Options) (*Conn, error) {
	o.defaults()
	hide := hider(o.Header)
	late := fault.New(fault.Timeout, "", "Connection timeout after %dms", o.Connect.Milliseconds())
	within, cancel := context.WithTimeoutCause(ctx, o.Connect, late)
	defer cancel()
	pause := firstPause
	for attempt := 0; ; attempt++ {
		c, again, err := open(within, u, o)
		switch {
		case err == nil:
			c.hide = hide
			return c, nil
		case within.Err() != nil:
			return nil, context.Cause(within)
		case !again || attempt >= o.Retries:
			return nil, discreet(err, hide)
		}
		select {
		case <-within.Done():
			return nil, context.Cause(within)
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// hider knows the credentials that are sent with a handshake.
func hider(h http.Header) *secret.Hider {
	var all []string
	for _, values := range h {
		all = append(all, values...)
	}
	hide := &secret.Hider{}
	hide.Set(all)
	return hide
}

// discreet is an error without what hide knows: whoever refuses a handshake may
// say what it was sent.
func discreet(err error, hide *secret.Hider) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	safe := *f
	safe.Msg, safe.Hint = hide.Hide(f.Msg), hide.Hide(f.Hint)
	return &safe
}

// open makes one attempt; again says whether another may fare better.
func open(ctx context.Context, u *url.URL, o Options) (c *Conn, again bool, err error) {
	var below net.Conn
	dialer := &net.Dialer{KeepAlive: 30 * time.Second}
	// HTTP/2 is not on: it has no upgrade.
	rt := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS.Clone(),
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			conn, err = dialer.DialContext(ctx, network, addr)
			below = conn
			return conn, err
		}}
	defer rt.CloseIdleConnections()
	ws, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPHeader: o.Header,
		HTTPClient: &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // credentials stay with the host they are for
		}},
	})
	switch {
	case err == nil:
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, resp.StatusCode >= 500, refused(u, resp)
	default:
		return nil, true, fault.New(fault.Unreachable, "", "No connection to %s: %v", u, plain(err)).Because(err)
	}
	ws.SetReadLimit(MessageBytes)
	return &Conn{ws: ws, raw: below, opts: o, to: u}, false, nil
}

// plain is the cause of an error without what the layers above it add, which is
// long and names the address once more.
func plain(err error) error {
	if above, ok := errors.AsType[*url.Error](err); ok {
		return above.Err
	}
	return err
}

// refused is the error of a server that does not open a socket. One that is a
// hub says what to do, such as which agents there are.
func refused(u *url.URL, resp *http.Response) error {
	kind := fault.Unreachable
	switch resp.StatusCode {
	case http.StatusNotFound:
		kind = fault.UnknownAgent
	case http.StatusUnauthorized:
		kind = fault.Unauthorized
	case http.StatusForbidden:
		kind = fault.Denied
	}
	text := fmt.Sprintf("No connection to %s: the server answered HTTP status %d", u, resp.StatusCode)
	if name := http.StatusText(resp.StatusCode); name != "" {
		text += " " + name
	}
	f := fault.New(kind, "", "%s", text)
	if kind == fault.UnknownAgent {
		f.Hint = advice(resp.Body)
	}
	return f
}

// adviceBytes is how much of a refusal is looked at.
const adviceBytes = 4 << 10

// advice is the hint in the body of a refusal, if it is an error as hubs write
// it.
func advice(body io.Reader) string {
	b, err := io.ReadAll(io.LimitReader(body, adviceBytes))
	if err != nil || wire.Valid(b, wire.FromUpstream) != nil {
		return ""
	}
	var hint string
	for raw, path := b, []string{"error", "data", "hint"}; len(path) > 0; path = path[1:] {
		if !isObject(raw) {
			return ""
		}
		raw = wire.Get(raw, path[0])
		hint, _ = wire.String(raw)
	}
	return hint
}
