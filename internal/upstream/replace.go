package upstream

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// retireTime is how long the running calls of an upstream that is taken out
// may take to end.
const retireTime = 10 * time.Second

// Replace starts an upstream in place of the one of its name. What that one
// offered stays in the catalogue until the new one has been read, and what was
// subscribed to is subscribed to again. Calls that run on the old one may end;
// those that come to it go to the new one.
func (p *Pool) Replace(opts Options) (*Upstream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.ups[opts.Name]
	if old == nil {
		return nil, fault.New(fault.Internal, opts.Name, "there is no upstream of that name to replace")
	}
	return p.replace(old, opts), nil
}

// replace is called with mu held.
func (p *Pool) replace(old *Upstream, opts Options) *Upstream {
	opts.Last = nil // what the old one offered is there
	u := newUpstream(opts, p.cat, p)
	old.mu.Lock()
	u.subs, u.subsGen, u.level = maps.Clone(old.subs), old.subsGen, old.level
	old.mu.Unlock()
	old.retired.Store(true)
	old.next.Store(u)
	p.ups[opts.Name] = u
	u.wg.Go(u.run)
	p.wg.Go(func() { p.retire(old) })
	return u
}

// Retire takes an upstream out and forgets what it offered. Its running calls
// may end; it does not wait for them.
func (p *Pool) Retire(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.ups[name]
	if u == nil {
		return
	}
	delete(p.ups, name)
	u.retired.Store(true)
	p.cat.Remove(name)
	p.wg.Go(func() {
		p.retire(u)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ups[name] == nil {
			p.cat.Remove(name) // lists that were being read when it was taken out
		}
	})
}

// retire lets the running calls of an upstream end, then ends it.
func (p *Pool) retire(u *Upstream) {
	ctx, cancel := context.WithTimeout(p.ctx, cmp.Or(u.opts.Linger, retireTime))
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for u.runs() && ctx.Err() == nil {
		select {
		case <-look.C:
		case <-ctx.Done():
		}
	}
	u.close()
}

// runs reports whether somebody waits for the upstream.
func (u *Upstream) runs() bool {
	if u.calls.Load() > 0 {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range u.links {
		if l.busy.Load() > 0 {
			return true
		}
	}
	return false
}

// Bound changes what bounds the pool. Connections over a lower maximum are
// closed as they become idle and others are asked for.
func (p *Pool) Bound(o PoolOptions) {
	o.defaults()
	p.mu.Lock()
	p.max = o.Max
	p.mu.Unlock()
	p.alone.Store(int64(o.Alone))
	p.tick.Reset(o.Sweep)
}
