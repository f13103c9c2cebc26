package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

type toolsCmd struct {
	List    toolsListCmd    `cmd:"" default:"withargs" help:"List the tools that are offered (the default)."`
	Changes toolsChangesCmd `cmd:"" help:"Show the definitions that are new, have changed or are suspicious, and that nobody has accepted."`
	Accept  toolsAcceptCmd  `cmd:"" help:"Accept definitions: they may be called, and their annotations count."`
	Reject  toolsRejectCmd  `cmd:"" help:"Reject definitions: they cannot be called until they change back or are accepted."`
}

type toolsListCmd struct {
	reach
	faceFlags
	asJSON
	Long   bool   `help:"Show whole descriptions and the arguments." short:"l"`
	Filter string `arg:"" optional:"" help:"Only tools whose name or description has this in it; with * or ?, whose name has this form."`
}

func (c *toolsListCmd) Help() string {
	return "A tool can be called by the name that is listed, by server:tool, or by its own name where no other server has one of that name."
}

func (c *toolsListCmd) Run(ctx context.Context, s std) error {
	hub, face, err := c.dial(ctx, s, &c.reach, "")
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	defer hub.close()
	defer face.Close()
	all, err := face.offered(ctx, "tools/list", "tools")
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	found := slices.DeleteFunc(all, func(raw json.RawMessage) bool { return !parseTool(raw).matches(c.Filter) })
	hub.troubles(ctx, s, c.Agent)
	if c.JSON {
		return s.json(map[string]any{"tools": found})
	}
	if !c.Long {
		return listTools(s, found, c.Filter)
	}
	sortTools(found)
	for _, raw := range found {
		if err := s.text(parseTool(raw).long()); err != nil {
			return err
		}
	}
	return nil
}

func sortTools(list []json.RawMessage) {
	slices.SortFunc(list, func(a, b json.RawMessage) int { return strings.Compare(parseTool(a).Name, parseTool(b).Name) })
}

// listTools prints tools, those that a filter has left if there is one.
func listTools(s std, found []json.RawMessage, filter string) error {
	sortTools(found)
	if len(found) == 0 {
		if filter != "" {
			s.note("no tool matches %q", filter)
		}
		return nil
	}
	var rows [][]cell
	for _, raw := range found {
		t := parseTool(raw)
		rows = append(rows, []cell{{text: t.Name}, {text: firstLine(t.summary()), colour: dim}})
	}
	return s.table([]string{"NAME", "DESCRIPTION"}, rows)
}

// tool is what a list says of a tool.
type tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// parseTool reads a definition; what is not of the protocol's form is empty.
func parseTool(raw json.RawMessage) tool {
	var t tool
	_ = json.Unmarshal(raw, &t) // the members before a wrong one are set
	return t
}

func (t tool) summary() string {
	if t.Description == "" {
		return t.Title
	}
	return t.Description
}

func (t tool) matches(filter string) bool {
	if filter == "" {
		return true
	}
	if strings.ContainsAny(filter, "*?[") {
		ok, err := path.Match(filter, t.Name)
		return ok && err == nil
	}
	low := strings.ToLower(filter)
	return strings.Contains(strings.ToLower(t.Name), low) || strings.Contains(strings.ToLower(t.summary()), low)
}

// long is a tool with all that a person needs to call it.
func (t tool) long() string {
	var b strings.Builder
	b.WriteString(t.Name + "\n")
	for line := range strings.Lines(strings.TrimSpace(t.summary())) {
		b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
	}
	for _, a := range newShape(t.InputSchema).arguments() {
		fmt.Fprintf(&b, "  %s", a.name)
		if a.kind != "" {
			b.WriteString(" (" + a.kind + ")")
		}
		if a.required {
			b.WriteString(" required")
		}
		if a.text != "" {
			b.WriteString(": " + firstLine(a.text))
		}
		b.WriteByte('\n')
	}
	return b.String() + "\n"
}
