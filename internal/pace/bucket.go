// Package pace owns how often something may happen: a Bucket that holds so
// many turns and is filled again at a rate. It waits for nobody and knows no
// clock: who asks says what time it is.
package pace

import (
	"sync"
	"time"
)

// Bucket lets something happen burst times at once, and rate times a second in
// the long run.
type Bucket struct {
	rate, burst float64

	mu   sync.Mutex
	have float64
	last time.Time
}

// New returns a full Bucket.
func New(rate, burst float64, now time.Time) *Bucket {
	return &Bucket{rate: rate, burst: burst, have: burst, last: now}
}

// Take reports whether it may happen once more, and counts it if so.
func (b *Bucket) Take(now time.Time) bool { return b.TakeN(1, now) }

// TakeN reports whether it may happen n times more, and counts them if so.
func (b *Bucket) TakeN(n int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := now.Sub(b.last); d > 0 {
		b.have = min(b.burst, b.have+d.Seconds()*b.rate)
		b.last = now
	}
	if b.have < float64(n) {
		return false
	}
	b.have -= float64(n)
	return true
}
