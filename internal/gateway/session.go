package gateway

import (
	"encoding/json"

	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// party is who asks, and what it may see.
type party struct {
	call.View
	client     *mcp.Client
	bound      string // the name of its Session; empty for none
	stateful   bool   // the face offers saveAs
	cards      bool   // long results become cards
	told       bool   // a model reads the answers
	references bool
}

func (g *Gateway) party(c *mcp.Client, name string) party {
	p := party{View: g.door.View(c, name), client: c, bound: name}
	if name == "" {
		p.bound = c.Connection
	}
	return p
}

// asks is the party of a request, after the checks of what it asks for.
func (g *Gateway) asks(req *mcp.Request, stateful bool) (party, error) {
	p := g.party(req.Client, req.Session)
	p.stateful, p.references = stateful, req.References != mcp.Off
	if req.Cards == mcp.Unclear || req.References == mcp.Unclear || req.All == mcp.Unclear {
		return p, &fault.Error{Kind: fault.InvalidParams, Subject: mcp.HeaderCards + ", " + mcp.HeaderReferences + ", " + mcp.MetaAll, Msg: "it says neither on nor off",
			Hint: "Send on or off in the header, or true or false in _meta."}
	}
	if req.Session != "" && p.Session() == nil {
		if _, err := call.Bind(g.sessions, req.Client, req.Session); err != nil {
			return p, err
		}
	}
	if stateful && req.Cards != mcp.Off || req.Cards == mcp.On {
		// Without its tools nobody could read what a card stands for.
		p.cards = g.hasContext(p) && p.ListsModule(modules.ContextName, p.named(), true)
	}
	p.told = stateful || p.cards
	return p, nil
}

// named reports whether it named its Session, or is at the address of one.
func (p *party) named() bool { return p.stateful || p.bound != "" && p.bound != p.client.Connection }

// lists reports whether a list names an item that it sees.
func (p *party) lists(it *catalog.Item) bool { return p.Lists(it, p.named()) }

// hasContext reports whether it can use the tools and resources by which
// values are read.
func (g *Gateway) hasContext(p party) bool {
	return p.Server(modules.ContextName) && g.pool.Get(modules.ContextName) != nil
}

// Differ tells those who listen, and that may see another thing now, that they do.
func (g *Gateway) Differ(may func(*mcp.Listener) bool) {
	g.audience.Tell(mcp.NoteToolsChanged, may)
	g.audience.Tell(mcp.NotePromptsChanged, may)
	g.audience.Tell(mcp.NoteResourcesChanged, may)
}

// values are the definitions of a Session's values as resources.
func values(s *session.Session) []catalog.Extra {
	if s == nil {
		return nil
	}
	all, err := s.Values("")
	if err != nil {
		return nil
	}
	var out []catalog.Extra
	for _, v := range all {
		def := map[string]any{"uri": modules.ValueURI(v.Name), "name": v.Name, "size": v.Size, "description": v.Summary, "mimeType": modules.MIME(v.Type)}
		if v.Description != "" {
			def["description"] = v.Description + " (" + v.Summary + ")"
		}
		if b, err := json.Marshal(def); err == nil {
			out = append(out, catalog.Extra{Name: v.Name, Def: b})
		}
	}
	return out
}

// valueOf returns the Session of a listener, if a URI is that of a value.
func (g *Gateway) valueOf(l *mcp.Listener, uri string) (*session.Session, bool) {
	if _, ok := modules.ValueName(uri); !ok || !g.hasContext(g.party(l.Client, l.Session)) {
		return nil, false
	}
	s, err := call.Bind(g.sessions, l.Client, l.Session)
	if err != nil {
		return nil, true
	}
	return s, true
}

func valueKey(s *session.Session, uri string) string { return "session:" + s.ID() + " " + uri }

func (g *Gateway) subscribeValue(l *mcp.Listener, s *session.Session, uri string) error {
	if s == nil {
		return fault.New(fault.ResourceNotFound, uri, "this connection is bound to no session")
	}
	g.audience.Subscribe(l, valueKey(s, uri), uri)
	return nil
}

// sessionChanged tells those who listen in a Session what happened to it.
func (g *Gateway) sessionChanged(c session.Change) {
	in := func(l *mcp.Listener) bool {
		name := l.Session
		if name == "" {
			name = l.Client.Connection
		}
		return name == c.Session.Name() && l.Client.Actor.Name() == c.Session.Principal()
	}
	if c.Modules || c.Ended {
		g.audience.Tell(mcp.NoteToolsChanged, in)
		g.audience.Tell(mcp.NotePromptsChanged, in)
	}
	if c.Modules || c.Listed {
		g.audience.Tell(mcp.NoteResourcesChanged, in)
	}
	if c.Listed && !c.Modules && !c.Ended && c.Session.Info().Values <= 1 {
		// The tools that read values are there for the first one, and go with the
		// last. Who named the Session has them anyway.
		g.audience.Tell(mcp.NoteToolsChanged, func(l *mcp.Listener) bool { return l.Session == "" && in(l) })
	}
	if c.Value != "" {
		uri := modules.ValueURI(c.Value)
		g.audience.Updated(valueKey(c.Session, uri), append(append([]byte(`{"uri":`), wire.Quote(uri)...), '}'), in)
	}
}
