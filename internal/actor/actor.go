// Package actor owns the answer to "on whose behalf?": the principal that a
// request was authenticated as, the path by which it came, and the chain of
// delegates through which it acts, such as a model or a run of a plan.
//
// An Actor is a value that is never changed. It is made at an edge of the hub
// by New, one path for each edge, and grows by By alone. Whoever evaluates
// rights takes the intersection over everything that an Actor rests on: see
// Principals and Models. So a longer chain can only have fewer rights.
//
// A Record is an Actor at rest, for journals and for what the hub has signed.
// Nothing here reads one from a client.
package actor

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/stoahub/stoa/internal/auth"
)

// Path is how a request came to the hub.
type Path string

// The paths. Everything that a hub does for somebody began on one of them.
const (
	HTTP      Path = "http"      // MCP by POST, in both eras, at every address
	SSE       Path = "sse"       // MCP by HTTP and events, as in 2024-11-05
	WebSocket Path = "websocket" // MCP on a socket
	Stdio     Path = "stdio"     // MCP on a pipe
	API       Path = "api"       // the JSON API: the console, the command line, programs
	Chat      Path = "chat"      // a person or program that talks to a model of the hub
	Library   Path = "library"   // the program that the hub is a part of
	Hub       Path = "hub"       // the hub itself, when it looks after what it has
)

// Paths are all of them.
func Paths() []Path { return []Path{HTTP, SSE, WebSocket, Stdio, API, Chat, Library, Hub} }

// Kind is what a delegate is.
type Kind string

// The kinds of delegates.
const (
	Model    Kind = "model"    // a model of the hub, as the chat host or one of its agents
	Plan     Kind = "plan"     // a run of a plan
	Batch    Kind = "batch"    // a batch of calls
	Task     Kind = "task"     // a call that outlives its request
	Sampling Kind = "sampling" // a server that asks for an answer of a model
	Agent    Kind = "agent"    // an agent behind the hub that was called, and calls back
	Steering Kind = "steering" // somebody else who moved a run on
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Model, Plan, Batch, Task, Sampling, Agent, Steering} }

// Delegate acts on behalf of an Actor.
type Delegate struct {
	Kind Kind
	// Name says which one: the agent whose model it is, the run, the task, the
	// server, or the agent that was called.
	Name string
	// Call is the call in which an agent was given its task; empty for others.
	Call string
	// For is who else stands behind it, whose rights bound it too: the
	// publisher of a plan, or the caller of an agent; nil for nobody.
	For *Actor
}

// ByModel is the model of an agent; "" is the chat host.
func ByModel(agent string) Delegate { return Delegate{Kind: Model, Name: agent} }

// ByRun is a run of a plan; publisher is nil unless the plan was published.
func ByRun(run string, publisher *Actor) Delegate {
	return Delegate{Kind: Plan, Name: run, For: publisher}
}

// ByBatch is a batch of calls.
func ByBatch() Delegate { return Delegate{Kind: Batch} }

// ByTask is a call that became a task.
func ByTask() Delegate { return Delegate{Kind: Task} }

// BySampling is a server that asks for an answer of a model.
func BySampling(server string) Delegate { return Delegate{Kind: Sampling, Name: server} }

// ByAgent is an agent that was called on behalf of another actor, in the call
// of that name, and now makes calls itself.
func ByAgent(agent, call string, caller Actor) Delegate {
	return Delegate{Kind: Agent, Name: agent, Call: call, For: &caller}
}

// Actor says on whose behalf something is done. The zero Actor is nobody and
// may do nothing.
type Actor struct {
	path  Path
	who   *auth.Principal
	chain []Delegate // never changed, only copied
	hub   string     // the hub that asks for it; empty for none
}

// New is who came by a path, acting for itself.
func New(path Path, who *auth.Principal) Actor { return Actor{path: path, who: who} }

// Unknown is the actor of a record that was written before actors were: nobody
// knows what acted, so it counts as a model.
func Unknown(who *auth.Principal) Actor { return New(Hub, who).By(ByModel("")) }

// By is the same actor acting through one more delegate.
func (a Actor) By(d Delegate) Actor {
	a.chain = append(slices.Clip(a.chain), d)
	return a
}

// Steered is a after b has moved on what a began: the rights of both bound it.
// It is a itself where b's add nothing.
func (a Actor) Steered(b Actor) Actor {
	if a.Equal(b) || len(b.chain) == 0 && a.who != nil && b.who != nil && a.who.Name == b.who.Name && a.who.Via == b.who.Via {
		return a
	}
	for _, d := range a.chain {
		if d.Kind == Steering && d.For != nil && d.For.Equal(b) {
			return a
		}
	}
	return a.By(Delegate{Kind: Steering, For: &b})
}

// From is the same actor, for whom another hub asks. That adds no right; it
// takes away what leads back to that hub.
func (a Actor) From(hub string) Actor {
	a.hub = hub
	return a
}

// Hub is the id of the hub that asks for it; empty if none does.
func (a Actor) Hub() string { return a.hub }

// Path is how it came.
func (a Actor) Path() Path { return a.path }

// Principal is who it was authenticated as; nil for the zero Actor.
func (a Actor) Principal() *auth.Principal { return a.who }

// Name is its principal's; empty for the zero Actor.
func (a Actor) Name() string {
	if a.who == nil {
		return ""
	}
	return a.who.Name
}

// Chain is a copy of its delegates, the first one first.
func (a Actor) Chain() []Delegate { return slices.Clone(a.chain) }

// Depth is how many delegates it acts through.
func (a Actor) Depth() int { return len(a.chain) }

// Direct reports whether nobody acts on its behalf.
func (a Actor) Direct() bool { return len(a.chain) == 0 }

// Called reports whether an agent of it was given its task in that call.
func (a Actor) Called(call string) bool {
	return slices.ContainsFunc(a.chain, func(d Delegate) bool { return d.Call != "" && d.Call == call })
}

// Extends reports whether a is b, acting through some more delegates or none.
func (a Actor) Extends(b Actor) bool {
	if len(a.chain) < len(b.chain) {
		return false
	}
	a.chain = a.chain[:len(b.chain)]
	return a.Equal(b)
}

// Principals yields everybody whose rights bound it.
func (a Actor) Principals(yield func(*auth.Principal) bool) { a.principals(yield) }

func (a Actor) principals(yield func(*auth.Principal) bool) bool {
	if !yield(a.who) {
		return false
	}
	for i := range a.chain {
		if f := a.chain[i].For; f != nil && !f.principals(yield) {
			return false
		}
	}
	return true
}

// Models yields the agents whose models act in it, "" for the chat host.
func (a Actor) Models(yield func(agent string) bool) { a.models(yield) }

func (a Actor) models(yield func(string) bool) bool {
	for i := range a.chain {
		d := &a.chain[i]
		if d.Kind == Model && !yield(d.Name) {
			return false
		}
		if d.For != nil && !d.For.models(yield) {
			return false
		}
	}
	return true
}

// IsModel reports whether a model acts in it, however indirectly.
func (a Actor) IsModel() bool { return !a.models(func(string) bool { return false }) }

// LastModel is the agent whose model acted last; ok is false if none did.
func (a Actor) LastModel() (agent string, ok bool) {
	for name := range a.Models {
		agent, ok = name, true
	}
	return agent, ok
}

// InScope reports whether everybody it rests on may use a server.
func (a Actor) InScope(server string) bool {
	if len(a.chain) == 0 { // nearly every call
		return a.who != nil && a.who.Scopes.Allows(server)
	}
	return a.principals(func(p *auth.Principal) bool { return p != nil && p.Scopes.Allows(server) })
}

// IsLocal reports whether everybody it rests on is the person at this machine,
// with the rights of the hub's owner or without.
func (a Actor) IsLocal() bool {
	return a.principals(func(p *auth.Principal) bool { return p != nil && p.Name == auth.LocalName })
}

// Has reports whether it has a right of its principal's. Rights are a person's:
// no model, agent or server that acts for one has any.
func (a Actor) Has(right auth.Right) bool {
	for i := range a.chain {
		switch a.chain[i].Kind {
		case Plan, Batch, Task:
		default:
			return false
		}
	}
	return a.principals(func(p *auth.Principal) bool { return p != nil && p.Has(right) }) && !a.IsModel()
}

// Tag tells actors with other rights apart, for what is signed and comes back:
// it is made of everybody whom an actor rests on besides its own principal, and
// empty where that is nobody.
func (a Actor) Tag() string {
	if len(a.chain) == 0 {
		return ""
	}
	h := sha256.New()
	n := 0
	for p := range a.Principals {
		if n++; n > 1 && p != nil {
			fmt.Fprintf(h, "p%d:%s", len(p.Name), p.Name)
		}
	}
	models := false
	for m := range a.Models {
		models = true
		fmt.Fprintf(h, "m%d:%s", len(m), m)
	}
	if n == 1 && !models {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}

// Equal reports whether both are the same principal by the same delegates.
func (a Actor) Equal(b Actor) bool {
	same := func(p, q *auth.Principal) bool {
		return p == q || p != nil && q != nil && p.Name == q.Name && p.Via == q.Via
	}
	return same(a.who, b.who) && slices.EqualFunc(a.chain, b.chain, func(d, e Delegate) bool {
		return d.Kind == e.Kind && d.Name == e.Name && d.Call == e.Call && (d.For == nil) == (e.For == nil) && (d.For == nil || d.For.Equal(*e.For))
	})
}
