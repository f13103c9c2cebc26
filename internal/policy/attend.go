package policy

import (
	"slices"
	"sync"
	"time"
)

// place is what somebody looks after.
type place struct{ principal, session string }

// presence is who is there, or was.
type presence struct {
	n     int       // how many
	left  time.Time // when the last left, if none is there
	timer *time.Timer
}

// Attend says that somebody is there to be asked about the calls of a principal
// ("" means everybody's: the hub's owner) in a Session ("" means all). leave
// ends that; it may be called more than once.
func (d *Desk) Attend(principal, session string) (leave func()) {
	at := place{principal, session}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.there[at]
	if v == nil {
		v = &presence{}
		d.there[at] = v
		if b := d.board.Load(); b != nil {
			b.stay(at, true)
		}
	}
	v.n++
	if v.timer != nil {
		v.timer.Stop()
		v.timer = nil
	}
	var once sync.Once
	return func() { once.Do(func() { d.leave(at, v) }) }
}

func (d *Desk) leave(at place, v *presence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.n--; v.n > 0 {
		return
	}
	v.left = time.Now()
	if d.closed {
		return
	}
	v.timer = time.AfterFunc(d.opts.Linger, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.there[at] != v || v.n > 0 || time.Since(v.left) < d.opts.Linger {
			return // somebody came back
		}
		delete(d.there, at)
		if b := d.board.Load(); b != nil {
			b.stay(at, false)
		}
		d.abandon()
	})
}

// attended reports whether somebody is there to be asked, or was a moment ago.
// It is called with mu held.
func (d *Desk) attended(principal, session string, now time.Time) bool {
	for _, at := range [...]place{{principal, session}, {principal, ""}, {"", ""}} {
		if v := d.there[at]; v != nil && (v.n > 0 || now.Sub(v.left) < d.opts.Linger) {
			return true
		}
	}
	b := d.board.Load()
	return b != nil && b.attended(principal, session)
}

// abandon denies what nobody is there for any more. It is called with mu held.
func (d *Desk) abandon() {
	now := time.Now()
	for _, p := range append([]*pending(nil), d.order...) {
		if !p.deciding && !d.attended(p.Principal, p.Session, now) {
			d.settle(p, Decision{Reason: ReasonNobody})
		}
	}
}

// Attended reports whether somebody is there to be asked about the calls of a
// principal in a Session.
func (d *Desk) Attended(principal, session string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attended(principal, session, time.Now())
}

// Pending returns the approvals of a principal that wait, here or at another hub,
// the oldest first; "" means everybody's.
func (d *Desk) Pending(principal string) []Approval {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []Approval{}
	for _, p := range d.order {
		if principal == "" || p.Principal == principal {
			out = append(out, p.Approval)
		}
	}
	if b := d.board.Load(); b != nil {
		if there := b.waiting(principal); len(there) > 0 {
			out = append(out, there...)
			slices.SortStableFunc(out, func(x, y Approval) int { return x.Created.Compare(y.Created) })
		}
	}
	return out
}

// Decided returns what was decided about an approval, if that was lately.
func (d *Desk) Decided(id string) (Decision, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.ended) - 1; i >= 0; i-- {
		if d.ended[i].id == id {
			return d.ended[i].decision, true
		}
	}
	if b := d.board.Load(); b != nil {
		if n, ok := b.find(id); ok && n.Decision != nil {
			return *n.Decision, true
		}
	}
	return Decision{}, false
}

// Changed returns a number that grows with each approval that is asked for or
// decided, and a channel that is closed when it grows next.
func (d *Desk) Changed() (uint64, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return d.revision, d.changed
}

// Watch calls f whenever an approval is asked for or decided, until stop is
// called. f must return at once and not use the desk.
func (d *Desk) Watch(f func()) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watchers == nil {
		d.watchers = map[*func()]struct{}{}
	}
	d.watchers[&f] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, &f)
	}
}

func (d *Desk) announce() {
	d.revision++
	for f := range d.watchers {
		(*f)()
	}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}
