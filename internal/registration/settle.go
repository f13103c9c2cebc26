package registration

import (
	"context"
	"maps"
	"slices"
	"time"
)

// again is how often what is shared is looked at though nothing was heard of it:
// who registered an agent may not be allowed to any more, and what an agent had
// to give way to may be gone.
const again = 5 * time.Second

// changed takes note of a change. It is called by the journal and must not block.
func (b *Book) changed(key string, now *Registration) {
	b.mu.Lock()
	b.due[key] = true
	if now != nil {
		b.of[key] = now.Name
	}
	b.mu.Unlock()
	b.Wake()
}

// Wake has what has changed looked at.
func (b *Book) Wake() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Again has all registrations settled again, since something else has changed.
func (b *Book) Again() {
	b.all()
	b.Wake()
}

// all makes everything that is known due.
func (b *Book) all() {
	known := map[string]string{}
	for key, v := range b.values.All() {
		known[key] = v.V.Name
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, name := range known {
		b.due[key], b.of[key] = true, name
	}
}

// run settles what changes, and what ends, until ctx does.
func (b *Book) run(ctx context.Context) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	if !b.Shared() {
		tick.Stop()
	}
	end := time.NewTimer(0)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		case <-end.C:
		case <-tick.C:
			b.all()
		}
		b.settleDue()
		end.Reset(time.Until(b.nextEnd()))
	}
}

// settleDue settles what has changed, and what has ended since.
func (b *Book) settleDue() {
	b.mu.Lock()
	due := slices.Collect(maps.Keys(b.due))
	clear(b.due)
	b.mu.Unlock()
	now := time.Now()
	b.settling.Lock()
	for key, end := range b.ends {
		if !now.Before(end) {
			due = append(due, key)
		}
	}
	b.settling.Unlock()
	for _, key := range due {
		_ = b.settle(key) // Settle has said it
	}
}

// nextEnd is when the next lease ends of those that count.
func (b *Book) nextEnd() time.Time {
	b.settling.Lock()
	defer b.settling.Unlock()
	next := time.Now().Add(time.Hour)
	for _, end := range b.ends {
		if end.Before(next) {
			next = end
		}
	}
	return next
}

// settle makes what is known of a key count.
func (b *Book) settle(key string) error {
	b.settling.Lock()
	defer b.settling.Unlock()
	r, _, _ := b.get(key)
	if r != nil && !b.valid(r) {
		r = nil
	}
	b.mu.Lock()
	name, known := b.of[key]
	switch {
	case r != nil:
		name, known, b.of[key] = r.Name, true, r.Name
	case !b.due[key]:
		delete(b.of, key)
	}
	b.mu.Unlock()
	if r == nil {
		delete(b.ends, key)
	} else {
		b.ends[key] = r.Ends.Add(b.skew)
	}
	if !known {
		return nil
	}
	return b.o.Settle(name, r)
}
