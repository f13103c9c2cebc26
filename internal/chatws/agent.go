package chatws

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
)

// AgentOptions bound the sockets of agents. The zero value has the defaults.
type AgentOptions struct {
	FrameBytes int           // of a question; 0 means 10 MiB
	Write      time.Duration // for a client to take one message; 0 means 30 s
	Beat       time.Duration // between two pings; 0 means 30 s
	Most       int           // sockets of one principal; 0 means 256
	Local      int           // of all on this machine who need no token, who are one principal; 0 means as many as Most
	// Silence is after how long an empty sentence says that the agent is still
	// at work: clients give up one of which they hear nothing. 0 means 10 s.
	Silence time.Duration
	// Signed reports whether a chain of calls is one that this hub has signed.
	// Others are passed over, as those of another hub are; nil passes over all.
	Signed func(chain string) bool
	// Traced is who asks with a chain that this hub has signed, which says on
	// whose behalf.
	Traced func(by actor.Actor, chain string) (actor.Actor, error)
	Logger *slog.Logger // nil discards
}

func (o *AgentOptions) defaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Write, 30 * time.Second}, {&o.Beat, 30 * time.Second}, {&o.Silence, 10 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.FrameBytes == 0 {
		o.FrameBytes = ailumina.MessageBytes
	}
	if o.Most == 0 {
		o.Most = 256
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Agents serves the agents of an Engine at /ws/{agent}, in the protocol of
// package ailumina. A socket takes questions one after the other; nothing is
// kept between them. When the client leaves, what runs for it is aborted.
type Agents struct {
	engine *chat.Engine
	opts   AgentOptions
	gate   *gate
}

// NewAgents serves the agents of e. Close and Wait end it.
func NewAgents(e *chat.Engine, o AgentOptions) *Agents {
	o.defaults()
	return &Agents{engine: e, opts: o, gate: newGate(o.Most, o.Local)}
}

// Bound changes Most and Local. Who is connected stays.
func (a *Agents) Bound(each, local int) { a.gate.bound(each, local) }

// Connections returns who is connected, the longest first.
func (a *Agents) Connections() []Connection { return a.gate.list() }

// Close lets every socket end when it has answered the question it is at.
func (a *Agents) Close() { a.gate.close() }

// Wait waits, after Close, until the sockets are closed or ctx ends.
func (a *Agents) Wait(ctx context.Context) { a.gate.wait(ctx) }

// Serve serves the agent that the path names. An error is for the client, to
// whom nothing has been written.
func (a *Agents) Serve(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	name, err := a.find(who, r.PathValue("agent"))
	if err != nil {
		return err
	}
	v, err := a.gate.enter(r, who, kindAgent, name)
	if err != nil {
		w.Header().Set("Retry-After", "5")
		return err
	}
	defer v.leave()
	l, err := accept(w, r, a.opts.FrameBytes, a.opts.Write)
	if err != nil {
		return nil // the client has been told
	}
	v.link.Store(l)
	defer caught(a.opts.Logger, l)
	trace := traceOf(r)
	c := &asker{Agents: a, link: l, agent: name, from: chat.Asker{By: actor.New(actor.Chat, who), Trace: trace}}
	c.log = v.log(a.opts.Logger, r.RemoteAddr, trace).With(obs.KeyAgent, name)
	if chain := r.Header.Get(ailumina.HeaderChain); a.opts.Signed != nil && a.opts.Signed(chain) {
		by, err := a.opts.Traced(c.from.By, chain)
		if err != nil {
			l.cut()
			return nil
		}
		c.from.Chain, c.from.By = chain, by
	}
	begun := time.Now()
	c.log.Info("client connected", obs.KeyAction, "connect")
	c.serve()
	c.log.Info("client disconnected", obs.KeyAction, "disconnect", obs.KeyTook, time.Since(begun))
	return nil
}

// find returns the name of an agent, in whatever case the client writes it, or
// says which there are.
func (a *Agents) find(who *auth.Principal, name string) (string, error) {
	by := actor.New(actor.Chat, who)
	if agent, err := a.engine.Agent(name); err == nil && a.engine.Sees(by, "", agent.Name) {
		return agent.Name, nil
	}
	names := []string{}
	for _, agent := range a.engine.AgentsFor(by, "") {
		names = append(names, agent.Name)
	}
	slices.Sort(names)
	f := fault.New(fault.UnknownAgent, "", "Agent '%s' not found", clip(name)).With("agents", names)
	if f.Hint = "There is none that you may use."; len(names) > 0 {
		f.Hint = among(name, "There are", names)
	}
	return "", f
}
