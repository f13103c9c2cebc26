package llm

import (
	"context"
	"sync"
	"time"
)

// Hold is the pause that a provider asked for, kept by all who ask it: models
// that share one begin nothing before it is over. Those who waited go one after
// the other then, since all at once would be told to wait again. The zero value
// is ready and may be used by several goroutines.
type Hold struct {
	mu    sync.Mutex
	until time.Time // nobody begins before
	next  time.Time // the first place in the queue that is free
}

// holdGap is what lies between two who leave the queue.
const holdGap = 25 * time.Millisecond

// Until lets nobody begin before t.
func (h *Hold) Until(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.After(h.until) {
		h.until, h.next = t, time.Time{} // who has a place after this pause gets another
	}
}

// Wait returns when the caller may begin, which is not before begin. Its error
// is that of ctx.
func (h *Hold) Wait(ctx context.Context, begin time.Time) error {
	w := waiter{begin: begin}
	for ctx.Err() == nil {
		d := h.turn(&w, time.Now())
		if d <= 0 {
			return nil
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return ctx.Err()
}

type waiter struct {
	begin time.Time
	held  bool      // there was a pause
	place time.Time // in the queue; zero if it has none
}

// turn is how long w has to wait before it asks again; 0 if it may begin.
func (h *Hold) turn(w *waiter, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.After(now) {
		w.held, w.place = true, time.Time{}
	}
	if d := max(w.begin.Sub(now), h.until.Sub(now)); d > 0 {
		return d
	}
	if w.place.IsZero() {
		if !w.held && !h.next.After(now) {
			return 0
		}
		w.place = now
		if h.next.After(now) {
			w.place = h.next
		}
		h.next = w.place.Add(holdGap)
	}
	return w.place.Sub(now)
}
