package hub_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
)

// page is a browser at a hub, which has what it was given and nothing else.
type page struct {
	t      *testing.T
	h      *hubtest.Hub
	secret string // goes as the bearer
}

// do makes a request and returns the answer, whose header has to have no cookie.
func (p page) do(verb, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(within(p.t), verb, p.h.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if p.secret != "" {
		req.Header.Set("Authorization", "Bearer "+p.secret)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if c := resp.Header.Values("Set-Cookie"); len(c) > 0 {
		p.t.Errorf("%s %s sets a cookie", verb, path)
	}
	return resp.StatusCode, string(b)
}

var oneShot = &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// get is a member of the answer to a request that has to go well.
func (p page) get(verb, path, body, member string) string {
	p.t.Helper()
	status, text := p.do(verb, path, body)
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil || status != 200 {
		p.t.Fatalf("%s %s: %d %s", verb, path, status, text)
	}
	value, _ := members[member].(string)
	if value == "" {
		p.t.Fatalf("%s %s: no %s in %s", verb, path, member, text)
	}
	return value
}

func (p page) code() string { return p.get("POST", "/api/v1/sign-ins/codes", "", "code") }

// enter signs in with a code of p, in another browser.
func (p page) enter() page {
	return page{p.t, p.h, page{p.t, p.h, ""}.get("POST", "/api/v1/sign-ins", `{"code":"`+p.code()+`"}`, "secret")}
}

func (p page) ticket(path string) string {
	return p.get("POST", "/api/v1/tickets", `{"path":"`+path+`"}`, "ticket")
}

// want says which status a request has to get.
func (p page) want(what string, status int, verb, path, body string) {
	p.t.Helper()
	if got, text := p.do(verb, path, body); got != status {
		p.t.Errorf("%s: %d, want %d: %s", what, got, status, text)
	}
}

// TestConsoleSignsIn goes the way of a browser: the page is for everybody, the
// API is not; a code gets in once, and what it is exchanged for until it is
// ended.
func TestConsoleSignsIn(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	owner, nobody := page{t, h, h.Token}, page{t, h, ""}
	if status, text := nobody.do("GET", "/console/servers", ""); status != 200 || !strings.Contains(text, `/app.js"></script>`) {
		t.Fatalf("the page: %d %s", status, text)
	}
	nobody.want("the API", 401, "GET", "/api/v1/servers", "")
	nobody.want("a code for nobody", 401, "POST", "/api/v1/sign-ins/codes", "")
	nobody.want("what used to set a cookie", 404, "POST", "/console/login", "")

	code := owner.code()
	body := `{"code":"` + code + `"}`
	signed := page{t, h, nobody.get("POST", "/api/v1/sign-ins", body, "secret")}
	if signed.secret == h.Token {
		t.Fatal("the page has the owner's token")
	}
	signed.want("the API", 200, "GET", "/api/v1/servers", "")
	signed.want("what is the owner's alone", 200, "GET", "/api/v1/logs", "")
	nobody.want("the code again", 401, "POST", "/api/v1/sign-ins", body)
	signed.want("a code of who is signed in", 403, "POST", "/api/v1/sign-ins/codes", "")
	signed.want("another sign-in of who is signed in", 403, "POST", "/api/v1/sign-ins", "")
	for what, bad := range map[string]string{"no code": `{}`, "not JSON": `code`, "more": `{"code":"x","path":"y"}`, "too much": `{"code":"` + strings.Repeat("x", 5000) + `"}`} {
		if status, text := nobody.do("POST", "/api/v1/sign-ins", bad); status == 200 || status >= 500 {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	other := owner.enter()
	if _, text := signed.do("GET", "/api/v1/sign-ins", ""); strings.Count(text, `"id"`) != 2 || strings.Count(text, `"current":true`) != 1 {
		t.Errorf("who is signed in: %s", text)
	}
	signed.want("sign out everywhere", 200, "DELETE", "/api/v1/sign-ins", "")
	signed.want("who has signed out", 401, "GET", "/api/v1/servers", "")
	other.want("their other browser", 401, "GET", "/api/v1/servers", "")
}

// A browser that was sent to the console by the file of `stoa console` says that
// it comes from another site.
func TestConsoleIsReachedFromAFile(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	req, err := http.NewRequest("GET", h.URL+"/console/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} {
		req.Header.Set(name, value)
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("the page: %s", resp.Status)
	}
}

// A form of a foreign page can send no JSON.
func TestSignInTakesJSONAlone(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	code := page{t, h, h.Token}.code()
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		req, err := http.NewRequest("POST", h.URL+"/api/v1/sign-ins", strings.NewReader(`{"code":"`+code+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if kind != "" {
			req.Header.Set("Content-Type", kind)
		}
		resp, err := oneShot.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("as %q: %s", kind, resp.Status)
		}
	}
}

// Holders of tokens sign in as themselves, with a token or a code of their own,
// and end neither the owner's browsers nor outlive their token.
func TestSignInOfATokenHolder(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	tokens, err := auth.OpenTokens(hub.TokensFile(h.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := tokens.Create("alice", auth.Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	owner, alice := page{t, h, h.Token}, page{t, h, token}
	byOwner := owner.enter()
	byCode := alice.enter()
	byToken := page{t, h, alice.get("POST", "/api/v1/sign-ins", "", "secret")}
	for _, p := range []page{byCode, byToken} {
		p.want("what is hers", 200, "GET", "/api/v1/tools", "")
		p.want("what is the owner's", 403, "GET", "/api/v1/logs", "")
		if _, text := p.do("GET", "/api/v1/sign-ins", ""); strings.Count(text, `"alice"`) != 2 || strings.Contains(text, `"local"`) {
			t.Errorf("she sees the sign-ins %s", text)
		}
	}
	var all struct{ SignIns []auth.SignIn }
	_, text := owner.do("GET", "/api/v1/sign-ins", "")
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all.SignIns) != 3 {
		t.Fatalf("the owner sees %s, %v", text, err)
	}
	for _, one := range all.SignIns {
		if one.Name == auth.LocalName {
			alice.want("sign the owner out", 404, "DELETE", "/api/v1/sign-ins/"+one.ID, "")
		}
	}
	alice.want("sign out everywhere", 200, "DELETE", "/api/v1/sign-ins", "")
	byToken.want("when she has signed out", 401, "GET", "/api/v1/tools", "")
	byOwner.want("the owner's browser", 200, "GET", "/api/v1/logs", "")
	again := alice.enter()
	if _, err := tokens.Revoke("alice"); err != nil {
		t.Fatal(err)
	}
	again.want("when the token was revoked", 401, "GET", "/api/v1/tools", "")
}

// A hub that is started again knows its sign-ins, and no code.
func TestSignInsOutliveTheHubAndCodesDoNot(t *testing.T) {
	hubtest.Parallel(t)
	data := filepath.Join(t.TempDir(), "data")
	over := func() *hubtest.Hub {
		return hubtest.New(t, hubtest.Modules(), hubtest.Config(func(c *config.Config) { c.Data = data }))
	}
	h := over()
	owner := page{t, h, h.Token}
	signed, code := owner.enter(), owner.code()
	h.Stop()
	signed.h = over()
	signed.want("after a restart", 200, "GET", "/api/v1/logs", "")
	page{t, signed.h, ""}.want("a code of before", 401, "POST", "/api/v1/sign-ins", `{"code":"`+code+`"}`)
	info, err := os.Stat(hub.SignInsFile(data))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of sign-ins: %v, %v", info, err)
	}
}

// Where a token is needed, a browser opens every socket and stream by a ticket;
// when its sign-in ends, all of them end. Nothing that lets anybody in is
// logged.
func TestTicketsOpenSocketsAndStreams(t *testing.T) {
	hubtest.Parallel(t)
	required := true
	h := hubtest.New(t, hubtest.Modules(), hubtest.Config(withSSE), hubtest.Config(func(c *config.Config) { c.Auth.Required = &required }))
	owner := page{t, h, h.Token}
	code := owner.code()
	signed := page{t, h, page{t, h, ""}.get("POST", "/api/v1/sign-ins", `{"code":"`+code+`"}`, "secret")}
	secrets := []string{h.Token, code, signed.secret}
	ticket := func(path string) string {
		one := signed.ticket(path)
		secrets = append(secrets, one)
		return one
	}
	dial := func(target string) (*websocket.Conn, error) {
		c, _, err := websocket.Dial(within(t), strings.Replace(h.URL, "http", "ws", 1)+target, &websocket.DialOptions{HTTPClient: oneShot})
		return c, err
	}
	var all []held
	for _, path := range []string{"/ws", "/ws/news", "/mcp/ws", "/s/work/mcp/ws", "/api/v1/events/ws"} {
		if c, err := dial(path); err == nil {
			c.CloseNow()
			t.Errorf("%s is open to nobody", path)
		}
		one := ticket(path)
		c, err := dial(path + "?ticket=" + one)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		defer c.CloseNow()
		if twice, err := dial(path + "?ticket=" + one); err == nil {
			twice.CloseNow()
			t.Errorf("%s: the ticket opens a second socket", path)
		}
		all = append(all, held{path, func() error {
			for {
				if _, _, err := c.Read(within(t)); err != nil {
					return err
				}
			}
		}})
	}
	owner.want("a conversation", 200, "POST", "/api/chat", `{"sessionId":"talk","text":"echo hello"}`)
	for _, path := range []string{"/sse", "/api/chat/talk"} {
		req, err := http.NewRequestWithContext(within(t), "GET", h.URL+path+"?ticket="+ticket(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := oneShot.Do(req)
		if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			t.Fatalf("%s: %v, %v", path, resp, err)
		}
		defer resp.Body.Close()
		all = append(all, held{path, func() error { _, err := io.Copy(io.Discard, resp.Body); return err }})
	}
	if _, err := dial("/ws?ticket=" + ticket("/mcp/ws")); err == nil {
		t.Error("a ticket for one path opens another")
	}
	signed.want("sign out", 200, "DELETE", "/api/v1/sign-ins", "")
	for _, one := range all {
		if err := one.until(); err != nil && strings.Contains(err.Error(), "deadline") {
			t.Errorf("%s goes on", one.what)
		}
	}
	for i, one := range secrets {
		if strings.Contains(h.Log(), one) {
			t.Errorf("secret %d is in the log", i)
		}
	}
}
