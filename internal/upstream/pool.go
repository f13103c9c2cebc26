package upstream

import (
	"context"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
)

// Pool holds the upstreams and bounds their connections.
type Pool struct {
	hub     string // PoolOptions.Hub
	cat     *catalog.Catalog
	tick    *time.Ticker // of the search for idle connections
	parking *parking
	onState func(Transition)
	onNote  func(string, Health)
	onAsk   func(string, *mcp.Outgoing) func(mcp.Response, error)
	onAside func(string, mcp.Aside)

	created, reused, reaped, unhealthy atomic.Int64

	alone atomic.Int64 // PoolOptions.Alone

	mu   sync.Mutex
	max  int // connections in all; 0 means no bound
	ups  map[string]*Upstream
	open int // connections that are open or being made
	hear []func(upstream, method string, params []byte)
	ctx  context.Context // ends with the pool
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// PoolOptions bound a Pool.
type PoolOptions struct {
	Key   []byte        // signs what clients bring back to parked calls; nil means one that nobody else has
	Max   int           // connections in all; 0 means no bound
	Sweep time.Duration // how often idle connections are looked for; 0 means 1 min
	Wait  time.Duration // how long a parked call waits for its client; 0 means 5 min
	Alone time.Duration // how long a Session's own connection, that no client's connection ends, is kept unused; 0 means for ever

	// Process is the name of this process among all whose clients bring back what
	// Key signs; empty for one of its own.
	Process string
	// Hub is the id of this hub, which servers that are hubs are told, and by
	// which it knows itself; empty for none.
	Hub string

	// OnState is told of each new state of an upstream, OnHealth of each
	// condition that a person should know of. They must not block, and must
	// not ask the upstream anything. nil means that nobody wants to know.
	OnState  func(Transition)
	OnHealth func(upstream string, h Health)
	// OnAsk is told of each request that the hub makes for itself before it is
	// sent, and returns who is told of its answer, or nil.
	OnAsk func(upstream string, o *mcp.Outgoing) func(mcp.Response, error)
	// OnAside is told of each message that belongs to no request, but for those
	// that Hear tells of. It must not block.
	OnAside func(upstream string, a mcp.Aside)
}

func (o *PoolOptions) defaults() {
	if o.Sweep == 0 {
		o.Sweep = time.Minute
	}
	if o.Wait == 0 {
		o.Wait = 5 * time.Minute
	}
}

// Open returns a pool that puts what upstreams offer into cat.
func Open(cat *catalog.Catalog, o PoolOptions) *Pool {
	o.defaults()
	p := &Pool{hub: o.Hub, cat: cat, max: o.Max, parking: newParking(o.Key, o.Process, o.Wait), tick: time.NewTicker(o.Sweep), ups: map[string]*Upstream{}}
	p.alone.Store(int64(o.Alone))
	p.onState, p.onNote, p.onAsk, p.onAside = o.OnState, o.OnHealth, o.OnAsk, o.OnAside
	if p.onState == nil {
		p.onState = func(Transition) {}
	}
	if p.onNote == nil {
		p.onNote = func(string, Health) {}
	}
	if p.onAside == nil {
		p.onAside = func(string, mcp.Aside) {}
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.reap)
	return p
}

// Add starts an upstream. It returns at once; connecting goes on behind.
func (p *Pool) Add(opts Options) (*Upstream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, dup := p.ups[opts.Name]; dup {
		return nil, fault.New(fault.Internal, opts.Name, "an upstream of that name exists")
	}
	u := newUpstream(opts, p.cat, p)
	p.ups[opts.Name] = u
	u.wg.Go(u.run)
	return u, nil
}

// ask sends a request that the hub makes for itself.
func (u *Upstream) ask(ctx context.Context, l *link, o *mcp.Outgoing) (mcp.Response, error) {
	return u.tellOf(ctx, l.conn, o)
}

// tellOf sends a request of the hub's own and tells of it.
func (u *Upstream) tellOf(ctx context.Context, conn mcp.Conn, o *mcp.Outgoing) (mcp.Response, error) {
	var done func(mcp.Response, error)
	if u.pool.onAsk != nil {
		done = u.pool.onAsk(u.opts.Name, o)
	}
	resp, err := u.reach(ctx, conn, o)
	if done != nil {
		done(resp, err)
	}
	return resp, err
}

// reach sends a request of the hub's own. What the server says meanwhile is read
// on this goroutine, which nobody else guards: a mistake in that costs the
// request; if it was to listen, another one follows.
func (u *Upstream) reach(ctx context.Context, conn mcp.Conn, o *mcp.Outgoing) (_ mcp.Response, err error) {
	defer u.caught(&err)
	return conn.Call(ctx, o)
}

// caught, deferred, makes an error of a panic.
func (u *Upstream) caught(err *error) {
	if p := recover(); p != nil {
		_ = obs.Stumbled(u.opts.Logger, p, "an upstream made the hub stumble", obs.KeyUpstream, u.opts.Name)
		*err = fault.New(fault.Internal, u.opts.Name, "what the server said made the hub stumble") // people see it: no stack
	}
}

// Hear makes f be called with each notification of an upstream that belongs to
// no request and changes no list. f must not block.
func (p *Pool) Hear(f func(upstream, method string, params []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hear = append(p.hear, f)
}

func (p *Pool) tell(upstream, method string, params []byte) {
	p.mu.Lock()
	hear := p.hear
	p.mu.Unlock()
	for _, f := range hear {
		f(upstream, method, params)
	}
}

// Remove ends an upstream and forgets what it offered.
func (p *Pool) Remove(name string) {
	p.mu.Lock()
	u := p.ups[name]
	delete(p.ups, name)
	p.mu.Unlock()
	if u != nil {
		u.close()
		p.cat.Remove(name)
	}
}

// Get returns the upstream of that name, or nil.
func (p *Pool) Get(name string) *Upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ups[name]
}

// All returns the upstreams sorted by name.
func (p *Pool) All() []*Upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*Upstream, 0, len(p.ups))
	for _, u := range p.ups {
		out = append(out, u)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].opts.Name < out[j].opts.Name })
	return out
}

// Close ends all upstreams, side by side.
func (p *Pool) Close() {
	p.stop()
	var wg sync.WaitGroup
	for _, u := range p.All() {
		wg.Go(u.close)
	}
	wg.Wait()
	p.wg.Wait()
}

// admit waits for room for one more connection, closing an idle one if the
// pool is full.
func (p *Pool) admit(ctx context.Context) error {
	for tried := false; ; tried = true {
		p.mu.Lock()
		if p.max == 0 || p.open < p.max {
			p.open++
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		if tried || !p.closeIdlest() {
			return &fault.Error{Kind: fault.Limit, Subject: "pool", Msg: "all connections to upstreams are in use", Hint: "Try again later, or raise pool.max."}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (p *Pool) release() {
	p.mu.Lock()
	p.open--
	p.mu.Unlock()
}

// reap closes connections that have been idle for longer than their upstream
// allows.
func (p *Pool) reap() {
	defer p.tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.tick.C:
			for _, u := range p.All() {
				u.closeIdle(time.Now())
			}
		}
	}
}

// closeIdle closes what has been unused for the upstream's idle time. What is for
// requests that stand alone has nobody whose leaving would end it, and is not kept
// longer than the connection of a client that says nothing.
func (u *Upstream) closeIdle(now time.Time) {
	alone := time.Duration(u.pool.alone.Load())
	u.mu.Lock()
	var idle []*link
	for k, l := range u.links {
		unused := now.Sub(time.Unix(0, l.used.Load()))
		over := u.opts.Idle > 0 && unused > u.opts.Idle && len(u.subs) == 0 || k.alone && alone > 0 && unused > alone
		if over && l.busy.Load() == 0 {
			idle = append(idle, l)
			delete(u.links, k)
		}
	}
	if len(idle) > 0 && len(u.links) == 0 {
		u.setState(Disconnected, nil)
	}
	u.mu.Unlock()
	for _, l := range idle {
		u.dispose(l)
	}
}

// dispose closes a connection that has been taken out of links.
func (u *Upstream) dispose(l *link) {
	u.pool.reaped.Add(1)
	l.close()
	u.pool.release()
}

// closeIdlest closes the connection that has been idle longest. Those of one
// client stay: what the server keeps for it would be lost without a word.
func (p *Pool) closeIdlest() bool {
	var whose *Upstream
	var oldest *link
	for _, u := range p.All() {
		u.mu.Lock()
		for _, l := range u.links {
			if l.key.client == "" && l.busy.Load() == 0 && len(u.subs) == 0 && (oldest == nil || l.used.Load() < oldest.used.Load()) {
				whose, oldest = u, l
			}
		}
		u.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	whose.mu.Lock()
	if whose.links[oldest.key] != oldest || oldest.busy.Load() > 0 {
		whose.mu.Unlock()
		return false
	}
	delete(whose.links, oldest.key)
	if len(whose.links) == 0 {
		whose.setState(Disconnected, nil)
	}
	whose.mu.Unlock()
	whose.dispose(oldest)
	return true
}

// Stats are the pool's figures.
type Stats struct {
	Open      int   `json:"open"`
	Idle      int   `json:"idle"`
	Created   int64 `json:"created"`
	Reused    int64 `json:"reused"`
	Reaped    int64 `json:"reaped"`
	Unhealthy int64 `json:"unhealthy"`
	Processes int   `json:"processes"`
}

// Stats returns the pool's figures.
func (p *Pool) Stats() Stats {
	s := Stats{Created: p.created.Load(), Reused: p.reused.Load(), Reaped: p.reaped.Load(), Unhealthy: p.unhealthy.Load()}
	for _, u := range p.All() {
		u.mu.Lock()
		for _, l := range u.links {
			s.Open++
			if l.busy.Load() == 0 {
				s.Idle++
			}
			if l.proc != nil {
				s.Processes++
			}
		}
		u.mu.Unlock()
	}
	return s
}
