package chatws

import (
	"sync"
	"time"
)

// bucket limits how often something may happen: burst times at once, and rate
// times a second in the long run.
type bucket struct {
	rate, burst float64

	mu   sync.Mutex
	have float64
	last time.Time
}

func newBucket(rate, burst float64, now time.Time) *bucket {
	return &bucket{rate: rate, burst: burst, have: burst, last: now}
}

// take reports whether it may happen once more, and counts it if so.
func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := now.Sub(b.last); d > 0 {
		b.have = min(b.burst, b.have+d.Seconds()*b.rate)
		b.last = now
	}
	if b.have < 1 {
		return false
	}
	b.have--
	return true
}
