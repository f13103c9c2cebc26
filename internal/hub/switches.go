package hub

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/store"
)

// hubSwitch says of a server or module that it is off for all Sessions, or on for
// those that say nothing of it. All hubs on one store share it, and it outlives them.
type hubSwitch struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
	By   string `json:"by"`
}

// openSwitches reads what was switched for all.
func (h *Hub) openSwitches() error {
	switches, err := store.Values(context.Background(), h.state.store, store.BucketOptions{Name: "switches"}, journal.ValuesOptions[hubSwitch]{
		Options: journal.Options{Logger: h.logger("store")},
		Decode: func(data []byte) (s hubSwitch, err error) {
			return s, json.Unmarshal(data, &s)
		},
		Changed: h.wasSwitched,
	})
	if err != nil {
		return fmt.Errorf("open what is switched on and off: %w", err)
	}
	h.opened(switches.Close)
	h.mu.Lock()
	h.switches = switches
	h.mu.Unlock()
	h.applySwitches()
	return nil
}

// switchKey is the key of a name, which may have characters that a key cannot.
func switchKey(name string) string { return hex.EncodeToString([]byte(name)) }

// applySwitches has what is known of switches count.
func (h *Hub) applySwitches() {
	h.mu.Lock() // so that the last one counts
	defer h.mu.Unlock()
	if h.switches == nil {
		return // they are being opened; what is told now is looked at after that
	}
	said := map[string]bool{}
	for _, v := range h.switches.All() {
		said[v.V.Name] = v.V.On
	}
	h.door.Switch(said)
}

// wasSwitched takes note of what was switched, here or at another hub.
func (h *Hub) wasSwitched(key string, now *hubSwitch) {
	h.applySwitches()
	name, by := "", ""
	if now != nil {
		name, by = now.Name, now.By
	} else if b, err := hex.DecodeString(key); err == nil {
		name = string(b)
	}
	h.gateway.Differ(func(l *mcp.Listener) bool {
		v := h.door.View(l.Client, l.Session)
		return v.Follows(name)
	})
	on := !h.door.Off(name)
	h.log.Info("a module was switched for all", obs.KeyAction, "switch", "module", name, "on", on, "by", by)
	h.events.Emit(event.Record{Type: event.ModuleSwitch, Principal: by, Upstream: name, Data: map[string]bool{"on": on}})
}

// switchedForAll reports whether somebody has switched a server or module for all.
func (h *Hub) switchedForAll(name string) bool {
	_, err := h.switches.Get(switchKey(name))
	return err == nil
}

// switchForAll switches a server or module for all.
func (h *Hub) switchForAll(ctx context.Context, name string, on bool, who *auth.Principal) error {
	data, err := json.Marshal(hubSwitch{Name: name, On: on, By: who.Name})
	if err == nil {
		_, err = h.switches.Put(ctx, switchKey(name), data)
	}
	return err
}

// resetModule has a server or module be on or off as the config says.
func (h *Hub) resetModule(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := maySwitchForAll(who, name); err != nil {
		return err
	}
	// Also one that is not configured any more: what was said of it may be taken back.
	if _, err := h.switches.Latest(r.Context(), switchKey(name)); err != nil {
		if _, err := moduleNamed(h.modulesFor(who, nil), name); err != nil {
			return err
		}
	}
	if err := h.switches.Remove(r.Context(), switchKey(name)); err != nil {
		return err
	}
	m, err := moduleNamed(h.modulesFor(who, nil), name)
	if err != nil { // it is not there any more
		m = &modules.Switchable{Name: name}
	}
	reply(w, http.StatusOK, m)
	return nil
}
