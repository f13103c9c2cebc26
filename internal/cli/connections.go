package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type connectionsCmd struct {
	reach
	ownerFlag
	asJSON
	Session string `help:"Clients of this session only." placeholder:"NAME"`
}

func (c *connectionsCmd) Help() string {
	return "Lists the clients of the chat and of agents that are connected now, and MCP clients that keep a connection. A client of the current MCP version is not listed: each of its requests stands alone."
}

func (c *connectionsCmd) Run(ctx context.Context, s std) error {
	q := c.query()
	if c.Session != "" {
		if err := checkSession(c.Session); err != nil {
			return err
		}
		q.Set("session", c.Session)
	}
	raw, err := c.askKept(ctx, s, http.MethodGet, "/api/v1/connections", q)
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct {
		Connections []struct {
			Kind, Principal, Session, Agent, Face, UserAgent string
			ConnectedAt, LastActiveAt                        time.Time
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	if len(list.Connections) == 0 {
		s.note("nobody is connected")
		return nil
	}
	var rows [][]cell
	for _, i := range list.Connections {
		at := i.Face
		if i.Agent != "" {
			at = i.Agent
		}
		rows = append(rows, []cell{{text: i.Kind}, {text: i.Principal}, {text: i.Session}, {text: at}, {text: ago(i.ConnectedAt)}, {text: ago(i.LastActiveAt)}, {text: i.UserAgent, colour: dim}})
	}
	return s.table([]string{"KIND", "PRINCIPAL", "SESSION", "AT", "SINCE", "ACTIVE", "CLIENT"}, rows)
}
