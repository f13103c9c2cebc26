package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

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
			s.note("server %s is not reached: %s (see stoa servers)", st.Name, withCause(st.Error, st.Cause))
		case st.State == upstream.Connecting:
			s.note("server %s has not answered yet", st.Name)
		case st.Stale:
			s.note("what server %s offers may be out of date", st.Name)
		}
	}
}

// disabled is what the hub says of a server that its config has disabled; nil
// for any other.
func (c *client) disabled(ctx context.Context, name string) error {
	_, err := c.api(ctx, "/api/v1/servers/"+url.PathEscape(name))
	if err == nil || describe(err).code == exitUsage {
		return nil // it is there by now, or there is none
	}
	return err
}

// withCause adds to what went wrong with a server what its program said of it.
func withCause(text, cause string) string {
	if cause == "" || strings.Contains(text, cause) { // the hub has said it
		return text
	}
	return text + ": " + cause
}

// explained adds to an error of a call why the program of its server ended. The
// error itself does not say: what a program wrote is for the hub's owner alone,
// and the hub tells nobody else when it is asked.
func (c *client) explained(ctx context.Context, server string, err error) error {
	f := describe(err)
	if server != "" && f.code == exitUsage && f.rpc != 0 {
		return cmp.Or(c.disabled(ctx, server), err)
	}
	if server == "" || f.code != exitUnreachable {
		return err
	}
	list, _, unknown := c.servers(ctx)
	i := slices.IndexFunc(list.Servers, func(st upstream.Status) bool { return strings.EqualFold(st.Name, server) })
	if unknown != nil || i < 0 || list.Servers[i].Cause == "" {
		return err
	}
	st := list.Servers[i]
	f.err = &retold{withCause(err.Error(), st.Cause), err}
	f.hint = cmp.Or(st.Hint, "`stoa servers --stderr "+st.Name+"` shows all that it wrote last.")
	return f
}
