package upstream

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// Connection is one connection to an upstream, as it looks from outside.
type Connection struct {
	Era     string    `json:"era"`
	Version string    `json:"version"`
	Pid     int       `json:"pid,omitempty"`
	Own     bool      `json:"own,omitempty"` // it belongs to one client
	Since   time.Time `json:"since"`
	Used    time.Time `json:"used"`
	Busy    int       `json:"busy"` // calls that use it
}

// Detail is what is worth knowing of an upstream by itself.
type Detail struct {
	Status       Status          `json:"server"`
	Links        []Connection    `json:"connections"`
	Info         json.RawMessage `json:"info,omitempty"` // what the server calls itself
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Versions     []string        `json:"versions,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
}

// Detail returns the upstream's status, and what it said of itself on the
// connections that are open: that of the modern era, if there is one.
func (u *Upstream) Detail() Detail {
	d := Detail{Status: u.Status(), Links: []Connection{}}
	u.mu.Lock()
	defer u.mu.Unlock()
	var hello *mcp.Hello
	for _, l := range u.links {
		c := Connection{Era: l.key.era.String(), Version: l.hello.Version, Own: l.key.client != "", Since: l.born, Used: time.Unix(0, l.used.Load()).UTC(), Busy: int(l.busy.Load())}
		if l.proc != nil {
			c.Pid = l.proc.cmd.Process.Pid
		}
		d.Links = append(d.Links, c)
		if hello == nil || l.key.era == mcp.Modern {
			hello = l.hello
		}
	}
	slices.SortFunc(d.Links, func(a, b Connection) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pid, b.Pid)) })
	if hello != nil {
		d.Info, d.Capabilities, d.Versions, d.Instructions = hello.Info, hello.Capabilities, hello.Versions, hello.Instructions
	}
	return d
}

// Restart connects to an upstream anew, with a new process if it has one. Calls
// that run may end on the old connection, as when it is replaced.
func (p *Pool) Restart(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.ups[name]
	switch {
	case old == nil:
		return fault.New(fault.UnknownAgent, name, "there is no upstream of that name")
	case old.opts.Handler != nil:
		return &fault.Error{Kind: fault.InvalidRequest, Subject: name, Msg: "it runs in the hub itself", Hint: "Switch it off and on, or restart the hub."}
	}
	p.replace(old, old.opts)
	return nil
}
