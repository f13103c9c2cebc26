package catalog

import (
	"time"

	"github.com/stoahub/stoa/internal/wire"
)

// Override changes how a tool is offered on merged faces, and how long a call
// of it may take. Zero values change nothing.
type Override struct {
	Name        string
	Description string
	Timeout     time.Duration
	Priority    string        // of its calls in the queue; empty for none in particular
	Cache       time.Duration // its results are reused for so long; 0 means never
}

// Apply changes the tools of one upstream that are overridden, by the
// upstream's own names. A name that another tool of the upstream has already
// gets the hash that a name which cannot be exposed as it is gets, so that no
// tool is lost.
func Apply(tools []*Item, by map[string]Override) {
	if len(by) == 0 {
		return
	}
	taken := map[string]bool{}
	for _, it := range tools {
		if name := by[it.Name].Name; name == "" || name == it.Name {
			taken[it.Exposed] = true
		}
	}
	for _, it := range tools {
		o, ok := by[it.Name]
		if !ok {
			continue
		}
		it.Timeout, it.Priority = o.Timeout, o.Priority
		if it.CacheFor = o.Cache; o.Cache > 0 {
			it.Digest = Digest(it.Raw)
		}
		var changes []wire.Change
		if o.Name != "" && o.Name != it.Name {
			it.Exposed = Expose(it.Upstream, o.Name)
			if taken[it.Exposed] {
				it.note("the name %q that the config gives it is another tool's", o.Name)
				it.Exposed = hashed(it.Upstream, it.Name, it.Exposed)
			}
			taken[it.Exposed] = true
			changes = append(changes, wire.Change{Name: "name", Value: wire.Quote(it.Exposed)})
		}
		if o.Description != "" {
			changes = append(changes, wire.Change{Name: "description", Value: wire.Quote(o.Description)})
		}
		if changes != nil {
			it.show(wire.Edit(nil, it.Shown, changes...))
		}
	}
}
