package hub

import (
	"fmt"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/roster"
)

// storedParts are the fingerprints of what decides how things are kept and which of
// them there are. Hubs that differ in it answer differently, as an agent may have a
// model here that it does not have there.
func storedParts(cfg *config.Config) map[string]string {
	m := cfg.Modules
	parts := map[string]string{
		"session":        roster.Fingerprint(cfg.Session),
		"store.replicas": roster.Fingerprint(cfg.Store.Replicas),
		"modules": roster.Fingerprint([]any{m.Context.Enabled, m.Plan.Enabled, m.Task.Enabled, m.File.Enabled, m.File.ReadOnly,
			m.Debug.Enabled, m.Named, m.Listed}),
		"models.default": roster.Fingerprint(cfg.Models.Default),
	}
	for i := range cfg.Models.Named {
		m := cfg.Models.Named[i]
		m.Script = "" // a path
		parts[fmt.Sprintf("model %q", m.Name)] = roster.Fingerprint(&m)
	}
	return parts
}

const healthReplicas = "store_replicas"

// replicasHealth says that this hub is told of fewer replicas than the store has.
func (h *Hub) replicasHealth() (item healthItem, fewer bool) {
	if h.data == nil {
		return item, false
	}
	configured, more := h.state.store.Replicas()
	if more == 0 {
		return item, false
	}
	return healthItem{healthReplicas, "warning",
		fmt.Sprintf("store.replicas is %d here, and what is in the store has %d: another hub was told so. It is kept, but what this hub makes first has %d", configured, more, configured),
		fmt.Sprintf("Set store.replicas to %d for all hubs on the store.", more)}, true
}
