package call

import (
	"context"
	"strings"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// The members of _meta that say what a request is part of.
const (
	metaTrace   = "traceparent"
	metaState   = "tracestate"
	metaBaggage = "baggage"
)

// span begins the span of a call: below the turn, step or task that made it, or
// below what the request says.
func (d *Door) span(ctx context.Context, c *Call) (context.Context, *obs.Span) {
	name, tool := c.Req.Method, ""
	if c.Item != nil && c.Item.Kind == catalog.Tool {
		tool = c.Item.Name
		name += " " + tool
	}
	return d.tracer.Start(ctx, name, Descent(c.Req), "mcp.method.name", c.Req.Method, "gen_ai.tool.name", tool,
		"stoa.upstream", c.Upstream.Name(), "stoa.principal", c.Req.Client.Actor.Name(), "stoa.agent", modelOf(c.Req.Client))
}

// modelOf is the agent whose model acts for a client, "" for none.
func modelOf(c *mcp.Client) string {
	if name, ok := c.Actor.LastModel(); ok {
		return agentName(name)
	}
	return ""
}

// Descent is what a request says of the trace that it is part of: in _meta, or
// else in the headers that it came with.
func Descent(r *mcp.Request) (p obs.Parent) {
	for i := range r.Meta {
		switch string(r.Meta[i].Name) {
		case metaTrace:
			p.Traceparent, _ = wire.String(r.Meta[i].Value)
		case metaState:
			p.Tracestate, _ = wire.String(r.Meta[i].Value)
		}
	}
	switch {
	case p.Traceparent != "":
		return p
	case r.Header == nil:
		return obs.Parent{}
	}
	return obs.Parent{Traceparent: r.Header.Get("Traceparent"), Tracestate: strings.Join(r.Header["Tracestate"], ",")}
}

// carry tells the upstream what the request is part of: our span, or else what
// the client said in headers, which would end here.
func carry(c *Call, o *mcp.Outgoing, s *obs.Span) {
	if h := c.Req.Header; h != nil && h["Baggage"] != nil && meta(c.Req, metaBaggage) == nil {
		o.Annotate(metaBaggage, wire.Quote(strings.Join(h["Baggage"], ",")))
	}
	var p obs.Parent
	switch {
	case s != nil:
		p = s.Parent()
	case c.Req.Header == nil || c.Req.Header["Traceparent"] == nil || meta(c.Req, metaTrace) != nil:
		return // as it came
	default:
		if p = Descent(c.Req); p.Trace() == "" {
			return
		}
	}
	o.Annotate(metaTrace, wire.Quote(p.Traceparent))
	if p.Tracestate != "" {
		o.Annotate(metaState, wire.Quote(p.Tracestate))
	} else if meta(c.Req, metaState) != nil {
		o.Annotate(metaState, nil) // of a trace that this is no part of
	}
}
