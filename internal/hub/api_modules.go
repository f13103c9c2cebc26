package hub

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
)

// modulesFor lists what a principal can switch, as it is in a Session if one
// is given.
func (h *Hub) modulesFor(who *auth.Principal, s *session.Session) []modules.Switchable {
	all := h.switchable(apiClient(who))
	for i := range all {
		if s == nil {
			continue
		}
		if on, said := s.Switched(all[i].Name); said {
			all[i].On, all[i].Session = on, true
		}
	}
	return all
}

// choosing returns the Session that a request about modules names; nil if it
// names none. One that holds nothing yet is the principal's own.
func (h *Hub) choosing(r *http.Request, who *auth.Principal) (*session.Session, error) {
	q, err := query(r, "session", "principal")
	if err != nil || q.Get("session") == "" {
		return nil, err
	}
	s, err := h.sessionOf(who, q.Get("principal"), q.Get("session"))
	if fault.Is(err, fault.ResourceNotFound) && (q.Get("principal") == "" || q.Get("principal") == who.Name) {
		return h.state.sessions.Bind(session.Binding{Principal: who.Name, Name: q.Get("session")})
	}
	return s, err
}

func (h *Hub) listModules(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, err := h.choosing(r, who)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"modules": h.modulesFor(who, s)})
	return nil
}

// switchModule switches a module or server: in one Session, or for all that
// say nothing of it, until the hub ends.
func (h *Hub) switchModule(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, err := h.choosing(r, who)
	if err != nil {
		return err
	}
	if s == nil && !who.Has(auth.RightSettings) {
		return &fault.Error{Kind: fault.Denied, Subject: r.PathValue("name"), Msg: "only the hub's owner may switch it for all", Hint: "Name a session to switch it there."}
	}
	on, err := h.wanted(w, r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	all := h.modulesFor(who, s)
	i := slices.IndexFunc(all, func(m modules.Switchable) bool { return m.Name == name })
	switch {
	case i < 0:
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name
		}
		return missing(fault.ResourceNotFound, "module or server", name, names)
	case all[i].Failed != "" && on:
		return fault.New(fault.Unreachable, name, "the module cannot be had: %s", all[i].Failed)
	case s == nil:
		h.switchForAll(name, on, who)
	default:
		if err := s.Switch(r.Context(), name, on); err != nil {
			return err
		}
	}
	all[i].On, all[i].Session = on, s != nil
	reply(w, http.StatusOK, all[i])
	return nil
}

// wanted reads {"on": bool}.
func (h *Hub) wanted(w http.ResponseWriter, r *http.Request) (bool, error) {
	b, err := h.endpoint.Body(w, r)
	if err != nil {
		return false, err
	}
	var want struct {
		On *bool `json:"on"`
	}
	if err := json.Unmarshal(b, &want); err != nil || want.On == nil {
		f := fault.New(fault.InvalidArguments, "", "the body does not say on or off").Because(err)
		f.Hint = `Send {"on":true} or {"on":false}.`
		return false, f
	}
	return *want.On, nil
}

func (h *Hub) switchForAll(name string, on bool, who *auth.Principal) {
	h.mu.Lock()
	said := maps.Clone(h.switched)
	if said == nil {
		said = map[string]bool{}
	}
	said[name] = on
	h.switched = said
	h.door.Switch(said) // under the lock, so that the last one counts
	h.mu.Unlock()
	h.gateway.Differ(func(l *mcp.Listener) bool {
		v := h.door.View(l.Client, l.Session)
		return v.Follows(name)
	})
	h.log.Info("a module was switched", obs.KeyAction, "switch", "module", name, "on", on, "by", who.Name)
	h.events.Emit(event.Record{Type: event.ModuleSwitch, Principal: who.Name, Upstream: name, Data: map[string]bool{"on": on}})
}

// The codes of conditions.
const (
	healthStore  = "store"
	healthModule = "module"
)

// opened is the store; nil while nothing is kept.
func (s *state) opened() *store.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store
}

// storeWord says in a word how the store does.
func (h *Hub) storeWord() string {
	switch st := h.state.opened(); {
	case st == nil:
		return "none"
	case st.State() != nil:
		return "failing"
	}
	return "ok"
}

// stateHealth lists what is wrong with what is kept and with the modules.
func (h *Hub) stateHealth() (out []healthItem) {
	if st := h.state.opened(); st != nil {
		if err := st.State(); err != nil && !errors.Is(err, store.ErrClosed) {
			out = append(out, healthItem{healthStore, "error", "the store cannot be written to: " + err.Error(), fault.Storage.Info().Hint})
		}
		for _, d := range st.Damage() {
			out = append(out, healthItem{healthStore, "warning", "the store was found damaged: " + d.String(),
				"What could not be read is lost; a copy is kept beside the store. Once you have seen to it, move js/damaged out of the data folder and start the hub again."})
		}
	}
	h.mu.Lock()
	failed := maps.Clone(h.built.failed)
	h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		hint := failed[name].hint
		if hint == "" {
			hint = "Correct modules in the config."
		}
		out = append(out, healthItem{healthModule, "warning", "module " + name + " cannot be had: " + failed[name].text, hint})
	}
	return out
}
