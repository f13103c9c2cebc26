package hub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/task"
)

// taskInfo is what the API tells of a task.
type taskInfo struct {
	ID        string          `json:"task"`
	Principal string          `json:"principal"`
	Session   string          `json:"session,omitempty"`
	Upstream  string          `json:"upstream"`
	Tool      string          `json:"tool"`
	Status    task.Phase      `json:"status"`
	Message   string          `json:"message,omitempty"`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Expires   time.Time       `json:"expires"`
	Progress  json.RawMessage `json:"progress,omitempty"` // {progress, total}
	Asked     json.RawMessage `json:"inputRequests,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

func infoOf(d *task.Detail) taskInfo {
	i := taskInfo{ID: d.ID, Principal: d.Work.Principal, Session: d.Work.Session, Upstream: d.Work.Upstream, Tool: d.Work.Tool, Status: d.Status,
		Message: d.Message, Created: d.Created, Updated: d.Updated, Expires: d.Expires(), Asked: d.Requests, Result: d.Result, Error: d.Error}
	if i.Message == "" {
		i.Message = d.Note
	}
	if d.Reached != "" {
		i.Progress = json.RawMessage(d.Reached)
	}
	return i
}

// tasksOf returns the tasks that a principal may look at: the hub's owner all,
// others their own.
func (h *Hub) tasksOf(who *auth.Principal) []*task.Task {
	return h.tasks.Kept().List(func(s *task.State) bool { return who.Has(auth.RightSessions) || s.Work.Principal == who.Name })
}

func (h *Hub) listTasks(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "upstream", "status", "newest", "offset", "limit")
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(slices.Clone(h.tasksOf(who)), func(t *task.Task) bool {
		s := t.State()
		return q.Get("upstream") != "" && s.Work.Upstream != q.Get("upstream") || q.Get("status") != "" && string(s.Status) != q.Get("status")
	})
	if q.Get("newest") == "true" {
		slices.Reverse(all)
	}
	part, err := pageOf(q, all)
	if err != nil {
		return err
	}
	out := []taskInfo{}
	for _, t := range part {
		out = append(out, infoOf(&task.Detail{State: t.State()}))
	}
	reply(w, http.StatusOK, map[string]any{"tasks": out, "total": len(all)})
	return nil
}

func (h *Hub) taskOf(r *http.Request, who *auth.Principal) (*task.Task, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	var ids []string
	for _, t := range h.tasksOf(who) {
		if t.ID() == r.PathValue("task") {
			return t, nil
		}
		ids = append(ids, t.ID())
	}
	return nil, missing(fault.ResourceNotFound, "task", r.PathValue("task"), ids)
}

func (h *Hub) showTask(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	t, err := h.taskOf(r, who)
	if err != nil {
		return err
	}
	d, err := t.Detail(r.Context())
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"task": infoOf(&d)})
	return nil
}

func (h *Hub) cancelTask(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	t, err := h.taskOf(r, who)
	if err != nil {
		return err
	}
	if err := t.Cancel(r.Context(), "cancelled by "+who.Name); err != nil {
		return fmt.Errorf("cancel task %s: %w", t.ID(), err)
	}
	h.log.Info("a task was cancelled", obs.KeyAction, "cancel", "task", t.ID(), "by", who.Name)
	reply(w, http.StatusOK, map[string]any{"task": infoOf(&task.Detail{State: t.State()})})
	return nil
}
