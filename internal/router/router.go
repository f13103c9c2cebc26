// Package router owns the faces of single agents: /mcps/{agent}/mcp serves one
// upstream by itself, with names and URIs unchanged and arguments unchecked.
//
// Lists come from the agent itself while it can be reached and from what it
// said last when it cannot.
package router

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Router finds agents.
type Router struct {
	cat  *catalog.Catalog
	pool *upstream.Pool
	door *call.Door
	task *call.Tasks
	stop func()

	mu     sync.RWMutex
	agents map[string]*Agent
}

// Open returns a router over what cat and pool hold. Close ends it.
func Open(cat *catalog.Catalog, pool *upstream.Pool, door *call.Door, tasks *call.Tasks) *Router {
	r := &Router{cat: cat, pool: pool, door: door, task: tasks, agents: map[string]*Agent{}}
	r.stop = cat.Watch(r.changed)
	pool.Hear(r.heard)
	return r
}

// Close stops telling changes.
func (r *Router) Close() { r.stop() }

// Agent returns the face of one agent. Names have no capitals, and some agents
// are known by ones that do: these are found too.
func (r *Router) Agent(name string, who *auth.Principal) (*Agent, error) {
	sees := func(server string) bool { return r.door.Sees(actor.HTTP, who, server) }
	u := r.pool.Get(name)
	if u == nil {
		u = r.pool.Get(strings.ToLower(name))
	}
	if u == nil || !sees(u.Name()) {
		return nil, fault.New(fault.UnknownAgent, "", "Agent '%s' not found", name)
	}
	name = u.Name()
	a := r.get(name)
	if a == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if a = r.agents[name]; a == nil {
			a = &Agent{r: r}
			r.agents[name] = a
		}
	}
	// The agent outlives its upstream, so that those who listen hear of the
	// one that a change of the config puts in its place.
	if a.now.Load() != u {
		a.now.Store(u)
	}
	return a, nil
}

// Agents returns the status of every agent that who may see.
func (r *Router) Agents(who *auth.Principal) []upstream.Status {
	out := []upstream.Status{}
	for _, u := range r.pool.All() {
		if !u.Builtin() && r.door.Sees(actor.HTTP, who, u.Name()) {
			out = append(out, u.Status())
		}
	}
	return out
}

func (r *Router) get(name string) *Agent {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.agents[name]
}

func (r *Router) changed(changes []catalog.Change) {
	for _, c := range changes {
		a := r.get(c.Upstream)
		if a == nil {
			continue
		}
		a.tell(mcp.NoteToolsChanged, &c, c.Differ.Tools, c.Said.Tools, catalog.Tool)
		a.tell(mcp.NotePromptsChanged, &c, c.Differ.Prompts, c.Said.Prompts, catalog.Prompt)
		a.tell(mcp.NoteResourcesChanged, &c, c.Differ.Resources, c.Said.Resources, catalog.Resource, catalog.Template)
	}
}

// tell tells of a list those who can see something of what differs in it. Of what
// the agent only says to be another, nobody knows what it is, and those are told
// who see everything that it offers.
func (a *Agent) tell(method string, c *catalog.Change, differs, said bool, kinds ...catalog.Kind) {
	if !differs && !said {
		return
	}
	a.audience.Tell(method, func(l *mcp.Listener) bool {
		v := a.r.door.View(l.Client, l.Session)
		if !v.Server(a.Name()) {
			return false
		}
		if said && v.Whole(a.Name(), a.u().Builtin()) {
			return true
		}
		return differs && slices.ContainsFunc(kinds, func(k catalog.Kind) bool { return slices.ContainsFunc(c.Items(k), v.Item) })
	})
}

func (r *Router) heard(name, method string, params []byte) {
	if a := r.get(name); a != nil && method == mcp.NoteResourceUpdated {
		uri, _ := wire.String(wire.Get(params, "uri"))
		a.audience.Updated(uri, params, func(l *mcp.Listener) bool {
			v := r.door.View(l.Client, l.Session)
			return v.Resource(name, uri)
		})
	}
}

// Agent is the face of one upstream.
type Agent struct {
	r        *Router
	now      atomic.Pointer[upstream.Upstream]
	audience mcp.Audience
}

// u is the upstream that has the agent's name now.
func (a *Agent) u() *upstream.Upstream { return a.now.Load() }

// Name is the agent's name, whatever it was asked for by.
func (a *Agent) Name() string { return a.u().Name() }

// Handle answers one request.
func (a *Agent) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if req.IsNote {
		a.u().Relay(ctx, req.Client, req.Method, req.Params)
		return mcp.Response{}, nil
	}
	resp, err := a.admitted(ctx, req)
	if err != nil {
		a.r.door.Refused(ctx, req, err)
	}
	return resp, err
}

// admitted answers a request of who can see the agent. One that came by a
// connection may have been able to when it began.
func (a *Agent) admitted(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if err := a.r.door.Trace(req); err != nil {
		return mcp.Response{}, err
	}
	if v := a.r.door.View(req.Client, req.Session); !v.Server(a.Name()) {
		return mcp.Response{}, fault.New(fault.UnknownAgent, "", "Agent '%s' not found", a.Name())
	}
	return a.answer(ctx, req)
}

func (a *Agent) answer(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	switch req.Method {
	case "initialize", "server/discover":
		h, err := a.u().Hello(ctx, req.Client, req.Session)
		if err != nil {
			return mcp.Response{}, err
		}
		resp, err := mcp.Introduce(req.Client, a.offered(req.Client, h.Capabilities), h.Info, h.Instructions)
		resp.Result = mcp.AddHubs(resp.Result, slices.Concat(a.r.pool.Hub(), h.Hubs))
		return resp, err
	case "logging/setLevel":
		if err := a.u().SetLevel(ctx, req.Client, req.Session, req.Client.LogLevel()); err != nil {
			return mcp.Response{}, err
		}
		return mcp.Response{Result: []byte("{}")}, nil
	case "tools/list":
		if !a.u().Filter().Empty() {
			return a.known(ctx, req, catalog.Tool)
		}
		return a.list(ctx, req, catalog.Tool)
	case "prompts/list":
		return a.list(ctx, req, catalog.Prompt)
	case "resources/list":
		return a.list(ctx, req, catalog.Resource)
	case "resources/templates/list":
		return a.list(ctx, req, catalog.Template)
	case "tools/call":
		return a.call(ctx, req)
	case "prompts/get":
		return a.prompt(ctx, req)
	case "completion/complete":
		if err := a.completes(req); err != nil {
			return mcp.Response{}, err
		}
	}
	switch task := strings.HasPrefix(req.Method, "tasks/"); {
	case task && req.Client.Era == mcp.Modern:
		return a.r.task.Handle(ctx, req, a.u().Name())
	case task || req.Method == "resources/subscribe" || req.Method == "resources/unsubscribe":
		// They act on what belongs to a connection: tasks of the era before, and
		// subscriptions. The agent's is everybody's, whose tasks it would name
		// and whose subscriptions it would end. Who has a connection with us
		// subscribes by that, and is not heard here.
		return mcp.Response{}, fault.New(fault.UnknownMethod, "", "method %q is not offered here", req.Method)
	}
	return a.r.door.Do(ctx, &call.Call{Req: req, Upstream: a.u()})
}

// offered are an upstream's capabilities without those we do not carry, and
// with tasks where calls of it become some.
func (a *Agent) offered(c *mcp.Client, caps []byte) []byte {
	changes := []wire.Change{{Name: "tasks"}, {Name: "experimental"}}
	ext := wire.Get(caps, "extensions")
	switch has := wire.Get(ext, mcp.TasksExtension) != nil; {
	case has && c.Era == mcp.Legacy:
		changes = append(changes, wire.Change{Name: "extensions", Value: wire.Edit(nil, ext, wire.Change{Name: mcp.TasksExtension})})
	case !has && c.Era == mcp.Modern && a.makesTasks():
		changes = append(changes, wire.Change{Name: "extensions", Value: wire.Edit(nil, ext, wire.Change{Name: mcp.TasksExtension, Value: []byte("{}")})})
	}
	return wire.Edit(nil, caps, changes...)
}

// makesTasks reports whether calls of some tool become tasks.
func (a *Agent) makesTasks() bool {
	if a.u().Handling("").Task != catalog.TaskNever {
		return true
	}
	for _, it := range a.r.cat.Now().BySource(a.u().Name()) {
		if it.Handling.Task != catalog.TaskNever {
			return true
		}
	}
	return false
}

// list asks the agent, and falls back on the catalogue if it cannot be asked.
func (a *Agent) list(ctx context.Context, req *mcp.Request, k catalog.Kind) (mcp.Response, error) {
	resp, err := a.r.door.Do(ctx, &call.Call{Req: req, Upstream: a.u()})
	if err == nil {
		return a.visible(req, k, resp), nil
	}
	if ctx.Err() != nil || a.r.cat.Now().Of(a.u().Name()) == nil {
		return resp, err
	}
	switch fault.Of(err).Kind {
	case fault.Unreachable, fault.UpstreamLost, fault.BreakerOpen, fault.Timeout:
		return a.known(ctx, req, k)
	}
	return resp, err
}

// visible is a list of the agent's without what the client cannot see. One of
// which everything can be seen is passed on as it came.
func (a *Agent) visible(req *mcp.Request, k catalog.Kind, resp mcp.Response) mcp.Response {
	v := a.r.door.View(req.Client, req.Session)
	whole := v.Whole(a.Name(), a.u().Builtin())
	if resp.Result == nil || whole && a.u().Pins() == nil {
		return resp
	}
	defs, ok := wire.Elements(wire.Get(resp.Result, k.Member()))
	if !ok {
		return resp
	}
	kept, held := a.reviewed(req, k, resp, defs)
	if !whole {
		snap := a.r.cat.Now()
		kept = slices.DeleteFunc(kept, func(def []byte) bool { return !v.Defines(snap, k, a.Name(), def) })
	}
	if len(kept) == len(defs) && !held {
		return resp
	}
	list := append(append([]byte{'['}, bytes.Join(kept, []byte{','})...), ']')
	out := wire.Edit(nil, resp.Result, wire.Change{Name: k.Member(), Value: list})
	resp.Release()
	return mcp.Response{Result: out}
}

// reviewed has what the agent has just given a client judged, as what the hub is
// given itself is. It returns the list with those definitions replaced that are
// held, and whether there are any.
func (a *Agent) reviewed(req *mcp.Request, k catalog.Kind, resp mcp.Response, defs [][]byte) (kept [][]byte, held bool) {
	u := a.u()
	kept = slices.Clone(defs)
	if u.Pins() == nil {
		return kept, false
	}
	viewer := u.Viewer(req.Client)
	relist := false
	for i, st := range u.Pins().Variant(viewer, k, defs, wire.Get(resp.Result, "nextCursor") == nil) {
		if st == nil {
			continue
		}
		relist = relist || viewer == "" && st.State != catalog.Accepted
		if st.Held() {
			kept[i], held = catalog.Withheld(k, defs[i], st), true
		}
	}
	if relist {
		u.Relist(k) // it offers what the hub has not been told of
	}
	return kept, held
}

// known answers a list from the catalogue.
func (a *Agent) known(ctx context.Context, req *mcp.Request, k catalog.Kind) (mcp.Response, error) {
	l := a.r.cat.Now().Of(a.u().Name())
	if l == nil {
		if err := a.u().Load(ctx); err != nil {
			return mcp.Response{}, err
		}
		if l = a.r.cat.Now().Of(a.u().Name()); l == nil {
			l = &catalog.Lists{}
		}
	}
	out := append(append([]byte(`{"`), k.Member()...), `":[`...)
	v := a.r.door.View(req.Client, req.Session)
	n := 0
	for _, it := range l.Items[k] {
		if !v.Item(it) {
			continue
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = append(out, it.Given(req.Client.Era)...)
	}
	out = append(out, ']')
	if l.Stale {
		out = append(out, `,"_meta":{"stoa/stale":true}`...)
	}
	out = mcp.AddHubs(append(out, '}'), l.Hubs)
	if req.Client.Era == mcp.Modern {
		out = mcp.Complete(req.Method, out)
	}
	return mcp.Response{Result: out}, nil
}

// Attach registers a listener.
func (a *Agent) Attach(l *mcp.Listener) (stop func()) {
	if h := a.u().Known(); h != nil {
		l.Filter.Tools = l.Filter.Tools && h.CanDo("tools", "listChanged")
		l.Filter.Prompts = l.Filter.Prompts && h.CanDo("prompts", "listChanged")
		l.Filter.Resources = l.Filter.Resources && h.CanDo("resources", "listChanged")
	}
	a.audience.Add(l)
	return func() {
		a.r.task.Forget(l)
		for _, uri := range a.audience.Remove(l) {
			a.u().Leave(uri)
		}
		a.u().Forget(l.Client)
	}
}

// FollowTask adds a task of the agent to what l hears of.
func (a *Agent) FollowTask(ctx context.Context, l *mcp.Listener, id string) error {
	return a.r.task.Follow(ctx, l, a.u().Name(), id)
}

// Subscribe adds a resource to what l hears of.
func (a *Agent) Subscribe(ctx context.Context, l *mcp.Listener, uri string) error {
	if v := a.r.door.View(l.Client, l.Session); !v.Resource(a.Name(), uri) {
		return call.NoResource(uri)
	}
	if !a.audience.Subscribe(l, uri, uri) {
		return nil
	}
	if err := a.u().Subscribe(ctx, uri); err != nil {
		a.audience.Unsubscribe(l, uri)
		return err
	}
	return nil
}

// Unsubscribe removes it.
func (a *Agent) Unsubscribe(ctx context.Context, l *mcp.Listener, uri string) error {
	if a.audience.Unsubscribe(l, uri) {
		return a.u().Unsubscribe(ctx, uri)
	}
	return nil
}

var _ mcp.Handler = (*Agent)(nil)
