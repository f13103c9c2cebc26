package hub

import (
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/wire"
)

// LogDir is the folder of a hub's log files.
func LogDir(cfg *config.Config) string {
	if cfg.Log.File.Directory != "" {
		return cfg.Log.File.Directory
	}
	return filepath.Join(cfg.Data, "logs")
}

// takeLogs makes the log of o the hub's, or one over the logger of o.
func (h *Hub) takeLogs(o Options) error {
	h.logs = o.Logs
	if h.logs == nil {
		over := obs.LogOptions{Level: h.cfg.Log.Level}
		if o.Logger != nil {
			over.Handler = o.Logger.Handler()
		}
		var err error
		if h.logs, err = obs.NewLogs(over); err != nil {
			return err
		}
	}
	h.log = h.logger("hub")
	h.hideSecrets(h.cfg)
	return nil
}

// hideSecrets keeps out of the log what servers are sent: they may say it back
// in an error.
func (h *Hub) hideSecrets(cfgs ...*config.Config) {
	var all []string
	for _, cfg := range cfgs {
		for i := range cfg.Servers {
			for _, s := range cfg.Servers[i].Secrets() {
				all = append(all, written(s.Reveal())...)
			}
		}
	}
	for _, cfg := range cfgs {
		for _, s := range slices.Concat([]secret.String{cfg.Store.Key}, cfg.Models.Secrets(), cfg.Telemetry.Secrets(), cfg.Bridge.Secrets()) {
			all = append(all, written(s.Reveal())...)
		}
	}
	h.logs.Hide(all)
}

// written are the ways in which a text is written: as it is, in JSON, and in
// JSON that is a text in JSON, as servers like to answer.
func written(text string) []string {
	all := []string{text}
	for range 2 {
		quoted := wire.Quote(text)
		inner := string(quoted[1 : len(quoted)-1])
		if inner == text {
			break
		}
		all, text = append(all, inner), inner
	}
	return all
}

// writeLogs begins the log files. Only who holds the lock of the data folder
// may: two writers would cut each other's files.
func (h *Hub) writeLogs() {
	if file := h.cfg.Log.File; h.data != nil && file.Enabled {
		h.logs.Open(obs.Files{Dir: LogDir(h.cfg), MaxSize: int64(file.MaxSize), RetentionDays: file.RetentionDays})
	}
}

// Logs is what was logged, for those who may see it.
func (h *Hub) Logs() *obs.Logs { return h.logs }

// logger is that of one part of the hub.
func (h *Hub) logger(component string) *slog.Logger {
	return obs.Component(h.logs.Logger(), component)
}

// healthItem is a condition of the hub itself that a person should know of.
type healthItem struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Hint     string `json:"hint"`
}

// health lists what is not as it should be.
func (h *Hub) health() []healthItem {
	var out []healthItem
	if err := h.logs.Trouble(); err != nil {
		out = append(out, healthItem{"log_files", "warning", "log files cannot be written: " + err.Error(),
			"Make room, give the folder to the hub's user, or choose another with AIUR_LOG_DIRECTORY or log.file.directory."})
	}
	out = append(out, h.localHealth()...)
	out = append(out, h.plainHealth()...)
	out = append(out, h.chatHealth()...)
	out = append(out, h.peerHealth()...)
	out = append(out, h.registeredHealth()...)
	out = append(out, h.sharedHealth()...)
	return append(out, h.stateHealth()...)
}
