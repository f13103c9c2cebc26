package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// handler is one agent as an MCP server with the tool chat. Nothing is kept
// between calls.
type handler struct {
	engine *Engine
	name   string
	input  *schema.Schema
}

// input is the schema of what all agents take.
var input = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile([]byte(ailumina.ToolInput)) })

// NewHandler returns the agent of that name as an MCP server. What it says is
// told as progress to callers that ask for it. That the agent does not come to
// an answer is a result with isError.
func NewHandler(e *Engine, agent string) (mcp.Handler, error) {
	s, err := input()
	if err != nil {
		return nil, fmt.Errorf("compile the schema of the tool %s: %w", ailumina.ToolName, err)
	}
	return &handler{engine: e, name: agent, input: s}, nil
}

// Handle answers one request.
func (h *handler) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.IsNote {
		return mcp.Response{}, nil
	}
	switch req.Method {
	case "initialize", "server/discover":
		return mcp.Introduce(req.Client, []byte(`{"logging":{},"tools":{}}`), mcp.ServerInfo(h.name, h.name), h.agent().Description)
	case "logging/setLevel":
		return mcp.Response{Result: []byte("{}")}, nil // the client's own connection heeds it
	case "tools/list":
		return complete(req, ailumina.Tools(h.agent().Description, ailumina.Governed))
	case "tools/call":
		if name, _ := req.Text("name"); name != ailumina.ToolName {
			f := fault.New(fault.UnknownTool, name, "unknown tool")
			f.Hint = "An agent has one tool, " + ailumina.ToolName + "."
			return mcp.Response{}, f
		}
		text, isError, err := h.chat(ctx, req)
		if err != nil {
			return mcp.Response{}, err
		}
		return complete(req, ailumina.ToolText(text, isError))
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

func complete(req *mcp.Request, raw []byte) (mcp.Response, error) {
	if req.Client.Era == mcp.Modern {
		raw = mcp.Complete(req.Method, raw)
	}
	return mcp.Response{Result: raw}, nil
}

// chat runs the agent for one question.
func (h *handler) chat(ctx context.Context, req *mcp.Request) (text string, isError bool, err error) {
	args := req.Param("arguments")
	if args == nil {
		args = []byte("{}")
	}
	if wrong := schema.Describe(h.input.Validate(args)); wrong != "" {
		return wrong, true, nil
	}
	q, err := ailumina.DecodeArguments(args)
	if err != nil {
		return err.Error(), true, nil
	}
	done := 0
	text, err = h.engine.Ask(ctx, Asker{By: req.Client.Actor, Session: req.Session, Chain: metaText(req, metaChain), Trace: obs.Parent{Traceparent: metaText(req, "traceparent"), Tracestate: metaText(req, "tracestate")}, Correlation: req.Correlation}, h.name, q, func(e ailumina.Event) {
		if req.Token == nil {
			if e.Notice { // whoever waits without asking how far it is should know why
				req.Tell(0, strings.Trim(e.Text, "\n[]"))
			}
			return
		}
		// Sentences are the message; that a tool runs says only that the agent
		// is at work. Put together, the messages are the answer so far, save
		// notices in brackets.
		done++
		req.Stream.Notify(mcp.NoteProgress, mcp.Progress(req.Token, float64(done), -1, e.Text))
		req.Stream.Flush()
	})
	if no, ok := errors.AsType[*ailumina.AgentError](err); ok {
		return no.Text, true, nil
	}
	return text, false, err
}

// text is a text of a request's _meta; "" if there is none.
func metaText(req *mcp.Request, name string) string {
	for _, f := range req.Meta {
		if string(f.Name) == name {
			text, _ := wire.String(f.Value)
			return text
		}
	}
	return ""
}

// agent is the agent as it is configured now; one that is not any more says so
// when it is asked.
func (h *handler) agent() Agent {
	a, _ := h.engine.Agent(h.name)
	return a
}

// Attach has nobody to tell: the tool never changes.
func (h *handler) Attach(*mcp.Listener) (stop func()) { return func() {} }

// Subscribe fails: there are no resources.
func (h *handler) Subscribe(_ context.Context, _ *mcp.Listener, uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "it cannot be subscribed to here")
}

// Unsubscribe has nothing to undo.
func (h *handler) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

var _ mcp.Handler = (*handler)(nil)
