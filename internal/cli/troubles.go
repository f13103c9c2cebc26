package cli

import (
	"context"
	"encoding/json"

	"github.com/stoahub/stoa/internal/upstream"
)

// serverList is the answer of /api/v1/servers.
type serverList struct {
	Servers []upstream.Status `json:"servers"`
}

func (c *client) servers(ctx context.Context) (serverList, []byte, error) {
	var list serverList
	raw, err := c.api(ctx, "/api/v1/servers")
	if err != nil {
		return list, nil, err
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return list, nil, err
	}
	return list, raw, nil
}

// troubles tells on stderr which servers are missing from a list, so that an
// empty one does not look like the truth.
func (c *client) troubles(ctx context.Context, s std, agent string) {
	list, _, err := c.servers(ctx)
	if err != nil {
		return // a token without that right; the list itself is what was asked for
	}
	if len(list.Servers) == 0 {
		s.note("no servers are configured: name some under servers in stoa.yaml, or use the mcp.json of another host with --config")
	}
	for _, st := range list.Servers {
		switch {
		case agent != "" && agent != st.Name:
		case st.State.Down():
			why := st.Error
			if st.Cause != "" {
				why += ": " + st.Cause
			}
			s.note("server %s is not reached: %s (see stoa servers)", st.Name, why)
		case st.State == upstream.Connecting:
			s.note("server %s has not answered yet", st.Name)
		case st.Stale:
			s.note("what server %s offers may be out of date", st.Name)
		}
	}
}
