package router

import (
	"context"
	"slices"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

// call answers tools/call. The tool is looked up for its headers and counts.
// One that is not in the catalogue is asked for all the same, since the agent may
// have given this client another list; but not where that came from the catalogue.
func (a *Agent) call(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	name, ok := req.Text("name")
	if !ok {
		return mcp.Response{}, fault.New(fault.InvalidParams, req.Method, "name is missing or not a string")
	}
	snap := a.r.cat.Now()
	it := snap.Tool(a.Name(), name)
	filtered := !a.u().Filter().Empty() && snap.Of(a.Name()) != nil
	if !a.u().Filter().Passes(name) || it == nil && (filtered || a.mistakable(catalog.Tool, name)) {
		return mcp.Response{}, fault.New(fault.UnknownTool, name, "unknown tool")
	}
	c := &call.Call{Req: req, Upstream: a.u(), Item: it, Unlisted: it == nil}
	if pins := a.u().Pins(); pins != nil && c.Item != nil && pins.Varied() {
		if viewer := a.u().Viewer(req.Client); viewer != "" {
			if st := pins.Seen(viewer, catalog.Tool, name); st.Digest != c.Item.Standing.Digest {
				c.Standing = st // the agent gave this client another one
			}
		}
	}
	return a.r.task.Do(ctx, c)
}

// prompt answers prompts/get.
func (a *Agent) prompt(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	c := &call.Call{Req: req, Upstream: a.u()}
	if name, ok := req.Text("name"); ok {
		if a.mistakable(catalog.Prompt, name) {
			return mcp.Response{}, fault.New(fault.UnknownTool, name, "unknown prompt")
		}
		c.Unlisted = !a.lists(catalog.Prompt, name)
	}
	return a.r.door.Do(ctx, c)
}

// lists reports whether the agent has told the hub of something of that name.
func (a *Agent) lists(k catalog.Kind, name string) bool {
	l := a.r.cat.Now().Of(a.Name())
	return l != nil && slices.ContainsFunc(l.Items[k], func(it *catalog.Item) bool { return it.Name == name })
}

// mistakable reports whether a name is not that of anything the agent lists, and
// the agent may take it for one that is: what is said of that would not hold.
func (a *Agent) mistakable(k catalog.Kind, name string) bool {
	l := a.r.cat.Now().Of(a.Name())
	if l == nil || a.lists(k, name) {
		return false
	}
	plain := policy.PlainName(name)
	return slices.ContainsFunc(l.Items[k], func(it *catalog.Item) bool { return policy.PlainName(it.Name) == plain })
}

// completes refuses a request for completions of what the client cannot see.
func (a *Agent) completes(req *mcp.Request) error {
	v := a.r.door.View(req.Client, req.Session)
	ref := req.Param("ref")
	if name, ok := wire.String(wire.Get(ref, "name")); ok && (!v.Prompt(a.Name(), name) || a.mistakable(catalog.Prompt, name)) {
		return fault.New(fault.UnknownTool, name, "unknown prompt")
	}
	if uri, ok := wire.String(wire.Get(ref, "uri")); ok && !v.Resource(a.Name(), uri) {
		return call.NoResource(uri)
	}
	return nil
}
