package bridge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// AgentOptions say where one agent is.
type AgentOptions struct {
	Name    string        // how it is called
	URL     string        // its own, as ws://localhost:8000/ws/news
	Header  http.Header   // of the handshake
	TLS     *tls.Config   // for wss; nil means the usual rules
	Connect time.Duration // to connect; 0 means Timeout
	Timeout time.Duration // to wait for each message; 0 means 30 s
	Max     time.Duration // for a whole answer; 0 means 10 min
}

// Agent is one WebSocket agent as an MCP server with the tool chat, whose
// answer is plain text. It is an mcp.Handler. That the agent cannot be reached
// is a fault; what the agent itself says went wrong is a result.
type Agent struct {
	name  string
	to    *url.URL
	opts  ailumina.Options
	input *schema.Schema
}

// NewAgent returns an agent. It connects to nothing.
func NewAgent(o AgentOptions) (*Agent, error) {
	to, err := ailumina.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the url of the agent cannot be used: %w", err)
	}
	s, err := schema.Compile([]byte(ailumina.ToolInput))
	if err != nil {
		return nil, fmt.Errorf("compile the tool's schema: %w", err)
	}
	return &Agent{name: o.Name, to: to, input: s, opts: ailumina.Options{Header: o.Header, TLS: o.TLS, Connect: o.Connect, Timeout: o.Timeout, Max: o.Max}}, nil
}

// Handle answers one request.
func (a *Agent) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.IsNote {
		return mcp.Response{}, nil
	}
	switch req.Method {
	case "initialize", "server/discover":
		return mcp.Introduce(req.Client, []byte(`{"tools":{}}`), mcp.ServerInfo(a.name, a.name), "")
	case "tools/list":
		return answer(req, ailumina.Tools("", ailumina.Foreign))
	case "tools/call":
		if name, _ := req.Text("name"); name != ailumina.ToolName {
			return mcp.Response{}, fault.New(fault.UnknownTool, name, "unknown tool")
		}
		raw, err := a.chat(ctx, req)
		if err != nil {
			return mcp.Response{}, err
		}
		return answer(req, raw)
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

// chat puts a question.
func (a *Agent) chat(ctx context.Context, req *mcp.Request) ([]byte, error) {
	args := req.Param("arguments")
	if args == nil {
		args = []byte("{}")
	}
	if text := schema.Describe(a.input.Validate(args)); text != "" {
		return ailumina.ToolText(text, true), nil
	}
	q, err := ailumina.DecodeArguments(args)
	if err != nil {
		return ailumina.ToolText(err.Error(), true), nil
	}
	o := a.opts
	o.Header = chained(o.Header, req)
	c, err := ailumina.Dial(ctx, a.to, o)
	if err != nil {
		return nil, a.about(err)
	}
	defer c.Close()
	t := teller{req: req}
	text, err := c.Chat(ctx, q, t.tell)
	if no, ok := errors.AsType[*ailumina.AgentError](err); ok {
		return ailumina.ToolText(no.Text, true), nil
	}
	if err != nil {
		return nil, a.about(err)
	}
	return ailumina.ToolText(text, false), nil
}

// metaChain says which calls a call comes of. An agent of a hub is told, so that
// agents which ask each other in a circle come to an end.
const metaChain = "stoa/chain"

// carried are the headers of a handshake by which an agent knows what a member of
// a request's _meta says.
var carried = map[string]string{metaChain: ailumina.HeaderChain, "traceparent": "Traceparent", "tracestate": "Tracestate"}

// chained is the header of a handshake with the chain and the trace that a
// request came with.
func chained(h http.Header, req *mcp.Request) http.Header {
	for _, f := range req.Meta {
		name := carried[string(f.Name)]
		text, ok := wire.String(f.Value)
		if name == "" || !ok || strings.ContainsAny(text, "\r\n") {
			continue
		}
		if h = h.Clone(); h == nil {
			h = http.Header{}
		}
		h.Set(name, text)
	}
	return h
}

// about names the agent in a fault that names nothing.
func (a *Agent) about(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Subject == "" {
		named := *f // it may be the cause of a context, which others see too
		named.Subject = a.name
		return &named
	}
	return err
}

// Attach has nobody to tell: the tool never changes.
func (a *Agent) Attach(*mcp.Listener) (stop func()) { return func() {} }

// Subscribe fails: there are no resources.
func (a *Agent) Subscribe(_ context.Context, _ *mcp.Listener, uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "it cannot be subscribed to here")
}

// Unsubscribe has nothing to undo.
func (a *Agent) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

var _ mcp.Handler = (*Agent)(nil)
