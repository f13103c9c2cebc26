package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type hubsCmd struct {
	reach
	ownerFlag
	asJSON
}

func (c *hubsCmd) Help() string {
	return "Lists the hubs that share the store of this one: where each runs, how busy it is, and whether it is configured differently. With a store of its own a hub is alone."
}

func (c *hubsCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, "/api/v1/hubs", nil)
	if err != nil {
		return fmt.Errorf("list hubs: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	var list struct {
		Hubs []struct {
			ID, Host, Version, State, Store      string
			Self                                 bool
			Pid, Connections, Calls, Runs, Turns int
			Started                              time.Time
			StoreMs                              float64
			Addresses, Differs                   []string
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list hubs: %w", err)
	}
	var rows [][]cell
	for _, h := range list.Hubs {
		name := fmt.Sprintf("%s/%d", h.Host, h.Pid)
		if h.Self {
			name += " *"
		}
		state := cell{text: h.State}
		if h.State != "ok" || h.Store != "" {
			state.colour = red
		}
		rows = append(rows, []cell{{text: name}, state, {text: h.Version}, {text: ago(h.Started)}, {text: strconv.Itoa(h.Calls)}, {text: strconv.Itoa(h.Connections)},
			{text: strconv.Itoa(h.Runs + h.Turns)}, {text: strconv.FormatFloat(h.StoreMs, 'f', 1, 64) + " ms"}})
	}
	if err := s.table([]string{"HUB", "STATE", "VERSION", "STARTED", "CALLS", "CLIENTS", "OWNS", "STORE"}, rows); err != nil {
		return err
	}
	for _, h := range list.Hubs {
		if h.Store != "" {
			s.note("%s/%d cannot write to the store: %s", h.Host, h.Pid, h.Store)
		}
		if len(h.Differs) > 0 {
			s.note("%s/%d is configured differently: %s", h.Host, h.Pid, strings.Join(h.Differs, ", "))
		}
		if h.State == "apart" {
			s.note("%s/%d has no cluster key: requests cannot be passed on to it", h.Host, h.Pid)
		}
	}
	return nil
}
