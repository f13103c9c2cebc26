package hub_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// A hub that was told nothing holds conversations: its own model lists the
// tools and calls them, once a person allows it, and the conversation is there
// after the hub was started again.
func TestChatWithoutAKey(t *testing.T) {
	hubtest.Parallel(t)
	files := hubtest.Stdio("files", peer.Spec{Name: "files", Tools: []peer.Tool{{Name: "echo"}}})
	h := hubtest.New(t, files)
	mcpClient := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the server is there", func() bool { return offers(mcpClient, "files__echo") })
	c := dial(t, h, "/ws")
	hello := c.next()
	if hello.Type != "connection" || hello.Payload.State != "connected" || hello.Payload.SessionID == "" || !strings.Contains(hello.Payload.Message, "AI assistant") {
		t.Fatalf("greeted by %s", hello.raw)
	}
	if got := c.say("list tools"); !strings.Contains(got, "files__echo") || strings.Contains(got, "__chat") {
		t.Errorf("the tools are %s", got)
	}
	if got := c.say(`call files__echo {"text":"hello there"}`); !strings.Contains(got, "files__echo answered") || !strings.Contains(got, "hello there") {
		t.Errorf("the call gave %s", got)
	}
	_, ready := h.Get("/readyz")
	if got := hubtest.Decode[struct{ Model string }](ready).Model; got != "script: no key is set" || h.Model() != got {
		t.Errorf("the model is told as %q", got)
	}
	h.Stop()

	h = hubtest.New(t, files, hubtest.Data(h.Data))
	c = dial(t, h, "/ws?sessionId="+hello.Payload.SessionID)
	again := c.next()
	if again.Payload.State != "reconnected" || !strings.Contains(again.raw, "hello there") || len(again.Payload.History) < 4 {
		t.Errorf("taken up again by %s", again.raw)
	}
	if got := c.say("echo still here"); got != "still here" {
		t.Errorf("it says %q", got)
	}
}

// Those without sockets have the same, with a token.
func TestChatByPost(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t)
	post := func(token string) (*http.Response, error) {
		req, err := http.NewRequest(http.MethodPost, h.URL+"/api/chat", strings.NewReader(`{"text":"echo one two"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return http.DefaultClient.Do(req)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := post("")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", resp.Status)
	}
	if resp, err = post(h.Token); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, ended := "", false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var f heard
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			t.Fatal(err)
		}
		text += f.Payload.Content
		ended = ended || f.Type == "turn.ended"
	}
	if text != "one two" || !ended {
		t.Errorf("%s: %q, ended %v", resp.Status, text, ended)
	}
	if status, body := h.Get("/api/files"); status != http.StatusOK {
		t.Errorf("the files: %d %s", status, body)
	}
}

// agentOf is an edit that configures one agent.
func agentOf(title string, edit func(*config.Agent)) hubtest.Edit {
	return hubtest.Config(func(c *config.Config) {
		a := config.Agent{Name: config.Slug(title), Title: title, Description: "Is " + title + ".", Listed: true}
		if edit != nil {
			edit(&a)
		}
		c.Agents = append(c.Agents, a)
	})
}

// The four agents that clients of WebSocket agents know are there, each by
// itself and on no merged face; those of the config are on that too, unless it
// says otherwise.
func TestAgentsOfTheChat(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, agentOf("My Writer", nil), agentOf("quiet", func(a *config.Agent) { a.Listed = false }),
		hubtest.Stdio("news", peer.Spec{Name: "news", Tools: []peer.Tool{{Name: "echo"}}}))
	if d := cmp.Diff([]string{"AIlumina", "collaborator", "crud", "My Writer", "news", "quiet"}, listed(h, t)); d != "" {
		t.Errorf("the agents: %s", d)
	}
	const args = `{"user_input":"echo hello"}`
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, name := range []string{"AIlumina", "ailumina", "AILUMINA", "crud", "collaborator", "my-writer", "quiet"} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/" + name + "/mcp"})
			if list := string(c.Call("tools/list", "").Result); !strings.Contains(list, `"name":"chat"`) {
				t.Errorf("%s offers %s", name, list)
			}
			if m := c.Tool("chat", args); m.Text() != "hello" {
				t.Errorf("%s says %s", name, m.Raw)
			}
		}
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		await.Until(t, "the agent is listed", func() bool { return offers(c, "my-writer__chat") && offers(c, "news__echo") })
		for _, name := range []string{"ailumina__chat", "crud__chat", "collaborator__chat", "quiet__chat", "news__chat"} {
			if offers(c, name) {
				t.Errorf("%s is on the merged face", name)
			}
		}
		if m := c.Tool("my-writer__chat", args); m.Text() != "hello" {
			t.Errorf("by the merged face: %s", m.Raw)
		}
		if m := c.Tool("crud__chat", args); m.Fault().Data.Kind != "unknown_tool" {
			t.Errorf("an agent that is not listed: %s", m.Raw)
		}
	}
	for _, name := range []string{"AIlumina", "my-writer"} {
		askSocket(t, h, name)
	}
	for _, s := range h.Upstreams() {
		if s.Unlisted {
			t.Errorf("%s is among the servers", s.Name)
		}
	}
}

// askSocket asks an agent as a WebSocket client does.
func askSocket(t *testing.T, h *hubtest.Hub, agent string) {
	t.Helper()
	c := dial(t, h, "/ws/"+agent)
	c.send(`{"user_input":"echo hello","chat_messages":[]}`)
	said := ""
	for {
		_, b, err := c.conn.Read(c.ctx)
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ Type, Sentence string }
		if json.Unmarshal(b, &m); m.Type == "complete" {
			break
		}
		said += m.Sentence
	}
	if said != "hello" {
		t.Errorf("%s says %q on its socket", agent, said)
	}
}

// An agent that is in use by another: each is a tool of the other's model.
func TestAgentAsksAgent(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, agentOf("inner", nil), agentOf("outer", func(a *config.Agent) { a.Approvals.Default = "allow" }))
	merged := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the agents are listed", func() bool { return offers(merged, "inner__chat") && offers(merged, "outer__chat") })
	c := h.Client(t, hubtest.ClientOptions{Face: "/mcps/outer/mcp"})
	m := c.Tool("chat", `{"user_input":"call inner__chat {\"user_input\":\"echo deep down\"}"}`)
	if !strings.Contains(m.Text(), "inner__chat answered") || !strings.Contains(m.Text(), "deep down") {
		t.Errorf("got %s", m.Raw)
	}
}

// One who registers takes the place of an agent that exists by default, and
// gives it back.
func TestRegisteredAgentTakesAStockName(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t)
	web := peer.Serve(t, peer.Spec{Name: "mine", Tools: []peer.Tool{{Name: "headline"}}})
	do := func(method, path, lease, body string) (int, string) {
		req, err := http.NewRequest(method, h.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.Token)
		req.Header.Set("Stoa-Lease", lease)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out struct{ Lease string }
		_ = json.NewDecoder(resp.Body).Decode(&out) // no body where there is nothing to say
		return resp.StatusCode, out.Lease
	}
	defer http.DefaultClient.CloseIdleConnections()
	status, lease := do("POST", "/mcps", "", `{"name":"news","url":`+quoted(web.URL)+`}`)
	if status != http.StatusCreated {
		t.Fatalf("registering: %d", status)
	}
	merged := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the agent is offered", func() bool { return offers(merged, "news__headline") })
	if status, _ := do("DELETE", "/mcps/news", lease, ""); status != http.StatusNoContent {
		t.Fatalf("leaving: %d", status)
	}
	c := h.Client(t, hubtest.ClientOptions{Face: "/mcps/news/mcp"})
	if m := c.Tool("chat", `{"user_input":"echo back"}`); m.Text() != "back" || offers(merged, "news__headline") {
		t.Errorf("afterwards: %s", m.Raw)
	}
}

// The model, the texts and the agents of a running hub follow the config.
func TestReloadOfTheChat(t *testing.T) {
	hubtest.Parallel(t)
	dir := t.TempDir()
	play := func(name, text string) hubtest.Edit {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("-- turn --\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return hubtest.Config(func(c *config.Config) {
			m := config.DefaultModel()
			m.Name, m.Provider, m.Script = name, config.Script, path
			c.Models.Named = append(c.Models.Named, m)
			c.Models.Default = name
		})
	}
	one, two := play("one", "I am one."), play("two", "I am two.")
	h := hubtest.New(t, one, agentOf("writer", nil))
	merged := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the agent is listed", func() bool { return offers(merged, "writer__chat") })
	ask := func() (welcome, answer string) {
		c := dial(t, h, "/ws")
		hello := c.next()
		return hello.Payload.Message, c.say("Who are you?")
	}
	if _, got := ask(); got != "I am one." || h.Model() != "one (script script)" {
		t.Errorf("%q of %s", got, h.Model())
	}
	next := setupOf(h, two, agentOf("reader", nil), hubtest.Stdio("crud", peer.Spec{Name: "crud", Tools: []peer.Tool{{Name: "echo"}}}),
		hubtest.Config(func(c *config.Config) { c.Chat.Texts.Welcome = "Hi." }))
	if err := next.Validate(); err != nil {
		t.Fatal(err)
	}
	changes, err := h.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	if got := described(changes); got != "server crud added, models changed, chat changed, agent reader added, agent crud removed, agent writer removed" {
		t.Errorf("changes: %s", got)
	}
	if welcome, got := ask(); got != "I am two." || welcome != "Hi." || h.Model() != "two (script script)" {
		t.Errorf("%q after %q of %s", got, welcome, h.Model())
	}
	await.Until(t, "the agents have changed", func() bool {
		return offers(merged, "reader__chat") && !offers(merged, "writer__chat") && offers(merged, "crud__echo")
	})
	bad := setupOf(h, play("three", ""))
	bad.Models.Named[0].Script = filepath.Join(dir, "nowhere")
	if _, err := h.Reload(bad); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a script that is not there: %v", err)
	}
	if _, err := h.Reload(setupOf(h, one, hubtest.Config(func(c *config.Config) { c.Chat.Enabled = false }))); err == nil || !strings.Contains(err.Error(), "chat.enabled cannot change") {
		t.Errorf("switching the chat off: %v", err)
	}
	if _, got := ask(); got != "I am two." {
		t.Errorf("after refusals: %q", got)
	}
	// A server that goes gives its name back.
	if _, err := h.Reload(setupOf(h, two)); err != nil {
		t.Fatal(err)
	}
	c := h.Client(t, hubtest.ClientOptions{Face: "/mcps/crud/mcp"})
	if m := c.Tool("chat", `{"user_input":"x"}`); m.Text() != "I am two." {
		t.Errorf("the agent says %s", m.Raw)
	}
}

// A model that lacks its key says so to whoever asks, and the hub to whoever
// looks; a hub without a chat has no addresses of one.
func TestChatThatCannotBe(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Config(func(c *config.Config) { c.Chat.Model = "anthropic" }))
	if !strings.Contains(h.Model(), "ANTHROPIC_API_KEY") {
		t.Errorf("the model is told as %q", h.Model())
	}
	if _, ready := h.Get("/readyz"); !strings.Contains(string(ready), `"code":"model"`) || !strings.Contains(string(ready), `"ready":true`) {
		t.Errorf("/readyz says %s", ready)
	}
	c := dial(t, h, "/ws")
	c.next()
	c.send(`{"type":"message","payload":{"text":"hi"}}`)
	if end, _ := c.until("turn.ended"); !strings.Contains(end.raw, "ANTHROPIC_API_KEY") || !strings.Contains(end.raw, `"failed"`) {
		t.Errorf("it ended with %s", end.raw)
	}
	off := hubtest.New(t, hubtest.Config(func(c *config.Config) { c.Chat.Enabled = false }))
	if status, _ := off.Get("/ws"); status != http.StatusNotFound || len(listed(off, t)) > 0 {
		t.Errorf("/ws without a chat: %d, agents %v", status, listed(off, t))
	}
}
