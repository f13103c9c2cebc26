package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/modules"
)

// hubReport is what the hub says of itself.
type hubReport struct {
	Version  string    `json:"version"`
	Store    string    `json:"store"` // ok, failing, or none while nothing is kept
	Modules  []string  `json:"modules"`
	Findings []finding `json:"findings"`

	off map[string]bool // what is switched off
}

// examineHub asks the hub how its store and its modules do.
func (c *client) examineHub(ctx context.Context) *diagnosis {
	d := &diagnosis{Name: "hub", Findings: []finding{}, hub: &hubReport{Modules: []string{}, off: map[string]bool{}}}
	defer func() { d.hub.Findings = d.Findings }()
	var ready struct {
		Store  string `json:"store"`
		Health []struct{ Severity, Text, Hint string }
	}
	status, body, err := c.get(ctx, "/readyz", c.header())
	if err == nil && status != http.StatusOK && status != http.StatusServiceUnavailable {
		err = refused(status, body)
	}
	if err == nil {
		err = json.Unmarshal(body, &ready)
	}
	if err != nil {
		d.find(isError, "See the hub's log with stoa logs.", "it does not say how it does: %v", err)
		return d
	}
	d.hub.Store = ready.Store
	for _, h := range ready.Health {
		level := isWarning
		if h.Severity == isError {
			level = isError
		}
		d.find(level, h.Hint, "%s", h.Text)
	}
	if who, err := c.probe(ctx); err == nil {
		d.hub.Version = who.Version
	}
	var list struct {
		Modules []modules.Switchable `json:"modules"`
	}
	raw, err := c.api(ctx, "/api/v1/modules")
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		d.find(isWarning, "Run stoa modules to see why.", "it does not say what its modules do: %v", err)
	}
	for _, m := range list.Modules {
		switch {
		case m.Failed != "": // said by the health already
		case !m.On:
			d.hub.off[m.Name] = true
			d.find(isNote, "", "%s %s is switched off", m.Kind, m.Name)
		case m.Kind == "module":
			d.hub.Modules = append(d.hub.Modules, m.Name)
		}
	}
	return d
}

// examineConfig looks at the config at hand, with which the hub could not be
// started again.
func (c *doctorCmd) examineConfig(d *diagnosis) {
	if c.Hub != "" {
		return // it has another
	}
	_, _, err := c.load(nil)
	var wrong config.Problems
	if !errors.As(err, &wrong) {
		return
	}
	text := wrong[0].String()
	if n := len(wrong) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	d.find(isError, "Run stoa config check to see all that is wrong.", "the config is wrong, so that the hub goes on with the one before and could not be started again: %s", text)
	d.hub.Findings = d.Findings
}

func (r *hubReport) summary() string {
	parts := []string{"version " + r.Version}
	switch r.Store {
	case "ok":
		parts = append(parts, "its store can be written to")
	case "failing":
		parts = append(parts, "its store cannot be written to")
	case "none":
		parts = append(parts, "nothing is kept yet")
	}
	if len(r.Modules) > 0 {
		parts = append(parts, "modules "+strings.Join(r.Modules, ", "))
	}
	return "  " + printable(strings.Join(parts, "; "))
}
