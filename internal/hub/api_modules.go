package hub

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/modules"
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
		all[i].In(s)
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

// maySwitchForAll says why somebody may not switch something for all.
func maySwitchForAll(who *auth.Principal, name string) error {
	if who.Has(auth.RightSettings) {
		return nil
	}
	return &fault.Error{Kind: fault.Denied, Subject: name, Msg: "only the hub's owner may switch it for all", Hint: "Name a session to switch it there."}
}

// moduleNamed finds what is to be switched.
func moduleNamed(all []modules.Switchable, name string) (*modules.Switchable, error) {
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names[i] = all[i].Name
	}
	return nil, missing(fault.ResourceNotFound, "module or server", name, names)
}

// switchModule switches a module or server, in one Session or for all. What the
// owner has switched off for all cannot be switched on in a Session.
func (h *Hub) switchModule(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, err := h.choosing(r, who)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if s == nil {
		if err := maySwitchForAll(who, name); err != nil {
			return err
		}
	}
	on, err := h.wanted(w, r)
	if err != nil {
		return err
	}
	m, err := moduleNamed(h.modulesFor(who, nil), name)
	switch {
	case err != nil:
	case m.Failed != "" && on:
		err = fault.New(fault.Unreachable, name, "the module cannot be had: %s", m.Failed)
	case s == nil:
		err = h.switchForAll(r.Context(), name, on, who)
	case on && m.MayLoad() != nil:
		err = m.MayLoad()
	case on && !who.Has(auth.RightSettings):
		if err = h.permit(r, who, s.Name(), "module_load", map[string]any{"module": name, "session": s.Name()}); err == nil {
			err = s.Switch(r.Context(), name, on)
		}
	default:
		err = s.Switch(r.Context(), name, on)
	}
	if err != nil {
		return err
	}
	m.On, m.Session, m.Hub = on, s != nil, m.Hub || s == nil
	reply(w, http.StatusOK, m)
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
