package hub

import (
	"net/http"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
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
	if who.Name != auth.LocalName {
		return &fault.Error{Kind: fault.Denied, Subject: "events", Msg: "only the hub's owner may see them", Hint: "Use the token of the data folder."}
	}
	q, err := query(r, "after", "limit", "wait")
	if err != nil {
		return err
	}
	after, limit, wait := uint64(0), 100, 25*time.Second
	if text := q.Get("after"); text != "" {
		if after, err = strconv.ParseUint(text, 10, 63); err != nil {
			return fault.New(fault.InvalidParams, "after", "%q is no number of an event", text)
		}
	}
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxEvents {
			return fault.New(fault.InvalidParams, "limit", "%q is no number from 1 to %d", text, maxEvents)
		}
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
	reply(w, http.StatusOK, h.eventsAfter(r, after, limit, wait))
	return nil
}

// eventPage is what there is after a number.
type eventPage struct {
	Events    []event.Record `json:"events"`
	Gap       uint64         `json:"gap"`                 // how many are lost before them
	Next      uint64         `json:"next"`                // to go on after
	Restarted bool           `json:"restarted,omitempty"` // the hub is another: its numbers begin anew
}

func (h *Hub) eventsAfter(r *http.Request, after uint64, limit int, wait time.Duration) eventPage {
	page := eventPage{Next: after}
	if after > h.events.Last() {
		page.Next, page.Restarted = 0, true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		records, lost, more := h.events.After(page.Next, limit)
		page.Gap += lost
		if len(records) > 0 {
			page.Events, page.Next = records, records[len(records)-1].Seq
			return page
		}
		select {
		case <-more:
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
