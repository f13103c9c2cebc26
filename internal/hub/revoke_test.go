package hub_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// held is something of a token that lasts.
type held struct {
	what  string
	until func() error // waits for its end
}

// holds opens every kind of stream and socket that there is with a token.
func holds(t *testing.T, h *hubtest.Hub, token string) []held {
	t.Helper()
	var all []held
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	stream := func(what, verb, path, body string, header ...string) {
		req, err := http.NewRequestWithContext(within(t), verb, h.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
			t.Fatalf("%s: %s, %s", what, resp.Status, ct)
		}
		all = append(all, held{what, func() error {
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		}})
	}
	socket := func(path string) {
		c, _, err := websocket.Dial(within(t), strings.Replace(h.URL, "http", "ws", 1)+path, &websocket.DialOptions{
			HTTPClient: client, HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		t.Cleanup(func() { c.CloseNow() })
		all = append(all, held{path, func() error {
			for {
				if _, _, err := c.Read(within(t)); err != nil {
					return err
				}
			}
		}})
	}
	old := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: token})
	stream("a legacy stream", "GET", "/mcp", "", "Accept", "text/event-stream", "Mcp-Session-Id", old.Session, "Mcp-Protocol-Version", old.Version)
	now := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Token: token})
	for what, sent := range map[string]hubtest.Sent{
		"a modern listener": now.Request("1", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`),
		"a call":            now.Request("2", "tools/call", hubtest.ToolParams("up__slow", `{}`), hubtest.Meta(`"progressToken":1`)),
	} {
		header := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", now.Version}
		for k, v := range sent.Header {
			header = append(header, k, v[0])
		}
		stream(what, "POST", "/mcp", sent.Body, header...)
	}
	stream("HTTP+SSE", "GET", "/sse", "", "Accept", "text/event-stream")
	socket("/mcp/ws")
	socket("/s/work/mcp/ws")
	socket("/ws?sessionId=talk")
	stream("a turn", "POST", "/api/chat", `{"sessionId":"talk","text":"call up__slow"}`, "Accept", "text/event-stream")
	stream("a stream of the chat", "GET", "/api/chat/talk", "", "Accept", "text/event-stream")
	return all
}

// A token that is revoked hears nothing any more, whatever it had open; others
// keep what they have.
func TestRevokedTokenHearsNothing(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Config(withSSE), hubtest.Stdio("up", peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 100_000, For: 20 * time.Millisecond}}}}))
	tokens, err := auth.OpenTokens(hub.TokensFile(h.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	secret := func(name string) string {
		_, s, err := tokens.Create(name, auth.Scopes{"*"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	bad := holds(t, h, secret("bad"))
	ws, _, err := websocket.Dial(within(t), strings.Replace(h.URL, "http", "ws", 1)+"/mcp/ws", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + secret("good")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if _, err := tokens.Revoke("bad"); err != nil {
		t.Fatal(err)
	}
	for _, one := range bad {
		if err := one.until(); err != nil && strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			t.Errorf("%s goes on", one.what)
		}
	}
	if got := say(t, ws, hello); !strings.Contains(got, "protocolVersion") {
		t.Errorf("the other token's socket: %s", got)
	}
}

// A connection has the rights of the token that opened it, and is not there for
// another one that was given the same name.
func TestConnectionOfARevokedTokenIsNotTheNextOnes(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", peer.Spec{Tools: echoTool()}), hubtest.Stdio("secret", peer.Spec{Tools: echoTool()}))
	waitTools(t, h)
	await.Until(t, "the other server is read", func() bool { return status(t, h, "secret").Tools > 0 })
	wide := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: tokenFor(t, h, "bob", "*").token})
	if m := wide.Tool("secret__echo", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Fatalf("the first token: %s", m.Raw)
	}
	kept := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: tokenFor(t, h, "carol", "*").token})
	revoke(t, h, "bob")
	narrow := tokenFor(t, h, "bob", "up")
	wide.Token = narrow.token
	a := wide.Do(wide.Request("9", "tools/call", hubtest.ToolParams("secret__echo", `{"a":2}`)))
	if a.Status != http.StatusNotFound {
		t.Errorf("the next token goes on with it: %d %s", a.Status, a.Body)
	}
	if got := (apiClient{t, h, h.Token}).ok("GET", "/api/v1/connections?principal=bob", ""); hubtest.Decode[struct{ Total int }](got).Total != 0 {
		t.Errorf("it is open still: %s", got)
	}
	if m := kept.Tool("secret__echo", `{"a":3}`); m.Text() != `{"a":3}` {
		t.Errorf("another's connection: %s", m.Raw)
	}
}

// A task of a token that is revoked asks nobody any more: its question is
// withdrawn, and there is nothing left to approve.
func TestRevokedTokensTaskIsOver(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled, hubtest.Modules())
	waitTools(t, h)
	owner, fay := apiClient{t, h, h.Token}, tokenFor(t, h, "fay", "*")
	defer attend(t, h, h.Token)()
	if status, e := fay.tool("task_start", `{"tool":"up__write","arguments":{"path":"a"}}`); status != http.StatusOK {
		t.Fatalf("%d %+v", status, e)
	}
	a := owner.asked()
	tokens, err := auth.OpenTokens(hub.TokensFile(h.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Revoke("fay"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the question is withdrawn", func() bool { return len(owner.approvals()) == 0 })
	if got := owner.do("POST", "/api/v1/approvals/"+a.ID, `{"decision":"approve"}`); got.Status != http.StatusNotFound {
		t.Errorf("it can be approved: %d %s", got.Status, got.Body)
	}
}

// A file of tokens that cannot be read for a moment, as while an editor writes it,
// ends nothing: what works for a token goes on when it can be read again. A token
// that is revoked then ends its work all the same.
func TestTasksOutliveATokensFileThatIsHalfWritten(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("up", policySpec()), ruled, hubtest.Modules())
	waitTools(t, h)
	owner, fay := apiClient{t, h, h.Token}, tokenFor(t, h, "fay", "*")
	defer attend(t, h, h.Token)()
	start := func() (task string) {
		t.Helper()
		out := fay.ok("POST", "/api/tools/task_start", `{"tool":"up__write","arguments":{"path":"a"}}`)
		return hubtest.Decode[enveloped](out).Data.Task
	}
	result := func(task string) enveloped {
		t.Helper()
		return hubtest.Decode[enveloped](fay.ok("POST", "/api/tools/task_result", `{"task":"`+task+`","waitMs":20000}`))
	}
	task := start()
	a := owner.asked()
	file := hub.TokensFile(h.Data, "")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is read in vain", func() bool { return strings.Contains(h.Log(), "the tokens cannot be read") })
	owner.decide(a.ID, `{"decision":"approve"}`)
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := result(task); got.Data.Status != "completed" || len(got.Data.Result.Content) != 1 || got.Data.Result.Content[0].Text != `{"path":"a"}` {
		t.Errorf("the task: %+v", got)
	}
	start()
	owner.asked()
	tokens, err := auth.OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Revoke("fay"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the question is withdrawn", func() bool { return len(owner.approvals()) == 0 })
}
