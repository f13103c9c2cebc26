package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// Attach registers a listener.
func (g *Gateway) Attach(l *mcp.Listener) (stop func()) {
	g.audience.Add(l)
	return func() {
		g.tasks.Forget(l)
		for _, key := range g.audience.Remove(l) {
			g.leave(key)
		}
		for _, u := range g.pool.All() {
			u.Forget(l.Client)
		}
	}
}

// FollowTask adds a task to what l hears of.
func (g *Gateway) FollowTask(ctx context.Context, l *mcp.Listener, id string) error {
	return g.tasks.Follow(ctx, l, "", id)
}

// key names a resource across upstreams.
func key(upstream, uri string) string { return upstream + " " + uri }

// leave ends the subscription of an upstream that nobody needs any more.
func (g *Gateway) leave(key string) {
	name, uri, _ := strings.Cut(key, " ")
	if u := g.pool.Get(name); u != nil {
		u.Leave(uri)
	}
}

// Subscribe adds a resource to what l hears of.
func (g *Gateway) Subscribe(ctx context.Context, l *mcp.Listener, uri string) error {
	if s, ok := g.valueOf(l, uri); ok {
		return g.subscribeValue(l, s, uri)
	}
	u, own, err := g.route(ctx, g.party(l.Client, l.Session), uri)
	if err != nil {
		return err
	}
	if !g.audience.Subscribe(l, key(u.Name(), own), uri) {
		return nil
	}
	if err := u.Subscribe(ctx, own); err != nil {
		g.audience.Unsubscribe(l, key(u.Name(), own))
		return err
	}
	return nil
}

// Unsubscribe removes it.
func (g *Gateway) Unsubscribe(ctx context.Context, l *mcp.Listener, uri string) error {
	if s, ok := g.valueOf(l, uri); ok {
		if s != nil {
			g.audience.Unsubscribe(l, valueKey(s, uri))
		}
		return nil
	}
	u, own, err := g.route(ctx, g.party(l.Client, l.Session), uri)
	if err != nil {
		return err
	}
	if g.audience.Unsubscribe(l, key(u.Name(), own)) {
		_ = u.Unsubscribe(ctx, own) // for the client it is over either way
	}
	return nil
}

// changed tells listeners of the lists that changed.
func (g *Gateway) changed(changes []catalog.Change) {
	tell := func(method string, of func(catalog.Change) bool, kinds ...catalog.Kind) {
		g.audience.Tell(method, func(l *mcp.Listener) bool {
			for _, c := range changes {
				if of(c) && !c.Apart && g.notices(l, &c, kinds) {
					return true
				}
			}
			return false
		})
	}
	tell(mcp.NoteToolsChanged, func(c catalog.Change) bool { return c.Differ.Tools }, catalog.Tool)
	tell(mcp.NotePromptsChanged, func(c catalog.Change) bool { return c.Differ.Prompts }, catalog.Prompt)
	tell(mcp.NoteResourcesChanged, func(c catalog.Change) bool { return c.Differ.Resources }, catalog.Resource, catalog.Template)
}

// notices reports whether a listener can see something of what changed.
func (g *Gateway) notices(l *mcp.Listener, c *catalog.Change, of []catalog.Kind) bool {
	p := g.party(l.Client, l.Session)
	if !p.Server(c.Upstream) {
		return false
	}
	for _, k := range of {
		if slices.ContainsFunc(c.Items(k), p.Item) {
			return true
		}
	}
	return false
}

// heard passes an update of a resource on.
func (g *Gateway) heard(upstream, method string, params []byte) {
	if method != mcp.NoteResourceUpdated {
		return
	}
	uri, _ := wire.String(wire.Get(params, "uri"))
	g.audience.Updated(key(upstream, uri), params, func(l *mcp.Listener) bool {
		p := g.party(l.Client, l.Session)
		return p.Resource(upstream, uri)
	})
}
