package call

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// blame puts a call that failed into the book.
func (d *Door) blame(c *Call, t *toolCall, tool, kind string, resp mcp.Response, err error, took time.Duration) {
	if kind == fault.Cancelled.String() {
		return // the caller's wish
	}
	k := incident.Key{Code: strings.ToUpper(kind), Upstream: c.Upstream.Name(), Tool: tool}
	if c.Item != nil && c.Item.Handling.Envelope && kind == obs.ToolError {
		if code, ok := wire.String(wire.Get(wire.Get(resp.Result, "structuredContent"), "code")); ok && code != "" {
			k.Code = code // a built-in tool says more
		}
	}
	d.book.Tell(k, func() incident.Error {
		var r event.Record
		record(&r, c, t)
		e := incident.Error{ErrorType: incident.ToolExecution, Severity: severity(kind), Source: "call", Context: map[string]string{
			"tool": tool, "operation": c.Req.Method, "upstream": r.Upstream, "kind": kind, "session": r.Session, "principal": r.Principal,
			"call": r.Call, "parent": r.Parent, "trace": r.Trace, "agent": r.Agent, "tookMs": strconv.FormatInt(took.Milliseconds(), 10),
		}}
		text := said(resp)
		if err != nil {
			f := fault.Of(err)
			text, e.Context["hint"] = f.Text(), f.Advice()
		}
		e.Error.Message = incident.Mask(text, c.Req.Param("arguments"))
		if t.changed { // references stood for something
			e.Error.Message = incident.Mask(e.Error.Message, t.args)
		}
		return e
	})
}

// Refused puts a request into the book that was refused before there was an
// upstream to ask, and counts it, unless that has been done.
func (d *Door) Refused(ctx context.Context, req *mcp.Request, err error) {
	f := fault.Of(err)
	if req.Told || f.Kind == fault.Cancelled {
		return
	}
	kind, method := f.Kind.String(), known(req.Method)
	if d.metrics != nil {
		d.metrics.Call("", method, kind, 0)
	}
	if level := levelOf(kind); d.log != nil && d.log.Enabled(ctx, level) {
		d.log.LogAttrs(ctx, level, "request refused", append(Attrs(req), slog.String(obs.KeyAction, req.Method), slog.String(obs.KeyKind, kind), slog.String(obs.KeyPrincipal, req.Client.Actor.Name()), slog.Any(obs.KeyErr, err))...)
	}
	if d.book == nil {
		return
	}
	d.book.Tell(incident.Key{Code: strings.ToUpper(kind), Tool: method}, func() incident.Error {
		e := incident.Error{ErrorType: incident.ToolExecution, Severity: severity(kind), Source: "call", Context: map[string]string{
			"operation": method, "kind": kind, "session": cmp.Or(req.Session, req.Client.Connection), "principal": req.Client.Actor.Name(), "hint": f.Advice(),
		}}
		e.Context["trace"], _, _ = origin(req)
		e.Error.Message = incident.Mask(f.Text(), req.Param("arguments"))
		return e
	})
}

// known is a method that the protocol has; what clients make up must not become
// as many names.
func known(method string) string {
	switch method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return method
	}
	if mcp.Standard(method) {
		return method
	}
	return "other"
}

func severity(kind string) string {
	switch kind {
	case fault.Internal.String():
		return incident.Critical
	case obs.ToolError, fault.Unreachable.String(), fault.Misconfigured.String(), fault.Timeout.String(), fault.UpstreamLost.String(), fault.Storage.String():
		return incident.Failed
	}
	return incident.Warning
}

// said is what a server gives for a reason: the message of an error, or the
// first text of a result.
func said(resp mcp.Response) string {
	if resp.Error != nil {
		text, _ := wire.String(wire.Get(resp.Error, "message"))
		return text
	}
	if own := wire.Get(resp.Result, "structuredContent"); wire.Get(own, "success") != nil {
		for _, name := range []string{"error", "message"} {
			if text, ok := wire.String(wire.Get(own, name)); ok && text != "" {
				return text
			}
		}
	}
	blocks, _ := wire.Elements(wire.Get(resp.Result, "content"))
	for _, b := range blocks {
		if text, ok := wire.String(wire.Get(b, "text")); ok && text != "" {
			return text
		}
	}
	return "the tool says that it failed, and nothing more"
}

// number reads a JSON number; 0 if it is none.
func number(raw []byte) float64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0
	}
	return f
}
