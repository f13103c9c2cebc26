package hub

import (
	"context"
	"slices"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Call calls a tool of an upstream by the upstream's own name for it, on
// behalf of this process. Arguments are checked as on the merged face, but what
// a model could repair is an error here.
func (h *Hub) Call(ctx context.Context, server, tool string, args []byte) (mcp.Response, error) {
	u, err := h.upstream(server)
	if err != nil {
		return mcp.Response{}, err
	}
	if h.cat.Now().Of(server) == nil {
		if err := u.Load(ctx); err != nil {
			return mcp.Response{}, fault.Of(err)
		}
	}
	client := &mcp.Client{Era: mcp.Legacy, Version: mcp.LegacyVersion, Actor: actor.New(actor.Library, auth.Owner)}
	if u.Eras().Has(mcp.Modern) {
		// Where the lists came from. Without a version, so that the _meta that
		// the era demands is written for it.
		client = &mcp.Client{Era: mcp.Modern, Actor: client.Actor, Capabilities: []byte("{}")}
	}
	view := h.door.View(client, "")
	it, err := h.cat.Now().Find(catalog.Tool, server+":"+tool, view.Sight())
	if err != nil {
		return mcp.Response{}, err
	}
	params := append(append([]byte(`{"name":`), wire.Quote(tool)...), `,"arguments":`...)
	params = append(append(params, args...), '}')
	req := &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Client: client, Stream: mcp.Discard}
	return h.door.Do(ctx, &call.Call{Req: req, Upstream: u, Item: it, Check: true})
}

func (h *Hub) upstream(name string) (*upstream.Upstream, error) {
	if u := h.pool.Get(name); u != nil {
		return u, nil
	}
	return nil, &fault.Error{Kind: fault.UnknownAgent, Subject: name, Msg: "there is no server of that name", Hint: "Use the name of a configured server."}
}

// Ping finds out whether an upstream answers, connecting if needed.
func (h *Hub) Ping(ctx context.Context, server string) error {
	u, err := h.upstream(server)
	if err != nil {
		return err
	}
	hello, err := u.Hello(ctx, nil, "")
	if err != nil {
		return err
	}
	method := "ping"
	if hello.Era == mcp.Modern {
		method = "server/discover" // the era has no ping
	}
	resp, err := u.Do(ctx, &mcp.Outgoing{Method: method}, upstream.Call{Repeat: true})
	resp.Release() // an answer that says no is an answer
	return err
}

// AddModule serves a Handler of this process as an upstream. A change of the
// config leaves it alone.
func (h *Hub) AddModule(name string, m mcp.Handler) (*upstream.Upstream, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	put := h.pool.Add
	if h.isStock(name) && !h.agents.has(name) {
		put = h.pool.Replace // an agent that exists by default gives way
	} else if h.pool.Get(name) != nil {
		return nil, &fault.Error{Kind: fault.InvalidRequest, Subject: name, Msg: "a server has this name", Hint: "Rename that server."}
	}
	return put(upstream.Options{Name: name, Title: name, Handler: m, Logger: h.logger("upstream")})
}

// Tools is what can be called now.
func (h *Hub) Tools() []*catalog.Item {
	view := h.door.View(libraryRequest().Client, "")
	return slices.DeleteFunc(slices.Clone(h.cat.Now().Items(catalog.Tool)), func(it *catalog.Item) bool { return !view.Item(it) })
}

// RemoveTools takes tools out until their upstream's list is read again.
func (h *Hub) RemoveTools(match func(*catalog.Item) bool) int { return h.cat.RemoveTools(match) }

// Discover reads what an upstream offers now, connecting if needed.
func (h *Hub) Discover(ctx context.Context, server string) error {
	u, err := h.upstream(server)
	if err != nil {
		return err
	}
	return u.Load(ctx)
}

// Stats are the figures of the connections to upstreams.
func (h *Hub) Stats() upstream.Stats { return h.pool.Stats() }
