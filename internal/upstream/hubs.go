package upstream

import (
	"errors"
	"net/http"
	"slices"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// ErrCircle means that a server is this hub itself, or offers what this hub
// offers.
var ErrCircle = errors.New("it leads back to this hub")

// introduce lets a server at a URL know which hub connects.
func (o *Options) introduce(hub string) {
	if hub == "" || o.URL == "" {
		return
	}
	if o.Header = o.Header.Clone(); o.Header == nil {
		o.Header = http.Header{}
	}
	o.Header.Set(mcp.HeaderHub, hub)
}

// Hub is the id of this hub; none in a pool without one.
func (p *Pool) Hub() []string {
	if p.hub == "" {
		return nil
	}
	return []string{p.hub}
}

// circle is the reason not to use a server behind which there are these hubs;
// nil if there is none.
func (u *Upstream) circle(hubs []string) error {
	if u.pool.hub == "" || !slices.Contains(hubs, u.pool.hub) {
		return nil
	}
	f := fault.New(fault.Unreachable, u.opts.Name, "the server is this hub itself, or one that offers what this hub offers").Because(ErrCircle)
	f.Hint = "Remove the server, or give it the address of another one."
	return f
}

// passed are the hubs on the way to what is about to be read, and those of lists
// that are not.
func (u *Upstream) passed(hello *mcp.Hello, before []string, dirty [4]bool) []string {
	if slices.Contains(dirty[:], false) {
		return slices.Concat(hello.Hubs, before)
	}
	return slices.Clone(hello.Hubs)
}

// Leads reports whether what the upstream offers leads to a hub.
func (u *Upstream) Leads(hub string) bool {
	if h := u.Known(); h != nil && slices.Contains(h.Hubs, hub) {
		return true
	}
	l := u.cat.Now().Of(u.opts.Name)
	return l != nil && slices.Contains(l.Hubs, hub)
}
