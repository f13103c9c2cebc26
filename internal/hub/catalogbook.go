package hub

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
)

// The bounds of what is remembered of each upstream's catalogue.
const (
	bookChanges = 8        // changes
	bookItems   = 50       // definitions in a change
	bookBytes   = 32 << 10 // of definitions in a change
)

// itemChange is how one definition came, went or changed.
type itemChange struct {
	Kind   string          `json:"kind"`
	Name   string          `json:"name"`
	What   string          `json:"what"` // added, removed or changed
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// listChange is how the lists of an upstream changed at once.
type listChange struct {
	Time  time.Time    `json:"time"`
	Items []itemChange `json:"items"`
	More  int          `json:"more,omitempty"` // definitions that changed and are not among Items
	Cut   bool         `json:"cut,omitempty"`  // some are so long that only their names are kept
}

// catalogBook remembers the last changes of what upstreams offer, definition by
// definition. What an upstream offers first is no change.
type catalogBook struct {
	mu      sync.Mutex
	last    map[string]*catalog.Lists
	changes map[string][]listChange // newest last
}

// note takes in that lists of upstreams differ.
func (b *catalogBook) note(snap *catalog.Snapshot, changed []catalog.Change, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last, b.changes = map[string]*catalog.Lists{}, map[string][]listChange{}
	}
	for _, c := range changed {
		before, after := b.last[c.Upstream], snap.Of(c.Upstream)
		if after == nil { // it was taken out
			delete(b.last, c.Upstream)
			delete(b.changes, c.Upstream)
			continue
		}
		b.last[c.Upstream] = after
		if before == nil {
			continue
		}
		if ch := compareLists(before, after); len(ch.Items) > 0 {
			ch.Time = now
			all := append(b.changes[c.Upstream], ch)
			b.changes[c.Upstream] = slices.Clone(all[max(0, len(all)-bookChanges):])
		}
	}
}

// of returns the changes of an upstream, newest first.
func (b *catalogBook) of(upstream string) []listChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := append([]listChange{}, b.changes[upstream]...)
	slices.Reverse(out)
	return out
}

func compareLists(before, after *catalog.Lists) (c listChange) {
	room := bookBytes
	add := func(k catalog.Kind, name, what string, was, is []byte) {
		if len(c.Items) == bookItems {
			c.More++
			return
		}
		item := itemChange{Kind: k.String(), Name: name, What: what}
		if room -= len(was) + len(is); room >= 0 {
			// Cloned: they are parts of whole lists, which may go.
			item.Before, item.After = bytes.Clone(was), bytes.Clone(is)
		} else {
			room += len(was) + len(is)
			c.Cut = true
		}
		c.Items = append(c.Items, item)
	}
	for k := range after.Items {
		kind, old := catalog.Kind(k), map[string][]byte{}
		for _, it := range before.Items[k] {
			old[it.Name] = it.Raw
		}
		for _, it := range after.Items[k] {
			raw, had := old[it.Name]
			delete(old, it.Name)
			switch {
			case !had:
				add(kind, it.Name, "added", nil, it.Raw)
			case !bytes.Equal(raw, it.Raw):
				add(kind, it.Name, "changed", raw, it.Raw)
			}
		}
		for _, it := range before.Items[k] {
			if raw, gone := old[it.Name]; gone {
				add(kind, it.Name, "removed", raw, nil)
			}
		}
	}
	return c
}
