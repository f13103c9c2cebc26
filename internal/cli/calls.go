package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

type callsCmd struct {
	List   callsListCmd   `cmd:"" default:"withargs" help:"List the calls that run now (the default)."`
	Cancel callsCancelCmd `cmd:"" help:"Cancel calls: their callers are told, and their servers."`
}

const callsPath = "/api/v1/calls"

type callsListCmd struct {
	reach
	asJSON
}

func (c *callsListCmd) Run(ctx context.Context, s std) error {
	hub, err := c.alive(ctx, "no call runs")
	if err != nil {
		return fmt.Errorf("list calls: %w", err)
	}
	defer hub.close()
	raw, err := hub.api(ctx, callsPath)
	if err != nil {
		return fmt.Errorf("list calls: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct {
		Calls []struct {
			Call, Principal, Agent, Upstream, Tool string
			Since                                  time.Time
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list calls: %w", err)
	}
	if len(list.Calls) == 0 {
		s.note("no call runs")
		return nil
	}
	var rows [][]cell
	for _, r := range list.Calls {
		rows = append(rows, []cell{{text: r.Call}, {text: r.Upstream + ":" + r.Tool}, {text: r.Principal}, {text: r.Agent}, {text: ago(r.Since)}})
	}
	return s.table([]string{"CALL", "TOOL", "PRINCIPAL", "AGENT", "BEGAN"}, rows)
}

type callsCancelCmd struct {
	reach
	IDs []string `arg:"" name:"call" help:"Ids of the calls, as in stoa calls."`
}

func (c *callsCancelCmd) Run(ctx context.Context, s std) error {
	hub, err := c.alive(ctx, "no call runs")
	if err != nil {
		return fmt.Errorf("cancel calls: %w", err)
	}
	defer hub.close()
	var first error
	for _, id := range c.IDs {
		_, err := hub.ask(ctx, http.MethodDelete, callsPath+"/"+url.PathEscape(id), nil, nil)
		switch {
		case err == nil:
			fmt.Fprintf(s.out, "%s is cancelled\n", id)
		case first == nil:
			first = doing("cancel call", id, err)
		default:
			s.note("cancel call %s: %v", id, err)
		}
	}
	return first
}
