package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
	"github.com/stoahub/stoa/internal/session"
)

// planInfo is what the API tells of a published plan.
type planInfo struct {
	Name   string `json:"name"`
	Tool   string `json:"tool"`
	Owner  string `json:"owner"`
	Shared bool   `json:"shared"` // everybody has it
	// Revision is what is to be said of the plan to share this one and no other.
	Revision string       `json:"revision"`
	Title    string       `json:"title,omitempty"`
	Steps    int          `json:"steps"`
	Inputs   []plan.Input `json:"inputs,omitempty"`
}

func publishedInfo(p published.Plan) planInfo {
	return planInfo{Name: p.Name, Tool: p.Tool(), Owner: p.Owner, Shared: p.Shared, Revision: p.Revision(), Title: p.Plan.Title, Steps: len(p.Plan.Steps), Inputs: p.Plan.Inputs}
}

func (h *Hub) listPlans(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "saved")
	if err != nil {
		return err
	}
	out := []planInfo{}
	for _, p := range h.plansOf(who) {
		out = append(out, publishedInfo(p))
	}
	answer := map[string]any{"plans": out}
	switch text := q.Get("saved"); text {
	case "", "false":
	case "true":
		if answer["saved"], answer["more"], err = h.savedPlans(r.Context(), who); err != nil {
			return err
		}
	default:
		return fault.New(fault.InvalidParams, "saved", "%q is neither true nor false", text)
	}
	return say(w, answer)
}

// savedInfo is what the API tells of a plan that a Session keeps.
type savedInfo struct {
	Name      string       `json:"name"`
	Session   string       `json:"session"`
	Principal string       `json:"principal"`
	Own       bool         `json:"own"` // who asks can refer to it as @name
	Title     string       `json:"title,omitempty"`
	Steps     int          `json:"steps"`
	Inputs    []plan.Input `json:"inputs,omitempty"`
	Version   int          `json:"version"`
	Time      time.Time    `json:"time"`
}

// mostSaved is how many values are read in a search for plans.
const mostSaved = 500

// savedPlans are the values of Sessions that are plans, those of the Session
// that was used last first. more says that there may be others.
func (h *Hub) savedPlans(ctx context.Context, who *auth.Principal) (out []savedInfo, more bool, err error) {
	all, err := h.seen(who, "")
	if err != nil {
		return nil, false, err
	}
	if h.maySee(who, "context_get") != nil {
		all = nil
	}
	used := make(map[*session.Session]time.Time, len(all))
	for _, s := range all {
		used[s] = s.Info().Used
	}
	slices.SortStableFunc(all, func(a, b *session.Session) int { return used[b].Compare(used[a]) })
	out = []savedInfo{}
	read := 0
	for _, s := range all {
		values, err := s.Values("")
		if err != nil {
			return nil, false, err
		}
		for _, v := range values {
			if !mayBePlan(v) {
				continue
			}
			if read++; read > mostSaved {
				return out, true, nil
			}
			data, err := s.Data(ctx, v)
			if err != nil && fault.Of(err).Kind == fault.BadReference {
				continue // it was removed meanwhile
			}
			if err != nil {
				return nil, false, err
			}
			if p := modules.PlanIn(data); p != nil {
				out = append(out, savedInfo{v.Name, s.Name(), s.Principal(), s.Principal() == who.Name, p.Title, len(p.Steps), p.Inputs, v.Version, v.Time})
			}
		}
	}
	return out, false, nil
}

// mayBePlan says whether a value is worth reading in a search for plans: its
// summary names its keys.
func mayBePlan(v session.Value) bool {
	return v.Type == "object" && v.Size <= 2*plan.MaxBytes && (strings.Contains(v.Summary, "steps") || strings.Contains(v.Summary, "plan"))
}

// plansOf are the published plans that somebody may know of: those whose tools are
// there for them; the owner all.
func (h *Hub) plansOf(who *auth.Principal) []published.Plan {
	if who.Has(auth.RightSessions) {
		return h.plans.list()
	}
	view, snap := h.door.View(apiClient(who), ""), h.cat.Now()
	return slices.DeleteFunc(h.plans.list(), func(p published.Plan) bool {
		if it := snap.Tool(modules.PlanName, p.Tool()); it != nil {
			return !view.Item(it)
		}
		return p.Owner != who.Name || !view.Server(modules.PlanName) // it is being offered
	})
}

// publishedOf finds the published plan that a request names, by its name or
// that of its tool, whichever hub it was published at. Of several of one name,
// that of who asks is meant.
func (h *Hub) publishedOf(r *http.Request, who *auth.Principal) (published.Plan, error) {
	if _, err := query(r); err != nil {
		return published.Plan{}, err
	}
	if err := h.plans.published.CatchUp(r.Context()); err != nil && r.Method != http.MethodGet {
		return published.Plan{}, err
	}
	var names []string
	var found []published.Plan
	for _, p := range h.plansOf(who) {
		names = append(names, p.Name)
		switch wanted := strings.TrimPrefix(r.PathValue("plan"), published.Prefix); {
		case p.Tool() == published.Prefix+wanted && wanted != p.Name, p.Name == wanted && p.Owner == who.Name:
			return p, nil
		case p.Name == wanted:
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return published.Plan{}, missing(fault.ResourceNotFound, "published plan", r.PathValue("plan"), names)
	case 1:
		return found[0], nil
	}
	var tools []string
	for i := range found {
		tools = append(tools, found[i].Tool())
	}
	return published.Plan{}, (&fault.Error{Kind: fault.InvalidParams, Subject: r.PathValue("plan"), Msg: "several principals have published a plan of that name",
		Hint: "Name its tool: " + strings.Join(tools, " or ") + "."}).With("candidates", tools)
}

func (h *Hub) showPlan(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	p, err := h.publishedOf(r, who)
	if err != nil {
		return err
	}
	return say(w, map[string]any{"name": p.Name, "tool": p.Tool(), "owner": p.Owner, "shared": p.Shared, "revision": p.Revision(), "plan": p.Plan})
}

// sharePublished shows a published plan to everybody, or to its publisher alone.
func (h *Hub) sharePublished(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	p, err := h.publishedOf(r, who)
	if err != nil {
		return err
	}
	var a struct {
		Shared   *bool  `json:"shared"`
		Revision string `json:"revision"`
	}
	if err := h.decodeBody(w, r, &a); err != nil {
		return err
	}
	switch {
	case a.Shared == nil:
		return &fault.Error{Kind: fault.InvalidArguments, Subject: "shared", Msg: "the body does not say whether the plan is to be shared", Hint: `Send {"shared":true} or {"shared":false}.`}
	case !who.Has(auth.RightShare):
		return &fault.Error{Kind: fault.Denied, Subject: p.Name, Msg: "only the hub's owner may share a published plan with others", Hint: "Ask the owner to run `stoa plan share " + p.Tool() + "`."}
	}
	if a.Revision != "" && a.Revision != p.Revision() && *a.Shared {
		return changedPlan(&p)
	}
	if err := h.sharePlan(r.Context(), &p, *a.Shared); err != nil {
		return err
	}
	h.log.Info("a published plan was shared", obs.KeyAction, "share", "plan", p.Tool(), "shared", *a.Shared, "revision", p.Revision(), "by", who.Name)
	return say(w, map[string]any{"name": p.Name, "tool": p.Tool(), "owner": p.Owner, "shared": *a.Shared, "revision": p.Revision()})
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
	name := r.PathValue("plan")
	if err := h.permit(r, who, "", "plan_create", map[string]any{"plan": json.RawMessage(body), "publish": name}); err != nil {
		return err
	}
	p, err := h.planOptions().Examine(r.Context(), asking(who).Client.Actor, nil, body, nil)
	if err != nil {
		return modules.AsFault(err)
	}
	tool, err := h.publish(r.Context(), asking(who), name, p)
	if err != nil {
		return err
	}
	h.log.Info("a plan was published", obs.KeyAction, "publish", "plan", name, "by", who.Name)
	now := published.Plan{Plan: *p}
	return say(w, map[string]any{"name": name, "tool": tool, "revision": now.Revision()})
}

func (h *Hub) unpublishPlan(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	p, err := h.publishedOf(r, who)
	if err != nil {
		return err
	}
	if p.Owner != who.Name && !who.Has(auth.RightShare) {
		return &fault.Error{Kind: fault.Denied, Subject: p.Name, Msg: "it is another's plan", Hint: "Its publisher or the hub's owner can take it back."}
	}
	gone := func(*published.Plan) (*published.Plan, error) { return nil, nil }
	if err := h.changePlan(r.Context(), p.Tool(), gone); err != nil {
		return fmt.Errorf("take back the plan %s: %w", p.Name, err)
	}
	h.log.Info("a plan was taken back", obs.KeyAction, "unpublish", "plan", p.Name, "by", who.Name)
	return say(w, map[string]any{"removed": p.Name})
}

// asking is a request of nobody but a principal.
func asking(who *auth.Principal) *mcp.Request { return &mcp.Request{Client: apiClient(who)} }
