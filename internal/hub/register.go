package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/registration"
	"github.com/stoahub/stoa/internal/upstream"
)

// application is what an agent says of itself.
type application struct {
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
	var reg application
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
		if back := h.agents.book.Remove(context.WithoutCancel(r.Context()), l.Name, l.Owner, l.Lease); back != nil {
			h.logger("agent").Warn("an agent that was refused stays registered until its lease ends", "agent", l.Name, "err", back)
		}
		refuse(w, err)
		return
	}
	reply(w, http.StatusCreated, map[string]any{"name": reg.Name, "lease": l.Lease, "ttlMs": l.Life.Milliseconds(), "url": "/mcps/" + reg.Name + "/mcp", "renew": "/mcps/" + reg.Name})
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
	if _, err := u.Hello(ctx, nil, ""); errors.Is(err, upstream.ErrCircle) {
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

// lease registers an agent, or registers it anew if it shows its lease.
func (h *Hub) lease(ctx context.Context, reg *application, from netip.Addr, who *auth.Principal) (*registration.Registration, error) {
	r, err := reg.check()
	switch {
	case err != nil:
		return nil, err
	case !who.Has(auth.RightRegister):
		return nil, &fault.Error{Kind: fault.Denied, Subject: "registration", Msg: fmt.Sprintf("%q may not register agents", who.Name), Hint: "Use a token that was made with `stoa token create --right register`."}
	case !who.Scopes.Allows(reg.Name):
		return nil, fault.New(fault.Denied, reg.Name, "%q may not register an agent of this name", who.Name)
	}
	if err := h.agents.take(who, r.Name); err != nil {
		return nil, err
	}
	r.Owner, r.TokenID = who.Name, who.Token
	r.From, r.Loopback, r.At = from, h.agents.loopback, h.whereabouts()
	rule, err := h.whereMayBe(r)
	if err != nil {
		return nil, err
	}
	if err := rule.Resolve(ctx); err != nil {
		f := fault.New(fault.InvalidRequest, "registration", "url %q: %v", r.URL, err)
		f.Hint = "Register the agent from the machine that it runs on, or have the hub's owner list its address in auth.register."
		return nil, f
	}
	if h.config().Server(r.Name) != nil {
		return nil, nameTaken(r.Name)
	}
	if u := h.pool.Get(r.Name); u != nil && !h.agents.has(r.Name) && !h.isStock(r.Name) {
		return nil, nameTaken(r.Name)
	}
	return h.agents.book.Add(ctx, *r, reg.Lease)
}

// nameTaken is why an agent cannot have a name. That of a server which is disabled
// is taken too: the rules about it are still there, and what was allowed it.
func nameTaken(name string) error {
	return &fault.Error{Kind: fault.InvalidRequest, Subject: name, Msg: "a server of the config has this name", Hint: "Choose another name, or have the server taken out of the config if it is disabled there."}
}

// check returns what is registered, if nothing is wrong with it.
func (reg *application) check() (*registration.Registration, error) {
	bad := func(format string, args ...any) (*registration.Registration, error) {
		return nil, fault.New(fault.InvalidRequest, "registration", format, args...)
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
	if _, ok := eraOf(reg.Protocol); !ok {
		return bad("protocol %q: use auto, modern or legacy", reg.Protocol)
	}
	r := &registration.Registration{Name: reg.Name, URL: reg.URL, Token: reg.Token, Protocol: reg.Protocol, Life: life}
	if q := reg.Queue; q != nil {
		r.Queue = &registration.Queue{Concurrency: max(q.Concurrency, 1), Capacity: 100, Timeout: time.Duration(q.TimeoutMs) * time.Millisecond}
		if q.Capacity != nil {
			r.Queue.Capacity = *q.Capacity
		}
		if q.Concurrency < 0 || q.Concurrency > 10_000 || r.Queue.Capacity < 0 || r.Queue.Capacity > 1_000_000 || q.TimeoutMs < 0 {
			return bad("queue: concurrency is 1 to 10000, capacity 0 to 1000000, timeoutMs not negative")
		}
	}
	return r, nil
}

// eraOf is the only era that an agent is to be spoken to in; 0 means any.
func eraOf(protocol string) (era mcp.Era, ok bool) {
	switch config.Protocol(cmp.Or(protocol, string(config.AnyEra))) {
	case config.AnyEra:
		return 0, true
	case config.Modern:
		return mcp.Modern, true
	case config.Legacy:
		return mcp.Legacy, true
	}
	return 0, false
}

// whereabouts says to people where this hub is.
func (h *Hub) whereabouts() string {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown machine"
	}
	if addresses := h.Addresses(); len(addresses) > 0 {
		return fmt.Sprintf("the hub on %s (%s)", host, addresses[0])
	}
	return "the hub on " + host
}

// renew answers PUT /mcps/{agent}: the lease begins anew.
func (h *Hub) renew(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	l, err := h.agents.book.Renew(r.Context(), r.PathValue("agent"), who.Name, r.Header.Get(headerLease))
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"name": l.Name, "ttlMs": l.Life.Milliseconds()})
}

// unregister answers DELETE /mcps/{agent}.
func (h *Hub) unregister(w http.ResponseWriter, r *http.Request, who *auth.Principal) {
	if err := h.agents.book.Remove(r.Context(), r.PathValue("agent"), who.Name, r.Header.Get(headerLease)); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// headerLease carries the lease of who renews or ends it.
const headerLease = "Stoa-Lease"

// refuse answers a request of the hub's own API with a fault.
func refuse(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	status := apiStatus(f)
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	reply(w, status, map[string]any{"error": json.RawMessage(f.Wire(true))})
}
