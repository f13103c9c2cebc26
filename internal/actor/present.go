package actor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
)

// Lookup returns who has a name now and came in that way, or nil if nobody does.
// It may take its time: whoever calls it holds no lock.
type Lookup = func(name string, via auth.Via) *auth.Principal

// Check reports with ErrGone that somebody the actor rests on may not come in any
// more. A token that was made again under the same name is another one.
func (a Actor) Check(lookup Lookup) error {
	for p := range a.Principals {
		if p == nil {
			return fmt.Errorf("nobody stands behind it: %w", ErrGone)
		}
		now := lookup(p.Name, p.Via)
		if now == nil || now.Token != p.Token && now.Token != "" && p.Token != "" {
			return fmt.Errorf("%q: %w", p.Name, ErrGone)
		}
	}
	return nil
}

// lookAgain is how often the principals of work that lasts are looked up.
const lookAgain = time.Second

// Watch returns a context that ends, with ErrGone as its cause, about a second
// after somebody the actor rests on may not come in any more. Whoever does the
// work calls leave when it is over.
func (a Actor) Watch(ctx context.Context, lookup Lookup) (watched context.Context, leave func()) {
	if !a.canGo() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{}
	look := func() {
		if err := a.Check(lookup); err != nil {
			cancel(err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			w.timer.Reset(lookAgain)
		}
	}
	w.mu.Lock() // or look might come before its timer is known
	w.timer = time.AfterFunc(lookAgain, look)
	w.mu.Unlock()
	return ctx, func() {
		w.stop()
		cancel(nil)
	}
}

// canGo reports whether anybody the actor rests on can be sent off: the local
// owner is always there.
func (a Actor) canGo() bool {
	for p := range a.Principals {
		if p == nil || p.Name != auth.LocalName {
			return true
		}
	}
	return false
}

// watch is when to look next.
type watch struct {
	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
