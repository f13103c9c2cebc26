package blackbox

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B18: how the bridge reaches the server of its agents can be set, and what
// agents say of an error is passed on without credentials.

// leak is what an agent may say of an error, with what nobody else is to see.
const leak = `401 from https://ann:pw4ann@db.example/x?api_key=k3y4ann: Authorization: Bearer b34rer4ann; sent s3same-of-the-config`

// agents serves WebSocket agents: moody fails, mute never answers, and all
// others say hello. It tells what the last one was sent by the handshake.
func agents(t testing.TB, begin func(*httptest.Server)) (s *httptest.Server, header func() http.Header) {
	t.Helper()
	var last atomic.Pointer[http.Header]
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(&r.Header)
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // the client has been told
		}
		defer c.CloseNow()
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		if _, _, err := c.Read(ctx); err != nil {
			return
		}
		says := []object{{"type": "sentence", "sentence": "Hello."}, {"type": "complete"}}
		switch {
		case strings.HasSuffix(r.URL.Path, "/moody"):
			says = []object{{"type": "error", "error": leak}}
		case strings.HasSuffix(r.URL.Path, "/mute"):
			says = nil
		}
		for _, one := range says {
			text, _ := json.Marshal(one) // of texts alone
			_ = c.Write(ctx, websocket.MessageText, text)
		}
		_, _, _ = c.Read(ctx) // until the client has gone
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	begin(s)
	t.Cleanup(s.Close)
	return s, func() http.Header {
		if h := last.Load(); h != nil {
			return *h
		}
		return nil
	}
}

func overSocket(url string) string { return strings.Replace(url, "http", "ws", 1) }

// bridge runs `stoa bridge`, and returns how to ask it.
func bridge(t testing.TB, env []string, flags ...string) func(method string, params object) string {
	t.Helper()
	h := &hub{folder: t.TempDir(), env: env}
	ask := h.piped(t, append([]string{"bridge"}, flags...)...)
	ask("initialize", greeting)
	return ask
}

func chatWith(agent string) object {
	return object{"name": "ailumina_chat", "arguments": object{"agent_type": agent, "user_input": "hi"}}
}

func TestBridgeIsTold(t *testing.T) {
	t.Parallel()
	plain, header := agents(t, (*httptest.Server).Start)
	url := overSocket(plain.URL)
	t.Run("how long to wait for an agent", func(t *testing.T) {
		ask := bridge(t, nil, "--url", url, "--agent", "mute", "--connect-timeout", "20s", "--response-timeout", "300ms")
		mentions(t, "an agent that says nothing", ask("tools/call", chatWith("mute")), "after 300ms")
	})
	t.Run("further headers", func(t *testing.T) {
		ask := bridge(t, []string{`AILUMINA_WS_HEADERS={"X-Api-Key":"opensesame"}`}, "--url", url)
		mentions(t, "an agent", ask("tools/call", chatWith("crud")), "Hello.")
		if got := header().Get("X-Api-Key"); got != "opensesame" {
			t.Errorf("the server of the agents was sent the key %q", got)
		}
	})
	t.Run("whom to trust", func(t *testing.T) {
		private, _ := agents(t, (*httptest.Server).StartTLS)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		writeCertificate(t, ca, private.Certificate())
		stranger := bridge(t, nil, "--url", overSocket(private.URL), "--timeout", "2s")
		lacks(t, "an agent of an unknown authority", stranger("tools/call", chatWith("crud")), "Hello.")
		friend := bridge(t, []string{"AILUMINA_WS_CA=" + ca}, "--url", overSocket(private.URL))
		mentions(t, "an agent of a known authority", friend("tools/call", chatWith("crud")), "Hello.")
	})
}

func writeCertificate(t testing.TB, path string, c *x509.Certificate) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsOfAgentsTellNoCredential(t *testing.T) {
	t.Parallel()
	const sesame = "s3same-of-the-config"
	hidden := []string{"pw4ann", "k3y4ann", "b34rer4ann", sesame}
	s, _ := agents(t, (*httptest.Server).Start)
	url := overSocket(s.URL)
	ask := bridge(t, []string{"AILUMINA_WS_TOKEN=" + sesame}, "--url", url, "--agent", "moody")
	said := ask("tools/call", chatWith("moody"))
	mentions(t, "what is left of the error", said, "db.example")
	lacks(t, "the bridge", said, hidden...)
	h := prepare(t, object{"moody": object{"url": url + "/ws/moody", "transport": "ailumina", "headers": object{"X-Key": sesame}}})
	h.launch(t)
	await.Until(t, "the agent is listed", func() bool { return slices.Contains(h.names(t, "/mcp", ""), "moody__chat") })
	failed := h.tool(t, "/mcp", "", "moody__chat", object{"user_input": "hi"}).text
	mentions(t, "what is left of the error", failed, "db.example")
	lacks(t, "a hub", failed, hidden...)
	lacks(t, "the book of errors", h.get(t, "/api/v1/errors", h.owner).text, hidden...)
	lacks(t, "the log", h.get(t, "/api/v1/logs?limit=1000", h.owner).text, hidden...)
}
