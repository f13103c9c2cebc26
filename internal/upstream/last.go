package upstream

import (
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
)

// Last is what an upstream offered, as it said it, for a hub that is started
// later.
type Last struct {
	Era         mcp.Era
	Definitions [4][][]byte // by catalog.Kind
	Private     bool
	Hubs        []string
}

// recall offers what the upstream offered when the hub ran before, until it has
// said what it offers now.
func (u *Upstream) recall(last *Last) {
	if last == nil || u.opts.Era != 0 && u.opts.Era != last.Era {
		return
	}
	l := &catalog.Lists{Stale: true, Unconfirmed: true, Private: last.Private, Hubs: last.Hubs, Unlisted: u.opts.Unlisted}
	for k := range catalog.Kind(len(last.Definitions)) {
		items := u.items(k, last.Definitions[k], nil)
		if k == catalog.Tool {
			catalog.Apply(items, u.opts.Override)
		}
		l.Items[k] = u.review(k, items)
	}
	u.listedIn.Store(uint32(last.Era))
	u.cat.Put(u.opts.Name, l, catalog.Which{})
}

// keep has what the upstream offers kept for the next start of the hub.
func (u *Upstream) keep(era mcp.Era, l *catalog.Lists) {
	if u.opts.Keep == nil {
		return
	}
	last := &Last{Era: era, Private: l.Private, Hubs: l.Hubs}
	for k := range l.Items {
		for _, it := range l.Items[k] {
			last.Definitions[k] = append(last.Definitions[k], it.Raw)
		}
	}
	u.opts.Keep(last)
}
