package hub

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chatws"
)

// connectionInfo is what the API tells of a client that is connected.
type connectionInfo struct {
	chatws.Connection
	Face    string `json:"face,omitempty"`    // mcp: where it is connected
	Version string `json:"version,omitempty"` // mcp: of the protocol
}

// connected returns the clients that a principal may know of, the longest
// connected first: those of the chat and its agents, and MCP clients that keep
// a connection. Modern MCP clients do not: each of their requests stands alone.
func (h *Hub) connected(who *auth.Principal, of, session string) []connectionInfo {
	out := []connectionInfo{}
	add := func(c connectionInfo) {
		if (who.Has(auth.RightSessions) || c.Principal == who.Name) && (of == "" || c.Principal == of) && (session == "" || c.Session == session) {
			out = append(out, c)
		}
	}
	if h.chat.engine != nil {
		for _, c := range append(h.chat.host.Connections(), h.chat.agents.Connections()...) {
			add(connectionInfo{Connection: c})
		}
	}
	for _, c := range h.connections.List() {
		add(connectionInfo{Connection: chatws.Connection{Kind: "mcp", Principal: c.Principal, Session: c.Session, UserAgent: c.Client, Since: c.Since, Active: c.Used},
			Face: c.Face, Version: c.Version})
	}
	sortConnections(out)
	return out
}

func sortConnections(all []connectionInfo) {
	slices.SortFunc(all, func(a, b connectionInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
}

func (h *Hub) listConnections(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "principal", "session", "offset", "limit")
	if err != nil {
		return err
	}
	of, session := q.Get("principal"), q.Get("session")
	all := merged(h, r, who, h.connected(who, "", ""), func(body []byte) ([]connectionInfo, error) {
		var page struct{ Connections []connectionInfo }
		return page.Connections, json.Unmarshal(body, &page)
	})
	all = slices.DeleteFunc(all, func(c connectionInfo) bool {
		return of != "" && c.Principal != of || session != "" && c.Session != session
	})
	sortConnections(all)
	part, err := pageOf(q, all)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"connections": part, "total": len(all)})
	return nil
}
