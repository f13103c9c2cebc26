package call

import (
	"context"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// metaTrace is the member of _meta that names what a request is part of.
const metaTrace = "traceparent"

// span begins the span of a call: below what the request says, or below the
// turn or step that made it.
func (d *Door) span(ctx context.Context, c *Call) (context.Context, *obs.Span) {
	name, tool := c.Req.Method, ""
	if c.Item != nil && c.Item.Kind == catalog.Tool {
		tool = c.Item.Name
		name += " " + tool
	}
	return d.tracer.Start(ctx, name, traceparent(c.Req), "mcp.method.name", c.Req.Method, "gen_ai.tool.name", tool,
		"stoa.upstream", c.Upstream.Name(), "stoa.principal", c.Req.Client.Principal.Name, "stoa.agent", c.Req.Asked.Agent)
}

// carry tells the upstream what the request is part of: our span, or else what
// the client said in a header, which would end here.
func carry(c *Call, o *mcp.Outgoing, s *obs.Span) {
	if s != nil {
		o.Annotate(metaTrace, wire.Quote(s.Traceparent()))
		return
	}
	if c.Req.Header == nil || meta(c.Req, metaTrace) != nil {
		return
	}
	if text := c.Req.Header.Get("Traceparent"); text != "" {
		if _, _, ok := origin(c.Req); ok {
			o.Annotate(metaTrace, wire.Quote(text))
		}
	}
}
