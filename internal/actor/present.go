package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// Lookup returns who has a name now and came in that way, or nil if nobody does.
// An error says that this cannot be found out now, which says nothing of the
// principal. It may take its time: whoever calls it holds no lock.
type Lookup = func(name string, via auth.Via) (*auth.Principal, error)

// ErrUnsure means that nobody can say now whether somebody an actor rests on may
// still come in: nothing is begun for it, and nothing is ended for good.
var ErrUnsure = errors.New("the tokens cannot be read")

// unsure is what is told of it. Whoever waits and asks again does no harm.
func unsure(name string, why error) error {
	f := fault.New(fault.Storage, name, "whether the token is still valid cannot be found out now").Because(fmt.Errorf("%w: %w", ErrUnsure, why))
	f.Harmless = true
	return f
}

// Check reports with ErrGone that somebody the actor rests on may not come in any
// more, and with ErrUnsure that this cannot be found out now. A token that was
// made again under the same name is another one.
func (a Actor) Check(lookup Lookup) error {
	var doubt error
	for p := range a.Principals {
		if p == nil {
			return fmt.Errorf("nobody stands behind it: %w", ErrGone)
		}
		switch now, err := lookup(p.Name, p.Via); {
		case err != nil:
			doubt = unsure(p.Name, err) // another one may be gone all the same
		case now == nil || now.Token != p.Token && now.Token != "" && p.Token != "":
			return fmt.Errorf("%q: %w", p.Name, ErrGone)
		}
	}
	return doubt
}

// Sure does something again and again until its error is not ErrUnsure, or ctx
// ends.
func Sure(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, ErrUnsure) {
			return err
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
}

// lookAgain is how often the principals of work that lasts are looked up.
const lookAgain = time.Second

// Watch returns a context that ends, with ErrGone as its cause, about a second
// after somebody the actor rests on may not come in any more; or with ErrUnsure
// when that could not be found out for as long as auth.Trusted. Whoever does the
// work calls leave when it is over.
func (a Actor) Watch(ctx context.Context, lookup Lookup) (watched context.Context, leave func()) {
	if a.IsLocal() { // who is always there
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{known: time.Now()}
	look := func() {
		err := a.Check(lookup)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil {
			w.known = time.Now()
		}
		switch {
		case err != nil && !w.bears(err):
			cancel(err)
		case !w.over:
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

// watch is when to look next.
type watch struct {
	mu    sync.Mutex
	timer *time.Timer
	known time.Time // when it was found out last
	over  bool
}

// bears reports whether the work goes on although its principals could not be
// looked up: for as long as what was known last counts. Called with mu held.
func (w *watch) bears(err error) bool {
	return errors.Is(err, ErrUnsure) && !errors.Is(err, auth.ErrUntrusted) && time.Since(w.known) < auth.Trusted
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
}
