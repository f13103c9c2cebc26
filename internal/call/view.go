package call

import (
	"fmt"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
)

// View is what an actor can see, and so can call. Whatever is outside of it
// does not exist for the actor: lists leave it out, and a call of it is
// answered as that of a name that nothing has.
//
// Something is inside if everybody whom the actor rests on has it in scope, if
// it is switched on, if it is theirs or everybody's, and if there are arguments
// for which the policy does not deny it. Another hub does not see what leads back
// to itself.
type View struct {
	d        *Door
	actor    actor.Actor
	switched *session.Session // the Session, if it holds anything; nil for none
	said     map[string]bool  // see Switch
}

// View returns what a client can see now, in the Session of that name, or that
// of its connection if the name is empty.
func (d *Door) View(c *mcp.Client, name string) View {
	v := View{d: d, actor: c.Actor}
	if said := d.said.Load(); said != nil {
		v.said = *said
	}
	if name == "" {
		name = c.Connection
	}
	if name != "" && d.sessions != nil {
		v.switched = d.sessions.Find(c.Actor.Name(), name)
	}
	return v
}

// Switch sets which servers and modules the owner has switched for all. What is
// off is off in every Session, whatever it says; what is on is on where a Session
// says nothing. The map is not changed afterwards.
func (d *Door) Switch(said map[string]bool) { d.said.Store(&said) }

// Off reports whether the owner has switched a server off for all.
func (d *Door) Off(server string) bool {
	said := d.said.Load()
	if said == nil {
		return false
	}
	on, switched := (*said)[server]
	return switched && !on
}

// Session is the Session whose switches count, if it holds anything; else nil.
func (v *View) Session() *session.Session { return v.switched }

// Server reports whether anything of a server may be inside.
func (v *View) Server(name string) bool {
	if !v.actor.InScope(name) {
		return false
	}
	if hub := v.actor.Hub(); hub != "" && v.d.leads != nil && v.d.leads(name, hub) {
		return false // that hub has it already, and would get it back through us
	}
	return !v.off(name) && !v.unloaded(name)
}

// off reports whether the owner has switched a server off for all, which no
// Session can undo: rights only shrink.
func (v *View) off(server string) bool {
	on, said := v.said[server]
	return said && !on
}

// unloaded reports whether the Session has switched a server off for itself.
func (v *View) unloaded(server string) bool {
	if v.switched == nil {
		return false
	}
	on, said := v.switched.Switched(server)
	return said && !on
}

// Follows reports whether a server is inside or not as Switch says: it is in scope,
// and the Session has not switched it off.
func (v *View) Follows(server string) bool {
	return v.actor.InScope(server) && !v.unloaded(server)
}

// Item reports whether an item is inside.
func (v *View) Item(it *catalog.Item) bool { return v.Server(it.Upstream) && v.Offered(it) }

// Offered reports whether an item would be inside if its server was switched on.
func (v *View) Offered(it *catalog.Item) bool {
	if !v.actor.InScope(it.Upstream) || !v.owns(it) {
		return false
	}
	if v.d.unbounded(v.actor) {
		return true
	}
	s := subjectOf(it, false)
	return !v.d.hidden(v.actor, &s)
}

// Resource reports whether a resource of a server is inside, which its lists
// need not name.
func (v *View) Resource(server, uri string) bool {
	if !v.Server(server) {
		return false
	}
	s := resourceOf(server, uri)
	return !v.d.hidden(v.actor, &s)
}

// Prompt reports whether a prompt of a server, by the server's own name for it,
// is inside.
func (v *View) Prompt(server, name string) bool {
	if !v.Server(server) {
		return false
	}
	s := policy.Subject{Kind: policy.KindPrompt, Tool: catalog.Expose(server, name), Upstream: server, Ref: server + ":" + name}
	return !v.d.hidden(v.actor, &s)
}

// Public reports whether everybody has the same view, so that who keeps what is
// in it may give it to others.
func (v *View) Public() bool {
	who := v.actor.Principal()
	return v.d.unbounded(v.actor) && who != nil && len(who.Scopes) == 1 && who.Scopes[0] == "*"
}

// hides says why something of a server is outside, if it is. it is its item,
// which a resource need not have.
func (v *View) hides(s *policy.Subject, it *catalog.Item) policy.Verdict {
	no := func(rule, format string, args ...any) policy.Verdict {
		return policy.Verdict{Action: policy.Deny, Rule: rule, Reason: fmt.Sprintf(format, args...)}
	}
	for p := range v.actor.Principals {
		if p == nil || !p.Scopes.Allows(s.Upstream) {
			return no("scope", "the scopes of %s do not include %s", nameOf(p), s.Upstream)
		}
	}
	switch {
	case !v.Server(s.Upstream):
		return no("switch", "%s is switched off", s.Upstream)
	case it != nil && !v.owns(it):
		return no("owner", "it belongs to another principal")
	}
	for name := range v.actor.Models {
		if !offers(v.d.agent(name).Tools, s) {
			return no("agent", "%s is not offered it", agentName(name))
		}
	}
	if v.d.hidden(v.actor, s) {
		return no("policy", "no arguments are allowed")
	}
	return policy.Verdict{Action: policy.Allow}
}

func nameOf(p *auth.Principal) string {
	if p == nil {
		return "nobody"
	}
	return p.Name
}

// owns reports whether an item is everybody's, or that of everybody whom the
// actor rests on.
func (v *View) owns(it *catalog.Item) bool {
	only := it.Handling.Only
	if only == "" {
		return true
	}
	for p := range v.actor.Principals {
		if p == nil || p.Name != only {
			return false
		}
	}
	return true
}

// Sight is the view as the catalogue takes it.
func (v *View) Sight() catalog.Sight { return catalog.Sight{Server: v.Server, Item: v.Item} }

// Whole reports whether everything that a server offers is inside, so that its
// lists can be passed on as they are.
// Some of what a built-in module offers is one principal's.
func (v *View) Whole(server string, builtin bool) bool {
	return !builtin && v.Server(server) && v.d.unbounded(v.actor)
}

// Defines reports whether a definition is inside that a server has just given,
// and that the catalogue may not have.
func (v *View) Defines(snap *catalog.Snapshot, k catalog.Kind, server string, raw []byte) bool {
	it, err := catalog.Parse(k, server, raw)
	if err != nil {
		return false
	}
	if k == catalog.Tool {
		if known := snap.Tool(server, it.Name); known != nil {
			it = known
		}
	}
	return v.Item(it)
}

// sees reports whether what a call is about is inside.
func (d *Door) sees(c *Call) bool {
	v := d.View(c.Req.Client, c.Req.Session)
	if !v.Server(c.Upstream.Name()) {
		return false
	}
	if c.Item != nil {
		return v.Item(c.Item)
	}
	if d.unbounded(v.actor) {
		return true
	}
	s, ok := subject(c)
	return !ok || !d.hidden(v.actor, &s)
}

// Sees reports whether a principal that came by a path, acting for itself, can
// see a server.
func (d *Door) Sees(path actor.Path, who *auth.Principal, server string) bool {
	v := d.View(&mcp.Client{Actor: actor.New(path, who)}, "")
	return v.Server(server)
}
