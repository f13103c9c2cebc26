package upstream

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// A server of which each session has its own (PerSession) has a connection, and
// so mostly a process, for each client connection, which ends with that. Requests
// that come by no connection, such as those of the modern era, of programs, and of
// what the hub itself does for somebody, have one for whoever they are made for
// and the Session that they name, which ends when it was not used for a while.

// Connection names the connection that the upstream keeps for a client, or for
// its requests in a Session; "" if it shares one with others.
func (u *Upstream) Connection(c *mcp.Client, session string) string {
	return u.keyFor(c, session).client
}

// keyFor returns which connection a client's request in a Session takes.
func (u *Upstream) keyFor(c *mcp.Client, session string) key {
	eras := u.Eras()
	k := key{}
	switch {
	case eras == 0:
		return k
	case c != nil && eras.Has(c.Era):
		k.era = c.Era
	case eras.Has(mcp.Modern):
		k.era = mcp.Modern
	default:
		k.era = mcp.Legacy
	}
	if !u.opts.PerSession || k.era != mcp.Legacy || c == nil {
		return k
	}
	if k.client = c.Connection; k.client == "" && c.Actor.Principal() != nil {
		k.client, k.alone = standing(c.Actor)+strconv.Quote(session), true
	}
	return k
}

// standing begins the keys of an actor's requests that come by no connection. A
// token that is made again under a name is another one. An agent that calls back
// does so for many, whose calls have nothing to do with each other; other
// delegates work for their principal, in its Session.
func standing(a actor.Actor) string {
	var b strings.Builder
	var add func(a actor.Actor)
	add = func(a actor.Actor) {
		if who := a.Principal(); who != nil {
			b.WriteString(who.Name + "\x00" + who.Token + "\x00")
		}
		for _, d := range a.Chain() {
			if d.Kind == actor.Agent && d.For != nil {
				add(*d.For)
			}
		}
	}
	add(a)
	return b.String()
}

// room makes sure that a client may have one more connection of its own: each is
// a process, mostly. There are so many in all, and a caller with a token can have
// half of them, of which one makes room that nothing has needed lately. Called with
// mu held.
func (u *Upstream) room(k key, c *mcp.Client) error {
	if k.client == "" {
		return nil
	}
	who := c.Actor.Principal()
	all, own := 0, 0
	count := func(k key, name string) {
		if k.client != "" {
			all++
			if name == who.Name {
				own++
			}
		}
	}
	for k, l := range u.links {
		count(k, l.owner)
	}
	for k, d := range u.dialing {
		count(k, d.owner)
	}
	most := u.opts.Most
	full := all >= most
	if !full && (who.Name == auth.LocalName || own < max(most/2, 1)) {
		return nil
	}
	if l := u.spare(who.Name); l != nil {
		u.letGo(l)
		return nil
	}
	if full {
		return u.full("there are %d connections for single sessions, as many as there may be", all)
	}
	return u.full("%q has %d connections for single sessions, as many as one caller may have", who.Name, own)
}

// spareAfter is how long a connection for requests that stand alone was not used
// when it may be closed to make room: nothing tells that there will be no more.
const spareAfter = time.Minute

// spare is the connection of a principal for requests that stand alone that has
// been idle longest, and for long enough; nil if there is none. Called with mu
// held.
func (u *Upstream) spare(name string) (found *link) {
	for k, l := range u.links {
		idle := time.Since(time.Unix(0, l.used.Load()))
		if k.alone && l.owner == name && l.busy.Load() == 0 && idle > spareAfter && (found == nil || l.used.Load() < found.used.Load()) {
			found = l
		}
	}
	return found
}

// full is the answer to one too many.
func (u *Upstream) full(format string, args ...any) error {
	f := fault.New(fault.Limit, u.opts.Name, format, args...)
	f.Hint = "End sessions that are not used any more, or raise maxSessions of the server."
	return f
}

// Relay sends a client's notification to the connection that is the client's
// own. Where connections are shared there is none, and nothing is sent.
func (u *Upstream) Relay(ctx context.Context, c *mcp.Client, method string, params []byte) {
	if !u.opts.PerSession || c.Connection == "" {
		return
	}
	u.mu.Lock()
	l := u.links[key{era: mcp.Legacy, client: c.Connection}]
	u.mu.Unlock()
	if l != nil && l.alive() {
		_ = l.conn.Notify(ctx, method, params) // notifications may be lost
	}
}

// Forget closes the connection that a client has for itself.
func (u *Upstream) Forget(c *mcp.Client) {
	if !u.opts.PerSession || c.Connection == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.links[key{era: mcp.Legacy, client: c.Connection}]; l != nil {
		u.letGo(l)
	}
}

// EndSession closes the connections for requests that stand alone in a Session of
// a principal. It does not wait for that.
func (p *Pool) EndSession(principal, session string) {
	for _, u := range p.All() {
		u.mu.Lock()
		for k, l := range u.links {
			if k.alone && l.owner == principal && strings.HasSuffix(k.client, "\x00"+strconv.Quote(session)) {
				u.letGo(l)
			}
		}
		u.mu.Unlock()
	}
}

// letGo closes a connection that nobody is to use any more. Called with mu held.
func (u *Upstream) letGo(l *link) {
	if u.closed {
		return // which closes all of them
	}
	delete(u.links, l.key)
	u.wg.Go(func() { // a process may take its time to end
		l.close()
		u.pool.release()
	})
}
