package hub

import (
	"net/http"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
)

// traced is a part of a trace: a span, or a call that was told of.
type traced struct {
	ID         string            `json:"id"`
	Parent     string            `json:"parent,omitempty"`
	Depth      int               `json:"depth"`
	Name       string            `json:"name"`
	Began      time.Time         `json:"began"`
	TookUS     int64             `json:"took_us"`
	Kind       string            `json:"kind,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// showTrace tells what happened here in one trace: its parts as a tree, each
// below what it is part of, and the records that name it.
func (h *Hub) showTrace(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "traces"); err != nil {
		return err
	}
	if _, err := query(r); err != nil {
		return err
	}
	id := r.PathValue("trace")
	f, err := event.NewFilter("", "", "", "", "", id)
	if err != nil {
		return &fault.Error{Kind: fault.InvalidParams, Subject: "trace", Msg: err.Error(), Hint: "Records of calls and `stoa events` name the traces that there are."}
	}
	page := h.events.Read(0, maxEvents, f)
	parts, from := h.spansOf(id), "spans"
	if parts == nil {
		parts, from = callsOf(page.Records), "events"
	}
	if parts == nil && page.Records == nil {
		return &fault.Error{Kind: fault.ResourceNotFound, Subject: "traces", Msg: "nothing is known of a trace " + id,
			Hint: "The last spans and events are held in memory only; calls have a trace if their client names one, or if telemetry.endpoint is set."}
	}
	reply(w, http.StatusOK, map[string]any{"trace": id, "from": from, "parts": arrange(parts), "events": slices.Concat([]event.Record{}, page.Records)})
	return nil
}

// spansOf are the spans of a trace that ended here.
func (h *Hub) spansOf(id string) (out []traced) {
	for _, s := range h.tracer.Ended(id) {
		out = append(out, traced{ID: s.ID, Parent: s.Parent, Name: s.Name, Began: s.Began, TookUS: s.Took.Microseconds(), Kind: s.Kind, Attributes: s.Attributes})
	}
	return out
}

// callsOf are the calls that records tell of, where there are no spans.
func callsOf(records []event.Record) (out []traced) {
	for i := range records {
		r := &records[i]
		if r.Type != event.CallDone {
			continue
		}
		took := time.Duration(r.TookUS) * time.Microsecond
		out = append(out, traced{ID: r.Call, Parent: r.Parent, Name: r.Tool, Began: r.Time.Add(-took), TookUS: r.TookUS, Kind: r.Kind, Attributes: map[string]string{"stoa.upstream": r.Upstream}})
	}
	return out
}

// arrange orders parts as a tree is read: each is followed by those below it, in
// the order in which they began. One whose parent is not here begins a tree.
func arrange(parts []traced) []traced {
	slices.SortStableFunc(parts, func(a, b traced) int { return a.Began.Compare(b.Began) })
	here, below := map[string]bool{}, map[string][]traced{}
	for _, p := range parts {
		here[p.ID] = true
	}
	for _, p := range parts {
		parent := p.Parent
		if !here[parent] || parent == p.ID {
			parent = ""
		}
		below[parent] = append(below[parent], p)
	}
	out := make([]traced, 0, len(parts))
	var walk func(parent string, depth int)
	walk = func(parent string, depth int) {
		parts := below[parent]
		delete(below, parent)
		for _, p := range parts {
			p.Depth = depth
			out = append(out, p)
			if p.ID != "" {
				walk(p.ID, depth+1)
			}
		}
	}
	walk("", 0)
	return out
}
