package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

type policyCmd struct {
	Test policyTestCmd `cmd:"" help:"Show what the policy would decide about a call, and by which rule."`
}

type policyTestCmd struct {
	reach
	asJSON
	As       string   `help:"Whose call it would be: local, or the name of a token (default: local)." placeholder:"PRINCIPAL"`
	Agent    string   `help:"The agent whose model would make the call; chat is the chat host. Without it, the principal calls itself." placeholder:"NAME"`
	Session  string   `help:"The session it would be made in." placeholder:"NAME"`
	Prompt   bool     `help:"The name is that of a prompt." xor:"kind"`
	Resource bool     `help:"The name is the URI of a resource." xor:"kind"`
	Name     string   `arg:"" help:"Name of the tool, as in stoa tools; of a prompt; or the URI of a resource."`
	Args     []string `arg:"" optional:"" name:"arguments" help:"key=value pairs, or one of a JSON object, @file and - (stdin)."`
}

func (c *policyTestCmd) Help() string {
	return `Nothing is called and nobody is asked. Examples:

    stoa policy test files__write_file path=/etc/passwd
    stoa policy test --as alice files__write_file path=notes.md
    stoa policy test --agent writer files__delete path=notes.md
    stoa policy test --as alice --resource file:///etc/passwd

The exit code is 0 if the call would be made or a person asked, and 5 if it would be refused.`
}

func (c *policyTestCmd) Run(ctx context.Context, s std) error {
	hub, err := c.looking(ctx, s, c.server())
	if err != nil {
		return doing("test", c.Name, err)
	}
	defer hub.close()
	var input json.RawMessage
	if !c.Prompt && !c.Resource { // the schema tells how to read the arguments
		if raw, err := hub.ask(ctx, http.MethodGet, "/api/v1/tools/"+url.PathEscape(c.Name), nil, nil); err == nil {
			input = wire.Get(raw, "inputSchema")
		}
	}
	args, err := arguments(c.Args, newShape(input), s.in)
	if err != nil {
		return err
	}
	question := map[string]any{"principal": c.As, "session": c.Session, "args": json.RawMessage(args)}
	switch {
	case c.Prompt:
		question["prompt"] = c.Name
	case c.Resource:
		question["resource"] = c.Name
	default:
		question["tool"] = c.Name
	}
	if c.Agent != "" {
		question["agent"] = c.Agent
	}
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("test the policy: %w", err)
	}
	raw, err := hub.ask(ctx, http.MethodPost, "/api/v1/policy/test", nil, body)
	if err != nil {
		return doing("test", c.Name, err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	return c.show(s, raw)
}

// server is the one that the name leads to, which is the only one to be started if
// no hub runs; "" if that cannot be told.
func (c *policyTestCmd) server() string {
	if c.Resource {
		return ""
	}
	name, _, _ := strings.Cut(c.Name, "__")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// decisions are what the actions of a policy mean.
var decisions = map[string]string{"allow": "allowed", "ask": "a person is asked", "deny": "denied"}

func (c *policyTestCmd) show(s std, raw []byte) error {
	var a struct {
		Principal, Agent, Name, Action, Rule, Reason string
		Visible                                      bool
		Remembered                                   *policy.Remembered
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("test the policy: %w", err)
	}
	caller := a.Principal
	if a.Agent != "" {
		caller += " by the model of " + a.Agent
	}
	decision := decisions[a.Action]
	if a.Remembered != nil {
		decision += " (remembered)"
	}
	text := fmt.Sprintf("%s, called by %s: %s\nrule:   %s\nreason: %s", a.Name, caller, decision, a.Rule, a.Reason)
	if !a.Visible {
		text += "\n" + a.Name + " is not listed for this caller; a call is answered as if it did not exist"
	}
	if err := s.text(text); err != nil {
		return err
	}
	if a.Action == "deny" {
		return &failure{err: errSilent, code: exitDenied}
	}
	return nil
}
