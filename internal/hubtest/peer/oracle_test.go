//lint:file-ignore SA1019 an oracle has to speak what is deprecated, too

package peer

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// heard is what a client's handlers were told, in order.
type heard struct {
	mu     sync.Mutex
	events []string
}

func (h *heard) add(e string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *heard) has(e string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.events, e)
}

// oracle is a client of the official SDK that can all a peer asks for.
func oracle(h *heard) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "oracle", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": r.Params.Message}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "hello"}}, nil
		},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { h.add("tools") },
		ResourceUpdatedHandler:      func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { h.add(r.Params.URI) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { h.add(r.Params.Message) },
	})
	c.AddRoots(&mcp.Root{URI: "file:///root"})
	return c
}

// dial connects the oracle to a peer in one era over one transport.
func dial(t *testing.T, h *heard, spec Spec, overHTTP bool, version string) *mcp.ClientSession {
	t.Helper()
	var tr mcp.Transport
	if overHTTP {
		ht := &http.Transport{}
		t.Cleanup(ht.CloseIdleConnections)
		tr = &mcp.StreamableClientTransport{Endpoint: Serve(t, spec).URL, HTTPClient: &http.Client{Transport: ht}}
	} else {
		name, args, env := Command(spec)
		cmd := exec.Command(name, args...)
		cmd.Env = os.Environ()
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		cmd.Stderr = io.Discard
		tr = &mcp.CommandTransport{Command: cmd}
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cs, err := oracle(h).Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		if err := cs.Close(); err != nil {
			t.Logf("close: %v", err)
		}
	})
	return cs
}

func TestOracle(t *testing.T) {
	for _, era := range []Era{EraLegacy, EraModern, EraBoth} {
		for _, overHTTP := range []bool{false, true} {
			for _, version := range []string{Modern, Legacy, "2025-06-18"} {
				if era == EraModern && version != Modern {
					continue
				}
				name := string(era) + "/" + version + map[bool]string{true: "/http", false: "/stdio"}[overHTTP]
				t.Run(name, func(t *testing.T) {
					spec := everything()
					spec.Era = era
					spec.HTTP.JSON = era == EraBoth
					h := &heard{}
					cs := dial(t, h, spec, overHTTP, version)
					want := version
					if era == EraLegacy {
						want = min(version, Legacy)
					}
					if got := cs.InitializeResult().ProtocolVersion; got != want {
						t.Errorf("speaks %s, want %s", got, want)
					}
					interrogate(t, cs, h)
				})
			}
		}
	}
}

// interrogate uses all that the SDK can carry.
func interrogate(t *testing.T, cs *mcp.ClientSession, h *heard) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tools, err := cs.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != len(kinds)-1 {
		t.Fatalf("tools: %+v %v", tools, err)
	}
	const accept = `{"action":"accept","content":{"name":"?"}}`
	for tool, want := range map[string]string{
		"echo": `{"message":"?"}`, "progress": "done", "elicit": accept, "multi": "[" + accept + "," + accept + "," + accept + "]",
		"sample": `"text":"hello"`, "survey": `"text":"hello"`, "roots": "file:///root", "count": "1", "big": "xxx", "client": `"name":"oracle"`,
	} {
		p := &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": "?"}}
		p.SetProgressToken("token-" + tool)
		res, err := cs.CallTool(ctx, p)
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		if got := text(res); res.IsError || got != want && !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", tool, got, want)
		}
	}
	await.Until(t, "progress is heard", func() bool { return h.has("step 3 of 3") })
	read, err := cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mem://b"})
	if err != nil || cmp.Diff("beta", read.Contents[0].Text) != "" {
		t.Errorf("read: %+v %v", read, err)
	}
	if got, err := cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet"}); err != nil || len(got.Messages) != 1 {
		t.Errorf("prompt: %+v %v", got, err)
	}
	if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "error"}); err == nil {
		t.Error("the literal error got lost")
	}
	if err := cs.Subscribe(ctx, &mcp.SubscribeParams{URI: "mem://a"}); err != nil {
		t.Errorf("subscribe: %v", err)
	}
	// The SDK's streams open in the background: provoke until one hears.
	provoke := func(tool, event string) {
		await.Until(t, event+" is heard", func() bool {
			if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: tool}); err != nil {
				t.Errorf("%s: %v", tool, err)
			}
			return h.has(event)
		})
	}
	provoke("notify", "tools")
	provoke("touch", "mem://a")
	if tools, err = cs.ListTools(ctx, nil); err != nil || len(tools.Tools) < len(kinds) {
		t.Errorf("tools after notify: %+v %v", tools, err)
	}
}

func text(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if tc, ok := c.(*mcp.TextContent); ok {
			b.WriteString(tc.Text)
		}
	}
	return b.String()
}
