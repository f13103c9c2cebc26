package store

import (
	"context"
	"sync"
)

// health is what is known of the engine's ability to acknowledge writes.
type health struct {
	tell func(error)

	telling sync.Mutex // held while tell runs, so that changes arrive in order
	mu      sync.Mutex
	err     error
	ctx     context.Context // ends when the engine breaks, so that those who wait learn it at once
	cancel  context.CancelFunc
	changed chan struct{} // has room for one: something to look at
}

func newHealth(tell func(error)) *health {
	h := &health{tell: tell, changed: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

func (h *health) get() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// broken ends when no write can succeed before the engine is started again.
func (h *health) broken() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx
}

// set notes the state and tells of it if it became another. With stop, writes
// that wait are told at once: nobody will answer them.
func (h *health) set(err error, stop bool) {
	h.telling.Lock()
	defer h.telling.Unlock()
	h.mu.Lock()
	same := h.err == err || h.err != nil && err != nil && h.err.Error() == err.Error()
	closed := h.err == ErrClosed
	if stop {
		h.cancel()
	}
	if same || closed {
		h.mu.Unlock()
		return
	}
	h.err = err
	if err == nil && h.ctx.Err() != nil {
		h.ctx, h.cancel = context.WithCancel(context.Background())
	}
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default:
	}
	if h.tell != nil {
		h.tell(err)
	}
}

// look asks the watch to find out whether a failure is over.
func (h *health) look() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}
