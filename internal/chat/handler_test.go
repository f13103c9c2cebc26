package chat

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// recorder is a stream that keeps the messages of progress.
type recorder struct {
	mu   sync.Mutex
	said []string
	last float64
}

func (r *recorder) Notify(method string, params []byte) {
	var p struct {
		ProgressToken string
		Progress      float64
		Message       string
	}
	err := json.Unmarshal(params, &p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || method != mcp.NoteProgress || p.ProgressToken != "tok" || p.Progress <= r.last {
		r.said = append(r.said, "wrong: "+method+" "+string(params))
	}
	r.said, r.last = append(r.said, p.Message), p.Progress
}

func (r *recorder) Flush()       {}
func (r *recorder) CanAsk() bool { return false }
func (r *recorder) Ask(context.Context, string, []byte) (mcp.Response, error) {
	return mcp.Response{}, errors.New("nobody can be asked")
}

// agentConn is a connection to an agent, by which tests ask it.
type agentConn struct {
	*mcp.LocalConn
	t *testing.T
}

func serveAgent(t *testing.T, s *stage, name string, era mcp.Era) *agentConn {
	t.Helper()
	h, err := NewHandler(s.e, name)
	if err != nil {
		t.Fatal(err)
	}
	c := mcp.LocalTo(h, mcp.ConnOptions{})
	t.Cleanup(c.Close)
	if era == mcp.Modern {
		_, err = mcp.Discover(t.Context(), c)
	} else {
		_, err = mcp.Initialize(t.Context(), c, []byte("{}"), []byte(`{"name":"t","version":"1"}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &agentConn{c, t}
}

// ask calls the tool and returns its text, or the error object.
func (c *agentConn) ask(ctx context.Context, tool, args, chain string, to mcp.Stream) (text string, isError bool, refusal string, err error) {
	c.t.Helper()
	params := []byte(`{"name":"` + tool + `","arguments":` + args + `}`)
	o := &mcp.Outgoing{Method: "tools/call", Raw: params, Fields: wire.Members(params), Stream: to}
	if chain != "" {
		o.Annotate(metaChain, wire.Quote(chain))
	}
	if to != nil {
		o.Token = []byte(`"tok"`)
	}
	resp, err := c.Call(ctx, o)
	if err != nil || resp.Error != nil {
		return "", false, string(resp.Error), err
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(resp.Result, &r); err != nil || len(r.Content) != 1 {
		c.t.Fatalf("%s: %v", resp.Result, err)
	}
	return r.Content[0].Text, r.IsError, "", nil
}

func agentStage(t *testing.T, script string) *stage {
	return newStage(t, staged{quiet: true, script: script, settings: Settings{Agents: []Agent{{Name: "AIlumina", Description: "Knows it all."}}}})
}

func TestAgentAsServer(t *testing.T) {
	for _, era := range []mcp.Era{mcp.Legacy, mcp.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			s := agentStage(t, "")
			c := serveAgent(t, s, "AIlumina", era)
			resp, err := c.Call(t.Context(), &mcp.Outgoing{Method: "tools/list", Raw: []byte("{}")})
			tools, _ := wire.Elements(wire.Get(resp.Result, "tools"))
			if err != nil || len(tools) != 1 {
				t.Fatalf("%s %v", resp.Result, err)
			}
			if text, _ := wire.String(wire.Get(tools[0], "description")); text != "Knows it all." {
				t.Errorf("it is described by %q", text)
			}
			if _, err := schema.Compile(wire.Get(tools[0], "inputSchema")); err != nil {
				t.Error(err)
			}
			var to recorder
			text, isError, _, err := c.ask(t.Context(), "chat", `{"user_input":"call srv__echo {\"text\":\"One. Two.\"}","chat_messages":[{"role":"user","content":"hi","x":1},{"role":"assistant","content":"hello"}]}`, "links", &to)
			if err != nil || isError || text != "srv__echo answered:\n| One. Two.\n" {
				t.Errorf("%q %t %v", text, isError, err)
			}
			// Together, the messages are the answer; the tool counts as a sign of life.
			if joined := strings.Join(to.said, ""); joined != text || to.last < 3 {
				t.Errorf("progress said %q", to.said)
			}
			if got := s.shop.metas[len(s.shop.metas)-1]; !strings.Contains(got, `"stoa/chain":"links"`) {
				t.Errorf("the tool was not told of which calls it comes: %s", got)
			}
			if text, _, _, err := c.ask(t.Context(), "chat", `{"user_input":"echo quiet"}`, "", nil); err != nil || text != "quiet" {
				t.Errorf("without a progress token: %q %v", text, err)
			}
		})
	}
}

func TestAgentAsServerSaysNo(t *testing.T) {
	s := agentStage(t, "-- error blocked --\n")
	c := serveAgent(t, s, "AIlumina", mcp.Modern)
	for args, want := range map[string]string{
		`{}`:                  "user_input is required",
		`{"user_input":1}`:    "user_input",
		`{"user_input":"  "}`: "user_input is empty",
		`{"user_input":"x","chat_messages":[{"role":"","content":""}]}`: "chat_messages[0].role",
		`{"user_input":"x","fileId":"f"}`:                               "takes no files",
		`{"user_input":"x"}`:                                            "withheld the answer for its safety rules",
	} {
		text, isError, refusal, err := c.ask(t.Context(), "chat", args, "", nil)
		if err != nil || !isError && refusal == "" || !strings.Contains(text+refusal, want) {
			t.Errorf("%s: %q %q %v", args, text, refusal, err)
		}
	}
	if _, _, refusal, _ := c.ask(t.Context(), "chta", `{}`, "", nil); !strings.Contains(refusal, "unknown_tool") {
		t.Error(refusal)
	}
	gone := serveAgent(t, s, "nobody", mcp.Legacy)
	if _, _, refusal, _ := gone.ask(t.Context(), "chat", `{"user_input":"x"}`, "", nil); !strings.Contains(refusal, "unknown_agent") {
		t.Error(refusal)
	}
}

// A call that is cancelled ends the run, and the tool that it waits for.
func TestAgentAsServerCancelled(t *testing.T) {
	s := agentStage(t, "")
	c := serveAgent(t, s, "AIlumina", mcp.Legacy)
	running, ended := make(chan struct{}), make(chan struct{})
	s.shop.add("srv__hold", `{"readOnlyHint":true}`, func(ctx context.Context, _ *mcp.Request, _ json.RawMessage) (string, error) {
		close(running)
		<-ctx.Done()
		close(ended)
		return "", context.Cause(ctx)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, _, err := c.ask(ctx, "chat", `{"user_input":"call srv__hold"}`, "", nil)
		done <- err
	}()
	<-running
	cancel()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the tool still runs")
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
