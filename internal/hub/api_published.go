package hub

import (
	"context"
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
	"github.com/stoahub/stoa/internal/session"
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

func (h *Hub) listPlans(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "saved")
	if err != nil {
		return err
	}
	out := []planInfo{}
	for _, p := range h.plans.list() {
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
