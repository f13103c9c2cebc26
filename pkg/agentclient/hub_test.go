package agentclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/pkg/agentclient"
)

const mirrored = `{"name":"mirror","inputSchema":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}}`

func worker() peer.Spec {
	return peer.Spec{
		Name: "worker",
		List: peer.List{PageSize: 2},
		Tools: []peer.Tool{
			{Name: "echo"},
			{Name: "größe ☃"},
			{Name: "refuse", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not today","data":{"why":["rain"]}}`}},
			{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true}`}},
			{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3}},
			{Name: "hang", Behaviour: peer.Do(peer.Slow)},
			{Name: "params", Behaviour: peer.Do(peer.Params)},
			{Name: "mirror", RawDefinition: mirrored},
		},
		Resources: []peer.Resource{{URI: "test://text", Text: "a text"}},
		Prompts:   []peer.Prompt{{Name: "greet"}},
	}
}

func slow(s peer.Spec) peer.Spec {
	for i := range s.Tools {
		if s.Tools[i].Name == "hang" {
			s.Tools[i].Behaviour.For = time.Hour
		}
	}
	return s
}

func router(h *hubtest.Hub) agentclient.Options { return agentclient.Options{URL: h.URL} }

func TestAgent(t *testing.T) {
	for _, era := range []peer.Era{peer.EraModern, peer.EraLegacy} {
		t.Run(string(era), func(t *testing.T) {
			spec := worker()
			spec.Era = era
			up := peer.Serve(t, spec)
			h := hubtest.New(t, hubtest.HTTP("worker", up.URL))
			c, ctx := open(t, router(h)), t.Context()
			h.Settle(ctx) // only tools that the hub has read have headers that it can make

			tools, err := c.ListTools(ctx, "worker")
			var names []string
			for _, tool := range tools {
				names = append(names, tool.Name)
			}
			want := []string{"echo", "größe ☃", "refuse", "no", "steps", "hang", "params", "mirror"}
			if diff := cmp.Diff(want, names); err != nil || diff != "" {
				t.Errorf("tools of every page: %v %s", err, diff)
			}
			for _, tool := range []string{"echo", "größe ☃", "mirror"} {
				r, err := c.CallTool(ctx, "worker", tool, map[string]any{"city": "Zürich"})
				if err != nil || r.IsError || !strings.Contains(r.Text(), "Zürich") || string(r.Structured) != `{"city":"Zürich"}` {
					t.Errorf("call %s: %+v %v", tool, r, err)
				}
			}
			if r, err := c.CallTool(ctx, "worker", "no", nil); err != nil || !r.IsError || r.Text() != "no" {
				t.Errorf("a tool that says no: %+v %v", r, err)
			}
			resources, err := c.ListResources(ctx, "worker")
			if err != nil || len(resources) != 1 || resources[0].URI != "test://text" {
				t.Errorf("resources: %+v %v", resources, err)
			}
			contents, err := c.ReadResource(ctx, "worker", "test://text")
			if err != nil || len(contents) != 1 || contents[0].Text != "a text" {
				t.Errorf("contents: %+v %v", contents, err)
			}
			prompts, err := c.ListPrompts(ctx, "worker")
			if err != nil || len(prompts) != 1 || prompts[0].Name != "greet" {
				t.Errorf("prompts: %+v %v", prompts, err)
			}
			messages, err := c.GetPrompt(ctx, "worker", "greet", map[string]string{"who": "you"})
			if err != nil || len(messages) != 1 || messages[0].Role != "user" || !strings.Contains(string(messages[0].Content), "you") {
				t.Errorf("messages: %+v %v", messages, err)
			}
		})
	}
}

func TestAgentRefuses(t *testing.T) {
	up := peer.Serve(t, slow(worker()))
	gone := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}}})
	gone.Kill()
	h := hubtest.New(t, hubtest.HTTP("worker", up.URL), hubtest.HTTP("gone", gone.URL))
	c := open(t, router(h))
	for _, tc := range []struct {
		agent, tool string
		want        agentclient.Error
	}{
		{"nobody", "echo", agentclient.Error{Code: -32601, Status: http.StatusNotFound, Kind: "unknown_agent"}},
		{"gone", "echo", agentclient.Error{Code: -32603, Status: http.StatusBadGateway, Kind: "unreachable", Retryable: true}},
		{"worker", "nothing", agentclient.Error{Code: -32602, Status: http.StatusBadRequest}},
		{"worker", "refuse", agentclient.Error{Code: -32099, Status: http.StatusOK, Data: json.RawMessage(`{"why":["rain"]}`)}},
	} {
		t.Run(tc.agent+" "+tc.tool, func(t *testing.T) {
			_, err := c.CallTool(t.Context(), tc.agent, tc.tool, nil)
			e, ok := errors.AsType[*agentclient.Error](err)
			if !ok {
				t.Fatalf("%v", err)
			}
			if e.Agent != tc.agent || e.Message == "" {
				t.Errorf("it does not say what happened to whom: %v", e)
			}
			if e.Code != tc.want.Code || e.Status != tc.want.Status || e.Kind != tc.want.Kind || e.Retryable != tc.want.Retryable {
				t.Errorf("%+v, want %+v", *e, tc.want)
			}
			if tc.want.Data != nil && string(e.Data) != string(tc.want.Data) {
				t.Errorf("data %s, want %s", e.Data, tc.want.Data)
			}
		})
	}
	if _, err := c.ListTools(t.Context(), "nobody"); err == nil {
		t.Error("an unknown agent has a list of tools")
	}
}

func TestCancelledCallStops(t *testing.T) {
	up := peer.Serve(t, slow(worker()))
	h := hubtest.New(t, hubtest.HTTP("worker", up.URL))
	c := open(t, router(h))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "worker", "hang", nil)
		done <- err
	}()
	await.Until(t, "the agent is at work", func() bool { return len(up.State().Called) > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	await.Until(t, "the agent has stopped", func() bool { return len(up.State().Cancelled) > 0 })
}

func TestProgress(t *testing.T) {
	up := peer.Serve(t, worker())
	h := hubtest.New(t, hubtest.HTTP("worker", up.URL))
	c := open(t, router(h))
	var told []agentclient.Progress
	_, err := c.Call(t.Context(), agentclient.Call{Agent: "worker", Tool: "steps", Progress: func(p agentclient.Progress) { told = append(told, p) }})
	want := []agentclient.Progress{{1, 3, "step 1 of 3"}, {2, 3, "step 2 of 3"}, {3, 3, "step 3 of 3"}}
	if diff := cmp.Diff(want, told); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// A queue that is full refuses at once; a client that may retry gets its turn.
func TestQueue(t *testing.T) {
	up := peer.Serve(t, slow(worker()))
	h := hubtest.New(t, hubtest.HTTP("worker", up.URL, func(s *config.Server) {
		s.Queue = &config.Queue{Concurrency: 1, Timeout: time.Minute}
	}))
	impatient := open(t, router(h))
	opt := router(h)
	opt.Retries = 100
	patient := open(t, opt)

	ctx, cancel := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	holding.Go(func() { _, _ = impatient.CallTool(ctx, "worker", "hang", nil) })
	await.Until(t, "the slot is taken", func() bool { return len(up.State().Called) > 0 })
	_, err := impatient.CallTool(t.Context(), "worker", "echo", nil)
	e, ok := errors.AsType[*agentclient.Error](err)
	if !ok || e.Kind != "queue_full" || !e.Retryable || !strings.Contains(string(e.Data), `"capacity":0`) {
		t.Errorf("a full queue: %+v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := patient.CallTool(t.Context(), "worker", "echo", nil)
		waited <- err
	}()
	cancel()
	holding.Wait()
	if err := <-waited; err != nil {
		t.Errorf("one that retries: %v", err)
	}
}

// What an agent was told of the call it serves goes along with those it makes.
func TestChain(t *testing.T) {
	up := peer.Serve(t, worker())
	h := hubtest.New(t, hubtest.HTTP("worker", up.URL, func(s *config.Server) { s.Queue = &config.Queue{Concurrency: 1, Capacity: 10, Timeout: time.Minute} }))
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	meta := func(c *agentclient.Client, ctx context.Context) map[string]any {
		t.Helper()
		r, err := c.CallTool(ctx, "worker", "params", nil)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Meta map[string]any `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(r.Text()), &p); err != nil {
			t.Fatal(err)
		}
		return p.Meta
	}
	first := meta(open(t, router(h)), t.Context())
	chain := agentclient.FromMeta(first)
	if chain.Chain == "" {
		t.Fatalf("the hub minted no chain: %v", first)
	}
	chain.TraceParent = trace
	second := agentclient.FromMeta(meta(open(t, router(h)), agentclient.WithChain(t.Context(), chain)))
	if second.Chain == "" || second.Chain == chain.Chain || !strings.Contains(second.TraceParent, "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("the second call carries %+v", second)
	}

	t.Setenv("STOA_CHAIN", chain.Chain)
	t.Setenv("TRACEPARENT", trace)
	if got := agentclient.FromMeta(meta(open(t, router(h)), t.Context())); !strings.Contains(got.TraceParent, "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("a command's call carries %+v", got)
	}
	t.Setenv("STOA_CHAIN", "made up")
	if _, err := open(t, router(h)).CallTool(t.Context(), "worker", "params", nil); err == nil {
		t.Error("the chain in the environment did not reach the hub, which refuses what it did not sign")
	}
}

func TestToken(t *testing.T) {
	up := peer.Serve(t, worker())
	h := hubtest.New(t, hubtest.HTTP("worker", up.URL), hubtest.Config(func(c *config.Config) {
		required := true
		c.Auth.Required = &required
	}))
	u, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROUTER_HOST", u.Hostname())
	t.Setenv("ROUTER_PORT", u.Port())
	_, err = open(t, agentclient.Options{}).ListTools(t.Context(), "worker")
	if e, ok := errors.AsType[*agentclient.Error](err); !ok || e.Status != http.StatusUnauthorized || e.Kind != "unauthorized" {
		t.Errorf("without a token: %+v", err)
	}
	t.Setenv("AGENT_TOKEN", h.Token)
	if _, err = open(t, agentclient.Options{}).ListTools(t.Context(), "worker"); err != nil {
		t.Errorf("with the token of the environment: %v", err)
	}
}
