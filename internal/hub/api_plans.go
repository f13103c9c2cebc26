package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/plan"
)

// planRoutes are the addresses of plans and their runs.
func (h *Hub) planRoutes() map[string]apiHandler {
	return map[string]apiHandler{
		"GET /api/v1/runs":                 h.listRuns,
		"POST /api/v1/runs":                h.startRun,
		"GET /api/v1/runs/{run}":           h.showRun,
		"POST /api/v1/runs/{run}/{action}": h.actOnRun,
		"GET /api/v1/runs/{run}/journal":   h.exportRun,
		"GET /api/v1/runs/{run}/compare":   h.compareRuns,
		"GET /api/v1/plans":                h.listPlans,
		"GET /api/v1/plans/{plan}":         h.showPlan,
		"PUT /api/v1/plans/{plan}":         h.publishPlan,
		"DELETE /api/v1/plans/{plan}":      h.unpublishPlan,
		"POST /api/v1/plans/{plan}/share":  h.sharePublished,
	}
}

// runsOf returns the runs that a principal may look at and control, the newest
// first: the hub's owner all, others their own.
func (h *Hub) runsOf(who *auth.Principal, q url.Values) ([]*plan.Run, error) {
	if err := h.maySee(who, "plan_status"); err != nil {
		return nil, err
	}
	of := q.Get("principal")
	if !who.Has(auth.RightSessions) {
		if of != "" && of != who.Name {
			return nil, &fault.Error{Kind: fault.Denied, Subject: "principal", Msg: fmt.Sprintf("%q may see its own runs only", who.Name), Hint: "Use the token of the data folder."}
		}
		of = who.Name
	}
	in := q.Get("session")
	wanted, err := wantedRuns(q)
	if err != nil {
		return nil, err
	}
	return h.plans.runs.All(func(s plan.Summary) bool {
		return (of == "" || s.Principal == of) && (in == "" || s.Session == in) && wanted(s)
	}), nil
}

// wantedRuns reads how the runs are that are asked for: their statuses, and how
// long ago those that are over may have ended.
func wantedRuns(q url.Values) (func(plan.Summary) bool, error) {
	var statuses []string
	if text := q.Get("status"); text != "" {
		statuses = strings.Split(text, ",")
		for _, one := range statuses {
			if all := plan.Statuses(); !slices.Contains(all, one) {
				return nil, missing(fault.InvalidParams, "status", one, all)
			}
		}
	}
	var since time.Time
	if text := q.Get("within"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, fault.New(fault.InvalidParams, "within", "%q is no time such as 24h", text)
		}
		since = time.Now().Add(-d)
	}
	return func(s plan.Summary) bool {
		return (statuses == nil || slices.Contains(statuses, string(s.Status))) && (s.Ended == nil || !s.Ended.Before(since))
	}, nil
}

func (h *Hub) listRuns(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "session", "principal", "status", "within", "offset", "limit")
	if err != nil {
		return err
	}
	all, err := h.runsOf(who, q)
	if err != nil {
		return err
	}
	part, err := pageOf(q, all)
	if err != nil {
		return err
	}
	out := []plan.Summary{}
	for _, run := range part {
		out = append(out, run.Summary())
	}
	return say(w, map[string]any{"runs": out, "total": len(all)})
}

// say answers with JSON in which data of clients and tools is as they wrote it.
func say(w http.ResponseWriter, v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	write(w, http.StatusOK, bytes.TrimSuffix(out.Bytes(), []byte{'\n'}))
	return nil
}

// runOf finds the run that a request names; "current" is the newest.
func (h *Hub) runOf(who *auth.Principal, q url.Values, id string) (*plan.Run, error) {
	all, err := h.runsOf(who, q)
	if err != nil {
		return nil, err
	}
	if id == "current" && len(all) > 0 {
		return all[0], nil
	}
	var ids []string
	for _, run := range all {
		if run.ID() == id {
			return run, nil
		}
		ids = append(ids, run.ID())
	}
	return nil, missing(fault.ResourceNotFound, "run", id, ids)
}

// lookAt reads what a view is to show.
func lookAt(q url.Values) (plan.Look, error) {
	look := plan.Look{Step: q.Get("step")}
	for name, to := range map[string]*bool{"results": &look.Results, "context": &look.Context, "plan": &look.Plan} {
		if text := q.Get(name); text != "" {
			on, err := strconv.ParseBool(text)
			if err != nil {
				return look, fault.New(fault.InvalidParams, name, "%q is neither true nor false", text)
			}
			*to = on
		}
	}
	if text := q.Get("preview"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return look, fault.New(fault.InvalidParams, "preview", "%q is no number of bytes", text)
		}
		look.Preview = n
	}
	return look, nil
}

// lookNames are the query parameters of every address that answers with a run.
var lookNames = []string{"session", "principal", "results", "step", "context", "plan", "preview", "wait", "after"}

// awaited waits for a run as long as a request says: until it is over or
// paused, or with after until its journal has more entries.
func (h *Hub) awaited(r *http.Request, q url.Values, run *plan.Run) error {
	var wait time.Duration
	if text := q.Get("wait"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > time.Minute {
			return fault.New(fault.InvalidParams, "wait", "%q is no time up to 60s", text)
		}
	}
	after := 1 << 60
	if text := q.Get("after"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fault.New(fault.InvalidParams, "after", "%q is no number of entries", text)
		}
		after = n
	}
	if wait == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-h.endpoint.Closing():
			cancel() // the hub is to end
		case <-ctx.Done():
		}
	})
	_ = run.Await(ctx, after) // what is answered says how far it is
	cancel()
	watch.Wait()
	return nil
}

// sayRun answers with a run, after the time that the request gives it, and with
// what a step would be called with: the one that is named, or the one before
// which the run is paused.
func (h *Hub) sayRun(w http.ResponseWriter, r *http.Request, q url.Values, run *plan.Run, note, step string) error {
	look, err := lookAt(q)
	if err == nil {
		err = h.awaited(r, q, run)
	}
	if err != nil {
		return err
	}
	v, err := run.View(r.Context(), look)
	if err != nil {
		return err
	}
	out := map[string]any{"run": v}
	if note != "" {
		out["note"] = note
	}
	switch next, err := run.Next(r.Context(), step); {
	case err != nil:
		return err
	case next != nil:
		out["next"] = next
	}
	return say(w, out)
}

// namedRun reads how somebody wants to look at a run, and finds the one that the
// path names.
func (h *Hub) namedRun(r *http.Request, who *auth.Principal) (q url.Values, run *plan.Run, err error) {
	if q, err = query(r, lookNames...); err == nil {
		run, err = h.runOf(who, q, r.PathValue("run"))
	}
	return q, run, err
}

func (h *Hub) showRun(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, run, err := h.namedRun(r, who)
	if err != nil {
		return err
	}
	return h.sayRun(w, r, q, run, "", "")
}

// exportRun writes the journal of a run, one event a line, or what of it follows
// an event. If it cannot be read to its end the answer is cut off: half a
// journal must not look whole.
func (h *Hub) exportRun(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "session", "principal", "after")
	if err != nil {
		return err
	}
	after, err := number(q.Get("after"), "after", 0, math.MaxInt32, 0)
	if err != nil {
		return err
	}
	run, err := h.runOf(who, q, r.PathValue("run"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(w, 32<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err = run.Journal(r.Context(), func(e plan.Event) error {
		if e.N <= after {
			return nil
		}
		return enc.Encode(e)
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		h.logger("api").Warn("the export of a run was cut off", "run", run.ID(), obs.KeyErr, err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (h *Hub) compareRuns(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "session", "principal", "with", "preview")
	if err != nil {
		return err
	}
	look, err := lookAt(q)
	if err != nil {
		return err
	}
	a, err := h.runOf(who, q, r.PathValue("run"))
	if err != nil {
		return err
	}
	b, err := h.runOf(who, q, q.Get("with"))
	if err != nil {
		return err
	}
	c, err := plan.Compare(r.Context(), a, b, look.Preview)
	if err != nil {
		return err
	}
	return say(w, c)
}
