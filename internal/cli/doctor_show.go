package cli

import (
	"fmt"
	"strings"
	"time"
)

func (c *doctorCmd) show(s std, about *diagnosis, all []*diagnosis, well int) error {
	if c.JSON {
		out := struct {
			OK      bool         `json:"ok"`
			Servers []*diagnosis `json:"servers"`
			Hub     *hubReport   `json:"hub,omitempty"`
		}{well == len(all) && (about == nil || about.well()), all, nil}
		if about != nil {
			out.Hub = about.hub
		}
		return s.json(out)
	}
	if about != nil {
		if err := about.print(s); err != nil {
			return err
		}
	}
	for _, d := range all {
		if err := d.print(s); err != nil {
			return err
		}
	}
	switch {
	case len(all) == 0:
		s.note("no servers are configured: name some under servers in stoa.yaml, or use the mcp.json of another host with --config")
		return nil
	case well == len(all):
		return s.text(s.paint(s.out, green, plural(well, "server")+", all well"))
	}
	return s.text(s.paint(s.out, red, fmt.Sprintf("%s, %d well", plural(len(all), "server"), well)))
}

func (d *diagnosis) print(s std) error {
	mark, colour := "ok", green
	for _, f := range d.Findings {
		switch {
		case f.Level == isError:
			mark, colour = "failed", red
		case f.Level == isWarning && mark == "ok":
			mark, colour = "warning", amber
		}
	}
	if err := s.text(s.paint(s.out, bold, d.Name) + "  " + s.paint(s.out, colour, mark) + d.summary()); err != nil {
		return err
	}
	for _, f := range d.Findings {
		if err := s.text("  " + f.Level + ": " + printable(f.Text)); err != nil {
			return err
		}
		if f.Do != "" {
			if err := s.text("    " + s.paint(s.out, dim, "do: "+f.Do)); err != nil {
				return err
			}
		}
	}
	return nil
}

// summary is what a client sees, in a line.
func (d *diagnosis) summary() string {
	if d.hub != nil {
		return d.hub.summary()
	}
	if len(d.Eras) == 0 {
		return ""
	}
	parts := []string{d.Transport, "speaks " + strings.Join(d.Eras, " and "), "has " + strings.Join(d.Capabilities, ", "), plural(d.Tools, "tool")}
	if len(d.Capabilities) == 0 {
		parts[2] = "declares nothing"
	}
	if d.Prompts > 0 {
		parts = append(parts, plural(d.Prompts, "prompt"))
	}
	if d.Resources+d.Templates > 0 {
		parts = append(parts, fmt.Sprintf("%s and %s", plural(d.Resources, "resource"), plural(d.Templates, "template")))
	}
	if d.ListMs > 0 {
		parts = append(parts, "listed in "+time.Duration(d.ListMs*float64(time.Millisecond)).Round(100*time.Microsecond).String())
	}
	return "  " + printable(strings.Join(parts, "; "))
}
