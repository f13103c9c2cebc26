package call

import (
	"context"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// record fills in what all records of a call have: what it is and which values
// it used, but nothing of what passes.
func record(r *event.Record, c *Call, t *toolCall) {
	r.Run = c.Req.Turn
	r.Call, r.Principal, r.Upstream, r.Agent, r.Method = t.call, c.Req.Client.Actor.Name(), c.Upstream.Name(), modelOf(c.Req.Client), c.Req.Method
	if n := len(t.above); n > 0 {
		r.Parent = t.above[n-1]
	}
	if t.session != nil {
		r.Session = t.session.Name()
	}
	if t.span != nil {
		r.Trace = t.span.Trace()
	} else {
		r.Trace, _, _ = origin(c.Req)
	}
	hit := t.reuse != nil && t.reuse.hit
	if t.used != nil || t.saved != "" || hit {
		r.Data = Trace{Used: t.used, Saved: t.saved, Cached: hit}
	}
}

// Trace is the data of a call's record, if it had to do with stored values or
// its result was reused.
type Trace struct {
	Used   []session.Used `json:"used,omitempty"`
	Saved  string         `json:"saved,omitempty"`  // the name that the result was kept under
	Cached bool           `json:"cached,omitempty"` // the result is that of a call before
}

func eventLevel(kind string) string {
	switch kind {
	case "":
		return ""
	case fault.Internal.String():
		return event.Error
	}
	return event.Warning
}

// toolName is what records call the tool of a call; of other requests it is
// the method.
func toolName(c *Call, o *mcp.Outgoing) string {
	switch {
	case c.Item != nil && c.Item.Kind == catalog.Tool:
		return c.Item.Name
	case c.Req.Method == "tools/call":
		return o.Name
	}
	return c.Req.Method
}

// begin tells those who watch that a call goes to its upstream, and from then on
// how far it has come; and keeps what passes.
func (d *Door) begin(c *Call, t *toolCall, o *mcp.Outgoing) {
	if t.call == "" {
		t.call = d.names.next()
	}
	r := event.Record{Type: event.CallStarted}
	record(&r, c, t)
	r.Level, r.Tool, r.Bytes = event.Debug, toolName(c, o), len(t.args)
	if t.raw = d.raw.Begin(headOf(&r)); t.raw != nil {
		o.Tap = tapTo(t.raw)
	}
	d.events.Emit(r)
	if o.Stream != nil {
		r.Type, r.Bytes, r.Data = event.CallProgress, 0, nil
		o.Stream = &watched{Stream: o.Stream, events: d.events, raw: t.raw, r: r}
	}
}

// progressEvery is how often a call's progress is told to those who watch.
const progressEvery = 250 * time.Millisecond

// watched is a Stream whose progress is told to those who watch, too.
type watched struct {
	mcp.Stream
	events *event.Bus
	raw    *exchange.Recording
	r      event.Record

	mu   sync.Mutex
	last time.Time
	n    int // since the last that was told
}

// Progress is the data of a record of a call's progress.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Count    int     `json:"count"` // notifications that the record stands for
}

func (w *watched) Notify(method string, params []byte) {
	w.raw.Add(exchange.Notification, method, params)
	w.Stream.Notify(method, params)
	if method != mcp.NoteProgress {
		return
	}
	w.mu.Lock()
	w.n++
	now := time.Now()
	if now.Sub(w.last) < progressEvery {
		w.mu.Unlock()
		return
	}
	r, n := w.r, w.n
	w.last, w.n = now, 0
	w.mu.Unlock()
	r.Time = now
	r.Data = Progress{Progress: number(wire.Get(params, "progress")), Total: number(wire.Get(params, "total")), Count: n}
	w.events.Emit(r)
}

func (w *watched) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	w.raw.Add(exchange.Question, method, params)
	resp, err := w.Stream.Ask(ctx, method, params)
	switch {
	case err != nil:
		w.raw.Add(exchange.Answer, method, fault.Of(err).Wire(true))
	case resp.Error != nil:
		w.raw.Add(exchange.Answer, method, resp.Error)
	default:
		w.raw.Add(exchange.Answer, method, resp.Result)
	}
	return resp, err
}

var _ mcp.Stream = (*watched)(nil)
