package hub_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

// token makes a bearer token of a hub that is yet to be opened.
func token(t testing.TB, s *hubtest.Setup, name string, scopes ...string) string {
	t.Helper()
	s.Config.Auth.TokensFile = s.Config.Data + ".tokens"
	tokens, err := auth.OpenTokens(s.Config.Auth.TokensFile)
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := tokens.Create(name, scopes, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestScopesOfTokens(t *testing.T) {
	hubtest.Parallel(t)
	one, two := peer.Serve(t, recoverySpec()), peer.Serve(t, peer.Spec{Tools: echoTool(), Prompts: []peer.Prompt{{Name: "p"}}})
	var narrow string
	h := hubtest.New(t, hubtest.HTTP("one", one.URL), hubtest.HTTP("two", two.URL),
		func(s *hubtest.Setup) { narrow = token(t, s, "narrow", "two") })
	settled(t, h, "one", "two")
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Token: narrow})
		if got := toolNames(t, c); !slices.Equal(got, []string{"two__echo"}) {
			t.Errorf("%s: listed: %v", era, got)
		}
		if got := names(t, c, "resources/list", "resources", "uri"); len(got) != 0 {
			t.Errorf("%s: resources: %v", era, got)
		}
		if m := c.Tool("two__echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("%s: an allowed call: %s", era, m.Raw)
		}
		for _, name := range []string{"one__count", "one:count", "count"} {
			m := c.Tool(name, "")
			if m.Error == nil && !strings.Contains(string(m.Result), "denied") || strings.Contains(string(m.Raw), "one__") && name == "count" {
				t.Errorf("%s: %s of another scope: %s", era, name, m.Raw)
			}
		}
		if m := c.Call("resources/read", `{"uri":"mem://a"}`); m.Error == nil {
			t.Errorf("%s: a resource of another scope: %s", era, m.Raw)
		}
		agent := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/one/mcp", Token: narrow, Sessionless: true})
		if a := agent.Do(agent.Request("1", "tools/list", "{}")); a.Status != 404 {
			t.Errorf("%s: an agent of another scope: %d %s", era, a.Status, a.Body)
		}
	}
	if len(one.State().Called) > 0 {
		t.Errorf("what is out of scope was called: %v", one.State().Called)
	}
	// The changes of what is out of scope are not told.
	all := h.Client(t, hubtest.ClientOptions{})
	wide := all.Listen(`{"toolsListChanged":true}`)
	grow := func(tools int) {
		t.Helper()
		all.Tool("one__grow", "")
		await.Until(t, "the change is told and known", func() bool {
			wide.Await("notifications/tools/list_changed")
			return status(t, h, "one").Tools == tools
		})
	}
	grow(4) // what was learned at the start is told by now
	x := h.Client(t, hubtest.ClientOptions{Token: narrow}).Listen(`{"toolsListChanged":true,"resourceSubscriptions":["mem://a"]}`)
	grow(5)
	h.End() // the stream ends, with what was told until then
	for {
		m, err := x.Read()
		if err != nil || m.IsResponse() {
			break
		}
		t.Errorf("told %s", m.Raw)
	}
}

// A session is bound to whom it was made for.
func TestSessionsBelongToTheirPrincipal(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	var other string
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), func(s *hubtest.Setup) { other = token(t, s, "other", "*") })
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	thief := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: other, Sessionless: true})
	thief.Session = c.Session
	for _, verb := range []string{"POST", "GET", "DELETE"} {
		s := thief.Request("1", "tools/list", "{}")
		s.Verb = verb
		if a := thief.Do(s); a.Status != 404 {
			t.Errorf("%s with another's session: %d %s", verb, a.Status, a.Body)
		}
	}
	if m := c.Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("the owner: %s", m.Raw)
	}
}

func TestOpenAddressNeedsToken(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	s := hubtest.Default()
	s.Config.Data, s.Config.Listen = t.TempDir()+"/data", []string{"0.0.0.0:0"}
	h, err := hub.Open(hub.Options{Config: &s.Config})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("an open address without tokens: %v", err)
	}
	var good string
	open := hubtest.New(t, hubtest.HTTP("up", web.URL), func(s *hubtest.Setup) {
		good = token(t, s, "good", "*")
		s.Config.Listen = []string{"0.0.0.0:0"}
	})
	open.URL = strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(open.URL)
	bare := open.Client(t, hubtest.ClientOptions{})
	for _, path := range []string{"/mcp", "/mcps/up/mcp"} {
		bare.Face = path
		if a := bare.Do(bare.Request("1", "tools/list", "{}")); a.Status != http.StatusUnauthorized || a.Header.Get("Www-Authenticate") == "" {
			t.Errorf("%s without a token: %d %s", path, a.Status, a.Body)
		}
	}
	for path, want := range map[string]int{"/metrics": http.StatusUnauthorized, "/readyz": http.StatusUnauthorized, "/mcps": http.StatusUnauthorized, "/healthz": http.StatusOK} {
		resp, err := http.Get(open.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s without a token: %d, want %d", path, resp.StatusCode, want)
		}
	}
	if m := open.Client(t, hubtest.ClientOptions{Token: good}).Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("with a token: %s", m.Raw)
	}
}

// What a client sends to prove who it is never reaches an upstream; what the
// config says does, and is seen nowhere else.
func TestCredentialsStayWhereTheyBelong(t *testing.T) {
	hubtest.Parallel(t)
	const upstreamSecret, envSecret = "s3cret-of-the-upstream", "s3cret-of-the-process"
	web := peer.Serve(t, peer.Spec{HTTP: peer.HTTP{Token: upstreamSecret}, Tools: []peer.Tool{{Name: "headers", Behaviour: peer.Do(peer.Headers)}}})
	wrong := peer.Serve(t, peer.Spec{HTTP: peer.HTTP{Token: "another"}, Tools: echoTool()})
	var mine string
	bearer := func(s *config.Server) {
		s.Headers = map[string]secret.String{"Authorization": secret.New("Bearer " + upstreamSecret)}
	}
	h := hubtest.New(t, hubtest.HTTP("up", web.URL, bearer), hubtest.HTTP("wrong", wrong.URL, bearer),
		hubtest.Stdio("crash", peer.Spec{Tools: echoTool(), Quirks: peer.Quirks{ExitOnProbe: true, CrashEvery: 50 * time.Millisecond}},
			func(s *config.Server) { s.Env["SECRET"] = secret.New(envSecret) }),
		func(s *hubtest.Setup) { mine = token(t, s, "mine", "*") })
	settled(t, h, "up")
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, face := range []string{"/mcp", "/mcps/up/mcp"} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face, Token: mine,
				Header: http.Header{"Cookie": {"a=b"}, "X-Api-Key": {"k"}, "Proxy-Authorization": {"Basic eA=="}}})
			name := "headers"
			if face == "/mcp" {
				name = "up__headers"
			}
			m := c.Tool(name, "")
			got := hubtest.Decode[map[string][]string](json.RawMessage(m.Text()))
			if !slices.Equal(got["Authorization"], []string{"Bearer " + upstreamSecret}) {
				t.Errorf("%s %s: the upstream got %v, %s", era, face, got["Authorization"], m.Raw)
			}
			for _, name := range []string{"Cookie", "X-Api-Key", "Proxy-Authorization", "Origin"} {
				if got[name] != nil {
					t.Errorf("%s %s: the upstream got %s: %v", era, face, name, got[name])
				}
			}
			if s := got["Mcp-Session-Id"]; era == hubtest.Legacy && slices.Contains(s, c.Session) {
				t.Errorf("%s: the upstream got the client's session", face)
			}
		}
	}
	c := h.Client(t, hubtest.ClientOptions{})
	said := string(c.Tool("wrong__echo", "").Raw) + string(c.Tool("crash__echo", "").Raw)
	await.Until(t, "the refusal is known", func() bool { return strings.Contains(status(t, h, "wrong").Error, "credentials") })
	for _, path := range []string{"/api/v1/servers", "/mcps", "/mcps/wrong", "/readyz", "/healthz", "/metrics"} {
		_, body := h.Get(path)
		said += string(body)
	}
	said += h.Log()
	for _, hidden := range []string{upstreamSecret, envSecret, mine, h.Token} {
		if strings.Contains(said, hidden) {
			t.Errorf("%q is told in %s", hidden, around(said, hidden))
		}
	}
}

func around(s, part string) string {
	i := strings.Index(s, part)
	return s[max(0, i-100):min(len(s), i+len(part)+100)]
}

// A process sees a few harmless variables, what it is to inherit, its own, and
// nothing else.
func TestEnvironmentOfProcesses(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "env", Behaviour: peer.Do(peer.Env)}}}
	environ := []string{"PATH=/bin", "HOME=/home/x", "LANG=C", "SECRET=1", "NODE_ENV=x", "OWN=outer", "AWS_SECRET_ACCESS_KEY=k", "STOA_STORE_KEY=k"}
	cwd := t.TempDir()
	h := hubtest.New(t,
		hubtest.Stdio("plain", spec, func(s *config.Server) { s.Env["OWN"], s.Cwd = secret.New("inner"), cwd }),
		hubtest.Stdio("some", spec, func(s *config.Server) { s.InheritEnv.Names = []string{"NODE_ENV"} }),
		hubtest.Stdio("all", spec, func(s *config.Server) { s.InheritEnv.All = true }),
		func(s *hubtest.Setup) { s.Options.Environ = environ })
	c := h.Client(t, hubtest.ClientOptions{})
	for up, want := range map[string]string{"plain": "GORACE HOME LANG OWN PATH", "some": "GORACE HOME LANG NODE_ENV PATH", "all": "AWS_SECRET_ACCESS_KEY GORACE HOME LANG NODE_ENV OWN PATH SECRET"} {
		settled(t, h, up)
		got := hubtest.Decode[struct {
			Env map[string]string
			Cwd string
		}](json.RawMessage(c.Tool(up+"__env", "").Text()))
		var keys []string
		for k := range got.Env {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if strings.Join(keys, " ") != want {
			t.Errorf("%s sees %v, want %s", up, keys, want)
		}
		if up == "plain" && (got.Env["OWN"] != "inner" || got.Cwd != cwd) {
			t.Errorf("%s: %+v", up, got)
		}
	}
}
