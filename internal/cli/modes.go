package cli

import (
	"context"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/obs"
)

// modes are the flags that say how much a hub tells. They win over the config
// and the environment.
type modes struct {
	Quiet   bool `help:"Only errors on stderr. Log files keep their level." short:"q" xor:"mode"`
	Verbose bool `help:"Log details, as with level debug." short:"v" xor:"mode"`
}

// levels are those of what is kept, and of what stderr gets.
func (m modes) levels(cfg *config.Config) (kept, least string) {
	kept = cfg.Log.Level
	if m.Verbose && kept != "trace" {
		kept = "debug"
	}
	if m.Quiet {
		return kept, "error"
	}
	return kept, kept
}

// openHub opens a hub by a config, and logs what the config's files say that
// is worth a look.
func openHub(s std, m modes, cfg *config.Config, notes []config.Note, opts hub.Options) (*hub.Hub, error) {
	kept, least := m.levels(cfg)
	logs, err := obs.NewLogs(obs.LogOptions{Level: kept, Console: s.err, Least: least, Format: cfg.Log.Format})
	if err != nil {
		return nil, err
	}
	log := obs.Component(logs.Logger(), "config")
	for _, n := range notes {
		log.Log(context.Background(), n.Level(), "config note", obs.KeyAction, "load", "file", n.File, "line", n.Line, "text", n.Text, "hint", n.Hint)
	}
	opts.Config, opts.Logs, opts.Version = cfg, logs, version()
	return hub.Open(opts)
}
