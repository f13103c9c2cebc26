package hub

import (
	"fmt"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan"
)

// planInfo is what the API tells of a published plan.
type planInfo struct {
	Name   string       `json:"name"`
	Tool   string       `json:"tool"`
	Owner  string       `json:"owner"`
	Title  string       `json:"title,omitempty"`
	Steps  int          `json:"steps"`
	Inputs []plan.Input `json:"inputs,omitempty"`
}

func publishedInfo(p modules.Published) planInfo {
	return planInfo{Name: p.Name, Tool: modules.PublishedPrefix + p.Name, Owner: p.Owner, Title: p.Plan.Title, Steps: len(p.Plan.Steps), Inputs: p.Plan.Inputs}
}

func (h *Hub) listPlans(w http.ResponseWriter, r *http.Request, _ *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	out := []planInfo{}
	for _, p := range h.plans.list() {
		out = append(out, publishedInfo(p))
	}
	return say(w, map[string]any{"plans": out})
}

// publishedOf finds the published plan that a request names.
func (h *Hub) publishedOf(r *http.Request) (modules.Published, error) {
	if _, err := query(r); err != nil {
		return modules.Published{}, err
	}
	var names []string
	for _, p := range h.plans.list() {
		if p.Name == r.PathValue("plan") {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return modules.Published{}, missing(fault.ResourceNotFound, "published plan", r.PathValue("plan"), names)
}

func (h *Hub) showPlan(w http.ResponseWriter, r *http.Request, _ *auth.Principal) error {
	p, err := h.publishedOf(r)
	if err != nil {
		return err
	}
	return say(w, map[string]any{"name": p.Name, "tool": modules.PublishedPrefix + p.Name, "owner": p.Owner, "plan": p.Plan})
}

// publishPlan offers the plan of the body as a tool. It stands alone: a tool is
// called from any Session, so that it may refer to none.
func (h *Hub) publishPlan(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	p, problems := plan.Decode(body)
	if problems == nil {
		problems = plan.Check(p, nil)
	}
	if problems != nil {
		return modules.AsFault(&plan.Problems{List: problems})
	}
	name := r.PathValue("plan")
	tool, err := h.publish(r.Context(), asking(who), name, p)
	if err != nil {
		return err
	}
	h.log.Info("a plan was published", obs.KeyAction, "publish", "plan", name, "by", who.Name)
	return say(w, map[string]any{"name": name, "tool": tool})
}

func (h *Hub) unpublishPlan(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	p, err := h.publishedOf(r)
	if err != nil {
		return err
	}
	if _, err := h.publish(r.Context(), asking(who), p.Name, nil); err != nil {
		return fmt.Errorf("take back the plan %s: %w", p.Name, err)
	}
	h.log.Info("a plan was taken back", obs.KeyAction, "unpublish", "plan", p.Name, "by", who.Name)
	return say(w, map[string]any{"removed": p.Name})
}

// asking is a request of nobody but a principal.
func asking(who *auth.Principal) *mcp.Request {
	return &mcp.Request{Client: &mcp.Client{Principal: who}}
}
