package upstream

import (
	"reflect"
	"strings"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/pin"
)

// Pins is what judges the upstream's definitions; nil if nothing does.
func (u *Upstream) Pins() *pin.Server { return u.opts.Pins }

// review gives definitions their standing, and finds out for which of them what
// they say of themselves counts.
func (u *Upstream) review(k catalog.Kind, items []*catalog.Item) []*catalog.Item {
	if u.opts.Pins == nil {
		for _, it := range items {
			it.Trusted = !u.opts.Distrust
		}
		u.noteUncached(k, items)
		return items
	}
	reviewed, err := u.opts.Pins.Review(k, items)
	u.mu.Lock()
	delete(u.notes, "definitions")
	u.mu.Unlock()
	if err != nil {
		u.health("definitions", "which definitions were accepted cannot be looked up, so that none counts as accepted: %v", err)
	}
	u.noteUncached(k, reviewed)
	return reviewed
}

// noteUncached says of which tools results are not reused although the config
// says so.
func (u *Upstream) noteUncached(k catalog.Kind, items []*catalog.Item) {
	if k != catalog.Tool {
		return
	}
	for _, it := range items {
		if it.CacheFor == 0 {
			continue
		}
		code := aboutCache + it.Name
		if why := it.Uncached(); why != "" {
			u.health(code, "%s: %s", it.Name, why)
			continue
		}
		u.mu.Lock()
		delete(u.notes, code)
		u.mu.Unlock()
	}
}

// Review judges what the upstream offers once more: what is accepted, or what
// other upstreams offer, is another now.
func (u *Upstream) Review() {
	if u.opts.Pins == nil {
		return
	}
	select {
	case u.loading <- struct{}{}:
		defer func() { <-u.loading }()
	case <-u.ctx.Done():
		return
	}
	last := u.cat.Now().Of(u.opts.Name)
	if last == nil || u.retired.Load() {
		return
	}
	next, differs := *last, false
	for k := range last.Items {
		items := u.review(catalog.Kind(k), last.Items[k])
		for i, it := range items {
			if it != last.Items[k][i] && !reflect.DeepEqual(it.Standing, last.Items[k][i].Standing) {
				next.Items[k], differs = items, true
				break
			}
		}
	}
	if differs {
		u.cat.Put(u.opts.Name, &next, catalog.Which{})
	}
}

// Relist reads a list again: the upstream has given somebody another one.
func (u *Upstream) Relist(k catalog.Kind) {
	u.mu.Lock()
	u.dirty[k] = true
	u.mu.Unlock()
	u.wake()
}

// Viewer names the clients to whom the upstream can offer what it offers to this
// one; "" if it cannot tell it from the hub. Over a connection that all share, or
// that requests have which stand alone, it knows nothing of a client but its era.
func (u *Upstream) Viewer(c *mcp.Client) string {
	k := u.keyFor(c, "")
	if k.era == mcp.Legacy && (k.client == "" || k.alone) {
		if mcp.Era(u.listedIn.Load()) != mcp.Modern {
			return ""
		}
		return "legacy"
	}
	era := "legacy"
	if k.era == mcp.Modern {
		era = "modern"
	}
	var can []string
	for _, one := range []struct {
		name string
		has  bool
	}{{"elicitation", c.Can(mcp.Elicitation)}, {"url elicitation", c.Can(mcp.Addresses)}, {"roots", c.Can(mcp.Roots)}, {"sampling", c.Can(mcp.Sampling)}, {"tasks", c.Tasks()}} {
		if one.has {
			can = append(can, one.name)
		}
	}
	return strings.TrimSuffix(era+" "+c.Actor.Name()+" "+strings.Join(can, ", "), " ")
}
