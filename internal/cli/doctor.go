package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

type doctorCmd struct {
	reach
	asJSON
	Name string `arg:"" optional:"" help:"Only this server."`
}

func (c *doctorCmd) Help() string {
	return "The hub says how its store and modules do; every server is asked as a client would ask it. The exit code is 0 if all is well and 1 if something needs a person; notes are no reason for that."
}

// How serious a finding is.
const (
	isError   = "error"   // the server is of no use now
	isWarning = "warning" // something of it does not work as it should
	isNote    = "note"    // worth knowing
)

// finding is something that a person may want to know of a server.
type finding struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"`
}

// diagnosis is what a client sees of a server.
type diagnosis struct {
	Name         string    `json:"name"`
	State        string    `json:"state"`
	Transport    string    `json:"transport"`
	Eras         []string  `json:"eras"`
	Version      string    `json:"version,omitempty"`
	Capabilities []string  `json:"capabilities"`
	Tools        int       `json:"tools"`
	Prompts      int       `json:"prompts"`
	Resources    int       `json:"resources"`
	Templates    int       `json:"templates"`
	ListMs       float64   `json:"listMs"`
	Findings     []finding `json:"findings"`

	offered []tool
	hub     *hubReport // if it is the hub itself
}

func (d *diagnosis) find(level, do, format string, args ...any) {
	d.Findings = append(d.Findings, finding{level, fmt.Sprintf(format, args...), do})
}

// well reports whether nothing needs a person.
func (d *diagnosis) well() bool {
	return !slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Level != isNote })
}

func (c *doctorCmd) Run(ctx context.Context, s std) error {
	hub, err := c.open(ctx, s, c.Name)
	if err != nil {
		return fmt.Errorf("examine the servers: %w", err)
	}
	defer hub.close()
	list, _, err := hub.servers(ctx)
	if err != nil {
		return fmt.Errorf("examine the servers: %w", err)
	}
	if c.Name != "" {
		list.Servers = slices.DeleteFunc(list.Servers, func(st upstream.Status) bool { return st.Name != c.Name })
		if len(list.Servers) == 0 {
			if err := hub.disabled(ctx, c.Name); err != nil {
				return fmt.Errorf("examine the servers: %w", err)
			}
			return failed(exitUsage, "Run stoa servers to see their names.", "examine the servers: there is no server %q", c.Name)
		}
	}
	all := make([]*diagnosis, len(list.Servers))
	var wg sync.WaitGroup
	for i, st := range list.Servers {
		wg.Go(func() { all[i] = hub.examine(ctx, st.Name) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	merged, err := hub.mergedNames(ctx) // now that those have answered that will
	if err != nil {
		return fmt.Errorf("examine the servers: list all tools: %w", err)
	}
	about := hub.examineHub(ctx)
	c.examineConfig(about)
	for _, d := range all {
		for _, t := range d.offered {
			d.tool(t, merged, about.hub.off[d.Name])
		}
	}
	if c.Name != "" {
		about = nil
	}
	well := len(slices.DeleteFunc(slices.Clone(all), func(d *diagnosis) bool { return !d.well() }))
	if err := c.show(s, about, all, well); err != nil {
		return err
	}
	if well < len(all) || about != nil && !about.well() {
		return &failure{err: errSilent, code: exitFailed}
	}
	return nil
}

// examine asks one server as a client does, then looks at what the hub knows
// of it.
func (c *client) examine(ctx context.Context, name string) *diagnosis {
	d := &diagnosis{Name: name, Eras: []string{}, Capabilities: []string{}, Findings: []finding{}}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	asked := c.askServer(ctx, d)
	list, _, err := c.servers(ctx)
	i := slices.IndexFunc(list.Servers, func(st upstream.Status) bool { return st.Name == name })
	if err != nil || i < 0 {
		d.find(isError, "Run stoa doctor again.", "the hub does not know the server any more")
		return d
	}
	st := list.Servers[i]
	d.State, d.Transport, d.Eras, d.Version = string(st.State), st.Transport, st.Eras, st.Version
	d.Tools, d.Prompts, d.Resources, d.Templates = st.Tools, st.Prompts, st.Resources, st.Templates
	d.condition(st, asked)
	return d
}

// askServer introduces itself and lists the tools.
func (c *client) askServer(ctx context.Context, d *diagnosis) error {
	conn, hello, err := c.greet(ctx, "/mcps/"+url.PathEscape(d.Name)+"/mcp")
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, f := range wire.Members(hello.Capabilities) {
		d.Capabilities = append(d.Capabilities, string(f.Name))
	}
	slices.Sort(d.Capabilities)
	began := time.Now()
	tools, err := conn.offered(ctx, "tools/list", "tools")
	d.ListMs = float64(time.Since(began).Microseconds()) / 1000
	if err != nil {
		return fmt.Errorf("list its tools: %w", err)
	}
	for _, raw := range tools {
		d.offered = append(d.offered, parseTool(raw))
	}
	return nil
}

// mergedNames are the names on the merged face.
func (c *client) mergedNames(ctx context.Context) (map[string]bool, error) {
	conn, _, err := c.greet(ctx, "/mcp")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all, err := conn.offered(ctx, "tools/list", "tools")
	names := map[string]bool{}
	for _, raw := range all {
		names[parseTool(raw).Name] = true
	}
	return names, err
}

// tool looks at one definition. off means that the server is switched off.
func (d *diagnosis) tool(t tool, merged map[string]bool, off bool) {
	plain, exposed := d.Name+"__"+t.Name, catalog.Expose(d.Name, t.Name)
	switch {
	case off:
	case !merged[exposed]:
		d.find(isNote, "", "tool %s is not offered as %s: the config gives it another name, or its definition has just changed", t.Name, exposed)
	case exposed != plain:
		d.find(isNote, "", "tool %s is offered as %s: not every host takes the name %s", t.Name, exposed, plain)
	}
	if len(t.InputSchema) == 0 {
		return
	}
	s, err := schema.Compile(t.InputSchema)
	if err != nil {
		d.find(isWarning, "Tell the server's authors; until then its arguments are not checked before a call.", "tool %s: its input schema cannot be used: %v", t.Name, err)
		return
	}
	for _, n := range s.Notes() {
		d.find(isNote, "", "tool %s: its input schema: %s", t.Name, n)
	}
}

// condition looks at what the hub says of the server. asked is why it could
// not be asked, if so.
func (d *diagnosis) condition(st upstream.Status, asked error) {
	switch {
	case asked != nil:
		text := asked.Error()
		if st.Error != "" && !strings.Contains(text, st.Error) {
			text += " (" + st.Error + ")"
		}
		d.find(isError, remedy(st, asked), "%s", withCause(text, st.Cause))
		if n := len(st.Stderr); n > 0 && st.Cause == "" {
			d.find(isNote, "", "its last words on stderr: %s", strings.Join(st.Stderr[max(0, n-3):], " / "))
		}
	case st.State.Down():
		d.find(isError, remedy(st, nil), "%s", withCause(st.Error, st.Cause))
	case st.Stale:
		d.find(isWarning, "Run stoa servers to see whether it comes back.", "what it offers is what it said before the connection was lost")
	}
	if st.Breaker != "" && st.Breaker != "closed" {
		d.find(isWarning, "See why its calls fail; it is tried again by itself.", "it loses calls, and is given a rest: its breaker is %s", lastFailure(st.Breaker, st.BreakerError))
	}
	if st.OpenTools > 0 {
		d.find(isWarning, "See why its calls fail; each is tried again by itself.", "calls of %s failed too often, and are refused for a while", openTools(st))
		for _, tool := range st.OpenNames {
			if why := st.OpenErrors[tool]; why != "" {
				d.find(isNote, "", "%s", lastFailure(tool, why))
			}
		}
	}
	for _, h := range st.Health {
		if strings.HasPrefix(h.Code, "definition ") {
			d.find(isNote, "", "%s: %s", h.Code, h.Text)
			continue
		}
		d.find(isWarning, healthRemedy[h.Code], "%s: %s", h.Code, h.Text)
	}
}

// remedy is what to do about a server that cannot be asked.
func remedy(st upstream.Status, asked error) string {
	text := st.Error
	if asked != nil {
		text += " " + asked.Error()
	}
	if st.Hint != "" {
		return st.Hint
	}
	for _, r := range remedies {
		if strings.Contains(text, r.sign) {
			return r.do
		}
	}
	if st.Transport == "stdio" {
		return "Run its command by hand and see what it says; stoa servers --stderr shows its last words."
	}
	return "Check that the server runs and that its url in the config is right."
}

var remedies = []struct{ sign, do string }{
	{"executable file not found", "Install the program, or correct command in the config; the hub's PATH may differ from your shell's."},
	{"no such file or directory", "Install the program, or correct command in the config."},
	{"permission denied", "Make the program executable, or correct command in the config."},
	{"credentials", "Correct the headers of this server in the config."},
	{"connection refused", "Start the server, or correct its url in the config."},
	{"no such host", "Correct the host of its url in the config."},
	{"certificate", "Use the name that its certificate has, or have it renewed."},
	{"not spoken by this version", "Use the server's streamable HTTP address, or disable it."},
	{"in time", "See why the server is slow to start, or what it waits for."},
}

// healthRemedy is what to do about a condition, by its code; others say it in
// their text.
var healthRemedy = map[string]string{
	"garbage":    "Make the server log to stderr: stdout is for messages only.",
	"lists":      "See the server's own log for why it cannot list.",
	"definition": "Tell the server's authors; the item is left out.",
	"logging":    "See the server's own log; calls are not affected.",
}
