package gateway

import (
	"context"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
)

// face is the merged face of a Session, where results can be kept and long
// ones become cards.
type face struct {
	g       *Gateway
	session string
}

// Stateful returns the face of the Session of that name. What is said in a
// request goes before the name in the address.
func (g *Gateway) Stateful(session string) call.Face { return &face{g, session} }

// Call answers tools/call for those who are no models: what a model could
// repair is an error too. Results can be kept; long ones become cards only if
// that is wanted.
func (g *Gateway) Call(ctx context.Context, req *mcp.Request, cards bool) (mcp.Response, error) {
	p := g.party(req.Client, req.Session)
	p.stateful, p.references, p.cards = true, true, cards
	resp, _, err := g.named(ctx, req, p, catalog.Tool, call.Hooks{})
	return resp, err
}

func (f *face) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.Session == "" {
		req.Session = f.session
	}
	return f.g.handle(ctx, req, true, call.Hooks{})
}

func (f *face) Call(ctx context.Context, req *mcp.Request, h call.Hooks) (mcp.Response, error) {
	if req.Session == "" {
		req.Session = f.session
	}
	return f.g.handle(ctx, req, true, h)
}

func (f *face) Attach(l *mcp.Listener) (stop func()) {
	if l.Session == "" {
		l.Session = f.session
	}
	return f.g.Attach(l)
}

func (f *face) Subscribe(ctx context.Context, l *mcp.Listener, uri string) error {
	return f.g.Subscribe(ctx, l, uri)
}

func (f *face) Unsubscribe(ctx context.Context, l *mcp.Listener, uri string) error {
	return f.g.Unsubscribe(ctx, l, uri)
}

func (f *face) FollowTask(ctx context.Context, l *mcp.Listener, id string) error {
	return f.g.FollowTask(ctx, l, id)
}

var _ call.Face = (*face)(nil)
