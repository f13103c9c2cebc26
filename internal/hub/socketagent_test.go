package hub_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/wsagent"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/upstream"
)

// socketAgents runs a hub over WebSocket agents.
func socketAgents(t *testing.T, timeout time.Duration, scripts map[string]string) (*hubtest.Hub, *wsagent.Server) {
	t.Helper()
	s := wsagent.Start(scripts, false)
	t.Cleanup(s.Close)
	var edits []hubtest.Edit
	for name := range scripts {
		edits = append(edits, hubtest.HTTP(name, s.URL+"/ws/"+name, func(c *config.Server) {
			c.Transport, c.Timeout = config.Ailumina, timeout
			c.Headers = map[string]secret.String{"Authorization": secret.New("Bearer sesame")}
		}))
	}
	return hubtest.New(t, edits...), s
}

// A WebSocket agent is an upstream with the tool chat, on every face and in both eras.
func TestSocketAgent(t *testing.T) {
	hubtest.Parallel(t)
	h, s := socketAgents(t, 2*time.Second, map[string]string{
		"poet": `ask
			send {"type":"sentence","sentence":"Roses "}
			send {"type":"tool_running","tool_name":"rhymes"}
			send {"type":"sentence","sentence":"are red."}
			send {"role":"assistant","content":"Roses are red."}
			send {"type":"complete"}
			hold`,
		"moody": "ask\nsend {\"type\":\"error\",\"error\":\"not today\"}\nhold",
		"frail": "ask\ndie",
		"mute":  "ask\nhold",
		"shy":   "refuse 404",
	})
	const args = `{"user_input":"Write.","chat_messages":[{"role":"user","content":"Hello","n":1}],"fileId":"f1"}`
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			c := h.Client(t, hubtest.ClientOptions{Era: era})
			await.Until(t, "the agents are listed", func() bool {
				list := string(c.Call("tools/list", "").Result)
				return strings.Contains(list, `"poet__chat"`) && strings.Contains(list, `"shy__chat"`)
			})
			before, m := c.Go("tools/call", hubtest.ToolParams("poet__chat", args), `"progressToken":"p"`).Wait()
			if m.Text() != "Roses are red." || len(before) == 0 || !strings.Contains(string(before[0].Params), `"message":"Roses "`) {
				t.Errorf("%s after %d messages", m.Raw, len(before))
			}
			visits := s.Visits()
			last := visits[len(visits)-1]
			if want := `{"user_input":"Write.","chat_messages":[{"role":"user","content":"Hello","n":1}],"fileId":"f1"}`; last.Questions[0] != want || last.Header.Get("Authorization") != "Bearer sesame" {
				t.Errorf("the agent got %+v", last)
			}
			if m := c.Tool("moody__chat", args); m.Text() != "not today" || !strings.Contains(string(m.Result), `"isError":true`) {
				t.Errorf("an agent that says no: %s", m.Raw)
			}
			if f := c.Tool("frail__chat", args).Fault(); f.Data.Kind != "upstream_lost" || !strings.Contains(f.Message, "The answer is not complete") {
				t.Errorf("an agent that dies: %+v", f)
			}
			if f := c.Tool("mute__chat", args).Fault(); f.Data.Kind != "timeout" {
				t.Errorf("an agent that says nothing: %+v", f)
			}
			if f := c.Tool("shy__chat", args).Fault(); f.Data.Kind != "unknown_agent" || !strings.Contains(f.Message, "404") {
				t.Errorf("an agent that is not there: %+v", f)
			}
			if m := c.Tool("poet__chat", `{}`); !strings.Contains(string(m.Raw), "user_input") {
				t.Errorf("arguments that do not fit: %s", m.Raw)
			}
			face := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/mcps/poet/mcp"})
			if m := face.Tool("chat", args); m.Text() != "Roses are red." {
				t.Errorf("by itself: %s", m.Raw)
			}
		})
	}
	_, body := h.Get("/mcps/poet")
	var status upstream.Status
	if err := json.Unmarshal(body, &status); err != nil || status.Transport != "ailumina" {
		t.Errorf("the status is %s (%v)", body, err)
	}
}

// A client that leaves closes the agent's socket.
func TestSocketAgentCancelled(t *testing.T) {
	hubtest.Parallel(t)
	h, s := socketAgents(t, 2*await.Patience, map[string]string{"mute": "ask\nsend {\"type\":\"sentence\",\"sentence\":\"hm\"}\nhold"})
	c := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the agent is listed", func() bool { return strings.Contains(string(c.Call("tools/list", "").Result), `"mute__chat"`) })
	x := c.Go("tools/call", hubtest.ToolParams("mute__chat", `{"user_input":"x"}`))
	await.Until(t, "the agent is asked", func() bool { return len(s.Visits()) == 1 && len(s.Visits()[0].Questions) == 1 })
	x.Close()
	await.Until(t, "the agent is left", func() bool { return s.Visits()[0].Ended })
}

func TestSocketAgentThatCannotBe(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("odd", "ws://me:pass@127.0.0.1/ws/a", func(c *config.Server) { c.Transport = config.Ailumina }))
	await.Until(t, "the status says why", func() bool {
		_, body := h.Get("/mcps/odd")
		return strings.Contains(string(body), "the url of the agent cannot be used: it has a user or password in it") && !strings.Contains(string(body), "pass@")
	})
}
