package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// tell tells Kind.Changed.
func (j *Journal[S, E]) tell(x *Entity[S, E], e *E, at Place) {
	if j.ctx == nil || j.kind.Changed == nil {
		return // it is being opened, or nobody listens
	}
	if err := guarded(func() error { j.kind.Changed(x, e, at); return nil }); err != nil {
		j.o.Logger.Error("panic while a change was told", "journal", j.kind.Subjects, "entity", x.key, "err", err)
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
	j.touch.mu.Lock()
	j.touch.heard = j.opened
	j.touch.mu.Unlock()
	j.wg.Go(j.tail)
	j.wg.Go(j.audits)
}

// tail follows the log for as long as the journal is open.
func (j *Journal[S, E]) tail() {
	for pause := tailPause; ; pause = min(2*pause, maxTrimPause) {
		began := time.Now()
		ctx, from, anew := j.touch.begin(j.ctx)
		err := error(nil)
		if anew {
			err = j.resync(ctx, true)
		}
		if err == nil {
			err = j.log.Tail(ctx, j.kind.Subjects, from, func(e Entry) error { return j.hearNext(ctx, e) })
		}
		j.touch.end()
		switch {
		case j.ctx.Err() != nil:
			return
		case ctx.Err() != nil: // it is to begin again
			pause = tailPause
			continue
		}
		if time.Since(began) > maxTrimPause {
			pause = tailPause
		}
		j.o.Logger.Warn("what others write is not known until the log can be followed again", "journal", j.kind.Subjects, "err", err)
		wait := time.NewTimer(pause)
		select {
		case <-j.ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

const tailPause = 100 * time.Millisecond

// hearNext takes in the next entry of the log.
func (j *Journal[S, E]) hearNext(ctx context.Context, e Entry) error {
	if j.outOfTouch() {
		if err := j.resync(ctx, false); err != nil {
			return err
		}
	}
	j.hear(e)
	j.touch.hear(e.Seq)
	return nil
}

// hear takes in one entry.
func (j *Journal[S, E]) hear(e Entry) {
	x := j.listener(e)
	// Whoever holds it takes the entry in before letting go: one slow write must
	// not keep the news of all other entities waiting.
	if x.write.TryLock() {
		x.unlock()
	}
}

// listener gives the entry to the entity that stands for its key.
func (j *Journal[S, E]) listener(e Entry) *Entity[S, E] {
	for {
		x := j.make(j.key(e.Subject))
		x.heardMu.Lock()
		deaf := x.deaf
		if !deaf {
			x.heard = append(x.heard, e)
		}
		x.heardMu.Unlock()
		if !deaf {
			return x
		}
	}
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
	for _, t := range j.spares.takeTombs(now.Add(-life)) {
		if err := j.unbury(ctx, t.key, t.seq); err != nil {
			j.spares.addTomb(t)
		}
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

// unbury removes the entry of a removal. What came before it must be gone first,
// or it would be back.
func (j *Journal[S, E]) unbury(ctx context.Context, key string, seq uint64) error {
	if err := j.log.PurgeBefore(ctx, j.subject(key), seq); err != nil {
		return err
	}
	if err := j.log.Delete(ctx, seq); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// rest removes the last entry of an entity that was removed. Called with write
// held.
func (x *Entity[S, E]) rest(ctx context.Context) error {
	if x.there {
		return nil
	}
	if x.seq != 0 {
		if err := x.j.purge(ctx, x.key, x.seq); err != nil {
			return err
		}
		if err := x.j.unbury(ctx, x.key, x.seq); err != nil {
			return err
		}
		x.mu.Lock()
		x.seq, x.tomb, x.gone = 0, 0, time.Time{}
		x.mu.Unlock()
	}
	x.j.drop(x)
	return nil
}
