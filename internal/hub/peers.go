package hub

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/roster"
)

// peers are the other hubs on the same store. They are told apart only to say
// where they differ: clients may come to any of them.
type peers struct {
	roster atomic.Pointer[roster.Roster] // nil: no other hub can use the store

	mu   sync.Mutex
	said map[string]string // the differences that were logged, by hub
	twin string            // the one that was logged
}

// The codes of conditions.
const (
	healthHubs = "hubs"
	healthTwin = "hub_id"
)

// joinPeers lists this hub among those that share the store. A hub that only
// looks at what it keeps is not listed.
func (h *Hub) joinPeers() {
	if h.data == nil || h.state.store.Alone() {
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	self := roster.Hub{Process: h.cluster.process(), ID: h.id, Host: host, Pid: os.Getpid(), Version: h.version, Started: h.started,
		Addresses: h.Addresses(), Config: fingerprints(h.config())}
	r, err := roster.Open(context.Background(), h.state.store, self, roster.Options{Logger: h.logger("store"), Changed: h.peersChanged})
	if err != nil { // it serves all the same
		h.log.Warn("whether other hubs on this store differ is not known", obs.KeyAction, "hubs", obs.KeyErr, err)
		return
	}
	h.opened(r.Close)
	h.peers.roster.Store(r)
	h.peersChanged()
}

// fingerprints are those of the parts of a config that hubs on one store should
// have in common. Paths may differ from machine to machine, and secrets tell
// nothing.
func fingerprints(cfg *config.Config) map[string]string {
	parts := map[string]string{
		"policy": roster.Fingerprint([]any{cfg.Policy.Rules, cfg.Policy.Groups, cfg.Chat.Approvals}),
	}
	maps.Copy(parts, storedParts(cfg))
	for i := range cfg.Servers {
		s := cfg.Servers[i]
		s.Wrong, s.Cwd, s.EnvFile, s.TLS = nil, "", "", config.Trust{}
		parts[fmt.Sprintf("server %q", s.Name)] = roster.Fingerprint(&s)
	}
	for i := range cfg.Agents {
		parts[fmt.Sprintf("agent %q", cfg.Agents[i].Name)] = roster.Fingerprint(&cfg.Agents[i])
	}
	return parts
}

// differences says of each other hub in what it differs, by its id.
func (h *Hub) differences() map[string]string {
	out := map[string]string{}
	r := h.peers.roster.Load()
	if r == nil {
		return out
	}
	self := r.Self()
	for _, other := range r.Others() {
		parts := self.Differs(&other)
		if len(parts) == 0 {
			continue
		}
		const shown = 5
		text := strings.Join(parts[:min(len(parts), shown)], ", ")
		if more := len(parts) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		out[other.ID] = fmt.Sprintf("the hub on %s (process %d) shares the store but is configured differently: %s", other.Host, other.Pid, text)
	}
	return out
}

// peersChanged says in what other hubs differ, once.
func (h *Hub) peersChanged() {
	now := h.differences()
	h.peers.mu.Lock()
	before := h.peers.said
	h.peers.said = now
	h.peers.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if before[id] == now[id] {
			continue
		}
		h.log.Warn("another hub differs", obs.KeyAction, "hubs", obs.KeyErr, now[id])
		h.events.Emit(event.Record{Type: event.Health, Level: event.Warning, Kind: healthHubs, Data: now[id]})
	}
	h.tellTwin()
}

// twin says that another hub has this one's id, or nothing.
func (h *Hub) twin() string {
	r := h.peers.roster.Load()
	if r == nil {
		return ""
	}
	twin, ok := r.Twin()
	if !ok {
		return ""
	}
	return fmt.Sprintf("the hub on %s (process %d, started %s) has the id of this one: its data folder is a copy", twin.Host, twin.Pid, twin.Started.Format(time.RFC3339))
}

// tellTwin says once that there is a twin.
func (h *Hub) tellTwin() {
	now := h.twin()
	h.peers.mu.Lock()
	before := h.peers.twin
	h.peers.twin = now
	h.peers.mu.Unlock()
	if now == "" || now == before {
		return
	}
	h.log.Warn("another hub has the id of this one", obs.KeyAction, "hubs", obs.KeyErr, now, "do", twinHint)
	h.events.Emit(event.Record{Type: event.Health, Level: event.Warning, Kind: healthTwin, Data: now})
}

// The errors that one of them writes are left out by the other, as its own.
const twinHint = "Stop one of the two, remove the file id from its data folder, and start it again. Until then each hides the other from the list of hubs, and neither shows what the other reports as an error."

// peerHealth lists the hubs that differ.
func (h *Hub) peerHealth() (out []healthItem) {
	all := h.differences()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		out = append(out, healthItem{healthHubs, "warning", all[id],
			"Give all hubs on one store the same servers, agents and rules, or clients get different answers depending on the hub they reach."})
	}
	if item, fewer := h.replicasHealth(); fewer {
		out = append(out, item)
	}
	if text := h.twin(); text != "" {
		out = append(out, healthItem{healthTwin, "warning", text, twinHint})
	}
	return out
}

// reconfigured tells the other hubs of a new config.
func (h *Hub) reconfigured(cfg *config.Config) {
	r := h.peers.roster.Load()
	if r == nil {
		return
	}
	r.Set(func(self *roster.Hub) { self.Config = fingerprints(cfg) })
	h.peersChanged()
}
