package hubtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Era is the generation of the protocol that a client speaks.
type Era string

// The eras.
const (
	Legacy Era = "legacy"
	Modern Era = "modern"
)

// Versions that clients speak unless told otherwise.
const (
	ModernVersion = "2026-07-28"
	LegacyVersion = "2025-11-25"
)

const metaPrefix = "io.modelcontextprotocol/"

// ClientOptions describe a client. The zero value is a modern one on /mcp that
// declares nothing.
type ClientOptions struct {
	Era          Era
	Face         string // the path; /mcp if empty
	Version      string // of the protocol; the newest of the era if empty
	Capabilities string // JSON object; {} if empty
	Token        string // bearer token; none if empty
	Header       http.Header
	Accept       string // both media types if empty
	Sessionless  bool   // legacy without initialize
}

// Client is one client of a hub over HTTP.
type Client struct {
	ClientOptions
	Session string // legacy Mcp-Session-Id
	Hello   Message

	tb   testing.TB
	base string // http://host:port
	http *http.Client
	next atomic.Int64
}

// Client returns a client; a legacy one has initialised its session.
func (h *Hub) Client(tb testing.TB, o ClientOptions) *Client {
	tb.Helper()
	return connect(tb, h.URL, h.http, o)
}

// Dial returns a client of a hub that runs elsewhere, at http://host:port.
func Dial(tb testing.TB, base string, o ClientOptions) *Client {
	tb.Helper()
	t := transport()
	tb.Cleanup(t.CloseIdleConnections)
	return connect(tb, base, &http.Client{Transport: t}, o)
}

func connect(tb testing.TB, base string, h *http.Client, o ClientOptions) *Client {
	tb.Helper()
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	if o.Era == "" {
		o.Era = Modern
	}
	set(&o.Face, "/mcp")
	set(&o.Capabilities, "{}")
	set(&o.Accept, "application/json, text/event-stream")
	version := ModernVersion
	if o.Era == Legacy {
		version = LegacyVersion
	}
	set(&o.Version, version)
	c := &Client{ClientOptions: o, tb: tb, base: base, http: h}
	if o.Era == Legacy && !o.Sessionless {
		c.initialize()
	}
	return c
}

func (c *Client) initialize() {
	c.tb.Helper()
	c.Hello = c.Call("initialize", `{"protocolVersion":"`+c.Version+`","capabilities":`+c.Capabilities+`,"clientInfo":{"name":"hubtest","version":"1"}}`)
	if c.Hello.Error != nil {
		c.tb.Fatalf("initialize: %s", c.Hello.Error)
	}
	if c.Session == "" {
		c.tb.Fatal("initialize: no Mcp-Session-Id came")
	}
	c.Version = Decode[struct{ ProtocolVersion string }](c.Hello.Result).ProtocolVersion
	c.Notify("notifications/initialized", "")
}

// Sent is one HTTP request to make by hand.
type Sent struct {
	Verb   string // POST if empty
	Body   string
	Header http.Header // over the client's own; a nil value removes one
	Host   string
	// Unsized sends the body in chunks, without saying how long it is.
	Unsized bool
}

// Answer is an HTTP answer that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// headers are those that go with every request of the client.
func (c *Client) headers() http.Header {
	h := c.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", c.Accept)
	if c.Token != "" {
		h.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Session != "" {
		h.Set("Mcp-Session-Id", c.Session)
	}
	if c.Era == Modern || c.Session != "" {
		h.Set("Mcp-Protocol-Version", c.Version)
	}
	return h
}

func (c *Client) request(ctx context.Context, s Sent) *http.Request {
	c.tb.Helper()
	if s.Verb == "" {
		s.Verb = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, s.Verb, c.base+c.Face, strings.NewReader(s.Body))
	if err != nil {
		c.tb.Fatal(err)
	}
	req.Header = c.headers()
	for k, v := range s.Header {
		if v == nil {
			delete(req.Header, k)
		} else {
			req.Header[k] = v
		}
	}
	if s.Unsized {
		req.ContentLength = -1
	}
	if s.Host != "" {
		req.Host = s.Host
	}
	return req
}

// Do makes one HTTP request and reads its answer to the end.
func (c *Client) Do(s Sent) Answer {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	resp, err := c.http.Do(c.request(ctx, s))
	if err != nil {
		c.tb.Fatalf("%s %s: %v", s.Verb, c.Face, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.tb.Fatalf("%s %s: read the answer: %v", s.Verb, c.Face, err)
	}
	return Answer{resp.StatusCode, resp.Header, b}
}

// Meta is members for params._meta, such as `"progressToken":7`.
type Meta string

// Params returns params as the client's era writes them.
func (c *Client) Params(params string, meta ...Meta) string {
	var members []string
	if c.Era == Modern {
		members = append(members, `"`+metaPrefix+`protocolVersion":`+Quote(c.Version),
			`"`+metaPrefix+`clientCapabilities":`+c.Capabilities,
			`"`+metaPrefix+`clientInfo":{"name":"hubtest","version":"1"}`)
	}
	for _, m := range meta {
		members = append(members, string(m))
	}
	if len(members) == 0 {
		return params
	}
	body := strings.TrimSuffix(strings.TrimPrefix(params, "{"), "}")
	if body != "" {
		body += ","
	}
	return "{" + body + `"_meta":{` + strings.Join(members, ",") + "}}"
}

// Request returns a whole request and the headers that its era adds.
func (c *Client) Request(id, method, params string, meta ...Meta) Sent {
	s := Sent{Header: http.Header{}}
	s.Body = `{"jsonrpc":"2.0","id":` + id + `,"method":` + Quote(method)
	if p := c.Params(params, meta...); p != "" {
		s.Body += `,"params":` + p
	}
	s.Body += "}"
	if c.Era != Modern {
		return s
	}
	s.Header.Set("Mcp-Method", method)
	name := Decode[struct{ Name, URI, TaskID string }](json.RawMessage(params))
	switch method {
	case "tools/call", "prompts/get":
		s.Header.Set("Mcp-Name", headerValue(name.Name))
	case "resources/read":
		s.Header.Set("Mcp-Name", headerValue(name.URI))
	case "tasks/get", "tasks/update", "tasks/cancel":
		s.Header.Set("Mcp-Name", headerValue(name.TaskID))
	}
	return s
}

// Call makes a request and returns its response.
func (c *Client) Call(method, params string, meta ...Meta) Message {
	c.tb.Helper()
	x := c.Go(method, params, meta...)
	m := x.Response()
	if method == "initialize" && c.Session == "" {
		c.Session = x.Header.Get("Mcp-Session-Id")
	}
	return m
}

// Tool calls a tool.
func (c *Client) Tool(name, args string, meta ...Meta) Message {
	c.tb.Helper()
	return c.Call("tools/call", ToolParams(name, args), meta...)
}

// ToolParams are the params of tools/call.
func ToolParams(name, args string) string {
	if args == "" {
		args = "{}"
	}
	return `{"name":` + Quote(name) + `,"arguments":` + args + `}`
}

// Notify sends a notification of a legacy client.
func (c *Client) Notify(method, params string) {
	c.tb.Helper()
	body := `{"jsonrpc":"2.0","method":` + Quote(method)
	if params != "" {
		body += `,"params":` + params
	}
	if a := c.Do(Sent{Body: body + "}"}); a.Status != http.StatusAccepted {
		c.tb.Fatalf("notify %s: status %d: %s", method, a.Status, a.Body)
	}
}

// Answer responds to a request that the hub sent; member is result or error.
func (c *Client) Answer(to Message, member, value string) {
	c.tb.Helper()
	body := `{"jsonrpc":"2.0","id":` + string(to.ID) + `,"` + member + `":` + value + `}`
	if a := c.Do(Sent{Body: body}); a.Status != http.StatusAccepted {
		c.tb.Fatalf("answer %s: status %d: %s", to.Method, a.Status, a.Body)
	}
}

// Listen opens the stream on which changes are told: the GET stream of a
// legacy session, or subscriptions/listen with that filter. It returns once
// the stream is open.
func (c *Client) Listen(filter string) *Exchange {
	c.tb.Helper()
	if c.Era == Legacy {
		x := c.Exchange("", Sent{Verb: http.MethodGet, Header: http.Header{"Content-Type": nil, "Accept": {"text/event-stream"}}})
		if err := x.begin(); err != nil || x.Status != http.StatusOK {
			c.tb.Fatalf("open the GET stream: status %d, %v", x.Status, err)
		}
		return x
	}
	x := c.Go("subscriptions/listen", `{"notifications":`+filter+`}`)
	if m := x.Next(); m.Method != "notifications/subscriptions/acknowledged" {
		c.tb.Fatalf("listen: %s", m.Raw)
	}
	return x
}

// End deletes the session of a legacy client.
func (c *Client) End() {
	c.tb.Helper()
	if a := c.Do(Sent{Verb: http.MethodDelete}); a.Status != http.StatusNoContent {
		c.tb.Fatalf("DELETE: status %d: %s", a.Status, a.Body)
	}
}
