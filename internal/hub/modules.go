package hub

import (
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/upstream"
)

// builtin are the modules that the config switches on, by name.
func (h *Hub) builtin(cfg *config.Config) map[string]mcp.Handler {
	out := map[string]mcp.Handler{}
	if cfg.Modules.Context.Enabled {
		out[modules.ContextName] = modules.Context(h.state.sessions)
	}
	return out
}

// addModules offers the built-in modules that are on. One that cannot be had
// is told of, and does not stop the hub.
func (h *Hub) addModules(cfg *config.Config) error {
	for _, f := range cfg.Modules.Failed {
		h.log.Warn("a module cannot be had", "module", f.Name, "from", f.From, "err", f.Text, "hint", f.Hint)
	}
	for name, m := range h.builtin(cfg) {
		_, err := h.pool.Add(upstream.Options{Name: name, Title: name, Handler: m, Builtin: true, Logger: h.log,
			Handling: func(tool string) catalog.Handling { return handling(name) }})
		if err != nil {
			return err
		}
	}
	return nil
}

// handling is how the tools of a built-in module are treated. Those that read
// what is kept keep nothing themselves: their answers are what was asked for.
func handling(module string) catalog.Handling {
	own := module == modules.ContextName
	return catalog.Handling{Envelope: true, ResultSaveAs: true, NoCards: own, NoSaveAs: own}
}
