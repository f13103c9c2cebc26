package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/upstream"
)

// routeConsoleAPI adds what looks into the hub and keeps it running, which the
// console is the first to use.
func (h *Hub) routeConsoleAPI(mux *http.ServeMux, g *auth.Guard) {
	for pattern, f := range map[string]apiHandler{
		"GET /api/v1/servers/{name}":                               h.showServer,
		"POST /api/v1/servers/{name}/restart":                      h.restartServer,
		"GET /api/v1/pulse":                                        h.showPulse,
		"GET /api/v1/logs":                                         h.readLogs,
		"GET /api/v1/config":                                       h.showConfig,
		"GET /api/v1/sessions/{session}/values/{value}/page":       h.pageValue,
		"GET /api/v1/sessions/{session}/values/{value}/provenance": h.valueProvenance,
		"PUT /api/v1/sessions/{session}/values/{value}":            h.editValue,
	} {
		mux.Handle(pattern, h.answering(g, f))
	}
}

// serverOf finds the server that a request names, among those that its
// principal may use.
func (h *Hub) serverOf(r *http.Request, who *auth.Principal) (*upstream.Upstream, error) {
	name := r.PathValue("name")
	var names []string
	for _, u := range h.pool.All() {
		if u.Builtin() || !h.knowsOf(who, u.Name()) {
			continue
		}
		if u.Name() == name {
			return u, nil
		}
		names = append(names, u.Name())
	}
	if who.Scopes.Allows(name) {
		if err := h.switchedOff(name); err != nil {
			return nil, err
		}
	}
	return nil, missing(fault.UnknownAgent, "server", name, names)
}

// switchedOff is the answer to who names a server that the config has disabled;
// nil if it has not.
func (h *Hub) switchedOff(name string) error {
	s := h.config().Server(name)
	if s == nil || s.Enabled {
		return nil
	}
	f := fault.New(fault.InvalidRequest, name, "the server is disabled in the config (enabled: false)")
	f.Hint = "Remove enabled: false, or disabled: true, from the server in the config."
	return f
}

// showServer tells all there is to know of one server.
func (h *Hub) showServer(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	u, err := h.serverOf(r, who)
	if err != nil {
		return err
	}
	d := u.Detail()
	d.Status = h.shownTo(who, d.Status)
	out := struct {
		upstream.Detail
		Changes []listChange `json:"changes"`
	}{d, h.lists.of(u.Name())}
	if !who.Has(auth.RightLogs) {
		out.Changes = nil // it names what others may not see
	}
	reply(w, http.StatusOK, out)
	return nil
}

// shownTo is the status of a server as somebody may see it. What it wrote to
// stderr is the owner's; what was sent to it, and may have come back in an error,
// is nobody's.
func (h *Hub) shownTo(who *auth.Principal, s upstream.Status) upstream.Status {
	s.Error = h.logs.Hidden(s.Error)
	if !who.Has(auth.RightLogs) {
		if s.Cause != "" {
			s.Hint = cmp.Or(s.Hint, "Ask the hub's owner, who sees what the program wrote.")
		}
		s.Stderr, s.Cause = nil, ""
		h.countFor(who, &s)
		return s
	}
	s.Cause = h.logs.Hidden(s.Cause)
	s.Stderr = slices.Clone(s.Stderr)
	for i, line := range s.Stderr {
		s.Stderr[i] = h.logs.Hidden(line)
	}
	return s
}

// countFor counts what somebody can see of a server, and leaves out what is said
// of the rest.
func (h *Hub) countFor(who *auth.Principal, s *upstream.Status) {
	view := h.door.View(apiClient(who), "")
	now := h.cat.Now()
	hidden := func(tool string) bool {
		it := now.Tool(s.Name, tool)
		return it == nil || !view.Item(it)
	}
	if u := h.pool.Get(s.Name); u != nil {
		u.TellOpen(s, slices.DeleteFunc(u.OpenTools(), hidden))
	}
	s.Health = slices.DeleteFunc(slices.Clone(s.Health), func(n upstream.Health) bool { return n.Tool() != "" && hidden(n.Tool()) })
	lists := now.Of(s.Name)
	if lists == nil {
		return
	}
	for kind, n := range map[catalog.Kind]*int{catalog.Tool: &s.Tools, catalog.Prompt: &s.Prompts, catalog.Resource: &s.Resources, catalog.Template: &s.Templates} {
		*n = 0
		for _, it := range lists.Items[kind] {
			if view.Item(it) {
				*n++
			}
		}
	}
}

// restartServer connects to a server anew. It does not wait until it is there.
func (h *Hub) restartServer(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "restart"); err != nil {
		return err
	}
	if _, err := query(r); err != nil {
		return err
	}
	u, err := h.serverOf(r, who)
	if err != nil {
		return err
	}
	h.reloading.Lock()
	defer h.reloading.Unlock()
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return fault.New(fault.Cancelled, u.Name(), "the hub is being stopped")
	}
	if err := h.pool.Restart(u.Name()); err != nil {
		return err
	}
	h.log.Info("a server is restarted", obs.KeyAction, "restart", obs.KeyUpstream, u.Name(), "by", who.Name)
	reply(w, http.StatusAccepted, map[string]any{"restarted": u.Name()})
	return nil
}

// number reads a query parameter that is a number from least to most, or gives
// what it is if it was left out.
func number(text, name string, least, most, or int) (int, error) {
	if text == "" {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fault.New(fault.InvalidParams, name, "%q is no number from %d to %d", text, least, most)
	}
	return n, nil
}

// maxPage is how many entries of a list are told at once if a page is asked for.
const maxPage = 1000

// pageOf is the part of a list that offset and limit ask for; without a limit,
// all that follows the offset.
func pageOf[T any](q url.Values, all []T) ([]T, error) {
	offset, err := number(q.Get("offset"), "offset", 0, math.MaxInt32, 0)
	if err != nil {
		return nil, err
	}
	limit, err := number(q.Get("limit"), "limit", 1, maxPage, len(all))
	if err != nil {
		return nil, err
	}
	all = all[min(offset, len(all)):]
	return all[:min(limit, len(all))], nil
}

// maxLogs is how many records of the log are told at once.
const maxLogs = 1000

// readLogs answers with the last records of the log or, with after, with those
// that followed.
func (h *Hub) readLogs(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "logs"); err != nil {
		return err
	}
	v, err := query(r, "level", "search", "limit", "after")
	if err != nil {
		return err
	}
	q := obs.Query{Search: v.Get("search")}
	if q.Limit, err = number(v.Get("limit"), "limit", 1, maxLogs, 100); err != nil {
		return err
	}
	if text := v.Get("level"); text != "" {
		level, err := obs.ParseLevel(text)
		if err != nil {
			return fault.New(fault.InvalidParams, "level", "%v", err)
		}
		q.Level = level
	}
	var records []obs.Record
	next := h.logs.Last() // before they are read: what comes in between is told twice, not never
	if text := v.Get("after"); text == "" {
		records = h.logs.Read(q)
		for i, j := 0, len(records)-1; i < j; i, j = i+1, j-1 {
			records[i], records[j] = records[j], records[i]
		}
	} else {
		after, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return fault.New(fault.InvalidParams, "after", "%q is no number of a record", text)
		}
		if after > next {
			after = 0 // of another hub
		}
		records, next = h.logs.After(after, q)
	}
	out := []byte(`{"logs":[`)
	for i := range records {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, modules.LogRecord(&records[i])...)
	}
	out = append(out, `],"next":`...)
	write(w, http.StatusOK, append(strconv.AppendUint(out, next, 10), '}'))
	return nil
}

// showConfig answers with the config in effect and where each value is from,
// without secrets.
func (h *Hub) showConfig(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "config"); err != nil {
		return err
	}
	if _, err := query(r); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := h.config().Show(&b, true); err != nil {
		return err
	}
	refused := h.refused.Load()
	if refused == nil {
		write(w, http.StatusOK, bytes.TrimSpace(b.Bytes()))
		return nil
	}
	var shown struct {
		Config  json.RawMessage `json:"config"`
		Origins json.RawMessage `json:"origins"`
		Refused []refusal       `json:"refused"`
	}
	if err := json.Unmarshal(b.Bytes(), &shown); err != nil {
		return fmt.Errorf("config: show it: %w", err)
	}
	shown.Refused = *refused
	reply(w, http.StatusOK, shown)
	return nil
}
