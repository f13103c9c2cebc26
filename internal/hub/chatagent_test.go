package hub_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// allowAll lets the agents of a hub use all tools.
func allowAll() hubtest.Edit {
	return hubtest.Config(func(c *config.Config) {
		for i := range c.Agents {
			c.Agents[i].Approvals = config.Rules{Default: "allow"}
		}
	})
}

func agentHub(t *testing.T, edits ...hubtest.Edit) (h *hubtest.Hub, state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	spec := peer.Spec{StatePath: state, Tools: []peer.Tool{{Name: "echo"}, {Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 2 * await.Patience}}}}
	h = hubtest.New(t, append([]hubtest.Edit{hubtest.Stdio("up", spec), allowAll()}, edits...)...)
	c := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the tools are there", func() bool { return strings.Contains(string(c.Call("tools/list", "").Result), `"up__echo"`) })
	return h, state
}

// A configured agent is an MCP server by itself, in both eras, and its tools
// are those of the hub.
func TestChatAgentAsServer(t *testing.T) {
	hubtest.Parallel(t)
	h, state := agentHub(t)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, name := range []string{"AIlumina", "ailumina"} {
			t.Run(string(era)+" "+name, func(t *testing.T) {
				c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/" + name + "/mcp"})
				if list := string(c.Call("tools/list", "").Result); strings.Count(list, `"inputSchema"`) != 1 || !strings.Contains(list, `"name":"chat"`) {
					t.Errorf("it has %s", list)
				}
				before, m := c.Go("tools/call", hubtest.ToolParams("chat", `{"user_input":"call up__echo {\"a\": 1}"}`), `"progressToken":"p"`).Wait()
				var told string
				for _, n := range before {
					told += hubtest.Decode[struct{ Message string }](n.Params).Message
				}
				if m.Text() != "up__echo answered:\n| {\"a\":1}\n" || told != m.Text() || len(before) < 3 {
					t.Errorf("%s after %q", m.Raw, told)
				}
			})
		}
	}
	// A client that leaves ends the run, and the tool of a real process.
	c := h.Client(t, hubtest.ClientOptions{Face: "/mcps/ailumina/mcp"})
	x := c.Go("tools/call", hubtest.ToolParams("chat", `{"user_input":"call up__slow"}`), `"progressToken":"p"`)
	x.Await("notifications/progress")
	await.Until(t, "the tool runs", func() bool {
		st, err := peer.ReadState(state)
		return err == nil && slices.Contains(st.Called, "slow")
	})
	x.Close()
	await.Until(t, "the tool was cancelled", func() bool {
		st, err := peer.ReadState(state)
		return err == nil && slices.Contains(st.Cancelled, "slow")
	})
}

// asked puts one question to an agent at its socket.
func asked(t *testing.T, h *hubtest.Hub, token, agent string, q ailumina.Question) (string, error) {
	t.Helper()
	u, err := ailumina.ParseURL(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := ailumina.Options{Retries: -1, Timeout: await.Patience, Header: http.Header{}}
	if token != "" {
		o.Header.Set("Authorization", "Bearer "+token)
	}
	c, err := ailumina.Dial(t.Context(), ailumina.Endpoint(u, agent), o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.Chat(t.Context(), q, nil)
}

// A file that was uploaded reaches the model, for who brought it, also after a
// restart of the hub.
func TestChatAgentFiles(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := agentHub(t)
	own := apiClient{t, h, h.Token}
	a := own.do(http.MethodPost, "/api/files?name=list.txt", "milk and honey", "Content-Type", "text/plain")
	f := hubtest.Decode[struct {
		ID, Name, Type string
		Size           int
		Expires        time.Time
	}](a.Body)
	if a.Status != http.StatusCreated || f.Name != "list.txt" || f.Size != 14 || f.Type != "text/plain" || time.Until(f.Expires) > time.Hour {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	bob := tokenFor(t, h, "bob", "*")
	check := func(h *hubtest.Hub) {
		t.Helper()
		q := ailumina.Question{Input: "What is it?", FileID: f.ID}
		if text, err := asked(t, h, "", "AIlumina", q); err != nil || !strings.Contains(text, `File "list.txt"`) || !strings.Contains(text, "milk and honey") {
			t.Errorf("%q, %v", text, err)
		}
		// To somebody else it is as if there were none.
		_, err := asked(t, h, bob.token, "AIlumina", q)
		_, none := asked(t, h, bob.token, "AIlumina", ailumina.Question{Input: "x", FileID: "file_none"})
		if err == nil || none == nil || strings.ReplaceAll(err.Error(), f.ID, "file_none") != none.Error() {
			t.Errorf("%v, %v", err, none)
		}
	}
	check(h)
	for _, verb := range []string{http.MethodGet, http.MethodDelete} {
		if a := bob.do(verb, "/api/files/"+f.ID, ""); a.Status != http.StatusNotFound {
			t.Errorf("%s by another: %d %s", verb, a.Status, a.Body)
		}
	}
	if a := (apiClient{t, h, ""}).do(http.MethodPost, "/api/files", "x"); a.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", a.Status, a.Body)
	}
	h.Stop()
	again, _ := agentHub(t, hubtest.Data(h.Data))
	check(again)
	own = apiClient{t, again, again.Token}
	if got := own.ok(http.MethodGet, "/api/files/"+f.ID, ""); string(got) != "milk and honey" {
		t.Errorf("it is %q", got)
	}
	own.ok(http.MethodDelete, "/api/files/"+f.ID, "")
	if a := own.do(http.MethodGet, "/api/files/"+f.ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("after it was deleted: %d %s", a.Status, a.Body)
	}
}

// Who may use an agent, and what is said to others.
func TestChatAgentSocket(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := agentHub(t)
	if text, err := asked(t, h, "", "news", ailumina.Question{Input: "echo hi"}); err != nil || text != "hi" {
		t.Errorf("%q, %v", text, err)
	}
	a := (apiClient{t, h, ""}).do(http.MethodGet, "/ws/nwes", "")
	if a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "Did you mean news? There are AIlumina, collaborator, crud, news.") || !strings.Contains(string(a.Body), "unknown_agent") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := (apiClient{t, h, ""}).do(http.MethodGet, "/ws/news", ""); a.Status != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %d %s", a.Status, a.Body)
	}
	eve := tokenFor(t, h, "eve", "crud")
	if _, err := asked(t, h, eve.token, "crud", ailumina.Question{Input: "echo hi"}); err != nil {
		t.Error(err)
	}
	if _, err := asked(t, h, eve.token, "news", ailumina.Question{Input: "echo hi"}); err == nil {
		t.Error("an agent that the token does not allow was asked")
	}
	if a := (apiClient{t, h, ""}).do(http.MethodGet, "/ws/news", "", "Origin", "https://evil.example"); a.Status != http.StatusForbidden {
		t.Errorf("a foreign page: %d %s", a.Status, a.Body)
	}
}

// An agent that the rules hide from somebody, or that is switched off, is not
// there by any door: not as a server, at its socket, or in a conversation.
func TestHiddenAgentCannotBeTalkedTo(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := agentHub(t, agentOf("librarian", nil), hubtest.Config(func(c *config.Config) {
		c.Policy.Rules = config.Rules{Rules: []config.Rule{{Principals: []string{"guest"}, Tools: []string{"librarian"}, Action: "deny"}}}
	}))
	owner, guest := apiClient{t, h, h.Token}, tokenFor(t, h, "guest", "*")
	doors := func(c apiClient, agent string) map[string]string {
		t.Helper()
		said := map[string]string{}
		text, err := asked(t, h, c.token, agent, ailumina.Question{Input: "echo hello"})
		if said["socket"] = text; err != nil {
			said["socket"] = err.Error()
		}
		said["conversation"] = string(c.do("POST", "/api/chat", `{"sessionId":"talk","text":"echo hello","agent":"`+agent+`"}`, "Accept", "application/json").Body)
		said["list"] = string(c.do("GET", "/api/chat", "").Body)
		said["server"] = string(c.do("POST", "/api/tools/"+agent+"__chat", `{"user_input":"echo hello"}`).Body)
		return said
	}
	there := func(when string, c apiClient, want bool) {
		t.Helper()
		none := doors(c, "libraries")
		for door, said := range doors(c, "librarian") {
			if want != strings.Contains(said, map[bool]string{true: "librarian", false: "hello"}[door == "list"]) {
				t.Errorf("%s, %s says %s", when, door, said)
			}
			missing := strings.ReplaceAll(none[door], "libraries", "librarian")
			if !want && door == "socket" && said != missing {
				t.Errorf("%s, %s says %s, and of none %s", when, door, said, missing)
			}
		}
	}
	await.Until(t, "the agent is there", func() bool {
		return owner.do("POST", "/api/tools/librarian__chat", `{"user_input":"echo hello"}`).Status == http.StatusOK
	})
	there("to the owner", owner, true)
	there("to a guest", guest, false)
	u, err := ailumina.ParseURL(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	open, err := ailumina.Dial(t.Context(), ailumina.Endpoint(u, "librarian"), ailumina.Options{Retries: -1, Timeout: await.Patience, Header: http.Header{"Authorization": {"Bearer " + h.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if text, err := open.Chat(t.Context(), ailumina.Question{Input: "echo hello"}, nil); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	owner.ok("PUT", "/api/v1/modules/librarian", `{"on":false}`)
	there("switched off", owner, false)
	if _, err := open.Chat(t.Context(), ailumina.Question{Input: "echo hello"}, nil); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("an open socket of one that was switched off: %v", err)
	}
	owner.ok("PUT", "/api/v1/modules/librarian", `{"on":true}`)
	there("switched on", owner, true)
}
