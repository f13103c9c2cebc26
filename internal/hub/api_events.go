package hub

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/viewer"
)

// The bounds of a look at the events.
const (
	maxPolls  = 64 // requests that wait at once
	maxEvents = 1000
	maxWait   = time.Minute
)

// pollEvents answers with the records that follow a number, waiting for one if
// there are none yet. They tell of every principal, so that only the hub's
// owner may see them.
func (h *Hub) pollEvents(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "events"); err != nil {
		return err
	}
	q, err := query(r, append([]string{"limit", "wait"}, watchParams...)...)
	if err != nil {
		return err
	}
	after, f, err := wanted(q)
	if err != nil {
		return err
	}
	wait := 25 * time.Second
	limit, err := limitOf(q.Get("limit"), 100, maxEvents)
	if err != nil {
		return err
	}
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return fault.New(fault.InvalidParams, "wait", "%q is no time from 0s to %v", text, maxWait)
		}
	}
	if h.polls.Add(1) > maxPolls {
		h.polls.Add(-1)
		return fault.New(fault.QueueFull, "events", "%d requests wait for events, which is as many as may", maxPolls)
	}
	defer h.polls.Add(-1)
	defer h.events.Watch()()
	reply(w, http.StatusOK, h.eventsAfter(r, q.Get("hub"), after, limit, wait, f))
	return nil
}

// watchParams are the query parameters by which those who watch say what they
// want.
var watchParams = []string{"after", "hub", "types", "upstream", "tool", "session", "level", "trace"}

// wanted reads them.
func wanted(q url.Values) (after uint64, f *event.Filter, err error) {
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return 0, nil, fault.New(fault.InvalidParams, "after", "%q is no number of an event", text)
		}
	}
	if f, err = event.NewFilter(q.Get("types"), q.Get("upstream"), q.Get("tool"), q.Get("session"), q.Get("level"), q.Get("trace")); err != nil {
		return 0, nil, fault.New(fault.InvalidParams, "events", "%v", err)
	}
	return after, f, nil
}

// limitOf reads a number of things to answer with.
func limitOf(text string, usual, most int) (int, error) {
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fault.New(fault.InvalidParams, "limit", "%q is no number from 1 to %d", text, most)
	}
	return n, nil
}

// watchEvents lets a client watch over a WebSocket.
func (h *Hub) watchEvents(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "events"); err != nil {
		return err
	}
	q, err := query(r, append([]string{"batch"}, watchParams...)...)
	if err != nil {
		return err
	}
	after, f, err := wanted(q)
	if err != nil {
		return err
	}
	if q.Get("after") == "" {
		after = h.events.Last() // from now on
	}
	switch q.Get("batch") {
	case "", "false":
		return h.viewers.Serve(w, r, viewer.Wish{After: after, Hub: q.Get("hub"), Filter: f})
	case "true":
		return h.viewers.Serve(w, r, viewer.Wish{After: after, Hub: q.Get("hub"), Filter: f, Batch: true})
	}
	return fault.New(fault.InvalidParams, "batch", "%q is neither true nor false", q.Get("batch"))
}

// eventPage is what there is after a number.
type eventPage struct {
	Events    []event.Record `json:"events"`
	Gap       uint64         `json:"gap"`                 // how many are lost before them
	Next      uint64         `json:"next"`                // to go on after
	Hub       string         `json:"hub"`                 // whose numbers these are
	Restarted bool           `json:"restarted,omitempty"` // the hub is another: its numbers begin anew
}

func (h *Hub) eventsAfter(r *http.Request, hub string, after uint64, limit int, wait time.Duration, f *event.Filter) eventPage {
	page := eventPage{Next: after, Hub: h.events.Name()}
	if !h.events.Follows(hub, after) {
		page.Next, page.Restarted = 0, true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		p := h.events.Read(page.Next, limit, f)
		page.Gap += p.Lost
		page.Next = p.Next
		if len(p.Records) > 0 {
			page.Events = p.Records
			return page
		}
		select {
		case <-p.More:
			continue
		case <-timer.C:
		case <-r.Context().Done():
		case <-h.endpoint.Closing():
		}
		page.Events = []event.Record{}
		return page
	}
}

// sessionEvent tells of a change of a Session. It must not block.
func (h *Hub) sessionEvent(c session.Change) {
	r := event.Record{Session: c.Session.Name(), Principal: c.Session.Principal()}
	switch {
	case c.Ended:
		r.Type = event.SessionEnded
	case c.Opened:
		r.Type = event.SessionOpened
	case c.Modules:
		r.Type = event.ModuleSwitch
	case c.Value != "":
		r.Type, r.Data = event.ValueStored, map[string]string{"name": c.Value}
		if c.Listed { // it came or went
			if _, err := c.Session.Value(c.Value); err != nil {
				r.Type = event.ValueRemoved
			}
		}
	default:
		return
	}
	h.events.Emit(r)
}
