package gateway

import (
	"context"

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
func (g *Gateway) Stateful(session string) mcp.Handler { return &face{g, session} }

func (f *face) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.Session == "" {
		req.Session = f.session
	}
	return f.g.handle(ctx, req, true)
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

var _ mcp.Handler = (*face)(nil)
