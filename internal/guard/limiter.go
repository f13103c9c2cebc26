package guard

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrFull is the answer of Acquire when as many callers wait as may.
var ErrFull = errors.New("the queue is full")

// Limiter lets a bounded number of callers run at once and a bounded number
// wait their turn, first come, first served.
type Limiter struct {
	concurrency, capacity int

	mu      sync.Mutex
	running int
	waiting list.List // of *waiter, oldest in front
}

type waiter struct {
	turn chan struct{} // closed when a slot was handed over, under mu
}

// NewLimiter returns a Limiter for concurrency running and capacity waiting
// callers; a capacity of 0 lets nobody wait. It panics on a concurrency below
// one or a negative capacity.
func NewLimiter(concurrency, capacity int) *Limiter {
	if concurrency < 1 || capacity < 0 {
		panic(fmt.Sprintf("guard: limiter of concurrency %d and capacity %d", concurrency, capacity))
	}
	return &Limiter{concurrency: concurrency, capacity: capacity}
}

// Acquire takes a slot, waiting for it if need be, and returns nil, ErrFull or
// ctx's error. Only after nil must the caller Release.
func (l *Limiter) Acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	// A free slot implies that nobody waits: Release hands slots over.
	if l.running < l.concurrency {
		l.running++
		l.mu.Unlock()
		return nil
	}
	if l.waiting.Len() >= l.capacity {
		l.mu.Unlock()
		return ErrFull
	}
	w := &waiter{turn: make(chan struct{})}
	place := l.waiting.PushBack(w)
	l.mu.Unlock()

	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		l.leave(place, w)
		return ctx.Err()
	}
}

// leave takes a waiter that gave up out of the queue. If its turn came in the
// same moment, the slot goes on to the next, or it would be lost.
func (l *Limiter) leave(place *list.Element, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.turn:
		l.pass()
	default:
		l.waiting.Remove(place)
	}
}

// Release gives back a slot. It panics if none is taken.
func (l *Limiter) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == 0 {
		panic("guard: release of a limiter slot that was not acquired")
	}
	l.pass()
}

// pass hands a slot to the oldest waiter, or frees it. Called with mu held.
func (l *Limiter) pass() {
	front := l.waiting.Front()
	if front == nil {
		l.running--
		return
	}
	close(l.waiting.Remove(front).(*waiter).turn)
}

// Status is one consistent picture of the Limiter.
func (l *Limiter) Status() (queued, running, concurrency int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.Len(), l.running, l.concurrency
}
