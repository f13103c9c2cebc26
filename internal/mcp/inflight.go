package mcp

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// inflight are the pending requests of one connection.
type inflight struct {
	opts ConnOptions

	mu     sync.Mutex
	next   int64
	m      map[int64]*pending
	ghosts []ghost                       // requests that were given up lately
	asks   map[string]context.CancelFunc // requests of the server, by their raw id
	err    error                         // set when the connection has ended
}

// open registers a request.
func (f *inflight) open(ctx context.Context, o *Outgoing) (*pending, error) {
	p := &pending{o: o, ctx: ctx, stream: o.Stream, ready: make(chan struct{}, 1)}
	if p.stream == nil {
		p.stream = Discard
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	f.next++
	p.id = f.next
	if f.m == nil {
		f.m = map[int64]*pending{}
	}
	f.m[p.id] = p
	return p, nil
}

func (f *inflight) close(p *pending) {
	f.mu.Lock()
	delete(f.m, p.id)
	f.mu.Unlock()
}

func (f *inflight) get(id int64) *pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m[id]
}

// fail ends all pending requests.
func (f *inflight) fail(err error) {
	f.mu.Lock()
	if f.err != nil {
		f.mu.Unlock()
		return
	}
	f.err = err
	all := make([]*pending, 0, len(f.m))
	for _, p := range f.m {
		all = append(all, p)
	}
	for _, cancel := range f.asks {
		cancel()
	}
	f.mu.Unlock()
	for _, p := range all {
		p.push(event{err: err})
	}
}

func (f *inflight) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func idBytes(id int64) []byte { return strconv.AppendInt(nil, id, 10) }

// parseID reads an id that we gave; some servers answer with it as a string.
func parseID(raw []byte) (int64, bool) {
	id, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 64)
	return id, err == nil
}

// chance is how probable it is that a message without a name for its request
// belongs to one.
type chance int

const (
	never chance = iota
	hardly
	likely
)

// owners finds the requests that a message without a name for one belongs to: all
// of them are the same by same, and the oldest comes first. A server that is
// shared by several clients must not mix them up, so there are none as soon as
// another request could be meant as well. could says so, and goes by what the
// server may be at work on alone: whether a client can or wants to be told counts
// when it is known to be the one that is meant, or what it does not want would go
// to whoever is left. Requests that wait for their client are only considered if
// no other could be meant, see pending.waiting, and those that hardly are, last.
func (f *inflight) owners(could func(*pending) chance, same func(p, q *pending) bool) []*pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	var running, waiting, others []*pending
	now := time.Now()
	for _, p := range f.m {
		switch c := could(p); {
		case c == never:
		case c == hardly:
			others = append(others, p)
		case p.waiting(now):
			waiting = append(waiting, p)
		default:
			running = append(running, p)
		}
	}
	least := likely
	if len(running) == 0 {
		running = waiting
	}
	if len(running) == 0 {
		running, least = others, hardly
	}
	if len(running) == 0 {
		return nil
	}
	for _, g := range f.ghosts {
		if now.Before(g.until) && could(g.p) >= least {
			running = append(running, g.p)
		}
	}
	for _, p := range running[1:] {
		if !same(p, running[0]) {
			return nil
		}
	}
	running = slices.DeleteFunc(running, func(p *pending) bool { return f.m[p.id] != p })
	slices.SortFunc(running, func(p, q *pending) int { return cmp.Compare(p.id, q.id) })
	return running
}

// first is the first of requests that passes, or nil.
func first(all []*pending, pass func(*pending) bool) *pending {
	if i := slices.IndexFunc(all, pass); i >= 0 {
		return all[i]
	}
	return nil
}

// asksDuring reports whether servers ask something during a request of a method.
// They hardly do during what only reads what there is, or concerns the connection:
// many clients do that all the time, and must not keep others from being asked.
func asksDuring(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "logging/setLevel", "subscriptions/listen", "resources/subscribe", "resources/unsubscribe",
		"tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return false
	}
	return true
}

// logs finds whom a log message belongs to. A modern server writes none for a
// request that asked for none; any other request of a client may be meant on a
// connection of the legacy era, whose level is the most that anybody wants.
func (f *inflight) logs(m *wire.Message, era Era) *pending {
	wants := func(p *pending) bool { return p.wantsLog(m) }
	return first(f.owners(func(p *pending) chance {
		if p.o.Client == nil || era == Modern && !wants(p) {
			return never
		}
		return likely
	}, sameClient), wants)
}

// visited finds whose user was at the address that a notification is about.
func (f *inflight) visited(m *wire.Message) *pending {
	sent := func(p *pending) bool { return p.wasSent(m.Param("elicitationId")) }
	return first(f.owners(func(p *pending) chance {
		if !sent(p) {
			return never
		}
		return likely
	}, sameClient), sent)
}

func sameClient(p, q *pending) bool {
	a, b := p.o.Client, q.o.Client
	return a != nil && b != nil && a.Connection != "" && a.Connection == b.Connection
}

// ghost is a request that was given up and that the server may still be at
// work on: what it says now may be meant for a client that is gone.
type ghost struct {
	p     *pending
	until time.Time
}

// haunt is how long a server is thought to be at work on a cancelled request.
const haunt = 10 * time.Second

// abandon closes a request whose answer nobody waits for any more.
func (f *inflight) abandon(p *pending) {
	if p.o.Client == nil {
		return
	}
	p.o.Client.Can(Elicitation) // read while what it is read from is there
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.ghosts = slices.DeleteFunc(f.ghosts, func(g ghost) bool { return now.After(g.until) })
	f.ghosts = append(f.ghosts, ghost{p, now.Add(haunt)})
}

// exorcise forgets a ghost that has been answered after all.
func (f *inflight) exorcise(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ghosts = slices.DeleteFunc(f.ghosts, func(g ghost) bool { return g.p.id == id })
}

// notification sends a notification of the server where it belongs. on is the
// request whose stream it came by, or nil on a stream shared by all, and era that
// of the connection.
func (f *inflight) notification(m *wire.Message, on *pending, era Era, deliver func(p *pending, method string, params []byte)) {
	to := func(p *pending) {
		if p != nil {
			p.note(m, func(method string, params []byte) { deliver(p, method, params) })
		}
	}
	switch m.Method {
	case NoteProgress:
		if id, ok := parseID(m.Param(metaProgress)); ok {
			to(f.get(id))
		}
	case noteMessage:
		if on == nil {
			on = f.logs(m, era)
		}
		to(on)
	case noteVisited:
		if on == nil {
			on = f.visited(m)
		}
		to(on)
	case noteCancelled:
		f.mu.Lock()
		cancel := f.asks[string(m.Param("requestId"))]
		f.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case noteAcknowledged:
		if on == nil {
			if id, ok := parseID(wire.Get(m.Param("_meta"), metaSubscription)); ok {
				on = f.get(id)
			}
		}
		to(on)
	case NoteToolsChanged, NotePromptsChanged, NoteResourcesChanged, NoteResourceUpdated, NoteTask:
		f.opts.Note(m.Method, clone(m.Params))
	default:
		if on != nil {
			to(on)
			return
		}
		f.opts.Note(m.Method, clone(m.Params))
	}
}

// asked returns the request by whose client, or by whose sampler, a question of
// the server can be answered, or nil. on is as above.
func (f *inflight) asked(on *pending, what Capability) *pending {
	able := func(p *pending) bool {
		switch {
		case p.o.Client == nil:
			return false
		case what == Sampling && p.o.Sampler != nil:
			return true
		}
		return p.o.Client.Can(what) && p.stream.CanAsk()
	}
	if on != nil && !able(on) {
		return nil
	}
	if on != nil {
		return on
	}
	could := func(p *pending) chance {
		switch {
		case p.o.Client == nil: // nobody is asked for the hub itself
			return never
		case asksDuring(p.o.Method) || able(p):
			return likely
		}
		return hardly
	}
	same := func(p, q *pending) bool {
		if what == Sampling && p.o.Sampler != nil {
			return sameParty(p, q)
		}
		return sameClient(p, q)
	}
	return first(f.owners(could, same), able)
}

// put puts a question to whoever is to answer it.
func (p *pending) put(ctx context.Context, what Capability, method string, params []byte) (Response, error) {
	if what == Sampling && p.o.Sampler != nil {
		return p.o.Sampler.Ask(ctx, params)
	}
	return p.stream.Ask(ctx, method, params)
}

// refuse answers a request of the server with an error, and tells of it.
func (f *inflight) refuse(m *wire.Message, id []byte, why error, reply func(id []byte, resp Response, err error)) {
	f.opts.Aside(Aside{Method: m.Method, Params: m.Params, Answer: fault.Of(why).Wire(false)})
	reply(id, Response{}, why)
}

// request answers a request of the server by reply. on is as above.
func (f *inflight) request(m *wire.Message, on *pending, reply func(id []byte, resp Response, err error)) {
	id := clone(m.ID)
	what, known := Asks(m.Method, m.Params)
	switch {
	case m.Method == "ping":
		f.opts.Aside(Aside{Method: m.Method, Params: m.Params, Answer: []byte("{}")})
		reply(id, Response{Result: []byte("{}")}, nil)
		return
	case !known:
		f.refuse(m, id, unknownMethod(m.Method, LegacyVersion), reply)
		return
	}
	if what == Sampling && f.refusesSampling() {
		f.refuse(m, id, errNoSampling, reply)
		return
	}
	if on = f.asked(on, what); on == nil {
		f.opts.Refused(m.Method)
		f.refuse(m, id, fault.New(fault.MissingCapability, m.Method, "no single running call belongs to a client that can answer this"), reply)
		return
	}
	method, params := m.Method, clone(m.Params)
	if id := wire.Get(params, "elicitationId"); what == Addresses && id != nil {
		on.sentTo(id)
	}
	registered := make(chan struct{})
	on.asks()
	cancel, ok := on.spawn(func(ctx context.Context) {
		resp, err := f.put(ctx, on, what, method, params)
		on.answered()
		<-registered
		f.mu.Lock()
		delete(f.asks, string(id))
		f.mu.Unlock()
		reply(id, resp, err)
	})
	if !ok {
		return // the call has been answered: nobody waits for this
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asks == nil {
		f.asks = map[string]context.CancelFunc{}
	}
	f.asks[string(id)] = cancel
	close(registered)
}
