package incident

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/event"
)

// The bounds of a Book.
const (
	Whole     = 100           // Errors that are held whole
	maxGroups = 500           // beyond it those of new keys are counted under Other
	maxOthers = 4 * maxGroups // of other hubs; beyond it those of new keys are not shown
	Other     = "OTHER"
)

// Options are what a Book works with; all may be nil.
type Options struct {
	Events *event.Bus
	Hide   func(string) string // takes out secrets
	Now    func() time.Time
}

// Book holds the faults that were met. Everything may be used concurrently.
type Book struct {
	opts Options
	keep keeper

	mu     sync.Mutex
	groups map[Key]*Group  // what this hub has counted
	others map[part]*Group // what other hubs on the same store have
	last   []Error         // of all hubs, newest last, at most Whole
	total  int64
}

// part is a Group as one hub has counted it. The empty hub is all those of
// versions that did not say which they were.
type part struct {
	hub string
	Key
}

// New returns an empty Book, which keeps nothing until Keep.
func New(o Options) *Book {
	if o.Hide == nil {
		o.Hide = func(s string) string { return s }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Book{opts: o, groups: map[Key]*Group{}, others: map[part]*Group{}}
}

// Tell counts a fault and, unless there is a flood of its kind, has make say
// what it was, holds that and tells those who watch. make need not set ID,
// Time and Code. It is called on this goroutine, without locks. Tell returns
// the id, or "" if the fault was only counted.
func (b *Book) Tell(k Key, make func() Error) string {
	now := b.opts.Now()
	b.mu.Lock()
	b.total++
	g := b.group(k)
	whole := g.count(now)
	b.mu.Unlock()
	if !whole {
		return ""
	}
	e := make()
	e.Time, e.ID = now, newID(now)
	if e.Error.Code == "" {
		e.Error.Code = k.Code
	}
	e.bound(b.opts.Hide)
	b.mu.Lock()
	g = b.group(k) // it may be another since the log was read
	g.ErrorType, g.Severity, g.Message, g.LastID = e.ErrorType, e.Severity, e.Error.Message, e.ID
	b.hold(e)
	g.dirty = false
	written := entry{Error: &e, Group: *g}
	b.mu.Unlock()
	b.keep.put(written)
	if b.opts.Events != nil {
		b.opts.Events.Emit(record(&e, k))
	}
	return e.ID
}

// record is an Error as those who watch are told of it.
func record(e *Error, k Key) event.Record {
	level := event.Error
	if e.Severity == Warning {
		level = event.Warning
	}
	c := e.Context
	return event.Record{Type: event.Fault, Time: e.Time, Level: level, Kind: e.Error.Code, Upstream: k.Upstream, Tool: k.Tool, Session: c["session"], Principal: c["principal"],
		Call: c["call"], Parent: c["parent"], Trace: c["trace"], Run: c["run"], Step: c["step"], Task: c["task"], Agent: c["agent"], Data: e}
}

// group finds the group of a key. Called with mu held.
func (b *Book) group(k Key) *Group {
	g := b.groups[k]
	if g == nil && len(b.groups) >= maxGroups {
		k = Key{Code: Other}
		g = b.groups[k]
	}
	if g == nil {
		g = &Group{Key: k}
		b.groups[k] = g
	}
	return g
}

// other finds what another hub has counted of a key; nil if that is too much to
// keep. Called with mu held.
func (b *Book) other(hub string, k Key) *Group {
	g := b.others[part{hub, k}]
	if g == nil && len(b.others) < maxOthers {
		g = &Group{Key: k}
		b.others[part{hub, k}] = g
	}
	return g
}

// hold keeps e among the last. Called with mu held.
func (b *Book) hold(e Error) {
	if slices.ContainsFunc(b.last, func(o Error) bool { return o.ID == e.ID }) {
		return // its writing was not acknowledged, and it is there twice
	}
	i := len(b.last)
	for i > 0 && b.last[i-1].Time.After(e.Time) { // another hub's may come late
		i--
	}
	if b.last = slices.Insert(b.last, i, e); len(b.last) > Whole {
		b.last = slices.Delete(b.last, 0, 1)
	}
}

// Groups returns the groups of all hubs on the store, the one that was met last
// first, and how many faults this one has met since it was started.
func (b *Book) Groups() (groups []Group, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.opts.Now()
	all := make(map[Key]*Group, len(b.groups))
	for k, g := range b.groups {
		own := *g
		all[k] = &own
	}
	others := slices.Collect(maps.Values(b.others))
	slices.SortFunc(others, func(x, y *Group) int { return y.Last.Compare(x.Last) })
	for _, g := range others {
		k := g.Key
		if all[k] == nil && len(all) >= maxGroups {
			k = Key{Code: Other}
		}
		if all[k] == nil {
			all[k] = &Group{Key: k}
		}
		all[k].add(g, now)
	}
	groups = make([]Group, 0, len(all))
	for _, g := range all {
		groups = append(groups, g.shown(now))
	}
	newest(groups)
	return groups, b.total
}

// Last returns the last Errors, newest first.
func (b *Book) Last() []Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(b.last)
	slices.Reverse(out)
	return out
}

// find looks among the last.
func (b *Book) find(id string) (Error, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.last {
		if e.ID == id {
			return e, true
		}
	}
	return Error{}, false
}
