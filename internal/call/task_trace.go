package call

import (
	"context"
	"encoding/json"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/wire"
)

// origins is what a call is part of: the span that it is made in, or what its
// request says.
func origins(ctx context.Context, c *Call) obs.Parent {
	if p := obs.Carried(ctx); p != (obs.Parent{}) {
		return p
	}
	if p := Descent(c.Req); p.Trace() != "" {
		return p
	}
	return obs.Parent{}
}

// begun is what a task is part of that a call becomes at once: a span that says
// so, which those of its work are below, also after a restart.
func (k *Tasks) begun(ctx context.Context, c *Call) obs.Parent {
	p := origins(ctx, c)
	if k.door.tracer == nil {
		return p
	}
	_, span := k.door.tracer.Start(ctx, "create task", p, "stoa.upstream", c.Upstream.Name())
	span.End("")
	return span.Parent()
}

// span begins the span of a task's work.
func (k *Tasks) span(ctx context.Context, r *task.Run) (context.Context, *obs.Span) {
	if k.door.tracer == nil {
		return ctx, nil
	}
	w := r.Work()
	return k.door.tracer.Start(ctx, "task", traceOf(&w), "stoa.task", r.ID(), "stoa.upstream", w.Upstream, "gen_ai.tool.name", w.Tool)
}

// traceOf is what a task is part of.
func traceOf(w *task.Work) obs.Parent {
	var f face
	_ = json.Unmarshal(w.Extra, &f) // one that cannot be read fails when it is run
	return f.Trace
}

// descending puts what a task is part of into the params of its request, where
// its client said so in a header.
func descending(params []byte, p obs.Parent) []byte {
	about := wire.Get(params, "_meta")
	if p.Traceparent == "" || wire.Get(about, metaTrace) != nil {
		return params
	}
	if about == nil {
		about = []byte("{}")
	}
	changes := []wire.Change{{Name: metaTrace, Value: wire.Quote(p.Traceparent)}}
	if p.Tracestate != "" {
		changes = append(changes, wire.Change{Name: metaState, Value: wire.Quote(p.Tracestate)})
	}
	return wire.Edit(nil, params, wire.Change{Name: "_meta", Value: wire.Edit(nil, about, changes...)})
}

// kindOf is why a task failed; "" if it did not.
func kindOf(out task.Outcome) (kind string) {
	if out.Result == nil {
		kind, _ = wire.String(wire.Get(wire.Get(out.Error, "data"), "kind"))
	}
	return kind
}

// guarded makes a call on a goroutine that nobody else guards: a mistake of ours
// must not take the hub down.
func (k *Tasks) guarded(ctx context.Context, c *Call) (resp mcp.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			name := c.Upstream.Name()
			resp, err = mcp.Response{}, fault.New(fault.Internal, name, "the call stumbled").Because(obs.Stumbled(k.opts.Logger, p, "a call stumbled", obs.KeyUpstream, name))
		}
	}()
	return k.door.Do(ctx, c)
}
