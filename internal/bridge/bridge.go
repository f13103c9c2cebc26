package bridge

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/spell"
)

// DefaultURL is where the server of the agents is, if nobody says otherwise.
const DefaultURL = "ws://localhost:8000"

// Options say where the agents are.
type Options struct {
	URL     string        // of their server; "" means DefaultURL
	Token   secret.String // for that server alone; empty for none
	Hosts   []string      // that server_url may name besides the server's own and this machine; "*" for all
	Agents  []string      // agent types besides those that always exist
	Header  http.Header   // of the handshake with that server alone; nil for none
	TLS     *tls.Config   // for that server alone, at a wss address; nil means the usual rules
	Connect time.Duration // to connect; 0 means Timeout
	Timeout time.Duration // to wait for each message; 0 means 30 s
	Max     time.Duration // for a whole answer; 0 means 10 min
	// Elsewhere is asked for advice when nobody listens at an address; it may
	// be nil.
	Elsewhere func() string
	Logger    *slog.Logger // nil discards
}

// Bridge serves the tool, and resources that tell of the agents. It is an mcp.Handler.
type Bridge struct {
	opts      Options
	base      *url.URL
	tool      *tool
	resources *resources
	log       *slog.Logger
}

// New returns a bridge. It connects to nothing.
func New(o Options) (*Bridge, error) {
	o.URL = cmp.Or(o.URL, DefaultURL)
	base, err := ailumina.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of the agents' server cannot be used: %w", err)
	}
	t, err := newTool(o.Agents)
	if err != nil {
		return nil, err
	}
	r, err := newResources(base, t)
	if err != nil {
		return nil, err
	}
	b := &Bridge{opts: o, base: base, tool: t, resources: r, log: o.Logger}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b, nil
}

// ServePipe serves one client on a pair of streams until in ends, and then for
// up to grace more to end what runs.
func (b *Bridge) ServePipe(ctx context.Context, in io.Reader, out io.Writer, grace time.Duration) error {
	return mcp.ServePipe(ctx, in, out, auth.Local, b, mcp.PipeOptions{Grace: grace, Panicked: func(p any, stack []byte) {
		b.log.Error("panic in a request", obs.KeyErr, fmt.Sprint(p), "stack", string(stack))
	}})
}

// Handle answers one request.
func (b *Bridge) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.IsNote {
		return mcp.Response{}, nil
	}
	switch req.Method {
	case "initialize", "server/discover":
		return mcp.Introduce(req.Client, []byte(`{"tools":{},"resources":{}}`), mcp.ServerInfo("stoa-bridge", "Stoa bridge"), "")
	case "tools/list":
		if err := oneCursor(req); err != nil {
			return mcp.Response{}, err
		}
		return answer(req, b.tool.listed)
	case "resources/list", "resources/templates/list", "resources/read":
		return b.resources.handle(req)
	case "tools/call":
		name, ok := req.Text("name")
		if !ok {
			return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "name is missing or not a string")
		}
		if name != toolName {
			f := fault.New(fault.UnknownTool, name, "unknown tool")
			if near := spell.Nearest(name, []string{toolName}); near != "" {
				f.Hint = "Did you mean " + near + "?"
			}
			return mcp.Response{}, f
		}
		raw, err := b.call(ctx, req)
		if err != nil {
			return mcp.Response{}, err
		}
		return answer(req, raw)
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

func answer(req *mcp.Request, raw []byte) (mcp.Response, error) {
	if req.Client.Era == mcp.Modern {
		raw = mcp.Complete(req.Method, raw)
	}
	return mcp.Response{Result: raw}, nil
}

// Attach has nobody to tell: the tool and the resources never change.
func (b *Bridge) Attach(*mcp.Listener) (stop func()) { return func() {} }

// Subscribe fails: no resource changes.
func (b *Bridge) Subscribe(_ context.Context, _ *mcp.Listener, uri string) error {
	return fault.New(fault.ResourceNotFound, uri, "it cannot be subscribed to here")
}

// Unsubscribe has nothing to undo.
func (b *Bridge) Unsubscribe(context.Context, *mcp.Listener, string) error { return nil }

var _ mcp.Handler = (*Bridge)(nil)
