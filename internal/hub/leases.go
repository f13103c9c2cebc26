package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/dial"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/pace"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/upstream"
)

// An agent that registers itself is there for as long as it renews its lease.
// Leases are in memory: an agent that is told that its lease is unknown, such as
// after a restart of the hub, registers again.

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

// leases are the agents that have registered.
type leases struct {
	mu    sync.Mutex
	m     map[string]*lease
	paces map[string]*pace.Bucket // by principal
}

// take counts a registration of a principal, and says why there may be none
// now: each makes the hub dial, and changes what everybody is shown.
func (l *leases) take(who *auth.Principal, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if who.IsOwner() || l.m[name] != nil {
		return nil
	}
	own := 0
	for _, one := range l.m {
		if one.owner == who.Name {
			own++
		}
	}
	if own >= leasesOfOne {
		return fault.New(fault.Limit, "agents", "%q has registered %d agents, which is as many as one caller may", who.Name, own)
	}
	now := time.Now()
	b := l.paces[who.Name]
	if b == nil {
		if l.paces == nil || len(l.paces) >= maxLeases {
			l.paces = map[string]*pace.Bucket{}
		}
		b = pace.New(leaseRate, leaseBurst, now)
		l.paces[who.Name] = b
	}
	if !b.Take(now) {
		f := fault.New(fault.Limit, "agents", "%q registers agents too fast", who.Name)
		f.Hint = "Wait a second before the next."
		return f
	}
	return nil
}

type lease struct {
	id    string
	owner string // principal
	time  time.Duration
	ends  *time.Timer
}

// registration is what an agent says of itself.
type registration struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Token    string `json:"token"` // for the hub to show to the agent
	Protocol string `json:"protocol"`
	TTLMs    int64  `json:"ttlMs"`
	Lease    string `json:"lease"` // of an agent that is registered already
	Queue    *struct {
		Concurrency int   `json:"concurrency"`
		Capacity    *int  `json:"capacity"`
		TimeoutMs   int64 `json:"timeoutMs"`
	} `json:"queue"`
}

const maxRegistration = 64 << 10

// register answers POST /mcps.
func (h *Hub) register(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	var reg registration
	body, err := readWhole(w, r, maxRegistration)
	if err != nil {
		refuse(w, err)
		return
	}
	if err := strict(body, &reg); err != nil {
		refuse(w, fault.New(fault.InvalidRequest, "registration", "the body is not of the form {\"name\", \"url\", \"ttlMs\"}: %v", err))
		return
	}
	l, err := h.lease(r.Context(), &reg, registeredFrom(r), who)
	if err != nil {
		refuse(w, err)
		return
	}
	if err := h.meet(r.Context(), reg.Name); err != nil {
		h.endLease(reg.Name, l)
		refuse(w, err)
		return
	}
	reply(w, http.StatusCreated, map[string]any{"name": reg.Name, "lease": l.id, "ttlMs": l.time.Milliseconds(), "url": "/mcps/" + reg.Name + "/mcp", "renew": "/mcps/" + reg.Name})
}

func strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// meetTime is how long a registration waits for the agent's introduction. An
// agent may well register before it serves, and is met when it does.
const meetTime = 2 * time.Second

// meet refuses an agent that turns out to be this hub, by whatever address.
func (h *Hub) meet(ctx context.Context, name string) error {
	u := h.pool.Get(name)
	if u == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	if _, err := u.Hello(ctx, nil); errors.Is(err, upstream.ErrCircle) {
		f := fault.New(fault.InvalidRequest, name, "the agent is this hub itself, or one that offers what this hub offers")
		f.Hint = "Register the agent that does the work, not the hub that serves it."
		return f
	}
	return nil
}

// registeredFrom is the address that a registration comes from. Of one that a
// proxy passes on it is not known: the connection is the proxy's, and a proxy on
// this machine would put everybody here.
func registeredFrom(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || auth.Forwarded(r.Header) {
		return netip.Addr{}
	}
	return from.Addr()
}

// lease registers an agent, or renews its registration if it shows its lease.
func (h *Hub) lease(ctx context.Context, reg *registration, from netip.Addr, who *auth.Principal) (*lease, error) {
	o, life, err := reg.options()
	switch {
	case err != nil:
		return nil, err
	case !who.Has(auth.RightRegister):
		return nil, &fault.Error{Kind: fault.Denied, Subject: "registration", Msg: fmt.Sprintf("%q may not register agents", who.Name), Hint: "Use a token that was made with `stoa token create --right register`."}
	case !who.Scopes.Allows(reg.Name):
		return nil, fault.New(fault.Denied, reg.Name, "%q may not register an agent of this name", who.Name)
	}
	if err := h.leases.take(who, reg.Name); err != nil {
		return nil, err
	}
	rule, err := h.whereabouts(ctx, reg.URL, from)
	if err != nil {
		return nil, err
	}
	o.Control = rule.Control // for as long as it is registered, whatever its name stands for by then
	o.Pins = h.pinsOfAgent(reg.Name, who.Name)
	o.Logger, o.MessageBytes = h.logger("agent"), h.config().Limits.MessageBytes
	h.reloading.Lock()
	defer h.reloading.Unlock()
	h.leases.mu.Lock()
	defer h.leases.mu.Unlock()
	old := h.leases.m[reg.Name]
	switch {
	case old != nil && (old.owner != who.Name || subtle.ConstantTimeCompare([]byte(old.id), []byte(reg.Lease)) != 1):
		return nil, &fault.Error{Kind: fault.Denied, Subject: reg.Name, Msg: "an agent of this name is registered", Hint: "Show its lease, wait for it to end, or choose another name."}
	case old == nil && h.pool.Get(reg.Name) != nil && !h.isStock(reg.Name):
		return nil, &fault.Error{Kind: fault.InvalidRequest, Subject: reg.Name, Msg: "a server of the config has this name", Hint: "Choose another name."}
	case old == nil && len(h.leases.m) >= maxLeases:
		return nil, fault.New(fault.Limit, "agents", "%d agents are registered, which is as many as may", maxLeases)
	}
	put := h.pool.Add
	if old != nil {
		old.ends.Stop()
		put = h.pool.Replace
	} else if h.pool.Get(reg.Name) != nil { // an agent that exists by default gives way
		put = h.pool.Replace
	}
	if _, err := put(o); err != nil {
		return nil, err
	}
	l := &lease{id: rand.Text(), owner: who.Name, time: life}
	l.ends = time.AfterFunc(life, func() { h.endLease(reg.Name, l) })
	if h.leases.m == nil {
		h.leases.m = map[string]*lease{}
	}
	h.leases.m[reg.Name] = l
	h.logger("agent").Info("agent registered", "agent", reg.Name, "ttl", life)
	return l, nil
}

// options checks a registration and makes of it what it asks for.
func (reg *registration) options() (upstream.Options, time.Duration, error) {
	bad := func(format string, args ...any) (upstream.Options, time.Duration, error) {
		return upstream.Options{}, 0, fault.New(fault.InvalidRequest, "registration", format, args...)
	}
	if reg.Name == "" || config.Slug(reg.Name) != reg.Name || config.Reserved(reg.Name) {
		return bad("name %q cannot be an agent's: use up to 20 lower-case letters, digits and -, beginning with a letter, and no name of the hub's own", reg.Name)
	}
	u, err := url.Parse(reg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return bad("url %q is no http or https address", reg.URL)
	}
	if u.User != nil {
		return bad("url %q has a user in it; the hub shows what is in token", u.Redacted())
	}
	life := leaseDefault
	if reg.TTLMs != 0 {
		life = time.Duration(reg.TTLMs) * time.Millisecond
	}
	if life < leaseMin || life > leaseMax {
		return bad("ttlMs %d is out of bounds: use %d to %d", reg.TTLMs, leaseMin.Milliseconds(), leaseMax.Milliseconds())
	}
	o := upstream.Options{Name: reg.Name, Title: reg.Name, URL: reg.URL, Agent: true, Header: http.Header{}}
	if reg.Token != "" {
		o.Header.Set("Authorization", "Bearer "+reg.Token)
	}
	var own secret.Hider
	own.Set([]string{reg.Token})
	o.Hide = own.Hide
	switch config.Protocol(cmp.Or(reg.Protocol, string(config.AnyEra))) {
	case config.AnyEra:
	case config.Modern:
		o.Era = mcp.Modern
	case config.Legacy:
		o.Era = mcp.Legacy
	default:
		return bad("protocol %q: use auto, modern or legacy", reg.Protocol)
	}
	if q := reg.Queue; q != nil {
		o.Queue = &upstream.Queue{Concurrency: max(q.Concurrency, 1), Capacity: 100, Timeout: time.Duration(q.TimeoutMs) * time.Millisecond}
		if q.Capacity != nil {
			o.Queue.Capacity = *q.Capacity
		}
		if q.Concurrency < 0 || q.Concurrency > 10_000 || o.Queue.Capacity < 0 || o.Queue.Capacity > 1_000_000 || q.TimeoutMs < 0 {
			return bad("queue: concurrency is 1 to 10000, capacity 0 to 1000000, timeoutMs not negative")
		}
	}
	return o, life, nil
}

// whereabouts is where the agent at a URL may be dialled, or why it may not be
// where it is. An agent registers itself: what only the hub can reach is not for
// others to choose.
func (h *Hub) whereabouts(ctx context.Context, address string, from netip.Addr) (*dial.Rule, error) {
	u, err := url.Parse(address)
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
	rule := dial.NewRule(u.Hostname(), from, listed)
	if err := rule.Resolve(ctx); err != nil {
		f := fault.New(fault.InvalidRequest, "registration", "url %q: %v", address, err)
		f.Hint = "Register the agent from the machine that it runs on, or have the hub's owner list its address in auth.register."
		return nil, f
	}
	return rule, nil
}

// renew answers PUT /mcps/{agent}: the lease begins anew.
func (h *Hub) renew(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	h.leases.mu.Lock()
	defer h.leases.mu.Unlock()
	l, err := h.leases.shown(r, who)
	if err != nil {
		refuse(w, err)
		return
	}
	l.ends.Reset(l.time)
	reply(w, http.StatusOK, map[string]any{"name": r.PathValue("agent"), "ttlMs": l.time.Milliseconds()})
}

// unregister answers DELETE /mcps/{agent}.
func (h *Hub) unregister(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	h.leases.mu.Lock()
	l, err := h.leases.shown(r, who)
	h.leases.mu.Unlock()
	if err != nil {
		refuse(w, err)
		return
	}
	h.endLease(r.PathValue("agent"), l)
	w.WriteHeader(http.StatusNoContent)
}

// headerLease carries the lease of who renews or ends it.
const headerLease = "Stoa-Lease"

// shown returns the lease that a request shows. Called with mu held.
func (t *leases) shown(r *http.Request, who *auth.Principal) (*lease, error) {
	l := t.m[r.PathValue("agent")]
	if l == nil || l.owner != who.Name || subtle.ConstantTimeCompare([]byte(l.id), []byte(r.Header.Get(headerLease))) != 1 {
		return nil, &fault.Error{Kind: fault.UnknownAgent, Subject: r.PathValue("agent"), Msg: "there is no such lease", Hint: "Register again by POST /mcps."}
	}
	return l, nil
}

// endLease takes an agent out, unless it has registered again meanwhile.
func (h *Hub) endLease(name string, l *lease) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	h.leases.mu.Lock()
	defer h.leases.mu.Unlock()
	if h.leases.m[name] != l {
		return
	}
	l.ends.Stop()
	delete(h.leases.m, name)
	h.pool.Retire(name)
	h.logger("agent").Info("agent is gone", "agent", name)
	h.restock(name)
}

// has reports whether an agent is registered by that name.
func (t *leases) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[name] != nil
}

// close ends the timers; the agents go with the pool.
func (t *leases) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, l := range t.m {
		l.ends.Stop()
		delete(t.m, name)
	}
}

// refuse answers a request of the hub's own API with a fault.
func refuse(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	status := apiStatus(f)
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	reply(w, status, map[string]any{"error": json.RawMessage(f.Wire(true))})
}
