//lint:file-ignore SA1019 what the protocol has deprecated is still to be carried

package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/matrix"
	"github.com/stoahub/stoa/internal/secret"
)

// sdkVar makes the test binary a stdio server of go-sdk; it holds the JSON of
// an sdkServer.
const sdkVar = "STOA_SDK_SERVER"

// sdkServer is a server of the matrix made with go-sdk.
type sdkServer struct {
	Era        hubtest.Era
	State, URI string

	mu    sync.Mutex
	count int // of what grow and touch did
	gated map[string]bool
}

// sdkMain runs the server that the environment describes and exits; without
// one it returns at once.
func sdkMain() {
	v := os.Getenv(sdkVar)
	if v == "" {
		return
	}
	var s sdkServer
	err := json.Unmarshal([]byte(v), &s)
	if err == nil {
		err = s.make().Run(context.Background(), &sdk.StdioTransport{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// TestMatrixWithOfficialServers runs the matrix with go-sdk's servers behind
// the hub, and with clients of our own and of go-sdk before it.
func TestMatrixWithOfficialServers(t *testing.T) {
	hubtest.Parallel(t)
	var servers []matrix.Server
	var edits []hubtest.Edit
	var ends []func()
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, transport := range []string{"stdio", "http"} {
			m := matrixServer(t, era, transport)
			m.Presumes = true
			servers = append(servers, m)
			for _, name := range []string{m.Name, m.Own} {
				s := &sdkServer{Era: era, State: m.State, URI: "mem://" + name}
				edit := func(c *config.Server) {
					// It answers initialize whatever it is told to support.
					c.Protocol = config.Protocol(era)
					if name == m.Own {
						c.Sharing = config.PerSession
					}
				}
				if transport == "stdio" {
					edits = append(edits, hubtest.HTTP(name, "", edit, s.child(t)))
					continue
				}
				srv := httptest.NewServer(s.handler())
				ends = append(ends, func() {
					srv.CloseClientConnections()
					srv.Close()
				})
				edits = append(edits, hubtest.HTTP(name, srv.URL, edit))
			}
		}
	}
	h := hubtest.New(t, edits...)
	t.Cleanup(func() {
		h.Stop()
		for _, c := range ends {
			c()
		}
	})
	makes := []matrix.Make{matrix.Raw(h.URL, hubtest.Legacy), matrix.Raw(h.URL, hubtest.Modern)}
	if soak(0, 1) == 1 { // TestMatrix has them before servers of either era
		makes = append(makes, sdkClients(h.URL)...)
	}
	matrix.Each(t, makes, servers)
}

// child makes the upstream a process of this binary.
func (s *sdkServer) child(t *testing.T) func(*config.Server) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func(c *config.Server) {
		c.Transport, c.URL, c.Command, c.Args = config.Stdio, "", self, []string{"-test.run=^$"}
		c.Env = map[string]secret.String{sdkVar: secret.New(string(b)), "GORACE": secret.New("atexit_sleep_ms=0")}
	}
}

// handler serves one era: only a stateless handler speaks the modern one.
func (s *sdkServer) handler() http.Handler {
	server := s.make()
	modern := s.Era == hubtest.Modern
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: modern, PropagateRequestCancellation: modern})
}

func (s *sdkServer) make() *sdk.Server {
	s.gated = map[string]bool{}
	versions := []string{hubtest.ModernVersion}
	if s.Era == hubtest.Legacy {
		versions = []string{hubtest.LegacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"}
	}
	none := func(context.Context, *sdk.SubscribeRequest) error { return nil }
	server := sdk.NewServer(&sdk.Implementation{Name: "oracle", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: versions,
		SubscribeHandler: none, UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil }})
	server.AddResource(&sdk.Resource{URI: s.URI, Name: "a"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: s.URI, Text: "a"}}}, nil
	})
	for name, handle := range map[string]sdk.ToolHandler{
		"echo": s.echo, "steps": s.steps, "paced": s.steps, "slow": s.slow, "multi": s.multi, "visit": s.visit, "gate": s.gate, "sample": s.sample, "roots": s.roots,
		"rude": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: -31999, Message: "no", Data: json.RawMessage(`{"n":7,"x":["a",null]}`)}
		},
		"grow": func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			name := fmt.Sprintf("extra_%d", s.next())
			server.AddTool(&sdk.Tool{Name: name, InputSchema: anyObject}, s.echo)
			return said(name), nil
		},
		"touch": func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			err := server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: s.URI})
			return said(fmt.Sprintf("version %d", s.next())), err
		},
	} {
		server.AddTool(&sdk.Tool{Name: name, InputSchema: anyObject}, handle)
	}
	return server
}

var anyObject = json.RawMessage(`{"type":"object"}`)

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func told(v any) (*sdk.CallToolResult, error) {
	b, err := json.Marshal(v)
	return said(string(b)), err
}

func (s *sdkServer) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	return s.count
}

func (s *sdkServer) echo(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return said(string(r.Params.Arguments)), nil
}

func (s *sdkServer) steps(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	for i := 1; i <= 3; i++ {
		text := fmt.Sprintf("step %d of 3", i)
		err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Total: 3, Message: text})
		err = errors.Join(err, r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: text}))
		if err != nil {
			return nil, err
		}
	}
	return said("done"), nil
}

func (s *sdkServer) slow(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if err := s.journal("called slow"); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, errors.Join(ctx.Err(), s.journal("cancelled slow"))
}

// journal writes to the state file as peers do.
func (s *sdkServer) journal(line string) error {
	f, err := os.OpenFile(s.State, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// ask asks in the way of the era. Without an answer the result is to be
// returned: it is the question.
func (s *sdkServer) ask(ctx context.Context, r *sdk.CallToolRequest, state string, q sdk.InputRequest) (answer any, _ *sdk.CallToolResult, err error) {
	if s.Era == hubtest.Modern {
		if answer := r.Params.InputResponses["q"]; answer != nil && r.Params.RequestState == state {
			return answer, nil, nil
		}
		return nil, &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": q}, RequestState: state}, nil
	}
	switch q := q.(type) {
	case *sdk.ElicitParams:
		answer, err = r.Session.Elicit(ctx, q)
	case *sdk.CreateMessageParams:
		answer, err = r.Session.CreateMessage(ctx, q)
	case *sdk.ListRootsParams:
		answer, err = r.Session.ListRoots(ctx, q)
	}
	return answer, nil, err
}

func (s *sdkServer) askOnce(ctx context.Context, r *sdk.CallToolRequest, q sdk.InputRequest) (*sdk.CallToolResult, error) {
	answer, question, err := s.ask(ctx, r, "once", q)
	if err != nil || question != nil {
		return question, err
	}
	return told(answer)
}

func (s *sdkServer) multi(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	form := &sdk.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)}
	var answers []any
	state := ""
	if s.Era == hubtest.Modern && r.Params.RequestState != "" {
		// The state is the answers so far. Who makes one up harms only itself.
		state = r.Params.RequestState
		if err := json.Unmarshal([]byte(state), &answers); err != nil {
			return nil, err
		}
	} else {
		state = "[]"
	}
	for len(answers) < 3 {
		answer, question, err := s.ask(ctx, r, state, form)
		if err != nil || question != nil {
			return question, err
		}
		answers = append(answers, answer)
		b, err := json.Marshal(answers)
		if err != nil {
			return nil, err
		}
		state = string(b)
	}
	return told(answers)
}

func (s *sdkServer) there() *sdk.ElicitParams {
	p := &sdk.ElicitParams{Mode: "url", URL: "https://login.example/", Message: "Please log in"}
	if s.Era == hubtest.Legacy {
		p.ElicitationID = fmt.Sprintf("visit-%d", s.next())
	}
	return p
}

func (s *sdkServer) visit(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return s.askOnce(ctx, r, s.there())
}

func (s *sdkServer) gate(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	s.mu.Lock()
	key := string(r.Params.Arguments)
	was := s.gated[key]
	s.gated[key] = !was
	s.mu.Unlock()
	if was {
		return said("welcome"), nil
	}
	return nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{s.there()})
}

func (s *sdkServer) sample(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return s.askOnce(ctx, r, &sdk.CreateMessageParams{MaxTokens: 16, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "Say hello"}}}})
}

func (s *sdkServer) roots(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return s.askOnce(ctx, r, &sdk.ListRootsParams{})
}
