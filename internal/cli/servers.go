package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/upstream"
)

type serversCmd struct {
	reach
	asJSON
	Stderr bool   `help:"Show what the servers wrote to stderr last."`
	Name   string `arg:"" optional:"" help:"Only this server."`
}

func (c *serversCmd) Run(ctx context.Context, s std) error {
	hub, err := c.open(ctx, s, c.Name)
	if err != nil {
		return fmt.Errorf("list servers: %w", err)
	}
	defer hub.close()
	list, raw, err := hub.servers(ctx)
	if err != nil {
		return fmt.Errorf("list servers: %w", err)
	}
	if c.Name == "" && c.JSON {
		return s.json(json.RawMessage(raw))
	}
	shown, names := []upstream.Status{}, []string{}
	for _, st := range list.Servers {
		names = append(names, st.Name)
		if c.Name == "" || c.Name == st.Name {
			shown = append(shown, st)
		}
	}
	switch {
	case c.Name != "" && len(shown) == 0:
		return failed(exitUsage, "There are: "+strings.Join(names, ", ")+".", "list servers: there is no server %q", c.Name)
	case c.JSON:
		return s.json(map[string]any{"servers": shown})
	case len(shown) == 0:
		hub.troubles(ctx, s, "")
		return nil
	}
	return c.show(s, shown)
}

func (c *serversCmd) show(s std, list []upstream.Status) error {
	var rows [][]cell
	for _, st := range list {
		rows = append(rows, []cell{
			{text: st.Name}, stateCell(st), {text: strings.Join(st.Eras, " ")}, {text: st.Version}, {text: st.Transport},
			{text: strconv.Itoa(st.Tools)}, {text: latency(st)}, {text: pids(st.Pids)},
		})
	}
	if err := s.table([]string{"NAME", "STATE", "ERAS", "VERSION", "TRANSPORT", "TOOLS", "LATENCY", "PIDS"}, rows); err != nil {
		return err
	}
	for _, st := range list {
		for _, line := range c.details(st) {
			if err := s.text(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// details are the lines on what a person should know of a server.
func (c *serversCmd) details(st upstream.Status) (lines []string) {
	add := func(format string, args ...any) {
		if len(lines) == 0 {
			lines = append(lines, "\n"+st.Name)
		}
		lines = append(lines, "  "+printable(fmt.Sprintf(format, args...)))
	}
	if st.Error != "" {
		next := ""
		if st.RetryInMs > 0 {
			next = fmt.Sprintf(" (next attempt in %v)", (time.Duration(st.RetryInMs) * time.Millisecond).Round(100*time.Millisecond))
		}
		add("error: %s%s", st.Error, next)
	}
	for _, h := range st.Health {
		add("%s: %s", h.Code, h.Text)
	}
	if st.Breaker != "" && st.Breaker != "closed" {
		add("breaker: %s", st.Breaker)
	}
	if st.Queued > 0 || st.Running > 0 {
		add("calls: %d running, %d waiting", st.Running, st.Queued)
	}
	if c.Stderr {
		for _, line := range st.Stderr {
			add("| %s", line)
		}
	} else if st.Error != "" && len(st.Stderr) > 0 {
		add("stderr: %s", st.Stderr[len(st.Stderr)-1])
	}
	return lines
}

func stateCell(st upstream.Status) cell {
	c := cell{text: string(st.State)}
	switch {
	case st.State == upstream.Connected && !st.Stale:
		c.colour = green
	case st.State == upstream.Connected:
		c.text, c.colour = "connected, stale", amber
	case st.State == upstream.Failed:
		c.colour = red
	}
	return c
}

func latency(st upstream.Status) string {
	if st.LatencyMs == 0 {
		return "-"
	}
	return (time.Duration(st.LatencyMs * float64(time.Millisecond))).Round(100 * time.Microsecond).String()
}

func pids(all []int) string {
	if len(all) == 0 {
		return "-"
	}
	out := make([]string, len(all))
	for i, pid := range all {
		out[i] = strconv.Itoa(pid)
	}
	return strings.Join(out, " ")
}
