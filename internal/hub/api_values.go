package hub

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
)

// pageValue answers with a part of a value that is small enough to look at.
func (h *Hub) pageValue(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, v, err := h.value(r, who, "version", "path", "offset", "limit", "unit")
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if v, err = versionOf(s, v, q.Get("version")); err != nil {
		return err
	}
	path, err := session.ParsePath(q.Get("path"))
	if err != nil {
		return err
	}
	want := session.Range{Unit: session.Unit(q.Get("unit"))}
	if want.Offset, err = number(q.Get("offset"), "offset", 0, math.MaxInt32, 0); err != nil {
		return err
	}
	if want.Limit, err = number(q.Get("limit"), "limit", 1, math.MaxInt32, 0); err != nil {
		return err
	}
	data, err := s.Data(r.Context(), v)
	if err != nil {
		return err
	}
	p, err := session.PageOf(data, path, want)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, struct {
		Page    json.RawMessage `json:"page"`
		Unit    session.Unit    `json:"unit"`
		Offset  int             `json:"offset"`
		Total   int             `json:"total"`
		Next    int             `json:"next,omitempty"`
		Note    string          `json:"note,omitempty"`
		Version int             `json:"version"`
	}{p.Data, p.Unit, p.Offset, p.Total, p.Next, p.Note, v.Version})
	return nil
}

// versionOf is the version of v that text asks for, if it does.
func versionOf(s *session.Session, v session.Value, text string) (session.Value, error) {
	if text == "" {
		return v, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return v, fault.New(fault.InvalidParams, "version", "%q is no number of a version", text)
	}
	if v, err = s.Version(v.Name, n, 0); err != nil {
		f := *fault.Of(err)
		f.Kind, f.Hint = fault.ResourceNotFound, "Use a version that is kept."
		return v, &f
	}
	return v, nil
}

// use is a value that came of a call whose arguments referred to another.
type use struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Tool    string `json:"tool"`
	Used    int    `json:"used"` // the version that was referred to
}

// valueProvenance tells of a value what there was before it, and what came of
// it in this Session.
func (h *Hub) valueProvenance(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, v, err := h.value(r, who)
	if err != nil {
		return err
	}
	versions, err := s.History(v.Name)
	if err != nil {
		return err
	}
	all, err := s.Values("")
	if err != nil {
		return err
	}
	used := []use{}
	for _, other := range all {
		if other.Origin == nil {
			continue
		}
		for _, u := range other.Origin.Used {
			if u.Name == v.Name && (u.Session == "" || u.Session == s.Name()) {
				used = append(used, use{other.Name, other.Version, other.Origin.Tool, u.Version})
			}
		}
	}
	reply(w, http.StatusOK, map[string]any{"value": v, "versions": versions, "usedBy": used})
	return nil
}

// editValue stores a new version of a value that exists.
func (h *Hub) editValue(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, v, err := h.value(r, who, "over")
	if err != nil {
		return err
	}
	over, err := number(r.URL.Query().Get("over"), "over", 1, math.MaxInt32, 0)
	if err != nil {
		return err
	}
	data, err := readWhole(w, r, h.cfg.Limits.MessageBytes)
	if err != nil {
		return err
	}
	args := map[string]any{"name": v.Name}
	if json.Valid(data) { // or Put says what is wrong with it
		args["data"] = json.RawMessage(data)
	}
	own := ""
	if s.Principal() == who.Name {
		own, args["session"] = s.Name(), s.Name()
	}
	if err := h.permit(r, who, own, "context_add", args); err != nil {
		return err
	}
	next, _, err := s.Put(r.Context(), session.New{Name: v.Name, Data: data, Description: v.Description, By: who.Name, Author: apiClient(who).Actor.Record(), Over: over})
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"value": next})
	return nil
}
