package hub

import (
	"encoding/json"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// What the API does that a tool does too is decided about as a call of that tool:
// by the scopes of the caller, the switches and the policy. Looking at what is
// kept, and ending it, is the owner's whatever becomes of the tools.

// permit refuses a request of the API that does what a call of the tool with these
// arguments does, if that would be refused.
func (h *Hub) permit(r *http.Request, who *auth.Principal, session, tool string, args any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return fault.New(fault.Internal, tool, "the arguments cannot be written").Because(err)
	}
	req := toolRequest(tool, raw, "", false, obs.ParentOf(r.Header))
	req.Client, req.Session = apiClient(who), session
	it, err := h.gateway.Find(r.Context(), req.Client, session, tool)
	if err != nil {
		return err
	}
	u := h.pool.Get(it.Upstream)
	if u == nil {
		return fault.New(fault.UnknownTool, tool, "unknown tool")
	}
	return h.door.Permit(r.Context(), req, u, it)
}

// maySee refuses those a look for whom the tool that gives it is not there.
func (h *Hub) maySee(who *auth.Principal, tool string) error {
	if who.Has(auth.RightSessions) {
		return nil
	}
	view := h.door.View(apiClient(who), "")
	_, err := h.cat.Now().Find(catalog.Tool, tool, view.Sight())
	return err
}
