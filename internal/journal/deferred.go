package journal

import "time"

// A store over a folder syncs the note of each entry that it removes, as it does
// each entry, so removing what every write replaces would cost as much as the
// write. What may stay therefore waits until nobody writes, or until it is too
// much; what is removed with its entity meanwhile costs nothing more.
const (
	quietFor         = 250 * time.Millisecond
	maxDeferred      = 10_000
	maxDeferredBytes = 32 << 20
	together         = 16 // are removed at the same time: one alone keeps the store waiting
)

// deferred are spares that may stay for a while. The mutex is that of spares.
type deferred struct {
	allowed bool               // see Options.TrimLater
	waiting map[string][]waste // by entity, in the order in which they became spare
	count   int
	bytes   int
	last    time.Time // when the last one came
}

// hold has a spare wait, and reports whether trim has to look: at the first, to
// learn that some wait, and when they are too much.
func (p *deferred) hold(key string, sp Spare) bool {
	if p.waiting == nil {
		p.waiting = map[string][]waste{}
	}
	p.waiting[key] = append(p.waiting[key], waste{key: key, Spare: sp})
	p.count++
	p.bytes += sp.MayStay
	p.last = time.Now()
	return p.count == 1 || p.tooMuch()
}

func (p *deferred) tooMuch() bool { return p.count > maxDeferred || p.bytes > maxDeferredBytes }

// release returns all that wait of an entity, which wait no longer.
func (p *deferred) release(key string) []waste { return p.cut(key, len(p.waiting[key])) }

// cut returns the first that wait of an entity.
func (p *deferred) cut(key string, n int) []waste {
	all := p.waiting[key]
	if n < len(all) {
		p.waiting[key] = all[n:]
	} else {
		delete(p.waiting, key)
	}
	p.count -= n
	for _, w := range all[:n] {
		p.bytes -= w.MayStay
	}
	return all[:n]
}

// takeDeferred returns some of those that wait if it is time for them, and how
// long it is until it has to be asked again; less than 0 if none is left.
func (q *spares) takeDeferred(now time.Time) (some []waste, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if pause = quietFor - now.Sub(q.last); pause > 0 && q.count > 0 && !q.tooMuch() {
		return nil, pause
	}
	for key, all := range q.waiting {
		some = append(some, q.cut(key, min(len(all), together-len(some)))...)
		if len(some) == together {
			return some, 0
		}
	}
	return some, -1
}
