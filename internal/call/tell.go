package call

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/wire"
)

// levelOf says how important it is what became of a call. What a caller did
// wrong, and what a breaker or a queue refuses by the thousand, are details.
func levelOf(kind string) slog.Level {
	switch kind {
	case "", obs.ToolError:
		return slog.LevelDebug
	case fault.Unreachable.String(), fault.Misconfigured.String(), fault.Timeout.String(), fault.UpstreamLost.String():
		return slog.LevelWarn
	case fault.Internal.String():
		return slog.LevelError
	}
	return slog.LevelDebug
}

// tell logs what became of a call. Neither arguments nor results are logged.
func (d *Door) tell(ctx context.Context, level slog.Level, c *Call, tool, kind string, err error, took time.Duration) {
	attrs := append(Attrs(c.Req), slog.String(obs.KeyAction, c.Req.Method), slog.String(obs.KeyUpstream, c.Upstream.Name()))
	if tool != c.Req.Method {
		attrs = append(attrs, slog.String(obs.KeyTool, tool))
	}
	attrs = append(attrs, slog.Duration(obs.KeyTook, took))
	msg := "call done"
	if kind != "" {
		msg = "call failed"
		attrs = append(attrs, slog.String(obs.KeyKind, kind))
	}
	attrs = append(attrs, slog.String(obs.KeyPrincipal, c.Req.Client.Actor.Name()))
	if err != nil {
		attrs = append(attrs, slog.Any(obs.KeyErr, err))
	}
	d.log.LogAttrs(ctx, level, msg, attrs...)
}

// Attrs are the log attributes that say which request a line is about: its
// session, its id, and what it is part of: the turn that made it, or what the
// client said by a traceparent.
func Attrs(r *mcp.Request) []slog.Attr {
	attrs := make([]slog.Attr, 0, 10)
	switch {
	case r.Session != "":
		attrs = append(attrs, slog.String(obs.KeySession, obs.Short(r.Session)))
	case r.Client != nil && r.Client.Connection != "":
		attrs = append(attrs, slog.String(obs.KeySession, obs.Short(r.Client.Connection)))
	}
	if r.ID != nil {
		id, ok := wire.String(r.ID)
		if !ok {
			id = string(r.ID)
		}
		attrs = append(attrs, slog.String(obs.KeyRequest, id))
	}
	trace, parent, ok := origin(r)
	if r.Turn != "" {
		parent, ok = r.Turn, true
	}
	if ok {
		attrs = append(attrs, slog.String(obs.KeyParent, parent), slog.String(obs.KeyCorrelation, cmp.Or(r.Correlation, trace)))
	}
	return attrs
}

// origin reads the traceparent of a request: version, trace, parent and flags,
// joined by hyphens.
func origin(r *mcp.Request) (trace, parent string, ok bool) {
	text := Descent(r).Traceparent
	if text == "" {
		return "", "", false
	}
	parts := strings.Split(text, "-")
	if len(parts) < 4 || !isHex(parts[1], 32) || !isHex(parts[2], 16) || strings.Trim(parts[1], "0") == "" {
		return "", "", false
	}
	return parts[1], parts[2], true
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
