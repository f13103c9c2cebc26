package chatws

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	door "github.com/stoahub/stoa/internal/hubtest/gate"
	"github.com/stoahub/stoa/internal/llm/script"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

// agentTools is a server with two tools: echo, and hang, which runs until its
// call is cancelled or it is told to end.
type agentTools struct {
	hanging  chan struct{} // told of each call of hang that has begun
	released chan struct{} // and of each that was cancelled
	finish   chan struct{} // ends a call of hang
}

func (b *agentTools) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "tools/list":
		const input = `"inputSchema":{"type":"object"}`
		return mcp.Response{Result: []byte(`{"tools":[{"name":"box__echo",` + input + `},{"name":"box__hang",` + input + `}]}`)}, nil
	case "tools/call":
		if name, _ := req.Text("name"); name == "box__hang" {
			b.hanging <- struct{}{}
			select {
			case <-b.finish:
				return mcp.Response{Result: ailumina.ToolText("finished", false)}, nil
			case <-ctx.Done():
				b.released <- struct{}{}
				return mcp.Response{}, context.Cause(ctx)
			}
		}
		text, _ := wire.String(wire.Get(req.Param("arguments"), "text"))
		return mcp.Response{Result: ailumina.ToolText(text, false)}, nil
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "no %s here", req.Method)
}

func (b *agentTools) Attach(*mcp.Listener) (stop func())                       { return func() {} }
func (b *agentTools) Subscribe(context.Context, *mcp.Listener, string) error   { return nil }
func (b *agentTools) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

// agentStage is agents over a script model, served to whom a request says it is of.
type agentStage struct {
	*Agents
	url   string
	box   *agentTools
	files *chat.Files
}

func openAgents(t *testing.T, o AgentOptions, play string) *agentStage {
	t.Helper()
	return openAgentsWith(t, o, script.Options{Script: play})
}

func openAgentsWith(t *testing.T, o AgentOptions, play script.Options) *agentStage {
	t.Helper()
	model, err := script.New(play)
	if err != nil {
		t.Fatal(err)
	}
	s := &agentStage{box: &agentTools{hanging: make(chan struct{}, 10), released: make(chan struct{}, 10), finish: make(chan struct{})}}
	if s.files, err = chat.OpenFiles(t.Context(), nil, chat.FileOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.files.Close)
	allow := policy.Compile(policy.Rules{Default: policy.Allow}, nil)
	e, err := chat.Open(t.Context(), nil, chat.Options{
		Face:   func(string) call.Face { return door.Face(s.box, door.Options{Rules: allow}) },
		Models: func(string) (chat.Model, error) { return chat.Model{Model: model, Name: "script"}, nil },
		Attach: s.files.Attach, Principal: known,
	}, chat.Settings{Agents: []chat.Agent{{Name: "AIlumina"}, {Name: "news"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	s.Agents = NewAgents(e, o)
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/{agent}", func(w http.ResponseWriter, r *http.Request) {
		who := &auth.Principal{Name: "ann", Scopes: auth.Scopes{"*"}}
		if scope := r.Header.Get("Scope"); scope != "" {
			who = &auth.Principal{Name: "bob", Scopes: auth.Scopes{scope}}
		}
		if err := s.Serve(w, r, who); err != nil {
			f := fault.Of(err)
			http.Error(w, f.Text()+". "+f.Advice(), f.Status(true))
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(func() {
		s.Close()
		s.Wait(context.Background())
	})
	s.url = "ws" + strings.TrimPrefix(srv.URL, "http") + "/ws/"
	return s
}

// agentClient is a client of an agent.
type agentClient struct {
	*websocket.Conn
	t *testing.T
}

func (s *agentStage) dial(t *testing.T, agent string) *agentClient {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), s.url+agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { c.CloseNow() })
	return &agentClient{c, t}
}

func (c *agentClient) send(text string) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads until an answer has ended.
func (c *agentClient) answer() (text string, events []string, last ailumina.Event) {
	c.t.Helper()
	var a ailumina.Answer
	for {
		_, b, err := c.Read(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		e, err := ailumina.DecodeEvent(b)
		if err != nil {
			c.t.Fatal(err)
		}
		if e.Kind == ailumina.Complete || e.Kind == ailumina.Failure {
			return a.Text(), events, e
		}
		if err := a.Add(e); err != nil {
			c.t.Fatal(err)
		}
		if e.Kind != ailumina.Sentence {
			events = append(events, e.Name()+" "+e.Tool)
		}
	}
}

func (c *agentClient) ask(text string) (string, []string, ailumina.Event) {
	c.t.Helper()
	c.send(string(ailumina.Question{Input: text}.Append(nil)))
	return c.answer()
}

func TestAgentSocket(t *testing.T) {
	s := openAgents(t, AgentOptions{FrameBytes: 2000}, "")
	c := s.dial(t, "AIlumina")
	text, events, last := c.ask(`call box__echo {"text":"hi there"}`)
	if diff := cmp.Diff([]string{"tool_running box__echo", "tool_complete box__echo"}, events); text != "box__echo answered:\n| hi there\n" || diff != "" || last.Kind != ailumina.Complete {
		t.Errorf("%q, %+v\n%s", text, last, diff)
	}
	// What cannot be understood costs one answer, and nothing else.
	for _, tc := range []struct{ send, want string }{
		{`{oops`, "The question cannot be understood: the message is not JSON"},
		{`[]`, "the message is not a JSON object"},
		{`{"chat_messages":[]}`, "user_input is missing or not a string"},
		{`{"user_input":"x","chat_messages":[{"role":"user"}]}`, "chat_messages[0].content is missing"},
		{`{"user_input":"` + strings.Repeat("x", 2000) + `"}`, "The question is longer than 2000 bytes."},
		{`{"user_input":"x","fileId":"file_none"}`, `there is no file "file_none"`},
		{`{"user_input":""}`, "empty"},
	} {
		c.send(tc.send)
		if text, _, last := c.answer(); last.Kind != ailumina.Failure || !strings.Contains(last.Text, tc.want) || text != "" {
			t.Errorf("%.60s: %q %+v", tc.send, text, last)
		}
	}
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, _, last := c.answer(); last.Kind != ailumina.Failure || !strings.Contains(last.Text, "binary") {
		t.Errorf("%+v", last)
	}
	// Questions that are sent ahead are answered in their order.
	for i := range 5 {
		c.send(fmt.Sprintf(`{"user_input":"echo %d","chat_messages":null,"later":{}}`, i))
	}
	for i := range 5 {
		if text, _, last := c.answer(); text != fmt.Sprint(i) || last.Kind != ailumina.Complete {
			t.Errorf("%d: %q %+v", i, text, last)
		}
	}
}

// Sentences are told while the model still speaks.
func TestAgentStreams(t *testing.T) {
	s := openAgentsWith(t, AgentOptions{}, script.Options{Script: "-- one --\nIt is one. It is two. It is three. It is four. It is five", Pace: 2 * time.Millisecond})
	c := s.dial(t, "AIlumina")
	c.send(`{"user_input":"count"}`)
	var got []string
	for {
		_, b, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, err := ailumina.DecodeEvent(b)
		if err != nil || e.Kind == ailumina.Complete {
			break
		}
		got = append(got, e.Text)
	}
	// Words may come without the end of their sentence where the machine is slow.
	if len(got) < 5 || strings.Join(got, "") != "It is one. It is two. It is three. It is four. It is five" {
		t.Errorf("%q", got)
	}
}

// The model sees what was said before, and the file.
func TestAgentHistoryAndFile(t *testing.T) {
	s := openAgents(t, AgentOptions{}, "-- one --\nfirst\n-- two --\nsecond\n-- three --\nthird\n")
	c := s.dial(t, "ailumina") // in any case
	// The script goes on by how often the model has spoken in the history.
	for n, want := range []string{"first", "second", "third"} {
		q := ailumina.Question{Input: "go on"}
		for range n {
			q.History = append(q.History, ailumina.Turn{Role: "user", Content: "hi"}, ailumina.Turn{Role: "assistant", Content: "said"}, ailumina.Turn{Role: "system", Content: "be kind"})
		}
		c.send(string(q.Append(nil)))
		if text, _, last := c.answer(); strings.TrimSpace(text) != want || last.Kind != ailumina.Complete {
			t.Errorf("with %d answers before: %q %+v", n, text, last)
		}
	}
	// Without a script left, the model says again what it was told.
	f, err := s.files.Put(t.Context(), &auth.Principal{Name: "ann"}, "list.txt", "", strings.NewReader("milk"))
	if err != nil {
		t.Fatal(err)
	}
	q := ailumina.Question{Input: "echo read it", FileID: f.ID, History: []ailumina.Turn{{Role: "assistant", Content: "1"}, {Role: "model", Content: "2"}, {Role: "ai", Content: "3"}}}
	c.send(string(q.Append(nil)))
	if text, _, last := c.answer(); !strings.Contains(text, `File "list.txt"`) || !strings.Contains(text, "milk") || last.Kind != ailumina.Complete {
		t.Errorf("%q %+v", text, last)
	}
}

func TestUnknownAgent(t *testing.T) {
	s := openAgents(t, AgentOptions{}, "")
	for _, tc := range []struct{ scope, agent, want string }{
		{"", "nwes", "Agent 'nwes' not found. Did you mean news? There are AIlumina, news."},
		{"new*", "AIlumina", "Agent 'AIlumina' not found. There are news."},
		{"other", "news", "Agent 'news' not found. There is none that you may use."},
	} {
		_, resp, err := websocket.Dial(t.Context(), s.url+tc.agent, &websocket.DialOptions{HTTPHeader: http.Header{"Scope": {tc.scope}}})
		if err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v %v", tc.agent, resp, err)
			continue
		}
		b := make([]byte, 1000)
		n, _ := resp.Body.Read(b) // at its end there is an error too
		if got := strings.TrimSpace(string(b[:n])); got != tc.want {
			t.Errorf("%s: %q", tc.agent, got)
		}
	}
}

// A client that leaves aborts what runs for it, and so does one that is cut off.
func TestAgentAbandoned(t *testing.T) {
	s := openAgents(t, AgentOptions{}, "")
	for name, leave := range map[string]func(*agentClient){
		"closes": func(c *agentClient) { _ = c.Close(websocket.StatusNormalClosure, "") },
		"dies":   func(c *agentClient) { _ = c.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			c := s.dial(t, "AIlumina")
			c.send(`{"user_input":"call box__hang"}`)
			<-s.box.hanging
			leave(c)
			await.Value(t, "the tool is stopped", s.box.released)
		})
	}
}

// A client hears of an agent that works for long, and nothing after the end.
func TestAgentStaysHeard(t *testing.T) {
	s := openAgents(t, AgentOptions{Silence: 20 * time.Millisecond}, "")
	c := s.dial(t, "AIlumina")
	c.send(`{"user_input":"call box__hang"}`)
	for empty := 0; empty < 3; {
		_, b, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(b) == `{"type":"sentence","sentence":""}` {
			empty++
		}
	}
}

// When the hub stops, the question that runs is answered first.
func TestAgentsClose(t *testing.T) {
	s := openAgents(t, AgentOptions{}, "")
	idle, busy := s.dial(t, "news"), s.dial(t, "AIlumina")
	busy.send(`{"user_input":"call box__hang"}`)
	<-s.box.hanging
	s.Close()
	if _, _, err := idle.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("an idle socket: %v", err)
	}
	if _, _, err := websocket.Dial(t.Context(), s.url+"news", nil); err == nil {
		t.Error("a socket was opened though the hub stops")
	}
	s.box.finish <- struct{}{}
	if text, _, last := busy.answer(); !strings.Contains(text, "finished") || last.Kind != ailumina.Complete {
		t.Errorf("%q %+v", text, last)
	}
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy socket: %v", err)
	}
}
