package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Listen has f told of each change as Kind.Changed is.
func (j *Journal[S, E]) Listen(f func(x *Entity[S, E], e *E, at Place)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.listen = append(j.listen, f)
}

func (j *Journal[S, E]) tell(x *Entity[S, E], e *E, at Place) {
	if j.ctx == nil {
		return // it is being opened
	}
	j.mu.RLock()
	all := j.listen
	j.mu.RUnlock()
	if j.kind.Changed != nil {
		all = append([]func(*Entity[S, E], *E, Place){j.kind.Changed}, all...)
	}
	for _, f := range all {
		if err := guarded(func() error { f(x, e, at); return nil }); err != nil {
			j.o.Logger.Error("panic while a change was told", "journal", j.kind.Subjects, "entity", x.key, "err", err)
		}
	}
}

// guarded makes an error of a panic: what one entity does to the code above must
// not keep the others from being known.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// Follow takes in what others write to the log, from what was there when it was
// opened, until the journal is closed.
func (j *Journal[S, E]) Follow() {
	if j.o.Alone {
		return
	}
	j.wg.Go(func() {
		err := j.log.Tail(j.ctx, j.kind.Subjects, j.opened+1, func(e Entry) error {
			j.hear(e)
			return nil
		})
		if j.ctx.Err() == nil {
			j.o.Logger.Error("what others write is not known any more", "journal", j.kind.Subjects, "err", err)
		}
	})
}

// hear takes in one entry.
func (j *Journal[S, E]) hear(e Entry) {
	x := j.make(j.key(e.Subject)).home()
	x.heardMu.Lock()
	x.heard = append(x.heard, e)
	x.heardMu.Unlock()
	// Whoever holds it takes the entry in before letting go: one slow write must
	// not keep the news of all other entities waiting.
	if x.write.TryLock() {
		x.unlock()
	}
	j.reached(e.Seq)
}

// unlock takes in what was heard meanwhile, and lets go of write.
func (x *Entity[S, E]) unlock() {
	for {
		func() {
			defer x.write.Unlock()
			for {
				x.heardMu.Lock()
				all := x.heard
				x.heard = nil
				x.heardMu.Unlock()
				if len(all) == 0 {
					return
				}
				for _, e := range all {
					if x.left {
						x.j.hear(e)
						continue
					}
					x.apply(e)
				}
			}
		}()
		// Something may have come between the last look and the unlock.
		x.heardMu.Lock()
		more := len(x.heard) > 0
		x.heardMu.Unlock()
		if !more || !x.write.TryLock() {
			return
		}
	}
}

// buryEvery is how often removals are looked at that everybody has read.
const buryEvery = 15 * time.Second

// bury removes the entries of removals when their time is over.
func (j *Journal[S, E]) bury() {
	tick := time.NewTicker(buryEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.ctx.Done():
			return
		case now := <-tick.C:
			j.Bury(j.ctx, now)
		}
	}
}

// Bury removes the entries of removals whose time is over.
func (j *Journal[S, E]) Bury(ctx context.Context, now time.Time) {
	life := j.o.TombLife
	if j.o.Alone {
		life = 0
	}
	j.mu.RLock()
	var over []*Entity[S, E]
	for _, x := range j.all {
		x.mu.RLock()
		if !x.there && (x.gone.IsZero() && x.seq == 0 || !x.gone.IsZero() && now.Sub(x.gone) >= life) {
			over = append(over, x)
		}
		x.mu.RUnlock()
	}
	j.mu.RUnlock()
	for _, x := range over {
		if !x.write.TryLock() {
			continue // it is being written
		}
		if x.left {
			x.write.Unlock()
			continue
		}
		if err := x.rest(ctx); err != nil && ctx.Err() == nil {
			j.o.Logger.Debug("the entry of a removal could not be removed yet", "entity", x.key, "err", err)
		}
		x.unlock()
	}
}

// rest removes the last entry of an entity that was removed. What came before it
// must be gone first, or it would be back. Called with write held.
func (x *Entity[S, E]) rest(ctx context.Context) error {
	if x.there {
		return nil
	}
	if x.seq != 0 {
		if err := x.j.log.PurgeBefore(ctx, x.j.subject(x.key), x.seq); err != nil {
			return err
		}
		if err := x.j.log.Delete(ctx, x.seq); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		x.mu.Lock()
		x.seq, x.gone = 0, time.Time{}
		x.mu.Unlock()
	}
	x.j.drop(x)
	return nil
}
