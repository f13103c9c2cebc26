package hub_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

const limit = 64 << 10 // of a message, in these tests

func inputHub(t testing.TB) *hubtest.Hub {
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	return hubtest.New(t, hubtest.HTTP("up", web.URL),
		hubtest.Config(func(c *config.Config) { c.Limits.MessageBytes = limit }))
}

// badInput is a request and what must come of it.
type badInput struct {
	sent   hubtest.Sent
	status int
	code   int
	in     string // what the answer must contain
}

func (b badInput) check(t *testing.T, c *hubtest.Client) {
	t.Helper()
	a := c.Do(b.sent)
	m, err := hubtest.ParseMessage(a.Body)
	if err != nil || a.Status != b.status || m.Fault().Code != b.code || !strings.Contains(string(a.Body), b.in) {
		t.Errorf("%.200q: status %d, %.300s, %v; want %d, %d, %q", b.sent.Body, a.Status, a.Body, err, b.status, b.code, b.in)
	}
	if ct := a.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Errorf("%.200q: Content-Type %q", b.sent.Body, ct)
	}
	if m := c.Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("after %.200q a good call gets %s", b.sent.Body, m.Raw)
	}
}

func TestBadMessages(t *testing.T) {
	hubtest.Parallel(t)
	h := inputHub(t)
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		call := func(args string) hubtest.Sent {
			return c.Request("1", "tools/call", hubtest.ToolParams("up__echo", args))
		}
		large := call(`{"x":"` + strings.Repeat("x", limit) + `"}`)
		for name, b := range map[string]badInput{
			"over the limit":          {large, 413, -32600, `"too_large"`},
			"over the limit, unsized": {hubtest.Sent{Body: large.Body, Header: large.Header, Unsized: true}, 413, -32600, `"too_large"`},
			"10,000 levels":           {call(deep(10000)), 400, -32700, "parse"},
			"10,000 levels, arrays":   {call(`{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`), 400, -32700, "parse"},
			"duplicate in arguments":  {call(`{"a":1,"\u0061":2}`), 400, -32700, "parse"},
			"duplicate in envelope":   {hubtest.Sent{Body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, Header: call("").Header}, 400, -32700, "parse"},
			"lone surrogate":          {call(`{"a":"\ud800"}`), 400, -32700, "parse"},
			"invalid UTF-8":           {call("{\"a\":\"\xff\"}"), 400, -32700, "parse"},
			"NUL":                     {call("{\"a\":\"\x00\"}"), 400, -32700, "parse"},
			"two messages":            {hubtest.Sent{Body: call("").Body + call("").Body}, 400, -32700, "parse"},
			"batch":                   {hubtest.Sent{Body: "[" + call("").Body + "]"}, 400, -32600, "batch"},
			"empty":                   {hubtest.Sent{Body: ""}, 400, -32700, "parse"},
			"no JSON":                 {hubtest.Sent{Body: "hello"}, 400, -32700, "parse"},
			"no object":               {hubtest.Sent{Body: "42"}, 400, -32600, "invalid_request"},
			"jsonrpc 1.0":             {hubtest.Sent{Body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`}, 400, -32600, "invalid_request"},
			"id is an object":         {hubtest.Sent{Body: `{"jsonrpc":"2.0","id":{},"method":"ping"}`}, 400, -32600, "invalid_request"},
			"id is null":              {hubtest.Sent{Body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`}, 400, -32600, "invalid_request"},
			"params is an array":      {hubtest.Sent{Body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`}, 400, -32600, "invalid_request"},
			"Content-Type text":       {hubtest.Sent{Body: call("").Body, Header: withHeader(call("").Header, "Content-Type", "text/plain")}, 0, -32600, "Content-Type"},
			"Content-Type form":       {hubtest.Sent{Body: call("").Body, Header: withHeader(call("").Header, "Content-Type", "application/x-www-form-urlencoded")}, 0, -32600, "Content-Type"},
		} {
			t.Run(string(era)+"/"+name, func(t *testing.T) {
				if b.status == 0 { // the protocol does not say which
					b.status = c.Do(b.sent).Status
					if b.status != 400 && b.status != 415 {
						t.Errorf("status %d", b.status)
					}
				}
				b.check(t, c)
			})
		}
	}
}

func withHeader(h http.Header, name, value string) http.Header {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	h[name] = []string{value}
	return h
}

func TestForeignRequests(t *testing.T) {
	hubtest.Parallel(t)
	h := inputHub(t)
	c := h.Client(t, hubtest.ClientOptions{})
	list := func(header http.Header) hubtest.Sent {
		s := c.Request("1", "tools/list", "{}")
		for k, v := range header {
			s.Header[k] = v
		}
		return s
	}
	foreign := list(nil)
	foreign.Host = "evil.example"
	for name, b := range map[string]badInput{
		"Host":                {foreign, 403, -31012, "foreign_origin"},
		"Origin":              {list(http.Header{"Origin": {"https://evil.example"}}), 403, -31012, "foreign_origin"},
		"Origin null":         {list(http.Header{"Origin": {"null"}}), 403, -31012, "foreign_origin"},
		"wrong token":         {list(http.Header{"Authorization": {"Bearer nonsense"}}), 401, -31011, "unauthorized"},
		"basic auth":          {list(http.Header{"Authorization": {"Basic YTpi"}}), 401, -31011, "unauthorized"},
		"behind a proxy":      {list(http.Header{"X-Forwarded-For": {"203.0.113.7"}}), 401, -31011, "unauthorized"},
		"header mismatch":     {list(http.Header{"Mcp-Method": {"tools/call"}}), 400, -32020, "header_mismatch"},
		"no Mcp-Method":       {list(http.Header{"Mcp-Method": nil}), 400, -32020, "header_mismatch"},
		"Mcp-Method twice":    {list(http.Header{"Mcp-Method": {"tools/list", "tools/list"}}), 400, -32020, "header_mismatch"},
		"no version header":   {list(http.Header{"Mcp-Protocol-Version": nil}), 400, -32020, "header_mismatch"},
		"other version":       {list(http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}), 400, -32020, "header_mismatch"},
		"unknown method":      {hubtest.Sent{Body: strings.Replace(list(nil).Body, "tools/list", "tools/dance", 1), Header: http.Header{"Mcp-Method": {"tools/dance"}}}, 404, -32601, "tools/dance"},
		"legacy method":       {c.Request("1", "ping", "{}"), 404, -32601, "ping"},
		"initialize":          {c.Request("1", "initialize", "{}"), 404, -32601, "supported"},
		"no capabilities":     {hubtest.Sent{Body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, Header: list(nil).Header}, 400, -32602, "clientCapabilities"},
		"no _meta":            {hubtest.Sent{Body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, Header: list(nil).Header}, 400, 0, "protocolVersion"},
		"Mcp-Name mismatch":   {withName(c, "up__other"), 400, -32020, "header_mismatch"},
		"Mcp-Name missing":    {withName(c, ""), 400, -32020, "header_mismatch"},
		"Mcp-Name bad Base64": {withName(c, "=?base64?!?="), 400, -32020, "header_mismatch"},
		"unknown tool":        {c.Request("1", "tools/call", hubtest.ToolParams("up__ecko", "")), 400, -32602, "up__echo"},
	} {
		t.Run(name, func(t *testing.T) {
			if b.code == 0 {
				m, _ := hubtest.ParseMessage(c.Do(b.sent).Body) // -32602 or -32020 are both to be had
				b.code = m.Fault().Code
			}
			b.check(t, c)
		})
	}
	if a := c.Do(hubtest.Sent{Body: withName(c, "=?base64?dXBfX2VjaG8=?=").Body, Header: withName(c, "=?base64?dXBfX2VjaG8=?=").Header}); a.Status != 200 {
		t.Errorf("a name in Base64: %d %s", a.Status, a.Body)
	}
}

func withName(c *hubtest.Client, name string) hubtest.Sent {
	s := c.Request("1", "tools/call", hubtest.ToolParams("up__echo", ""))
	s.Header["Mcp-Name"] = []string{name}
	if name == "" {
		s.Header["Mcp-Name"] = nil
	}
	return s
}

func TestUnsupportedVersions(t *testing.T) {
	hubtest.Parallel(t)
	h := inputHub(t)
	c := h.Client(t, hubtest.ClientOptions{})
	c.Version = "2027-01-01"
	a := c.Do(c.Request("1", "tools/list", "{}"))
	m, err := hubtest.ParseMessage(a.Body)
	if f := m.Fault(); err != nil || a.Status != 400 || f.Code != -32022 || f.Data.Requested != "2027-01-01" ||
		fmt.Sprint(f.Data.Supported) != "[2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05]" {
		t.Errorf("a future version: %d %s", a.Status, a.Body)
	}
	l := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	s := l.Request("1", "tools/list", "{}")
	s.Header = withHeader(s.Header, "Mcp-Protocol-Version", "2025-01-01")
	if a := l.Do(s); a.Status != 400 {
		t.Errorf("an unknown legacy version: %d %s", a.Status, a.Body)
	}
	// A client that wants a version we do not know gets the newest we do.
	for want, got := range map[string]string{"2025-06-18": "2025-06-18", "2024-11-05": "2024-11-05", "1999-01-01": "2025-11-25", "2026-07-28": "2025-11-25"} {
		n := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Version: want})
		if v := hubtest.Decode[struct{ ProtocolVersion string }](n.Hello.Result).ProtocolVersion; v != got {
			t.Errorf("initialize with %s: %s", want, v)
		}
	}
}

func TestLegacySessionRules(t *testing.T) {
	hubtest.Parallel(t)
	h := inputHub(t)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	if m := c.Call("tools/dance", "{}"); m.Fault().Code != -32601 {
		t.Errorf("unknown method: %s", m.Raw)
	}
	if a := c.Do(c.Request("1", "tools/dance", "{}")); a.Status != 200 {
		t.Errorf("unknown method: status %d", a.Status)
	}
	if m := c.Call("ping", "{}"); string(m.Result) != "{}" {
		t.Errorf("ping: %s", m.Raw)
	}
	id := http.Header{"Mcp-Session-Id": {"nonsense"}}
	none := http.Header{"Mcp-Session-Id": nil}
	for name, b := range map[string]badInput{
		"unknown session":           {hubtest.Sent{Body: c.Request("1", "tools/list", "{}").Body, Header: id}, 404, -32001, "unknown_session"},
		"unknown session in GET":    {hubtest.Sent{Verb: "GET", Header: id}, 404, -32001, "unknown_session"},
		"unknown session in DELETE": {hubtest.Sent{Verb: "DELETE", Header: id}, 404, -32001, "unknown_session"},
		"GET without session":       {hubtest.Sent{Verb: "GET", Header: none}, 405, -32600, "Mcp-Session-Id"},
		"DELETE without session":    {hubtest.Sent{Verb: "DELETE", Header: none}, 405, -32600, "Mcp-Session-Id"},
		"GET of JSON":               {hubtest.Sent{Verb: "GET", Header: http.Header{"Accept": {"application/json"}}}, 406, -32600, "event-stream"},
		"PUT":                       {hubtest.Sent{Verb: "PUT"}, 405, -32600, ""},
		"initialize twice":          {c.Request("1", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`), 400, -32600, "initialised"},
	} {
		t.Run(name, func(t *testing.T) { b.check(t, c) })
	}
	if a := c.Do(hubtest.Sent{Verb: "PUT"}); !strings.Contains(a.Header.Get("Allow"), "POST") {
		t.Errorf("Allow: %q", a.Header.Get("Allow"))
	}
	// A session belongs to its face.
	agent := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcps/up/mcp", Sessionless: true})
	agent.Session = c.Session
	if a := agent.Do(agent.Request("1", "tools/list", "{}")); a.Status != 404 {
		t.Errorf("a session of another face: %d %s", a.Status, a.Body)
	}
	// Clients that drop their session are served all the same.
	bare := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true})
	if m := bare.Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("without a session: %s", m.Raw)
	}
	c.End()
	if a := c.Do(c.Request("1", "tools/list", "{}")); a.Status != 404 {
		t.Errorf("after DELETE: %d %s", a.Status, a.Body)
	}
}

func TestUnknownAgent(t *testing.T) {
	hubtest.Parallel(t)
	h := inputHub(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/nobody/mcp", Sessionless: true})
		a := c.Do(c.Request(`"x"`, "tools/list", "{}"))
		if m, err := hubtest.ParseMessage(a.Body); err != nil || a.Status != 404 || m.Fault().Code != -32601 || string(m.ID) != `"x"` {
			t.Errorf("%s: %d %s", era, a.Status, a.Body)
		}
	}
}

// A client that stops in the middle of its body is cut off.
func TestHalfBodyIsCutOff(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, func(s *hubtest.Setup) { s.Options.BodyTimeout = 300 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\""); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("the connection was not closed: %v", err)
	}
	if !strings.HasPrefix(string(b), "HTTP/1.1 400 ") && !strings.HasPrefix(string(b), "HTTP/1.1 408 ") {
		t.Errorf("got %s", b)
	}
}
