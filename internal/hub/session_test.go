package hub_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

var bothEras = []hubtest.Era{hubtest.Legacy, hubtest.Modern}

// answered is what a built-in tool answers.
type answered struct {
	Success bool
	Data    json.RawMessage
	Message string
	Error   *string
	Code    string
}

// envelope takes a built-in tool's answer apart, which says the same thing
// twice.
func envelope(t testing.TB, m hubtest.Message) answered {
	t.Helper()
	r := hubtest.Decode[struct {
		StructuredContent json.RawMessage
		IsError           bool
	}](m.Result)
	if m.Text() != string(r.StructuredContent) {
		t.Fatalf("the text is not the structured content: %s", m.Raw)
	}
	members := hubtest.Decode[map[string]json.RawMessage](r.StructuredContent)
	for _, name := range []string{"success", "data", "message", "error", "code"} {
		if members[name] == nil {
			t.Fatalf("the envelope has no %s: %s", name, m.Raw)
		}
	}
	e := hubtest.Decode[answered](r.StructuredContent)
	if e.Success == r.IsError || e.Success != (e.Code == "SUCCESS") || e.Success != (e.Error == nil) || len(members) != 5 {
		t.Fatalf("the envelope contradicts itself: %s", m.Raw)
	}
	return e
}

// good is the data of a built-in tool's answer that must say success.
func good(t testing.TB, m hubtest.Message) json.RawMessage {
	t.Helper()
	e := envelope(t, m)
	if !e.Success {
		t.Fatalf("it failed: %s", m.Raw)
	}
	return e.Data
}

// bad is the code of one that must not.
func bad(t testing.TB, m hubtest.Message) string {
	t.Helper()
	e := envelope(t, m)
	if e.Success {
		t.Fatalf("it did not fail: %s", m.Raw)
	}
	return e.Code
}

// put stores a value in the client's session.
func put(t testing.TB, c *hubtest.Client, name, data string, meta ...hubtest.Meta) {
	t.Helper()
	good(t, c.Tool("context_add", `{"name":"`+name+`","data":`+data+`}`, meta...))
}

// where is the name of the session that a request is bound to, or the code of
// the fault.
func where(t testing.TB, m hubtest.Message) string {
	t.Helper()
	e := envelope(t, m)
	if !e.Success {
		return e.Code
	}
	return hubtest.Decode[struct{ Session string }](e.Data).Session
}

// in is a client's way of naming a session.
func in(name string) http.Header { return http.Header{"Stoa-Session": {name}} }

const inMeta hubtest.Meta = `"stoa/session":"meta"`

// keeping is a hub with the built-in tools and one upstream, up.
func keeping(t testing.TB, spec peer.Spec, edits ...hubtest.Edit) (*hubtest.Hub, *peer.HTTPServer) {
	t.Helper()
	web := peer.Serve(t, spec)
	h := hubtest.New(t, append([]hubtest.Edit{hubtest.Modules(), hubtest.HTTP("up", web.URL)}, edits...)...)
	settled(t, h, "up")
	return h, web
}

func TestWhatARequestIsBoundTo(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, peer.Spec{Tools: echoTool()})
	for _, era := range bothEras {
		for name, tc := range map[string]struct {
			header http.Header
			meta   []hubtest.Meta
			face   string
			want   string // empty: that of the connection, or none
		}{
			"header, _meta and path": {in("head"), []hubtest.Meta{inMeta}, "/s/path/mcp", "head"},
			"header and path":        {in("head"), nil, "/s/path/mcp", "head"},
			"header":                 {in("head"), nil, "/mcp", "head"},
			"_meta and path":         {nil, []hubtest.Meta{inMeta}, "/s/path/mcp", "meta"},
			"_meta":                  {nil, []hubtest.Meta{inMeta}, "/mcp", "meta"},
			"path":                   {nil, nil, "/s/path/mcp", "path"},
			"nothing":                {nil, nil, "/mcp", ""},
			"an empty header":        {in(""), []hubtest.Meta{inMeta}, "/mcp", "meta"},
		} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: tc.face, Header: tc.header})
			if tc.want == "" {
				if tc.want = "SESSION_REQUIRED"; era == hubtest.Legacy {
					tc.want = c.Session
				}
			}
			if got := where(t, c.Tool("context_list", "{}", tc.meta...)); got != tc.want {
				t.Errorf("%s, %s: bound to %q, want %q", era, name, got, tc.want)
			}
		}
	}
}

func TestWhatASocketIsBoundTo(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"context_list","arguments":{},"_meta":{META}}}`
	const modern = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`
	for _, tc := range []struct {
		path, meta string
		header     http.Header
		want       string // PIPE: the connection's own
	}{
		{"/s/path/mcp/ws", string(inMeta), in("head"), "head"},
		{"/s/path/mcp/ws", string(inMeta), nil, "meta"},
		{"/s/path/mcp/ws", "", nil, "path"},
		{"/mcp/ws", "", in("head"), "head"},
		{"/mcp/ws", "", nil, "PIPE"},
		{"/s/path/mcp/ws", modern + "," + string(inMeta), nil, "meta"},
		{"/s/path/mcp/ws", modern, nil, "path"},
		{"/mcp/ws", modern, nil, "SESSION_REQUIRED"},
	} {
		c, _, err := websocket.Dial(within(t), strings.Replace(h.URL, "http", "ws", 1)+tc.path, &websocket.DialOptions{HTTPClient: client, HTTPHeader: tc.header})
		if err != nil {
			t.Fatal(err)
		}
		say(t, c, hello)
		m, err := hubtest.ParseMessage([]byte(say(t, c, strings.Replace(list, "META", tc.meta, 1))))
		if err != nil {
			t.Fatal(err)
		}
		got := where(t, m)
		if strings.HasPrefix(got, "pipe-") {
			got = "PIPE"
		}
		if got != tc.want {
			t.Errorf("%s, header %v, _meta %.40s: bound to %q, want %q", tc.path, tc.header, tc.meta, got, tc.want)
		}
		c.CloseNow()
	}
}

// A name that is none is refused by every method, and never taken for another.
func TestBadNamesOfSessions(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		for _, meta := range []hubtest.Meta{`"stoa/session":5`, `"stoa/session":null`, `"stoa/session":"a b"`, `"stoa/session":"../x"`} {
			for _, method := range []string{"tools/list", "resources/list", "tools/call"} {
				params := "{}"
				if method == "tools/call" {
					params = hubtest.ToolParams("context_list", "")
				}
				if m := c.Call(method, params, meta); m.Fault().Data.Kind != "invalid_params" {
					t.Errorf("%s, %s with %s: %s", era, method, meta, m.Raw)
				}
			}
		}
		for _, meta := range []hubtest.Meta{`"stoa/cards":"on"`, `"stoa/references":1`} {
			if m := c.Call("tools/list", "{}", meta); m.Fault().Data.Kind != "invalid_params" {
				t.Errorf("%s, with %s: %s", era, meta, m.Raw)
			}
		}
	}
}

// Who is bound to nothing is given a session that nobody else can name.
func TestUnboundRequests(t *testing.T) {
	hubtest.Parallel(t)
	var other string
	h, web := keeping(t, peer.Spec{Tools: echoTool()}, func(s *hubtest.Setup) { other = token(t, s, "other", "*") })
	for _, o := range []hubtest.ClientOptions{{}, {Era: hubtest.Legacy, Sessionless: true}} {
		c := h.Client(t, o)
		m := c.Tool("context_add", `{"name":"doc","data":{"n":1.10}}`)
		made := hubtest.Decode[struct{ Session, Reference string }](good(t, m))
		if !strings.HasPrefix(made.Session, "s_") || made.Reference != "@"+made.Session+":doc" || !strings.Contains(envelope(t, m).Message, made.Session) {
			t.Fatalf("the session is not told: %s", m.Raw)
		}
		if again := hubtest.Decode[struct{ Session string }](good(t, c.Tool("context_add", `{"name":"doc","data":2}`))); again.Session == made.Session {
			t.Errorf("another request got the same session")
		}
		arg := `"session":` + hubtest.Quote(made.Session)
		if got := good(t, c.Tool("context_get", `{"name":"doc",`+arg+`}`)); string(got) != `{"n":1.10}` {
			t.Errorf("by the argument: %s", got)
		}
		if got := c.Tool("up__echo", `{"v":"`+made.Reference+`.n"}`).Text(); got != `{"v":1.10}` {
			t.Errorf("by reference: %s", got)
		}
		if code := bad(t, c.Tool("context_get", `{"name":"doc"}`)); code != "SESSION_REQUIRED" {
			t.Errorf("by nothing: %s", code)
		}
		called := len(web.State().Called)
		thief := h.Client(t, hubtest.ClientOptions{Token: other})
		if code := bad(t, thief.Tool("context_get", `{"name":"doc",`+arg+`}`)); code != "BAD_REFERENCE" {
			t.Errorf("another principal, by the argument: %s", code)
		}
		if m := thief.Tool("up__echo", `{"v":"`+made.Reference+`"}`); !strings.Contains(m.Text(), "there is no session") {
			t.Errorf("another principal, by reference: %s", m.Raw)
		}
		if now := len(web.State().Called); now != called {
			t.Errorf("a call with a bad reference was made")
		}
	}
}

func TestWhoSharesASession(t *testing.T) {
	hubtest.Parallel(t)
	var ann, bob string
	h, _ := keeping(t, peer.Spec{Tools: echoTool()}, func(s *hubtest.Setup) {
		ann, bob = token(t, s, "ann", "*"), token(t, s, "bob", "*")
	})
	named := func(era hubtest.Era, token string) *hubtest.Client {
		return h.Client(t, hubtest.ClientOptions{Era: era, Token: token, Header: in("work")})
	}
	put(t, named(hubtest.Legacy, ann), "doc", `"ann's"`)
	for _, era := range bothEras {
		if got := named(era, ann).Tool("up__echo", `{"v":"@doc"}`).Text(); got != `{"v":"ann's"}` {
			t.Errorf("%s: another client of the principal: %s", era, got)
		}
		for who, token := range map[string]string{"bob": bob, "local": ""} {
			c := named(era, token)
			if m := c.Tool("up__echo", `{"v":"@doc"}`); !strings.Contains(m.Text(), "bad_reference") && !strings.Contains(m.Text(), "holds no value") {
				t.Errorf("%s: %s got %s", era, who, m.Raw)
			}
			if got := names(t, c, "resources/list", "resources", "uri"); len(got) > 0 {
				t.Errorf("%s: %s is shown %v", era, who, got)
			}
		}
	}
	// Two connections that say the same of themselves have nothing in common.
	one, two := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy}), h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	put(t, one, "mine", "1")
	if code := bad(t, two.Tool("context_get", `{"name":"mine"}`)); code != "BAD_REFERENCE" {
		t.Errorf("another connection: %s", code)
	}
}

// What is said to the hub goes no further.
func TestServersDoNotSeeSessions(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "params", Behaviour: peer.Do(peer.Params)}}}
	for _, mixed := range []bool{false, true} {
		eachCell(t, spec, worldOptions{mixed: mixed, edits: []hubtest.Edit{hubtest.Modules()}}, func(t *testing.T, w *world) {
			got := w.call("params", `{"a":1}`, `"stoa/session":"secret-name"`, `"stoa/cards":false`, `"stoa/references":false`, `"stoa/other":1`, `"mine":{"stoa/x":1}`).Text()
			if strings.Contains(got, "secret-name") || strings.Contains(got, `"stoa/cards"`) || strings.Contains(got, `"stoa/other"`) || !strings.Contains(got, `"mine":{"stoa/x":1}`) {
				t.Errorf("the server got %s", got)
			}
		})
	}
}

// again is a client that goes on with a connection of another hub's life.
func again(t testing.TB, h *hubtest.Hub, session string) *hubtest.Client {
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Sessionless: true})
	c.Session = session
	return c
}

func status404(t testing.TB, c *hubtest.Client) bool {
	t.Helper()
	return c.Do(c.Request("1", "tools/list", "{}")).Status == http.StatusNotFound
}

func TestConnectionsOutliveTheHub(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, peer.Spec{Tools: echoTool()})
	keeper, idler, leaver := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy}), h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy}), h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	put(t, keeper, "doc", `{"n":12345678901234567890}`)
	put(t, leaver, "doc", "1")
	// A connection is that of one face, and is not taken up on another.
	for _, face := range []string{"/mcps/up/mcp", "/s/x/mcp"} {
		astray := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: face, Sessionless: true})
		astray.Session = keeper.Session
		if !status404(t, astray) {
			t.Errorf("the connection is known on %s", face)
		}
	}
	leaver.End()
	if !status404(t, leaver) {
		t.Error("a connection that was deleted is known")
	}
	h.Stop()
	h = hubtest.New(t, hubtest.Data(h.Data), hubtest.Modules(), hubtest.HTTP("up", web.URL))
	back := again(t, h, keeper.Session)
	if got := back.Tool("up__echo", `{"v":"@doc.n"}`).Text(); got != `{"v":12345678901234567890}` {
		t.Errorf("after the restart: %s", got)
	}
	x := back.Listen("")
	put(t, back, "more", "2")
	x.Await("notifications/resources/list_changed")
	for name, id := range map[string]string{"that held nothing": idler.Session, "that was deleted": leaver.Session, "that never was": "NOPE"} {
		if !status404(t, again(t, h, id)) {
			t.Errorf("a connection %s is known after the restart", name)
		}
	}
	back.End()
	if !status404(t, back) {
		t.Error("a connection that was deleted after the restart is known")
	}
}

func TestHistoryAndRemoval(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("h-" + string(era))})
		for i, data := range []string{`"one"`, `"two"`, `{"three":3}`} {
			m := c.Tool("context_add", `{"name":"doc","data":`+data+`,"description":"a thing"}`)
			if got := hubtest.Decode[struct{ Replaced bool }](good(t, m)); got.Replaced != (i > 0) {
				t.Errorf("%s: version %d: %s", era, i+1, m.Raw)
			}
		}
		put(t, c, "other", "0")
		type version struct {
			Version int
			Type    string
			By      string
		}
		got := hubtest.Decode[struct{ Versions []version }](good(t, c.Tool("context_history", `{"name":"doc"}`))).Versions
		if diff := cmp.Diff([]version{{3, "object", "hubtest"}, {2, "text", "hubtest"}, {1, "text", "hubtest"}}, got); diff != "" {
			t.Errorf("%s: history: %s", era, diff)
		}
		if got := good(t, c.Tool("context_get", `{"name":"doc","version":1}`)); string(got) != `"one"` {
			t.Errorf("%s: version 1: %s", era, got)
		}
		if list := hubtest.Decode[struct{ Count int }](good(t, c.Tool("context_list", `{"filter":"d*"}`))); list.Count != 1 {
			t.Errorf("%s: filter: %+v", era, list)
		}
		good(t, c.Tool("context_remove", `{"name":"doc"}`))
		for _, tool := range []string{"context_get", "context_history", "context_remove"} {
			m := c.Tool(tool, `{"name":"dox"}`)
			if code := bad(t, m); code != "BAD_REFERENCE" || !strings.Contains(m.Text(), "other") {
				t.Errorf("%s: %s of what is gone: %s", era, tool, m.Raw)
			}
		}
	}
}
