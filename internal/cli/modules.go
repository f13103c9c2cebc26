package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stoahub/stoa/internal/modules"
)

type modulesCmd struct {
	List  modulesListCmd  `cmd:"" default:"withargs" help:"List modules and servers, and whether they are on (the default)."`
	On    modulesOnCmd    `cmd:"" help:"Offer the tools of modules or servers."`
	Off   modulesOffCmd   `cmd:"" help:"Offer the tools of modules or servers no longer."`
	Reset modulesResetCmd `cmd:"" help:"Have modules or servers be on or off as the config says."`
}

// where are the flags that say in which session something is switched.
type where struct {
	reach
	asJSON
	Session string `help:"In the session of this name only." placeholder:"NAME"`
}

func (c *where) query() (url.Values, error) {
	q := url.Values{}
	if c.Session == "" {
		return q, nil
	}
	q.Set("session", c.Session)
	return q, checkSession(c.Session)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

type modulesListCmd struct{ where }

func (c *modulesListCmd) Run(ctx context.Context, s std) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	open := c.open
	if c.Session != "" {
		open = c.keeping
	}
	hub, err := open(ctx, s, "")
	if err != nil {
		return fmt.Errorf("list modules: %w", err)
	}
	defer hub.close()
	raw, err := hub.ask(ctx, http.MethodGet, "/api/v1/modules", q, nil)
	if err != nil {
		return fmt.Errorf("list modules: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct {
		Modules []modules.Switchable `json:"modules"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list modules: %w", err)
	}
	var rows [][]cell
	for _, m := range list.Modules {
		state := cell{text: onOff(m.On)}
		switch {
		case m.Failed != "":
			state = cell{text: "failed", colour: red}
		case m.Session:
			state.text += " in this session"
		case m.Hub:
			state.text += " for all"
		}
		rows = append(rows, []cell{{text: m.Name}, {text: m.Kind}, state, {text: strconv.Itoa(m.Tools)}, {text: m.Failed}})
	}
	return s.table([]string{"NAME", "KIND", "STATE", "TOOLS", "REASON"}, rows)
}

type modulesOnCmd struct {
	where
	Names []string `arg:"" name:"name" help:"Names of modules or servers."`
}

func (c *modulesOnCmd) Run(ctx context.Context, s std) error {
	return c.set(ctx, s, c.Names, true)
}

type modulesOffCmd struct {
	where
	Names []string `arg:"" name:"name" help:"Names of modules or servers."`
}

func (c *modulesOffCmd) Help() string {
	return "Without --session this holds in all sessions, whatever they say, in all hubs on the same store, until stoa modules on or reset."
}

func (c *modulesOffCmd) Run(ctx context.Context, s std) error {
	return c.set(ctx, s, c.Names, false)
}

type modulesResetCmd struct {
	reach
	Names []string `arg:"" name:"name" help:"Names of modules or servers."`
}

func (c *modulesResetCmd) Run(ctx context.Context, s std) error {
	hub, err := c.serving(ctx)
	if err != nil {
		return fmt.Errorf("reset modules: %w", err)
	}
	defer hub.close()
	for _, name := range c.Names {
		if _, err := hub.ask(ctx, http.MethodDelete, "/api/v1/modules/"+url.PathEscape(name), nil, nil); err != nil {
			return doing("reset", name, err)
		}
		fmt.Fprintf(s.out, "%s is as the config says\n", name)
	}
	return nil
}

// serving finds the hub that runs. Switching is for who uses it now: a hub for
// this command alone is no use.
func (c *reach) serving(ctx context.Context) (*client, error) {
	hub, _, _, err := c.find(ctx)
	if err == nil && hub == nil {
		err = failed(exitUnreachable, "Start one with stoa serve. What is always to be off is named in the config.", "no hub is running")
	}
	return hub, err
}

// set switches what is named.
func (c *where) set(ctx context.Context, s std, names []string, on bool) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	hub, err := c.serving(ctx)
	if err != nil {
		return fmt.Errorf("switch modules %s: %w", onOff(on), err)
	}
	defer hub.close()
	switched := []json.RawMessage{}
	for _, name := range names {
		raw, err := hub.ask(ctx, http.MethodPut, "/api/v1/modules/"+url.PathEscape(name), q, fmt.Appendf(nil, `{"on":%t}`, on))
		if err != nil {
			return doing("switch "+onOff(on), name, err)
		}
		switched = append(switched, raw)
		if !c.JSON {
			fmt.Fprintf(s.out, "%s is %s\n", name, onOff(on))
		}
	}
	if c.JSON {
		return s.json(map[string]any{"modules": switched})
	}
	return nil
}
