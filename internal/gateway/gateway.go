// Package gateway owns the merged face: everything that all upstreams offer,
// behind one endpoint, under names that tell them apart.
//
// It answers lists from the catalogue, so that no upstream can slow them, and
// passes calls through the door. It keeps who listens, and nothing else.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Gateway is the merged face.
type Gateway struct {
	cat      *catalog.Catalog
	pool     *upstream.Pool
	door     *call.Door
	tasks    *call.Tasks
	sessions *session.Registry
	audience mcp.Audience
	stop     func()
}

// Open returns the face over what cat, pool and sessions hold. Close ends it.
func Open(cat *catalog.Catalog, pool *upstream.Pool, door *call.Door, tasks *call.Tasks, sessions *session.Registry) *Gateway {
	g := &Gateway{cat: cat, pool: pool, door: door, tasks: tasks, sessions: sessions}
	g.stop = cat.Watch(g.changed)
	pool.Hear(g.heard)
	sessions.Watch(g.sessionChanged)
	return g
}

// Close stops telling changes.
func (g *Gateway) Close() { g.stop() }

// Handle answers one request of the face that keeps to what upstreams say.
func (g *Gateway) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	return g.handle(ctx, req, false, call.Hooks{})
}

func (g *Gateway) handle(ctx context.Context, req *mcp.Request, stateful bool, h call.Hooks) (mcp.Response, error) {
	if req.IsNote {
		p := g.party(req.Client, req.Session)
		for _, u := range g.pool.All() {
			if p.Server(u.Name()) {
				u.Relay(ctx, req.Client, req.Method, req.Params)
			}
		}
		return mcp.Response{}, nil
	}
	resp, it, err := g.answer(ctx, req, stateful, h)
	if err == nil {
		return resp, nil
	}
	g.door.Refused(ctx, req, err)
	return call.AsResult(req, it, err)
}

// answer answers a request, and tells which item it named.
func (g *Gateway) answer(ctx context.Context, req *mcp.Request, stateful bool, h call.Hooks) (resp mcp.Response, it *catalog.Item, err error) {
	if err := g.door.Trace(req); err != nil {
		return mcp.Response{}, nil, err
	}
	p, err := g.asks(req, stateful)
	if err != nil {
		return mcp.Response{}, nil, err
	}
	switch req.Method {
	case "tools/call":
		return g.named(ctx, req, p, catalog.Tool, h)
	case "prompts/get":
		return g.named(ctx, req, p, catalog.Prompt, h)
	}
	resp, err = g.other(ctx, req, p)
	return resp, nil, err
}

// other answers what names no item.
func (g *Gateway) other(ctx context.Context, req *mcp.Request, p party) (mcp.Response, error) {
	switch req.Method {
	case "initialize", "server/discover":
		return g.introduce(req, p)
	case "tools/list":
		return g.list(ctx, req, p, catalog.Tool)
	case "prompts/list":
		return g.list(ctx, req, p, catalog.Prompt)
	case "resources/list":
		return g.list(ctx, req, p, catalog.Resource)
	case "resources/templates/list":
		return g.list(ctx, req, p, catalog.Template)
	case "resources/read":
		return g.read(ctx, req, p)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return g.tasks.Handle(ctx, req, "")
	case "completion/complete":
		return g.complete(ctx, req, p)
	case "logging/setLevel":
		g.setLevel(req, p)
		return mcp.Response{Result: []byte("{}")}, nil
	}
	return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
}

const instructions = "Stoa offers the tools, prompts and resources of several MCP servers. The name of a tool begins with the server's name and two underscores."

// introduce answers initialize and server/discover.
func (g *Gateway) introduce(req *mcp.Request, p party) (mcp.Response, error) {
	text := instructions
	for _, u := range g.pool.All() {
		if u.Unlisted() || !p.Server(u.Name()) || !p.ListsModule(u.Name(), p.named(), false) || len(text) > 64<<10 {
			continue
		}
		if h := u.Known(); h != nil && h.Instructions != "" {
			text += fmt.Sprintf("\n\n## %s\n%s", u.Name(), h.Instructions)
		}
		if f := u.Failure(req.Client); f != nil {
			text += fmt.Sprintf("\n\n## %s\nIt cannot be used now: %s. %s", u.Name(), strings.TrimSuffix(f.Msg, "."), f.Advice())
		}
	}
	caps := json.RawMessage(`{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`)
	if req.Client.Era == mcp.Modern {
		caps = wire.Edit(nil, caps, wire.Change{Name: "extensions", Value: []byte(`{"` + mcp.TasksExtension + `":{}}`)})
	}
	info := mcp.ServerInfo("stoa", "Stoa")
	resp, err := mcp.Introduce(req.Client, caps, info, text)
	resp.Result = mcp.AddHubs(resp.Result, g.pool.Hub())
	return resp, err
}

// ensure reads the catalogues of upstreams that are read only when asked for,
// and gives others a moment to start that were added just now and never read: a
// client that has come with the hub would otherwise be told of nothing.
func (g *Gateway) ensure(ctx context.Context, p party) {
	snap := g.cat.Now()
	var wg sync.WaitGroup
	for _, u := range g.pool.All() {
		if snap.Of(u.Name()) != nil || u.Unlisted() || !p.Server(u.Name()) {
			continue
		}
		most := u.Fresh()
		if u.Lazy() {
			most = lazyTime
		}
		if most > 0 {
			wg.Go(func() { settle(ctx, u, most) })
		}
	}
	wg.Wait()
}

const (
	lazyTime  = 2 * time.Second // how long a list waits for an upstream that is dialled only when somebody asks for it
	namedTime = 5 * time.Second // how long a call waits for the upstream that it names to be read for the first time
)

// settle waits for one upstream.
func settle(ctx context.Context, u *upstream.Upstream, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	u.Settle(ctx)
}

// named answers tools/call and prompts/get, and tells what was found by the
// name.
func (g *Gateway) named(ctx context.Context, req *mcp.Request, p party, k catalog.Kind, h call.Hooks) (mcp.Response, *catalog.Item, error) {
	name, ok := req.Text("name")
	if !ok || name == "" {
		return mcp.Response{}, nil, fault.New(fault.InvalidParams, req.Method, "name is missing or not a string")
	}
	it, err := g.find(ctx, p, k, name)
	if err != nil {
		return mcp.Response{}, nil, err
	}
	u := g.pool.Get(it.Upstream)
	if u == nil {
		return mcp.Response{}, nil, fault.New(fault.UnknownTool, name, "its upstream %s has been removed", it.Upstream)
	}
	resp, err := g.tasks.Do(ctx, &call.Call{Req: req, Upstream: u, Item: it, Check: true, Rename: "name", Name: it.Name,
		Kept: true, References: p.references, Stateful: p.stateful, Cards: p.cards, Told: p.told, Hooks: h})
	return resp, it, err
}

// Tool makes of a request that names a tool the call of it, for a module that
// makes calls which outlive the request.
func (g *Gateway) Tool(ctx context.Context, req *mcp.Request) (*call.Call, error) {
	name, _ := req.Text("name")
	p, err := g.asks(req, false)
	if err != nil {
		return nil, err
	}
	it, err := g.find(ctx, p, catalog.Tool, name)
	if err != nil {
		return nil, err
	}
	u := g.pool.Get(it.Upstream)
	if u == nil {
		return nil, fault.New(fault.UnknownTool, name, "its upstream %s has been removed", it.Upstream)
	}
	return &call.Call{Req: req, Upstream: u, Item: it, Check: true, Rename: "name", Name: it.Name, Kept: true, References: p.references}, nil
}

// Find looks up a tool that a client can see in a Session.
func (g *Gateway) Find(ctx context.Context, c *mcp.Client, session, name string) (*catalog.Item, error) {
	return g.find(ctx, g.party(c, session), catalog.Tool, name)
}

// find looks a name up. If it is not there, upstreams whose catalogue has not
// been read yet are read first.
func (g *Gateway) find(ctx context.Context, p party, k catalog.Kind, name string) (*catalog.Item, error) {
	it, err := g.cat.Now().Find(k, name, p.Sight())
	if err == nil {
		return it, nil
	}
	g.ensure(ctx, p)
	if it, err = g.cat.Now().Find(k, name, p.Sight()); err == nil {
		return it, nil
	}
	if up := namedIn(name); up != "" {
		if u := g.pool.Get(up); u != nil && !u.Unlisted() && g.cat.Now().Of(up) == nil && p.Server(up) {
			settle(ctx, u, namedTime) // whoever names it wants this one, also if it starts slowly
			if it, err := g.cat.Now().Find(k, name, p.Sight()); err == nil {
				return it, nil
			}
			if err := u.Failure(p.client); err != nil {
				return nil, err
			}
			return nil, fault.New(fault.Unreachable, up, "the upstream has not been reached yet: %s", u.Status().State)
		}
	}
	return nil, err
}

// namedIn is the upstream that a name begins with, in whichever form; "" if it
// begins with none.
func namedIn(name string) string {
	if up, _, ok := strings.Cut(strings.TrimPrefix(name, "mcp:"), ":"); ok {
		return up
	}
	if up, _, ok := strings.Cut(name, "__"); ok {
		return up
	}
	return ""
}

func (g *Gateway) read(ctx context.Context, req *mcp.Request, p party) (mcp.Response, error) {
	uri, ok := req.Text("uri")
	if !ok || uri == "" {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "uri is missing or not a string")
	}
	u, own, err := g.route(ctx, p, uri)
	if err != nil {
		return mcp.Response{}, err
	}
	c := &call.Call{Req: req, Upstream: u}
	if own != uri {
		c.Rename, c.Name = "uri", own
	}
	return g.door.Do(ctx, c)
}

func (g *Gateway) route(ctx context.Context, p party, uri string) (*upstream.Upstream, string, error) {
	name, own, err := g.cat.Now().Route(uri, p.Sight())
	if err != nil {
		g.ensure(ctx, p)
		name, own, err = g.cat.Now().Route(uri, p.Sight())
	}
	if err != nil {
		return nil, "", err
	}
	if !p.Resource(name, own) {
		return nil, "", call.NoResource(uri)
	}
	u := g.pool.Get(name)
	if u == nil {
		return nil, "", fault.New(fault.ResourceNotFound, uri, "its upstream %s has been removed", name)
	}
	return u, own, nil
}

// complete answers completion/complete by the upstream of what ref names.
func (g *Gateway) complete(ctx context.Context, req *mcp.Request, p party) (mcp.Response, error) {
	ref := req.Param("ref")
	kind, _ := wire.String(wire.Get(ref, "type"))
	var u *upstream.Upstream
	var changed []byte
	switch kind {
	case "ref/prompt":
		name, _ := wire.String(wire.Get(ref, "name"))
		it, err := g.find(ctx, p, catalog.Prompt, name)
		if err != nil {
			return mcp.Response{}, err
		}
		u = g.pool.Get(it.Upstream)
		changed = wire.Edit(nil, ref, wire.Change{Name: "name", Value: wire.Quote(it.Name)})
	case "ref/resource":
		uri, _ := wire.String(wire.Get(ref, "uri"))
		up, own, err := g.route(ctx, p, uri)
		if err != nil {
			return mcp.Response{}, err
		}
		u, changed = up, wire.Edit(nil, ref, wire.Change{Name: "uri", Value: wire.Quote(own)})
	default:
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "ref.type %q is neither ref/prompt nor ref/resource", kind)
	}
	if u == nil {
		return mcp.Response{}, fault.New(fault.UnknownTool, req.Method, "the upstream has been removed")
	}
	return g.door.Do(ctx, &call.Call{Req: req, Upstream: u, Replace: &wire.Field{Name: []byte("ref"), Value: changed}})
}

// setLevel tells the upstreams, behind the client's back: none of them may
// keep it waiting.
func (g *Gateway) setLevel(req *mcp.Request, p party) {
	level := req.Client.LogLevel()
	for _, u := range g.pool.All() {
		if p.Server(u.Name()) {
			u.WantLevel(level)
		}
	}
}

var _ mcp.Handler = (*Gateway)(nil)
