package catalog

import (
	"bytes"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Lists is what one upstream offers.
type Lists struct {
	Items       [kinds][]*Item
	Stale       bool  // the upstream is not connected; this is what it said last
	Unconfirmed bool  // it has said nothing since the hub was started; this is what it said before
	TTL         int64 // the smallest ttlMs it gave with a list
	Private     bool  // it called a list private
	// Unlisted is of an upstream that is served by itself only: nothing of it is
	// on the merged face.
	Unlisted bool
	// Hubs are the ids of other hubs whose things are in the lists.
	Hubs []string
}

// Change says which lists of an upstream are new: Differ, because they are not
// as before; Said, because the upstream said so, which may be all there is to
// it.
type Change struct {
	Upstream     string
	Differ, Said Which
	Apart        bool // the upstream is not on the merged face, and was not before

	steps []*Lists // what it was and became, one after the other; nil for nothing
}

// Items are those of a kind that came, went or are others now; all of them, if
// just their order is another.
func (c *Change) Items(k Kind) (out []*Item) {
	var last []*Item
	for i := 1; i < len(c.steps); i++ {
		before := map[string]*Item{}
		for _, it := range c.steps[i-1].of(k) {
			before[it.Name] = it
		}
		last = c.steps[i].of(k)
		for _, it := range last {
			old := before[it.Name]
			delete(before, it.Name)
			if old == nil || !bytes.Equal(old.Raw, it.Raw) || !bytes.Equal(old.Shown, it.Shown) {
				out = append(out, it)
			}
		}
		for _, it := range before {
			out = append(out, it)
		}
	}
	if out == nil {
		return last
	}
	return out
}

func (l *Lists) of(k Kind) []*Item {
	if l == nil {
		return nil
	}
	return l.Items[k]
}

// Which is a set of lists, as clients are told of them.
type Which struct {
	Tools, Prompts, Resources bool
}

func (w Which) or(o Which) Which {
	return Which{w.Tools || o.Tools, w.Prompts || o.Prompts, w.Resources || o.Resources}
}

// Catalog is the live catalogue.
type Catalog struct {
	snap  atomic.Pointer[Snapshot]
	delay time.Duration

	mu       sync.Mutex
	sources  map[string]*Lists
	stats    map[string]*Stat
	others   map[string]*Figures // what other hubs know of tools, also of those that are not there
	watchers map[int]func([]Change)
	next     int
	pending  map[string]*Change
	timer    *time.Timer
	closed   bool
	panicked func(v any, stack []byte)
}

// New returns an empty catalogue. Changes that come within delay of each other
// are told as one.
func New(delay time.Duration) *Catalog {
	c := &Catalog{delay: delay, sources: map[string]*Lists{}, stats: map[string]*Stat{}, others: map[string]*Figures{}, watchers: map[int]func([]Change){}, pending: map[string]*Change{}}
	c.snap.Store(build(nil))
	return c
}

// Now is the current snapshot.
func (c *Catalog) Now() *Snapshot { return c.snap.Load() }

// Put replaces what an upstream offers. said are the lists of which it said
// that they changed.
func (c *Catalog) Put(upstream string, l *Lists, said Which) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range kinds {
		for _, it := range l.Items[k] {
			// Items of lists that were not read anew are in use already.
			if s := c.stat(it); it.Stat != s {
				it.Stat = s
			}
		}
	}
	c.swap(upstream, l, said)
}

func (c *Catalog) stat(it *Item) *Stat {
	if it.Kind != Tool {
		return it.Stat
	}
	return c.statOf(it.Ref())
}

func (c *Catalog) statOf(ref string) *Stat {
	s := c.stats[ref]
	if s == nil {
		s = &Stat{}
		s.others.Store(c.others[ref])
		c.stats[ref] = s
	}
	return s
}

// MarkStale says that an upstream's lists may be out of date, or are not.
func (c *Catalog) MarkStale(upstream string, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.sources[upstream]; l != nil && l.Stale != stale {
		copied := *l
		copied.Stale = stale
		c.swap(upstream, &copied, Which{})
	}
}

// Remove forgets an upstream.
func (c *Catalog) Remove(upstream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref := range c.stats {
		if strings.HasPrefix(ref, upstream+":") {
			delete(c.stats, ref)
		}
	}
	c.swap(upstream, nil, Which{})
}

// RemoveByPrefix takes out the tools whose Ref begins with prefix, in the form
// server: or mcp:server:, and returns how many there were.
func (c *Catalog) RemoveByPrefix(prefix string) int {
	prefix = strings.TrimPrefix(prefix, "mcp:")
	return c.RemoveTools(func(it *Item) bool { return strings.HasPrefix(it.Ref(), prefix) })
}

// RemoveTools takes out the tools that match, until their upstream's list is
// read again, and returns how many there were.
func (c *Catalog) RemoveTools(match func(*Item) bool) int {
	n := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, l := range c.sources {
		copied := *l
		copied.Items[Tool] = nil
		for _, it := range l.Items[Tool] {
			if !match(it) {
				copied.Items[Tool] = append(copied.Items[Tool], it)
			}
		}
		if d := len(l.Items[Tool]) - len(copied.Items[Tool]); d > 0 {
			n += d
			c.swap(name, &copied, Which{})
		}
	}
	return n
}

// swap is called with mu held.
func (c *Catalog) swap(upstream string, l *Lists, said Which) {
	next := make(map[string]*Lists, len(c.sources)+1)
	for k, v := range c.sources {
		next[k] = v
	}
	before := c.sources[upstream]
	change := Change{Upstream: upstream, Differ: diff(before, l), Said: said, Apart: (before == nil || before.Unlisted) && (l == nil || l.Unlisted), steps: []*Lists{before, l}}
	if before != nil && l != nil && before.Unlisted != l.Unlisted {
		change.Differ = Which{true, true, true}
	}
	if l == nil {
		delete(next, upstream)
	} else {
		next[upstream] = l
	}
	c.sources = next
	c.snap.Store(build(next))
	if change.Differ.or(change.Said) != (Which{}) {
		c.announce(change)
	}
}

func diff(a, b *Lists) Which {
	if a == nil {
		a = &Lists{}
	}
	if b == nil {
		b = &Lists{}
	}
	return Which{
		Tools:     !same(a.Items[Tool], b.Items[Tool]),
		Prompts:   !same(a.Items[Prompt], b.Items[Prompt]),
		Resources: !same(a.Items[Resource], b.Items[Resource]) || !same(a.Items[Template], b.Items[Template]),
	}
}

func same(a, b []*Item) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].Raw, b[i].Raw) || !bytes.Equal(a[i].Shown, b[i].Shown) {
			return false
		}
	}
	return true
}

// announce tells the watchers of a change, after the delay. Called with mu
// held.
func (c *Catalog) announce(ch Change) {
	if p := c.pending[ch.Upstream]; p != nil {
		p.Differ, p.Said, p.Apart = p.Differ.or(ch.Differ), p.Said.or(ch.Said), p.Apart && ch.Apart
		p.steps = append(p.steps, ch.steps[1])
	} else {
		c.pending[ch.Upstream] = &ch
	}
	if c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(c.delay, c.tell)
	}
}

func (c *Catalog) tell() {
	c.mu.Lock()
	var changes []Change
	for _, ch := range c.pending {
		changes = append(changes, *ch)
	}
	c.pending, c.timer = map[string]*Change{}, nil
	watchers := make([]func([]Change), 0, len(c.watchers))
	for _, w := range c.watchers {
		watchers = append(watchers, w)
	}
	panicked := c.panicked
	c.mu.Unlock()
	for _, w := range watchers {
		guarded(w, changes, panicked)
	}
}

// guarded tells one watcher. What changed is what servers say of themselves, and
// the goroutine is a timer's: a mistake costs that watcher the news.
func guarded(w func([]Change), changes []Change, panicked func(any, []byte)) {
	if panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				panicked(v, debug.Stack())
			}
		}()
	}
	w(changes)
}

// Panicked makes f be told of watchers that panic. Without it a panic goes on.
func (c *Catalog) Panicked(f func(v any, stack []byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.panicked = f
}

// Watch calls f with changes until stop is called. f must not block.
func (c *Catalog) Watch(f func([]Change)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.watchers[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, id)
	}
}

// Close stops telling changes.
func (c *Catalog) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
