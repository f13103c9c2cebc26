package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/hubtest/wsagent"
	"github.com/stoahub/stoa/internal/secret"
)

// leak is what somebody else may say of an error, with things that nobody else is
// to see.
const leak = `401 from https://ann:pw4ann@db.example/x?api_key=k3y4ann: Authorization: Bearer b34rer4ann; sent s3same-of-the-config`

var leaked = []string{"pw4ann", "k3y4ann", "b34rer4ann", "s3same-of-the-config"}

// Errors of agents and of the way to them are told without credentials, to
// clients and everywhere else.
func TestForeignErrorsAreToldWithoutCredentials(t *testing.T) {
	hubtest.Parallel(t)
	s := wsagent.Start(map[string]string{
		"moody": "ask\nsend {\"type\":\"error\",\"error\":" + hubtest.Quote(leak) + "}\nhold",
		"plain": "ask\nsend {\"type\":\"sentence\",\"sentence\":" + hubtest.Quote(leak) + "}\nsend {\"type\":\"complete\"}\nhold",
	}, false)
	t.Cleanup(s.Close)
	refuses := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, leak, http.StatusBadRequest) })
	web := httptest.NewServer(refuses)
	t.Cleanup(web.Close)
	sesame := func(c *config.Server) {
		c.Headers = map[string]secret.String{"X-Key": secret.New("s3same-of-the-config")}
	}
	agent := func(c *config.Server) { sesame(c); c.Transport = config.Ailumina }
	h := hubtest.New(t, hubtest.HTTP("moody", s.URL+"/ws/moody", agent), hubtest.HTTP("plain", s.URL+"/ws/plain", agent),
		hubtest.HTTP("refuses", web.URL, sesame), hubtest.HTTP("down", "http://ann:pw4ann@127.0.0.1:1/mcp"))
	var said strings.Builder
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		await.Until(t, "the agents are listed", func() bool { return offers(c, "moody__chat") && offers(c, "plain__chat") })
		const args = `{"user_input":"x"}`
		m := c.Tool("moody__chat", args)
		if !strings.Contains(m.Text(), "401 from https://•••@db.example/x?api_key=•••") {
			t.Errorf("what is left of an error: %s", m.Raw)
		}
		said.Write(m.Raw)
		said.Write(c.Tool("refuses__x", `{}`).Raw)
		said.Write(c.Tool("down__x", `{}`).Raw)
		if m := c.Tool("plain__chat", args); m.Text() != leak {
			t.Errorf("an answer is not what the agent said: %s", m.Raw)
		}
		again := h.Client(t, hubtest.ClientOptions{Era: era})
		said.Write(again.Hello.Raw)
		said.Write(again.Call("tools/list", "{}").Raw)
		agents := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/down/mcp"})
		said.Write(agents.Call("server/discover", "{}").Raw)
	}
	for _, path := range []string{"/api/v1/servers", "/api/v1/servers/down", "/api/v1/errors", "/mcps", "/mcps/down", "/readyz"} {
		_, body := h.Get(path)
		said.Write(body)
	}
	said.WriteString(h.Log())
	for _, hidden := range leaked {
		if strings.Contains(said.String(), hidden) {
			t.Errorf("%q is told in %s", hidden, around(said.String(), hidden))
		}
	}
}

// What an MCP server says itself arrives as it said it, a failure too; what the
// hub writes down of it does not hold credentials.
func TestWhatServersSayArrivesUnchanged(t *testing.T) {
	hubtest.Parallel(t)
	text := hubtest.Quote(leak)
	h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{
		{Name: "ok", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(`{"content":[{"type":"text","text":` + text + `}],"resultType":"complete"}`)}},
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(`{"content":[{"type":"text","text":` + text + `}],"isError":true,"resultType":"complete"}`)}},
		{Name: "error", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: peer.Raw(`{"code":-32000,"message":` + text + `}`)}},
	}}))
	waitTools(t, h)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		for _, tool := range []string{"ok", "no", "error"} {
			if m := c.Tool("up__"+tool, "{}"); !strings.Contains(string(m.Raw), text) {
				t.Errorf("%s: %s", tool, m.Raw)
			}
		}
	}
	_, book := h.Get("/api/v1/errors")
	if !strings.Contains(string(book), "401 from https://•••@db.example") {
		t.Errorf("the book: %s", book)
	}
	said := string(book) + h.Log()
	for _, hidden := range leaked[:3] {
		if strings.Contains(said, hidden) {
			t.Errorf("%q is told in %s", hidden, around(said, hidden))
		}
	}
}
