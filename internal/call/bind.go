package call

import (
	"encoding/json"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/session"
)

// Bind returns the Session that a request is bound to: the one of that name if
// it is not empty, else the one that the request names, else that of its
// connection. It returns nil if there is none of these.
func Bind(r *session.Registry, c *mcp.Client, name string) (*session.Session, error) {
	b := session.Binding{Principal: c.Actor.Name(), Name: name, Connection: c.Connection}
	if name == "" && c.Connection != "" {
		b.Client = remember(c)
	}
	return r.Bind(b)
}

// memory is what it takes to take a connection up again.
type memory struct {
	Version      string          `json:"version"`
	Info         json.RawMessage `json:"info,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
}

func remember(c *mcp.Client) json.RawMessage {
	b, err := json.Marshal(memory{c.Version, c.Info, c.Capabilities})
	if err != nil {
		return nil
	}
	return b
}

// Recall returns the client of a connection that was there before the hub was
// restarted, or nil if nothing of it was kept.
func Recall(r *session.Registry, who *auth.Principal, connection string) *mcp.Client {
	s := r.Find(who.Name, connection)
	if s == nil {
		return nil
	}
	var m memory
	if s.Client() == nil || json.Unmarshal(s.Client(), &m) != nil || mcp.EraOf(m.Version) != mcp.Legacy {
		return nil
	}
	return &mcp.Client{Era: mcp.Legacy, Version: m.Version, Info: m.Info, Capabilities: m.Capabilities, Connection: connection, Actor: actor.New(actor.HTTP, who)}
}
