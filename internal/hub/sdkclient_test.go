//lint:file-ignore SA1019 what the protocol has deprecated is still to be carried

package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/matrix"
)

// sdkClients are go-sdk's clients of both eras at a hub.
func sdkClients(base string) []matrix.Make {
	var makes []matrix.Make
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		makes = append(makes, matrix.Make{Name: "go-sdk-" + string(era), Connect: func(t testing.TB, face string) matrix.Client {
			return dialSDK(t, base+face, era)
		}})
	}
	return makes
}

// sdkClient is a session of go-sdk as a client of the matrix.
type sdkClient struct {
	*sdk.ClientSession
	era   hubtest.Era
	level string

	mu    sync.Mutex
	last  matrix.Outcome
	heard map[string]int
}

func dialSDK(t testing.TB, url string, era hubtest.Era) *sdkClient {
	t.Helper()
	c := &sdkClient{era: era, heard: map[string]int{}}
	o := &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{},
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		ElicitationHandler:   c.elicit,
		CreateMessageHandler: c.sample,
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			c.note(func() { c.last.Progress = append(c.last.Progress, r.Params.Progress) })
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) {
			c.note(func() { c.last.Logs = append(c.last.Logs, fmt.Sprint(r.Params.Data)) })
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			c.note(func() { c.heard["notifications/tools/list_changed"]++ })
		},
		ResourceUpdatedHandler: func(context.Context, *sdk.ResourceUpdatedNotificationRequest) {
			c.note(func() { c.heard["notifications/resources/updated"]++ })
		},
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "oracle", Version: "1"}, o)
	client.AddRoots(&sdk.Root{URI: matrix.Root, Name: "colonnade"})
	transport := &http.Transport{}
	version := map[hubtest.Era]string{hubtest.Legacy: hubtest.LegacyVersion, hubtest.Modern: hubtest.ModernVersion}[era]
	var err error
	c.ClientSession, err = client.Connect(context.Background(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}},
		&sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		transport.CloseIdleConnections()
	})
	if got := c.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("speaks %s, want %s", got, version)
	}
	return c
}

func (c *sdkClient) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *sdkClient) elicit(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	res := &sdk.ElicitResult{Action: "accept"}
	c.note(func() {
		c.last.Asked = append(c.last.Asked, matrix.Question{Method: "elicitation/create", Mode: r.Params.Mode, Message: r.Params.Message, URL: r.Params.URL})
		if r.Params.Mode != "url" {
			res.Content = map[string]any{"name": fmt.Sprintf("Ada %d", len(c.last.Asked))}
		}
	})
	return res, nil
}

func (c *sdkClient) sample(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
	c.note(func() { c.last.Asked = append(c.last.Asked, matrix.Question{Method: "sampling/createMessage"}) })
	return &sdk.CreateMessageResult{Role: "assistant", Model: "m", Content: &sdk.TextContent{Text: matrix.Sampled}}, nil
}

func (c *sdkClient) Era() hubtest.Era { return c.era }

func (c *sdkClient) params(tool, args string) *sdk.CallToolParams {
	p := &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args), Meta: sdk.Meta{}}
	p.SetProgressToken("p")
	if c.level != "" && c.era == hubtest.Modern {
		p.Meta[sdk.MetaKeyLogLevel] = c.level
	}
	return p
}

func (c *sdkClient) Call(t testing.TB, tool, args string) matrix.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	c.note(func() { c.last = matrix.Outcome{} })
	res, err := c.CallTool(ctx, c.params(tool, args))
	var failed *jsonrpc.Error
	switch {
	case errors.As(err, &failed):
		c.note(func() { c.last.Code, c.last.Data = int(failed.Code), string(failed.Data) })
	case err != nil:
		t.Fatalf("%s: %v", tool, err)
	default:
		c.note(func() {
			c.last.IsError = res.IsError
			if text, ok := res.Content[0].(*sdk.TextContent); ok {
				c.last.Text = text.Text
			}
		})
	}
	return c.Last(t)
}

func (c *sdkClient) Last(testing.TB) (o matrix.Outcome) {
	c.note(func() {
		o = c.last
		o.Asked, o.Progress, o.Logs = slices.Clone(o.Asked), slices.Clone(o.Progress), slices.Clone(o.Logs)
	})
	return o
}

func (c *sdkClient) Begin(_ testing.TB, tool string) func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.CallTool(ctx, c.params(tool, "{}")) // it is given up
	}()
	return func() {
		cancel()
		<-done
	}
}

func (c *sdkClient) Level(t testing.TB, level string) {
	t.Helper()
	c.level = level
	if c.era == hubtest.Legacy {
		if err := c.SetLoggingLevel(context.Background(), &sdk.SetLoggingLevelParams{Level: sdk.LoggingLevel(level)}); err != nil {
			t.Fatalf("set the level: %v", err)
		}
	}
}

func (c *sdkClient) Listen(t testing.TB, uri string) func(string) int {
	t.Helper()
	if err := c.Subscribe(context.Background(), &sdk.SubscribeParams{URI: uri}); err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return func(method string) (n int) {
		c.note(func() { n = c.heard[method] })
		return n
	}
}

func (c *sdkClient) Tools(t testing.TB) []string {
	t.Helper()
	names := map[string]bool{}
	for tool, err := range c.ClientSession.Tools(context.Background(), nil) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		names[tool.Name] = true
	}
	return slices.Collect(maps.Keys(names))
}

var _ matrix.Client = (*sdkClient)(nil)
