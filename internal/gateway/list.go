package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/wire"
)

// list answers a list method from the catalogue.
func (g *Gateway) list(ctx context.Context, req *mcp.Request, p party, k catalog.Kind) (mcp.Response, error) {
	cursor, ok := "", true
	if raw := req.Param("cursor"); raw != nil {
		if cursor, ok = wire.String(raw); !ok {
			return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "cursor is not a string")
		}
	}
	g.ensure(ctx, p)
	return g.page(req, p, k, cursor)
}

// Peek answers tools/list as it can be answered now, without connecting to
// anything: for those who want to know how the hub does.
func (g *Gateway) Peek(req *mcp.Request) (mcp.Response, error) {
	return g.page(req, g.party(req.Client, req.Session), catalog.Tool, "")
}

func (g *Gateway) page(req *mcp.Request, p party, k catalog.Kind, cursor string) (mcp.Response, error) {
	snap := g.cat.Now()
	// The argument saveAs is said with every tool, so it comes with the module of values.
	saveAs := p.stateful && p.ListsModule(modules.ContextName, p.named(), false)
	view := catalog.View{Era: req.Client.Era, SaveAs: saveAs, Cards: p.cards}
	own := k == catalog.Resource && p.bound != "" && g.hasContext(p)
	if own {
		view.More = values(p.Session())
	}
	sees := p.Item
	if k == catalog.Tool && req.All != mcp.On {
		sees = func(it *catalog.Item) bool { return p.Item(it) && p.lists(it) }
	}
	page, err := snap.Page(k, view, cursor, sees)
	if err != nil {
		return mcp.Response{}, err
	}
	out := append(append(make([]byte, 0, len(page)+128), '{'), page...)
	if req.Client.Era == mcp.Modern {
		ttl, scope := g.hints(snap, k, p, own)
		out = fmt.Appendf(out, `,"resultType":"complete","ttlMs":%d,"cacheScope":%q`, ttl, scope)
	}
	var meta []wire.Change
	if stale := g.stale(snap, p); len(stale) > 0 {
		b, _ := json.Marshal(stale)
		meta = append(meta, wire.Change{Name: "stoa/stale", Value: b})
	}
	if k == catalog.Tool && req.All == mcp.On {
		b, _ := json.Marshal(g.unlisted(snap, p))
		meta = append(meta, wire.Change{Name: mcp.MetaUnlisted, Value: b})
	}
	if meta != nil {
		out = append(append(out, `,"_meta":`...), wire.Edit(nil, []byte("{}"), meta...)...)
	}
	return mcp.Response{Result: mcp.AddHubs(append(out, '}'), g.others(snap, p))}, nil
}

// unlisted are the tools that somebody sees and that lists do not name.
func (g *Gateway) unlisted(snap *catalog.Snapshot, p party) []string {
	names := []string{}
	for _, u := range g.pool.All() {
		if !u.Builtin() {
			continue
		}
		for _, it := range snap.BySource(u.Name()) {
			if p.Item(it) && !p.lists(it) {
				names = append(names, it.Exposed)
			}
		}
	}
	return names
}

// others are the hubs whose things are among what somebody sees.
func (g *Gateway) others(snap *catalog.Snapshot, p party) (ids []string) {
	for _, u := range g.pool.All() {
		if l := snap.Of(u.Name()); l != nil && len(l.Hubs) > 0 && !l.Unlisted && p.Server(u.Name()) {
			ids = append(ids, l.Hubs...)
		}
	}
	return ids
}

// hints are the cache hints of a merged list: the shortest life and the
// narrowest scope of its parts.
func (g *Gateway) hints(snap *catalog.Snapshot, k catalog.Kind, p party, own bool) (ttl int64, scope string) {
	ttl, scope = -1, "public"
	if own || p.Session() != nil || !p.Public() || k == catalog.Tool && hasPrivate(snap) {
		scope = "private"
	}
	for _, u := range g.pool.All() {
		if u.Builtin() || u.Unlisted() {
			continue // what it offers does not change, but for what own is about, or is not here
		}
		l := snap.Of(u.Name())
		if l == nil || !p.Server(u.Name()) {
			ttl = 0
			continue
		}
		if l.Private {
			scope = "private"
		}
		if ttl < 0 || l.TTL < ttl {
			ttl = l.TTL
		}
	}
	if own {
		ttl = 0
	}
	return max(ttl, 0), scope
}

// hasPrivate reports whether there are tools that some have and others have not.
func hasPrivate(snap *catalog.Snapshot) bool {
	return slices.ContainsFunc(snap.Items(catalog.Tool), func(it *catalog.Item) bool { return it.Handling.Only != "" })
}

func (g *Gateway) stale(snap *catalog.Snapshot, p party) (names []string) {
	for _, u := range g.pool.All() {
		if l := snap.Of(u.Name()); l != nil && l.Stale && !l.Unlisted && p.Server(u.Name()) {
			names = append(names, u.Name())
		}
	}
	return names
}
