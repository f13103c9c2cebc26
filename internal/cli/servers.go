package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/upstream"
)

type serversCmd struct {
	List    serversListCmd    `cmd:"" default:"withargs" help:"Show the servers and how they do (the default)."`
	Restart serversRestartCmd `cmd:"" help:"Connect to a server anew; one that is a program is started again."`
}

type serversListCmd struct {
	reach
	asJSON
	Stderr bool   `help:"Show what the servers wrote to stderr last."`
	Name   string `arg:"" optional:"" help:"Only this server."`
}

func (c *serversListCmd) Run(ctx context.Context, s std) error {
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

func (c *serversListCmd) show(s std, list []upstream.Status) error {
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
func (c *serversListCmd) details(st upstream.Status) (lines []string) {
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
		if st.Cause != "" {
			add("it said: %s", st.Cause)
		}
		if st.Hint != "" {
			add("hint: %s", st.Hint)
		}
	}
	for _, h := range st.Health {
		add("%s: %s", h.Code, h.Text)
	}
	if st.Breaker != "" && st.Breaker != "closed" {
		add("breaker: %s", lastFailure(st.Breaker, st.BreakerError))
	}
	if st.OpenTools > 0 {
		add("breakers: calls of %s are refused for a while, since they failed too often", openTools(st))
		for _, tool := range st.OpenNames {
			if why := st.OpenErrors[tool]; why != "" {
				add("%s", lastFailure(tool, why))
			}
		}
	}
	if st.Queued > 0 || st.Running > 0 {
		add("calls: %d running, %d waiting", st.Running, st.Queued)
	}
	if c.Stderr {
		for _, line := range st.Stderr {
			add("| %s", line)
		}
	} else if st.Error != "" && len(st.Stderr) > 0 && st.Cause == "" {
		add("stderr: %s", st.Stderr[len(st.Stderr)-1])
	}
	return lines
}

type serversRestartCmd struct {
	reach
	asJSON
	Name string `arg:"" help:"The server."`
}

// restartTime is how long a server may take to be there again before the command
// stops waiting.
const restartTime = time.Minute

// Run restarts a server of the hub that runs and waits until it is there again,
// or is known not to be.
func (c *serversRestartCmd) Run(ctx context.Context, s std) error {
	hub, err := c.alive(ctx, "there is nothing to restart")
	if err != nil {
		return fmt.Errorf("restart %s: %w", c.Name, err)
	}
	defer hub.close()
	if _, err := hub.ask(ctx, http.MethodPost, "/api/v1/servers/"+url.PathEscape(c.Name)+"/restart", nil, nil); err != nil {
		return fmt.Errorf("restart %s: %w", c.Name, err)
	}
	st, err := hub.awaitServer(ctx, c.Name)
	if err != nil {
		return fmt.Errorf("restart %s: %w", c.Name, err)
	}
	if c.JSON {
		return s.json(st)
	}
	shown := serversListCmd{}
	if err := shown.show(s, []upstream.Status{st}); err != nil {
		return err
	}
	if st.State != upstream.Connected {
		return failed(exitUnreachable, "`stoa doctor "+c.Name+"` looks for the cause.", "restart %s: it is not connected: %s", c.Name, st.State)
	}
	return nil
}

// awaitServer waits until a server is connected, or could not be.
func (c *client) awaitServer(ctx context.Context, name string) (st upstream.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		list, _, err := c.servers(ctx)
		if err != nil {
			return st, err
		}
		i := slices.IndexFunc(list.Servers, func(st upstream.Status) bool { return st.Name == name })
		if i < 0 {
			return st, fmt.Errorf("there is no server %q any more", name)
		}
		if st = list.Servers[i]; st.State == upstream.Connected || st.State.Down() {
			return st, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return st, nil
		}
	}
}

// openTools names the tools whose breakers let nothing through.
func openTools(st upstream.Status) string {
	text := strings.Join(st.OpenNames, ", ")
	if more := st.OpenTools - len(st.OpenNames); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// lastFailure is what a breaker is about, with the last failure that it counted.
func lastFailure(about, why string) string {
	if why == "" {
		return about
	}
	return about + ": last failure: " + why
}

func stateCell(st upstream.Status) cell {
	c := cell{text: string(st.State)}
	switch {
	case st.State == upstream.Connected && !st.Stale:
		c.colour = green
	case st.State == upstream.Connected:
		c.text, c.colour = "connected, stale", amber
	case st.State.Down():
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
