package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

type promptsCmd struct {
	List promptsListCmd `cmd:"" default:"withargs" help:"List prompts (the default)."`
	Get  promptsGetCmd  `cmd:"" help:"Print a prompt."`
}

type promptsListCmd struct {
	reach
	faceFlags
	asJSON
}

// prompt is what a list says of a prompt.
type prompt struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Arguments   []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	} `json:"arguments"`
}

func (c *promptsListCmd) Run(ctx context.Context, s std) error {
	hub, face, err := c.dial(ctx, s, &c.reach, "")
	if err != nil {
		return fmt.Errorf("list prompts: %w", err)
	}
	defer hub.close()
	defer face.Close()
	all, err := face.offered(ctx, "prompts/list", "prompts")
	if err != nil {
		return fmt.Errorf("list prompts: %w", err)
	}
	hub.troubles(ctx, s, c.Agent)
	if c.JSON {
		return s.json(map[string]any{"prompts": all})
	}
	var rows [][]cell
	for _, raw := range all {
		var p prompt
		_ = json.Unmarshal(raw, &p) // the members before a wrong one are set
		if p.Description == "" {
			p.Description = p.Title
		}
		var args []string
		for _, a := range p.Arguments {
			if a.Required {
				args = append(args, a.Name)
			} else {
				args = append(args, "["+a.Name+"]")
			}
		}
		rows = append(rows, []cell{{text: p.Name}, {text: strings.Join(args, " ")}, {text: firstLine(p.Description), colour: dim}})
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b []cell) int { return strings.Compare(a[0].text, b[0].text) })
	return s.table([]string{"NAME", "ARGUMENTS", "DESCRIPTION"}, rows)
}

type promptsGetCmd struct {
	reach
	faceFlags
	asJSON
	Name string   `arg:"" help:"Name of the prompt, as in stoa prompts."`
	Args []string `arg:"" optional:"" name:"arguments" help:"key=value pairs."`
}

func (c *promptsGetCmd) Run(ctx context.Context, s std) error {
	args := map[string]string{}
	for _, word := range c.Args {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return failed(exitUsage, "Give key=value pairs.", "get prompt %s: argument %q is not key=value", c.Name, word)
		}
		args[key] = value
	}
	hub, face, err := c.dial(ctx, s, &c.reach, "")
	if err != nil {
		return doing("get prompt", c.Name, err)
	}
	defer hub.close()
	defer face.Close()
	o, err := request("prompts/get", map[string]any{"name": c.Name, "arguments": args})
	if err != nil {
		return err
	}
	o.Name = c.Name
	q := newQuestioner(s)
	raw, err := face.asked(ctx, o, q)
	if err == nil {
		err = q.refusal()
	}
	if err != nil {
		return doing("get prompt", c.Name, err)
	}
	if c.JSON {
		_, err := s.out.Write(append(raw, '\n'))
		return err
	}
	return c.show(s, raw)
}

// show prints the messages; where there are several, each under its role.
func (c *promptsGetCmd) show(s std, raw []byte) error {
	var r struct {
		Messages []struct {
			Role    string `json:"role"`
			Content block  `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return failed(exitFailed, "Use --json to see it as it is.", "get prompt %s: the result is not of the protocol's form: %w", c.Name, err)
	}
	for i, m := range r.Messages {
		text := m.Content.text()
		if len(r.Messages) > 1 {
			text = m.Role + ":\n" + text
		}
		if i > 0 {
			text = "\n" + text
		}
		if err := s.text(text); err != nil {
			return err
		}
	}
	return nil
}
