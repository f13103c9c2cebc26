package hub_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// apiClient asks the JSON API of a hub with one token.
type apiClient struct {
	t     *testing.T
	hub   *hubtest.Hub
	token string
}

func (c apiClient) do(verb, path, body string, header ...string) hubtest.Answer {
	c.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return c.hub.Client(c.t, hubtest.ClientOptions{Face: path, Token: c.token}).Do(hubtest.Sent{Verb: verb, Body: body, Header: h})
}

// ok asks and wants status 200.
func (c apiClient) ok(verb, path, body string, header ...string) []byte {
	c.t.Helper()
	a := c.do(verb, path, body, header...)
	if a.Status != http.StatusOK {
		c.t.Fatalf("%s %s: status %d: %s", verb, path, a.Status, a.Body)
	}
	return a.Body
}

// apiEnvelope is the answer of /api/tools. Members that are missing are told
// from those that are null.
type apiEnvelope struct {
	Success *bool           `json:"success"`
	Data    json.RawMessage `json:"data"`
	Message *string         `json:"message"`
	Error   json.RawMessage `json:"error"`
	Code    string          `json:"code"`
}

func (c apiClient) tool(path, body string, header ...string) (int, apiEnvelope) {
	c.t.Helper()
	a := c.do(http.MethodPost, "/api/tools/"+path, body, header...)
	e := hubtest.Decode[apiEnvelope](a.Body)
	if e.Success == nil || e.Message == nil || e.Error == nil || e.Code == "" || *e.Success != (string(e.Error) == "null") {
		c.t.Fatalf("POST %s: not an envelope: %s", path, a.Body)
	}
	return a.Status, e
}

// tokenFor makes a token and returns who has it.
func tokenFor(t *testing.T, h *hubtest.Hub, name string, scopes ...string) apiClient {
	t.Helper()
	return tokenWith(t, h, name, nil, scopes...)
}

// revoke revokes a token.
func revoke(t *testing.T, h *hubtest.Hub, name string) {
	t.Helper()
	tokens, err := auth.OpenTokens(hub.TokensFile(h.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Revoke(name); err != nil {
		t.Fatal(err)
	}
}

// tokenWith makes a token that has rights and returns who has it.
func tokenWith(t *testing.T, h *hubtest.Hub, name string, rights auth.Rights, scopes ...string) apiClient {
	t.Helper()
	tokens, err := auth.OpenTokens(hub.TokensFile(h.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := tokens.Create(name, scopes, 0, rights...)
	if err != nil {
		t.Fatal(err)
	}
	c := apiClient{t, h, secret}
	await.Until(t, "the hub knows the token", func() bool { return c.do(http.MethodGet, "/api/v1/servers", "").Status == http.StatusOK })
	return c
}

func apiHub(t *testing.T, edits ...hubtest.Edit) apiClient {
	t.Helper()
	spec := peer.Spec{Tools: []peer.Tool{
		{Name: "echo"},
		{Name: "strict", RawDefinition: `{"name":"strict","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`},
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"closed today"}],"isError":true}`}},
		{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not today","data":{"until":9}}`}},
		{Name: "needs", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"resultType":"input_required","requestState":"s","inputRequests":{}}`}},
		{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3}},
		{Name: "hang", Behaviour: peer.Do(peer.Hang)},
		{Name: "crash", Behaviour: peer.Do(peer.Crash)},
		{Name: "numbers", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"{\"big\":12345678901234567890, \"z\":1, \"a\":1.0}"}]}`}},
		{Name: "big", Behaviour: peer.Behaviour{Kind: peer.Big, N: 40 << 10}},
	}}
	up := hubtest.Stdio("up", spec, hubtest.Within("hang", time.Second))
	h := hubtest.New(t, append([]hubtest.Edit{up, hubtest.Modules()}, edits...)...)
	waitTools(t, h)
	return apiClient{t, h, h.Token}
}

// waitTools waits until the hub has read what its upstream offers.
func waitTools(t *testing.T, h *hubtest.Hub) {
	t.Helper()
	await.Until(t, "the tools are read", func() bool { return status(t, h, "up").Tools > 0 })
}

func TestAPITool(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	for _, name := range []string{"up__echo", "up:echo", "mcp:up:echo", "echo"} {
		status, e := c.tool(name, `{"text":"hi"}`)
		if status != 200 || !*e.Success || e.Code != "SUCCESS" || string(e.Data) != `{"text":"hi"}` {
			t.Errorf("%s: %d %+v", name, status, e)
		}
	}
	// What a tool says stays as it is, byte by byte.
	if _, e := c.tool("numbers", ""); string(e.Data) != `{"big":12345678901234567890, "z":1, "a":1.0}` {
		t.Errorf("numbers: %s", e.Data)
	}
	if status, e := c.tool("steps", ""); status != 200 || !*e.Success {
		t.Errorf("a tool that tells its progress: %d %+v", status, e)
	}
	for _, test := range []struct {
		tool, body string
		status     int
		code, says string
	}{
		{"no", "{}", 200, "TOOL_ERROR", "closed today"},
		{"rude", "{}", 200, "TOOL_ERROR", "not today"},
		{"nothing", "{}", 404, "UNKNOWN_TOOL", "nothing"},
		{"strict", `{"n":"x"}`, 400, "INVALID_ARGUMENTS", "/n"},
		{"strict", `{"n":`, 400, "PARSE", "not JSON"},
		{"strict", `{"n":1,"n":2}`, 400, "PARSE", "not JSON"},
		{"strict", `[1]`, 400, "INVALID_ARGUMENTS", "not a JSON object"},
		{"needs", "{}", 400, "MISSING_CAPABILITY", "asks for input"},
		{"hang", "{}", 504, "TIMEOUT", ""},
		{"crash", "{}", 502, "UPSTREAM_LOST", ""},
		{"echo?saveas=x", "{}", 400, "INVALID_PARAMS", "saveas"},
		{"echo?cards=yes", "{}", 400, "INVALID_PARAMS", "cards"},
		{"echo?session=a%20b", "{}", 400, "INVALID_PARAMS", "a b"},
		{"echo?saveAs=x", "{}", 400, "SESSION_REQUIRED", "saveAs"},
	} {
		status, e := c.tool(test.tool, test.body)
		if status != test.status || e.Code != test.code || *e.Success || !strings.Contains(string(e.Error), test.says) {
			t.Errorf("%s %s: %d %s %s", test.tool, test.body, status, e.Code, e.Error)
		}
	}
	_, e := c.tool("up__ecko", "{}")
	if !strings.Contains(*e.Message, "up__echo") {
		t.Errorf("a name that is nearly right: %s", *e.Message)
	}
}

// An upstream that cannot be reached is told apart from a tool that is not
// there.
func TestAPIUnreachable(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("gone", "http://127.0.0.1:1/mcp"))
	status, e := apiClient{t, h, h.Token}.tool("gone__echo", "{}")
	if status != http.StatusBadGateway || e.Code != "UNREACHABLE" {
		t.Errorf("%d %+v", status, e)
	}
}

func TestAPIToolState(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	status, e := c.tool("echo?saveAs=first", `{"rows":[{"id":7}]}`, "Stoa-Session", "work")
	if status != 200 || string(e.Data) != `{"rows":[{"id":7}]}` || !strings.Contains(*e.Message, "@first") {
		t.Fatalf("saveAs in the query: %d %+v", status, e)
	}
	if _, e := c.tool("echo?session=work", `{"got":"@first.rows[0].id"}`); string(e.Data) != `{"got":7}` {
		t.Errorf("a reference: %s", e.Data)
	}
	if status, e := c.tool("echo?session=work", `{"got":"@frist"}`); status != 400 || e.Code != "BAD_REFERENCE" || !strings.Contains(*e.Message, "@first") {
		t.Errorf("a reference to nothing: %d %+v", status, e)
	}
	// The argument that stateful faces offer is taken as one, and not passed on.
	if _, e := c.tool("numbers?session=work", `{"saveAs":"second"}`); !strings.Contains(*e.Message, "@second") {
		t.Errorf("saveAs as an argument: %+v", e)
	}
	_, e = c.tool("big?session=work", "")
	if len(e.Data) < 40<<10 {
		t.Errorf("a long result is passed whole: %d bytes", len(e.Data))
	}
	_, e = c.tool("big?session=work&cards=on", "")
	card := hubtest.Decode[struct {
		Name string
		Size int
	}](e.Data)
	if card.Name == "" || len(e.Data) > 16<<10 || !strings.Contains(*e.Message, "@"+card.Name) {
		t.Errorf("with cards: %.300s", e.Data)
	}
	if _, e := c.tool("context_list", `{"session":"work"}`); !strings.Contains(string(e.Data), `"count":3`) || e.Code != "SUCCESS" {
		t.Errorf("a built-in tool answers with its own envelope: %s", e.Data)
	}
	if status, e := c.tool("context_get?session=work", `{"name":"nope"}`); status != 200 || *e.Success || e.Code != "BAD_REFERENCE" {
		t.Errorf("a built-in tool that says no: %d %+v", status, e)
	}
}

// Every route needs a token, refuses foreign pages, and says so in its form.
func TestAPIGuard(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t, hubtest.Config(func(cfg *config.Config) { cfg.Limits.MessageBytes = 64 << 10 }))
	nobody := apiClient{t, c.hub, ""}
	for _, route := range []string{
		"POST /api/tools/echo", "GET /api/v1/servers", "GET /api/v1/sessions", "GET /api/v1/sessions/x", "DELETE /api/v1/sessions/x", "GET /api/v1/sessions/x/export",
		"GET /api/v1/sessions/x/values/y", "DELETE /api/v1/sessions/x/values/y", "GET /api/v1/modules", "PUT /api/v1/modules/up", "GET /api/v1/events", "GET /api/v1/nothing",
	} {
		verb, path, _ := strings.Cut(route, " ")
		if a := nobody.do(verb, path, ""); a.Status != http.StatusUnauthorized || !json.Valid(a.Body) {
			t.Errorf("%s without a token: %d %s", route, a.Status, a.Body)
		}
		if a := c.do(verb, path, "", "Origin", "https://evil.example"); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "rigin") {
			t.Errorf("%s from a foreign page: %d %s", route, a.Status, a.Body)
		}
	}
	if status, e := nobody.tool("echo", "{}"); status != http.StatusUnauthorized || e.Code != "UNAUTHORIZED" {
		t.Errorf("a call without a token: %d %+v", status, e)
	}
	if status, e := c.tool("echo", `{"x":"`+strings.Repeat("x", 64<<10)+`"}`); status != http.StatusRequestEntityTooLarge || e.Code != "TOO_LARGE" {
		t.Errorf("a body over the limit: %d %+v", status, e)
	}
	if a := c.do("PUT", "/api/v1/modules/up", strings.Repeat(" ", 65<<10)); a.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: %d %s", a.Status, a.Body)
	}
	if a := c.do(http.MethodGet, "/api/tools/echo", ""); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "POST /api/tools") {
		t.Errorf("GET of a tool: %d %s", a.Status, a.Body)
	}
	// A token for other servers does not reach this one.
	other := tokenFor(t, c.hub, "other", "elsewhere")
	if status, e := other.tool("up__echo", "{}"); status != http.StatusNotFound || e.Code != "UNKNOWN_TOOL" {
		t.Errorf("without the scope: %d %+v", status, e)
	}
	if path := "/api/tools/" + url.PathEscape("a/b"); c.do("POST", path, "{}").Status != http.StatusNotFound {
		t.Errorf("a name with a slash is a name like any other")
	}
}

// What a tool asks by the API is answered in further rounds, whichever era its
// server speaks.
func TestAPIToolAsks(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Era: era, Tools: []peer.Tool{{Name: "ask", Behaviour: peer.Do(peer.Elicit)}, {Name: "multi", Behaviour: peer.Do(peer.Multi)}}}))
			waitTools(t, h)
			c := apiClient{t, h, h.Token}
			if a := c.do("POST", "/api/tools/up__ask", `{}`); a.Status == 200 && strings.Contains(string(a.Body), `"success":true`) {
				t.Errorf("without having said so: %d %s", a.Status, a.Body)
			}
			if a := c.do("POST", "/api/tools/up__ask?asks=true", `{"message":"hi"}`); a.Status != 400 || !strings.Contains(string(a.Body), "Send arguments, inputResponses and requestState") {
				t.Errorf("arguments as the body: %d %s", a.Status, a.Body)
			}
			for tool, want := range map[string]string{
				"ask":   `{"action":"accept","content":{"name":"Ann"}}`,
				"multi": `[{"action":"accept","content":{"name":"Ann"}},{"action":"accept","content":{"name":"Ann"}},{"action":"accept","content":{"name":"Ann"}}]`,
			} {
				body := `{"arguments":{"message":"Who?"}}`
				var got struct {
					Success bool
					Code    string
					Data    json.RawMessage
				}
				for range 10 {
					got.Data = nil
					if err := json.Unmarshal(c.ok("POST", "/api/tools/up__"+tool+"?asks=true", body), &got); err != nil {
						t.Fatal(err)
					}
					if got.Code != "INPUT_REQUIRED" {
						break
					}
					var asked struct {
						InputRequests map[string]struct{ Params struct{ Message string } }
						RequestState  json.RawMessage
					}
					if err := json.Unmarshal(got.Data, &asked); err != nil || len(asked.InputRequests) != 1 {
						t.Fatalf("asked %s: %v", got.Data, err)
					}
					for name, q := range asked.InputRequests {
						if q.Params.Message != "Who?" {
							t.Errorf("asked %q", q.Params.Message)
						}
						body = `{"arguments":{"message":"Who?"},"inputResponses":{"` + name + `":{"action":"accept","content":{"name":"Ann"}}},"requestState":` + string(asked.RequestState) + `}`
					}
				}
				if !got.Success || strings.ReplaceAll(string(got.Data), " ", "") != want {
					t.Errorf("%s: %+v %s", tool, got, got.Data)
				}
			}
		})
	}
}
