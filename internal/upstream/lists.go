package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// settle is how long to wait for more changes before lists are read again.
const settle = 20 * time.Millisecond

// run keeps the upstream connected, if it is to be, and its lists current.
func (u *Upstream) run() {
	u.recall(u.opts.Last)
	close(u.recalled)
	if u.opts.Unusable != nil {
		return // only another config helps
	}
	if !u.opts.Lazy {
		u.wake()
	}
	for {
		select {
		case <-u.ctx.Done():
			return
		case <-u.reload:
		}
		select {
		case <-u.ctx.Done():
			return
		case <-time.After(u.pause()):
		}
		u.refresh()
	}
}

// pause is how long to wait before acting: for more changes to come, or for
// the rest that a failing upstream is given.
func (u *Upstream) pause() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.links) == 0 {
		if u.failed == nil {
			return 0
		}
		return max(time.Until(u.retryAt), 0)
	}
	return settle
}

// refresh connects if nothing is connected and reads the lists that changed.
func (u *Upstream) refresh() {
	u.mu.Lock()
	idle := u.state == Disconnected && u.opts.Lazy
	u.mu.Unlock()
	if idle {
		return
	}
	l, err := u.link(u.ctx, nil, "")
	if err != nil {
		u.settle.Do(func() { close(u.settled) })
		if !u.retired.Load() {
			u.cat.MarkStale(u.opts.Name, true)
		}
		if u.ctx.Err() == nil {
			u.wake()
		}
		return
	}
	defer l.release()
	u.mu.Lock()
	dirty := u.dirty
	u.dirty = [4]bool{}
	u.mu.Unlock()
	if dirty == [4]bool{} {
		return // a new connection says when it is time to read
	}
	err = u.load(u.ctx, l, dirty)
	u.listed(l, err)
	if !gone(err) {
		// One that went in the midst of it may be starting anew: the next
		// attempt tells.
		u.settle.Do(func() { close(u.settled) })
	}
	if err == nil {
		u.mu.Lock()
		u.relist.Reset()
		u.mu.Unlock()
	} else if u.ctx.Err() == nil {
		u.health("lists", "%v; what is offered is what it said last", err)
		u.mu.Lock()
		for k := range dirty {
			u.dirty[k] = u.dirty[k] || dirty[k]
		}
		rest := u.relist.Next()
		u.mu.Unlock()
		if !l.alive() {
			return // what follows a lost connection wakes us again
		}
		time.AfterFunc(rest, u.wake)
	}
}

// Load reads all lists now, connecting if needed: what is done when somebody
// asks for a catalogue that is not read by itself.
func (u *Upstream) Load(ctx context.Context) error {
	l, err := u.link(ctx, nil, "")
	if err != nil {
		return err
	}
	defer l.release()
	err = u.load(ctx, l, [4]bool{true, true, true, true})
	if ctx.Err() == nil {
		u.listed(l, err)
	}
	return err
}

// listed sets the state by how lists were read on a connection.
func (u *Upstream) listed(l *link, err error) {
	known := u.cat.Now().Of(u.opts.Name)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.links[l.key] != l || u.closed {
		return
	}
	if err != nil && (gone(err) || known == nil || known.Unconfirmed) {
		// Over HTTP there is no connection whose end would tell.
		if away := gone(err); u.away.Swap(away) != away && away {
			u.leftAt = time.Now()
		}
		u.failed = err
		u.setState(Failed, err)
		return
	}
	u.away.Store(false)
	u.failed = nil
	u.setState(Connected, nil)
}

// gone reports whether an error says that the server was not there, or went.
func gone(err error) bool { return errors.Is(err, mcp.ErrNotSent) || errors.Is(err, mcp.ErrLost) }

// Fresh is for how long it is still worth waiting for what the upstream offers:
// one that was added recently may just be starting.
func (u *Upstream) Fresh() time.Duration { return max(0, freshTime-time.Since(u.added)) }

const freshTime = 5 * time.Second

// Settle waits until the upstream's lists have been read once, or until it is
// known that they cannot be now, or until ctx ends. One that is read only when
// asked for is asked.
func (u *Upstream) Settle(ctx context.Context) {
	select {
	case <-u.recalled:
	case <-ctx.Done():
	}
	if u.cat.Now().Of(u.opts.Name) != nil {
		return
	}
	if u.opts.Lazy && u.opts.Unusable == nil {
		_ = u.Load(ctx) // the status says why it could not be
		return
	}
	select {
	case <-u.settled:
	case <-ctx.Done():
	}
}

// codeNoMethod is the JSON-RPC code of a method that the server does not have.
const codeNoMethod = -32601

var capabilityOf = [4]string{"tools", "prompts", "resources", "resources"}

// load reads lists. What they hold is foreign: a mistake in reading it leaves
// what was known before.
func (u *Upstream) load(ctx context.Context, l *link, dirty [4]bool) (err error) {
	defer u.caught(&err)
	ctx, cancel := context.WithTimeoutCause(ctx, 2*u.opts.Timeout, fmt.Errorf("listing took longer than %v", 2*u.opts.Timeout))
	defer cancel()
	// One at a time: what was read first must not be put last.
	select {
	case u.loading <- struct{}{}:
		defer func() { <-u.loading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	next := catalog.Lists{}
	if last := u.cat.Now().Of(u.opts.Name); last != nil {
		next = *last
	}
	next.Unlisted = u.opts.Unlisted
	u.listedIn.Store(uint32(l.key.era))
	next.Hubs = u.passed(l.hello, next.Hubs, dirty)
	var bad error
	known := u.cat.Now().Of(u.opts.Name) != nil
	for k := range catalog.Kind(4) {
		if !dirty[k] {
			continue
		}
		if !l.hello.Can(capabilityOf[k]) {
			next.Items[k] = nil
			continue
		}
		items, err := u.list(ctx, l, k, &next)
		if err != nil {
			if r, ok := errors.AsType[*mcp.Rejected](err); ok && r.Code() == codeNoMethod {
				next.Items[k], known = nil, true // it has nothing of the kind, whatever it announced
				continue
			}
			bad = fmt.Errorf("%s: %w", k.Method(), err)
			continue
		}
		if k == catalog.Tool {
			catalog.Apply(items, u.opts.Override)
		}
		next.Items[k], known = u.review(k, items), true
	}
	if !known && bad != nil {
		return bad // nothing is known of it, which is not the same as that it has nothing
	}
	next.Stale, next.Unconfirmed = bad != nil, false
	if u.retired.Load() {
		return bad // the name is another's now
	}
	slices.Sort(next.Hubs)
	next.Hubs = slices.Compact(next.Hubs)
	if err := u.circle(next.Hubs); err != nil {
		return err
	}
	u.mu.Lock()
	said := u.spoken
	u.spoken = catalog.Which{}
	u.mu.Unlock()
	u.cat.Put(u.opts.Name, &next, said)
	if bad == nil {
		u.mu.Lock()
		delete(u.notes, "lists")
		u.mu.Unlock()
		u.keep(l.key.era, &next)
	}
	return bad
}

// Bounds of one list.
const (
	maxPages = 1000
	maxItems = 50000
	maxBytes = 64 << 20
)

// list reads all pages of one list.
func (u *Upstream) list(ctx context.Context, l *link, k catalog.Kind, into *catalog.Lists) ([]*catalog.Item, error) {
	var items []*catalog.Item
	var cursor []byte
	seen, size, private := map[string]bool{}, 0, false
	for page := 0; ; page++ {
		o := &mcp.Outgoing{Method: k.Method()}
		if cursor != nil {
			o.Raw = append(append([]byte(`{"cursor":`), cursor...), '}')
			o.Fields = wire.Members(o.Raw)
		}
		resp, err := u.ask(ctx, l, o)
		if err != nil {
			return nil, err
		}
		if resp.Error != nil {
			return nil, &mcp.Rejected{Object: append([]byte(nil), resp.Error...)}
		}
		result := append([]byte(nil), resp.Result...) // items live on in the catalogue
		resp.Release()
		if size += len(result); size > maxBytes || page >= maxPages || len(items) > maxItems {
			return nil, fmt.Errorf("the list is larger than %d pages, %d items or %d bytes", maxPages, maxItems, maxBytes)
		}
		fields := wire.Members(result)
		cursor = nil
		for _, f := range fields {
			switch string(f.Name) {
			case k.Member():
				items = u.parse(k, f.Value, items)
			case "nextCursor":
				if len(f.Value) > 0 && f.Value[0] == '"' {
					cursor = f.Value
				}
			case "ttlMs":
				into.TTL, _ = strconv.ParseInt(string(f.Value), 10, 64)
			case "_meta":
				into.Hubs = append(into.Hubs, mcp.HubsOf(result)...)
			case "cacheScope":
				private = private || string(f.Value) != `"public"`
			}
		}
		into.Private = into.Private || private
		if cursor == nil {
			return items, nil
		}
		if seen[string(cursor)] {
			return nil, fmt.Errorf("the cursor %s came twice", cursor)
		}
		seen[string(cursor)] = true
	}
}

func (u *Upstream) parse(k catalog.Kind, array []byte, items []*catalog.Item) []*catalog.Item {
	elems, ok := wire.Elements(array)
	if !ok {
		u.health("lists", "%s: %s is no array", k.Method(), k.Member())
		return items
	}
	return u.items(k, elems, items)
}

// items appends what definitions say.
func (u *Upstream) items(k catalog.Kind, definitions [][]byte, items []*catalog.Item) []*catalog.Item {
	for _, raw := range definitions {
		it, err := catalog.Parse(k, u.opts.Name, raw)
		if err != nil {
			u.health("definition", "%v", err)
			continue
		}
		if k == catalog.Tool && !u.opts.Filter.Passes(it.Name) {
			continue
		}
		if u.opts.Builtin {
			it.Bare()
		}
		if k == catalog.Tool && u.opts.Handling != nil {
			it.Handling = u.opts.Handling(it.Name)
		}
		items = append(items, it)
	}
	return items
}
