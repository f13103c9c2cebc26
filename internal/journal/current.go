package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
	"github.com/stoahub/stoa/internal/fault"
)

// Known is a moment at which all that was in the log is known here.
func (j *Journal[S, E]) Known() time.Time {
	if j.o.Alone {
		return j.o.now()
	}
	j.touch.mu.Lock()
	defer j.touch.mu.Unlock()
	return j.touch.at
}

// Current makes sure that all is known that was in the log at a moment, which is
// not in the future. It asks the log only if what is known is older; those who
// ask at the same time share one read. It must not be called by who holds an
// entity.
func (j *Journal[S, E]) Current(ctx context.Context, since time.Time) error {
	if j.o.Alone || elapsed.Between(j.Known(), since) <= 0 {
		return nil
	}
	j.asking.Lock()
	defer j.asking.Unlock()
	if elapsed.Between(j.Known(), since) <= 0 {
		return nil // somebody else has just asked
	}
	if err := j.ask(ctx); err != nil {
		return fmt.Errorf("%s: read the latest: %w", j.kind.Subjects, err)
	}
	return nil
}

// ask takes in what the log holds and the tail has not told yet.
func (j *Journal[S, E]) ask(ctx context.Context) error {
	if j.outOfTouch() {
		return j.resync(ctx, false)
	}
	began := j.o.now()
	j.touch.mu.Lock()
	from := j.touch.heard + 1
	j.touch.mu.Unlock()
	if err := j.hearAll(ctx, from); err != nil {
		return err
	}
	j.settle()
	j.touch.mu.Lock()
	defer j.touch.mu.Unlock()
	if j.touch.at.Before(began) {
		j.touch.at = began
	}
	return nil
}

// hearAll takes in what the log holds from a sequence on. What is written while
// it is read may make spare what was not read yet, and then only that says so: it
// goes on until nothing was.
func (j *Journal[S, E]) hearAll(ctx context.Context, from uint64) error {
	for range tries {
		last, err := j.log.Last(ctx, j.kind.Subjects)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if last.Seq < from {
			return nil
		}
		err = j.log.Scan(ctx, j.kind.Subjects, from, func(e Entry) error {
			j.hear(e)
			from = e.Seq + 1
			return nil
		})
		if err != nil {
			return err
		}
	}
	return fault.New(fault.Storage, j.kind.Subjects, "others wrote each of the %d times that this was read", tries).Because(ErrAgain)
}

// settle waits until all that was heard counts: what is heard of an entity that
// somebody holds waits until it is let go.
func (j *Journal[S, E]) settle() {
	var waiting []*Entity[S, E]
	j.mu.RLock()
	for _, x := range j.all {
		x.heardMu.Lock()
		if len(x.heard) > 0 {
			waiting = append(waiting, x)
		}
		x.heardMu.Unlock()
	}
	j.mu.RUnlock()
	for _, x := range waiting {
		x.lock().unlock()
	}
}
