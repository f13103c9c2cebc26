package call

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// Running is a call of a tool that is not over: it waits for a person, in a
// queue, or for its server.
type Running struct {
	Call      string    `json:"call"`
	Principal string    `json:"principal"`
	Session   string    `json:"session,omitempty"`
	Agent     string    `json:"agent,omitempty"` // the model that makes it
	Upstream  string    `json:"upstream"`
	Tool      string    `json:"tool"`
	Since     time.Time `json:"since"`

	cancel context.CancelCauseFunc
	by     string // who has cancelled it; "" for nobody
}

// runs are the calls that are not over.
type runs struct {
	mu sync.Mutex
	by map[string]*Running
}

// begin adds a call. Its context ends when somebody cancels it.
func (r *runs) begin(ctx context.Context, c *Call, t *toolCall, began time.Time) (context.Context, *Running) {
	run := &Running{Call: t.call, Principal: c.Req.Client.Actor.Name(), Session: c.Req.Session, Agent: modelOf(c.Req.Client), Upstream: c.Upstream.Name(), Since: began}
	if c.Item != nil {
		run.Tool = c.Item.Name
	} else {
		run.Tool, _ = c.Req.Text("name")
	}
	ctx, run.cancel = context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]*Running{}
	}
	r.by[run.Call] = run
	return ctx, run
}

// end takes a call out that is over, and returns who has cancelled it.
func (r *runs) end(run *Running) (by string) {
	run.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, run.Call)
	return run.by
}

// Running lists the calls that are not over of principals that are wanted, the
// oldest first.
func (d *Door) Running(wanted func(principal string) bool) []Running {
	d.runs.mu.Lock()
	defer d.runs.mu.Unlock()
	out := []Running{}
	for _, run := range d.runs.by {
		if wanted(run.Principal) {
			out = append(out, *run)
		}
	}
	slices.SortFunc(out, func(a, b Running) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Call, b.Call)) })
	return out
}

// Cancel ends a call of one of the principals that are wanted. Its caller is told
// who did, and its server that nobody waits. It reports whether there is such a
// call.
func (d *Door) Cancel(call, by string, wanted func(principal string) bool) bool {
	d.runs.mu.Lock()
	defer d.runs.mu.Unlock()
	run := d.runs.by[call]
	if run == nil || !wanted(run.Principal) {
		return false
	}
	run.by = cmp.Or(run.by, by)
	run.cancel(cancelledBy(run))
	return true
}

// cancelledBy is what the caller of a call is told that somebody has cancelled.
func cancelledBy(run *Running) *fault.Error {
	return &fault.Error{Kind: fault.Cancelled, Subject: run.Upstream,
		Msg:  "the call was cancelled by " + run.by + "; if the server had begun it, whether it took effect is not known",
		Hint: "Call again if the result is still wanted, and look first at what the call has done."}
}
