package hub

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/incident"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/viewer"
)

// openEvents opens what tells of things that happen, and the book of those
// that went wrong: whatever is logged as such is put into it.
func (h *Hub) openEvents() {
	h.events = event.New(0)
	h.book = incident.New(incident.Options{Events: h.events, Hide: h.logs.Hidden})
	h.logs.Tap(h.troubled)
	h.opened(func() { h.logs.Tap(nil) })
	h.viewers = viewer.New(h.events, viewer.Options{Logger: h.logger("viewer")})
	h.exchanges = exchange.New(h.hidden)
	h.exchanges.Switch(h.cfg.Console.Exchanges)
	h.opened(h.viewers.Close)
}

// keepErrors has the book kept, where the hub keeps things.
func (h *Hub) keepErrors() error {
	if h.state.store == nil {
		return nil
	}
	h.opened(h.book.Close)
	return h.book.Keep(context.Background(), h.state.store, h.id)
}

// troubled puts into the book what was logged as having gone wrong. Calls that
// failed are put there by the door, which knows more of them.
func (h *Hub) troubled(t obs.Trouble) {
	component := t.Facts[obs.KeyComponent]
	if component == "call" || t.Facts[obs.KeyAction] == actionPin { // a definition to look at is no failure
		return
	}
	e := incident.Error{Source: component, Severity: incident.Warning, Context: t.Facts}
	if t.Level >= slog.LevelError {
		e.Severity = incident.Failed
	}
	k := incident.Key{Upstream: t.Facts[obs.KeyUpstream], Tool: t.Facts[obs.KeyTool]}
	e.ErrorType, k.Code = kindOfTrouble(component, t)
	switch e.ErrorType {
	case incident.Panic:
		e.Severity, e.Error.Stack = incident.Critical, t.Stack
	case incident.Upstream:
		if upstream.State(t.Facts["state"]).Down() {
			e.Severity = incident.Failed
		}
	case incident.Module:
		if name := t.Facts["module"]; name != "" {
			k.Upstream = name
		}
	}
	e.Error.Message = t.Msg
	for _, key := range []string{obs.KeyErr, "text", "detail"} {
		if text := t.Facts[key]; text != "" {
			e.Error.Message += ": " + text
		}
		delete(t.Facts, key)
	}
	t.Facts["operation"] = t.Facts[obs.KeyAction]
	delete(t.Facts, obs.KeyAction)
	delete(t.Facts, obs.KeyComponent)
	h.book.Tell(k, func() incident.Error { return e })
}

func kindOfTrouble(component string, t obs.Trouble) (errorType, code string) {
	_, model := t.Facts["model"]
	switch {
	case t.Stack != "":
		return incident.Panic, incident.Panicked
	case t.Facts["code"] != "" && t.Facts[obs.KeyUpstream] != "":
		return incident.Upstream, incident.UpstreamHealth
	case component == "upstream":
		return incident.Upstream, incident.UpstreamFailed
	case component == "modules":
		return incident.Module, incident.ModuleFailed
	case component == "store" || component == "session":
		return incident.Storage, strings.ToUpper(fault.Storage.String())
	case model:
		return incident.Model, incident.ModelFailed
	case t.Level >= slog.LevelError:
		return incident.System, strings.ToUpper(fault.Internal.String())
	}
	return incident.System, incident.Degraded
}

// upstreamState tells of a new state of an upstream.
func (h *Hub) upstreamState(t upstream.Transition) {
	data := map[string]string{"state": string(t.To), "before": string(t.From)}
	r := event.Record{Type: event.UpstreamState, Time: t.At, Upstream: t.Upstream, Data: data}
	if t.To.Down() {
		r.Level, r.Kind = event.Warning, fault.Unreachable.String()
	}
	if t.To == upstream.Misconfigured {
		r.Kind = fault.Misconfigured.String()
	}
	if t.Err != nil {
		data["error"] = h.logs.Hidden(t.Err.Error())
	}
	h.events.Emit(r)
}

// upstreamHealth tells of a condition of an upstream.
func (h *Hub) upstreamHealth(name string, n upstream.Health) {
	h.events.Emit(event.Record{Type: event.Health, Level: event.Warning, Upstream: name, Kind: n.Code, Data: map[string]string{"text": h.logs.Hidden(n.Text)}})
}

// shownChanges is how many names a record of a change of lists has, each way.
const shownChanges = 100

// offers remembers what upstreams offered, to tell how that changed.
type offers struct {
	mu   sync.Mutex
	last map[string]*catalog.Lists
}

// catalogChanged tells how what upstreams offer has changed.
func (h *Hub) catalogChanged(changes []catalog.Change) {
	o := &h.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[string]*catalog.Lists{}
	}
	now := h.cat.Now()
	for _, c := range changes {
		old, next := o.last[c.Upstream], now.Of(c.Upstream)
		data := map[string]catalog.Delta{}
		for kind, name := range map[catalog.Kind]string{catalog.Tool: "tools", catalog.Prompt: "prompts", catalog.Resource: "resources", catalog.Template: "templates"} {
			if d := catalog.Compare(kind, old, next, shownChanges); !d.Empty() {
				data[name] = d
			}
		}
		if next == nil {
			delete(o.last, c.Upstream)
		} else {
			o.last[c.Upstream] = next
		}
		if len(data) > 0 {
			h.events.Emit(event.Record{Type: event.UpstreamCatalog, Upstream: c.Upstream, Data: data})
		}
	}
}

// owner refuses whoever is not the hub's owner: what is told here is of every
// principal.
func owner(who *auth.Principal, what string) error {
	if who.Has(auth.RightLogs) {
		return nil
	}
	return &fault.Error{Kind: fault.Denied, Subject: what, Msg: "only the hub's owner may see them", Hint: "Use the token of the data folder."}
}

// listErrors tells what went wrong: the groups, and the last whole.
func (h *Hub) listErrors(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "errors"); err != nil {
		return err
	}
	q, err := query(r, "code", "upstream", "tool", "limit", "groups", "offset", "stacks")
	if err != nil {
		return err
	}
	limit, err := limitOf(q.Get("limit"), incident.Whole, incident.Whole)
	if err != nil {
		return err
	}
	wanted := func(k incident.Key) bool {
		return (q.Get("code") == "" || strings.EqualFold(q.Get("code"), k.Code)) && (q.Get("upstream") == "" || q.Get("upstream") == k.Upstream) && (q.Get("tool") == "" || q.Get("tool") == k.Tool)
	}
	groups, total := h.book.Groups()
	out := struct {
		Groups []incident.Group `json:"groups"`
		Of     int              `json:"groupsTotal"` // that there are
		Last   []incident.Error `json:"last"`
		Total  int64            `json:"total"` // since the hub was started
		Now    time.Time        `json:"now"`
	}{Groups: []incident.Group{}, Last: []incident.Error{}, Total: total, Now: time.Now()}
	for _, g := range groups {
		if wanted(g.Key) {
			out.Groups = append(out.Groups, g)
		}
	}
	out.Of = len(out.Groups)
	if out.Groups, err = pageOf(url.Values{"offset": q["offset"], "limit": q["groups"]}, out.Groups); err != nil {
		return err
	}
	stacks := q.Get("stacks") != "false"
	for _, e := range h.book.Last() {
		if len(out.Last) < limit && wanted(incident.Key{Code: e.Error.Code, Upstream: e.Context["upstream"], Tool: e.Context["tool"]}) {
			if !stacks {
				e.Error.Stack = ""
			}
			out.Last = append(out.Last, e)
		}
	}
	reply(w, http.StatusOK, out)
	return nil
}

func (h *Hub) showError(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "errors"); err != nil {
		return err
	}
	e, err := h.book.Find(r.Context(), r.PathValue("error"))
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"error": e})
	return nil
}

func (h *Hub) exportErrors(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "errors"); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="errors.ndjson"`)
	w.Header().Set("Cache-Control", "no-store")
	if err := h.book.Export(r.Context(), w); err != nil {
		h.log.Error("an export was cut off", obs.KeyAction, "export", obs.KeyErr, err)
		panic(http.ErrAbortHandler) // so that it does not look whole
	}
	return nil
}
