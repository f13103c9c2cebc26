package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/dial"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/pace"
	"github.com/stoahub/stoa/internal/registration"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/upstream"
)

// An agent that registers itself is there for as long as it renews its lease.
// Which are registered is kept by package registration; here is who may register
// one, where it may be, and what becomes of it. See
// docs/adr/0017-registrations-are-shared.md.

// The bounds of a lease.
const (
	leaseDefault = 30 * time.Second
	leaseMin     = time.Second
	leaseMax     = 10 * time.Minute
	maxLeases    = 1000
	leasesOfOne  = maxLeases / 8 // of a principal, but the owner
	leaseRate    = 1             // registrations a second of one, in the long run
	leaseBurst   = 50
)

// registered are the agents that have registered, here or at another hub.
type registered struct {
	book     *registration.Book
	loopback string // what loopback addresses lead to from here

	mu    sync.Mutex
	paces map[string]*pace.Bucket               // by principal
	in    map[string]*registration.Registration // those that are served here, by name; changes with reloading held
	way   map[string]bool                       // names of those that give way to a server of the config
}

// openRegistered opens the registrations, when the servers of the config are
// there: agents give way to them.
func (h *Hub) openRegistered() (err error) {
	h.agents.in, h.agents.way, h.agents.paces = map[string]*registration.Registration{}, map[string]bool{}, map[string]*pace.Bucket{}
	h.agents.loopback = cmp.Or(dial.Loopback(), rand.Text()) // one that is not known is nobody else's
	o := registration.Options{Most: maxLeases, MostOfOne: leasesOfOne, Valid: h.mayRegister, Settle: h.settleAgent, Logger: h.logger("agent")}
	if h.shared != nil {
		o.Store, o.Key = h.state.store, h.shared.key
	}
	h.agents.book, err = registration.Open(context.Background(), o)
	return err
}

// has reports whether an agent is served here that is registered by that name.
func (a *registered) has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.in[name] != nil
}

// owner is who has registered the agent of that name that is served here; "" if
// none is.
func (a *registered) owner(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.in[name]; r != nil {
		return r.Owner
	}
	return ""
}

// take counts a registration of a principal, and says why there may be none
// now: each makes the hub dial, and changes what everybody is shown.
func (a *registered) take(who *auth.Principal, name string) error {
	if who.IsOwner() || a.book.Known(name) != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	b := a.paces[who.Name]
	if b == nil {
		if len(a.paces) >= maxLeases {
			clear(a.paces)
		}
		b = pace.New(leaseRate, leaseBurst, now)
		a.paces[who.Name] = b
	}
	if !b.Take(now) {
		f := fault.New(fault.Limit, "agents", "%q registers agents too fast", who.Name)
		f.Hint = "Wait a second before the next."
		return f
	}
	return nil
}

// mayRegister reports whether who registered an agent may still do so.
func (h *Hub) mayRegister(r *registration.Registration) bool {
	if r.TokenID == "" {
		return r.Owner == auth.LocalName
	}
	v, ok := h.tokens.(*verifier)
	if !ok {
		return false
	}
	who, err := v.tokens.WithID(r.TokenID)
	if err != nil { // it is not known
		return true
	}
	return who != nil && who.Name == r.Owner && who.Has(auth.RightRegister) && who.Scopes.Allows(r.Name)
}

// settleAgent serves a registered agent, or serves it no longer if r is nil.
func (h *Hub) settleAgent(name string, r *registration.Registration) error {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return nil
	}
	h.agents.mu.Lock()
	served := h.agents.in[name]
	h.agents.mu.Unlock()
	switch {
	case r == nil:
		h.givesWay(name, false)
		if served != nil {
			h.withdraw(name)
		}
		return nil
	case h.config().Server(name) != nil: // also one that is disabled
		if served != nil {
			h.withdraw(name)
		}
		h.givesWay(name, true)
		return nameTaken(name)
	case served != nil && served.Lease == r.Lease:
		return nil
	}
	if served != nil && served.Owner != r.Owner { // nothing of the one is the other's
		h.withdraw(name)
		served = nil
	}
	put := h.pool.Add
	switch {
	case served != nil, h.isStock(name): // an agent that exists by default gives way
		put = h.pool.Replace
	case h.pool.Get(name) != nil:
		h.givesWay(name, true)
		return nameTaken(name)
	}
	h.givesWay(name, false)
	o, err := h.registeredOptions(r)
	if err == nil {
		_, err = put(o)
	}
	if err != nil {
		h.logger("agent").Error("a registered agent cannot be served", "agent", name, "err", err)
		return err
	}
	h.agents.mu.Lock()
	h.agents.in[name] = r
	h.agents.mu.Unlock()
	h.logger("agent").Info("agent registered", "agent", name, "ttl", r.Life, "at", r.At)
	return nil
}

// withdraw takes an agent out. Called with reloading held.
func (h *Hub) withdraw(name string) {
	h.agents.mu.Lock()
	delete(h.agents.in, name)
	h.agents.mu.Unlock()
	h.pool.Retire(name)
	h.logger("agent").Info("agent is gone", "agent", name)
	h.restock(name)
}

// givesWay takes note of whether a server of this hub's config has the name of an
// agent that is registered at another hub.
func (h *Hub) givesWay(name string, now bool) {
	h.agents.mu.Lock()
	before := h.agents.way[name]
	if now {
		h.agents.way[name] = true
	} else {
		delete(h.agents.way, name)
	}
	h.agents.mu.Unlock()
	if now && !before {
		h.logger("agent").Warn("an agent that is registered at another hub is not served here: a server of the config has its name", "agent", name)
	}
}

// healthAgentName is the code of a condition.
const healthAgentName = "agent_name"

// registeredHealth lists the agents that other hubs serve and this one cannot.
func (h *Hub) registeredHealth() (out []healthItem) {
	h.agents.mu.Lock()
	names := slices.Sorted(maps.Keys(h.agents.way))
	h.agents.mu.Unlock()
	for _, name := range names {
		out = append(out, healthItem{healthAgentName, "warning",
			fmt.Sprintf("an agent is registered at another hub as %q, which is a server of this hub's config: clients get one or the other depending on the hub they reach", name),
			"Rename the agent or the server, or configure the server at all hubs on the store."})
	}
	return out
}

// registeredOptions are those of the upstream that a registered agent is.
func (h *Hub) registeredOptions(r *registration.Registration) (upstream.Options, error) {
	o := upstream.Options{Name: r.Name, Title: r.Name, URL: r.URL, Agent: true, Header: http.Header{}}
	if r.Token != "" {
		o.Header.Set("Authorization", "Bearer "+r.Token)
	}
	var own secret.Hider
	own.Set([]string{r.Token})
	o.Hide = own.Hide
	o.Era, _ = eraOf(r.Protocol)
	if q := r.Queue; q != nil {
		o.Queue = &upstream.Queue{Concurrency: q.Concurrency, Capacity: q.Capacity, Timeout: q.Timeout}
	}
	rule, err := h.whereMayBe(r)
	if err != nil {
		return o, err
	}
	o.Control = rule.Control // for as long as it is registered, whatever its name stands for by then
	o.Pins = h.pinsOfAgent(r.Name, r.Owner)
	o.Logger, o.MessageBytes = h.logger("agent"), h.config().Limits.MessageBytes
	return o, nil
}

// whereMayBe is where an agent may be dialled. An agent registers itself: what
// only the hub can reach is not for others to choose. That holds at each hub with
// its own list, and on another machine for what is special there.
func (h *Hub) whereMayBe(r *registration.Registration) (*dial.Rule, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "registration", "url: %v", err)
	}
	var listed []dial.Entry
	for _, text := range h.config().Auth.Register {
		e, err := dial.ParseEntry(text)
		if err != nil {
			return nil, fault.New(fault.Internal, "auth.register", "%v", err)
		}
		listed = append(listed, e)
	}
	rule := dial.NewRule(u.Hostname(), r.From, listed)
	if r.Loopback != h.agents.loopback {
		rule = rule.Elsewhere(r.At)
	}
	return rule, nil
}
