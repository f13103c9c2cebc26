package hub

import (
	"encoding/json"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/roster"
)

// mayCancel tells whose calls somebody may look at and cancel: the hub's owner
// those of all, others their own.
func mayCancel(who *auth.Principal) func(principal string) bool {
	all := who.Has(auth.RightSessions)
	return func(principal string) bool { return all || principal == who.Name }
}

// listCalls tells of the calls of tools that are not over.
func (h *Hub) listCalls(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "upstream", "offset", "limit")
	if err != nil {
		return err
	}
	running := merged(h, r, who, h.door.Running(mayCancel(who)), func(body []byte) ([]call.Running, error) {
		var page struct{ Calls []call.Running }
		return page.Calls, json.Unmarshal(body, &page)
	})
	all := []call.Running{}
	for _, c := range running {
		if q.Get("upstream") == "" || c.Upstream == q.Get("upstream") {
			all = append(all, c)
		}
	}
	part, err := pageOf(q, all)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"calls": part, "total": len(all)})
	return nil
}

// cancelCall ends a call. What somebody may not see is not there for them.
func (h *Hub) cancelCall(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	id := r.PathValue("call")
	cancelled := h.door.Cancel(id, who.Name, mayCancel(who))
	if !cancelled {
		h.ofOthers(r, who, "", func(_ roster.Hub, status int, _ []byte, err error) {
			cancelled = cancelled || err == nil && status == http.StatusOK
		})
	}
	if !cancelled {
		return &fault.Error{Kind: fault.ResourceNotFound, Subject: id, Msg: "there is no such call, or it is over", Hint: "GET /api/v1/calls lists those that run."}
	}
	h.log.Info("a call was cancelled", obs.KeyAction, "cancel", "call", id, "by", who.Name)
	reply(w, http.StatusOK, map[string]any{"call": id, "cancelled": true})
	return nil
}
