package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// current is how far the log was read.
type current struct {
	seq atomic.Uint64 // all entries up to it were heard
	at  atomic.Int64  // since when what is known is complete, counted from epoch
	mu  sync.Mutex    // held while the log is asked
}

// epoch is before every moment that counts here. It has a monotonic clock, so
// that a change of the machine's time makes nothing old look new.
var epoch = time.Now().Add(-time.Nanosecond)

// reached takes note that all entries up to one were heard.
func (j *Journal[S, E]) reached(seq uint64) {
	for {
		was := j.read.seq.Load()
		if seq <= was || j.read.seq.CompareAndSwap(was, seq) {
			return
		}
	}
}

// Known is a moment at which all that was in the log is known here.
func (j *Journal[S, E]) Known() time.Time {
	if j.o.Alone {
		return time.Now()
	}
	return epoch.Add(time.Duration(j.read.at.Load()))
}

// Current makes sure that all is known that was in the log at a moment, which is
// not in the future. It asks the log only if what is known is older; those who
// ask at the same time share one read. It must not be called by who holds an
// entity.
func (j *Journal[S, E]) Current(ctx context.Context, since time.Time) error {
	if j.o.Alone || !j.Known().Before(since) {
		return nil
	}
	j.read.mu.Lock()
	defer j.read.mu.Unlock()
	if !j.Known().Before(since) {
		return nil // somebody else has just asked
	}
	began := time.Now()
	last, err := j.log.Last(ctx, j.kind.Subjects)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%s: read the latest: %w", j.kind.Subjects, err)
	}
	if from := j.read.seq.Load() + 1; last.Seq >= from {
		if err := j.readFrom(ctx, from); err != nil {
			return fmt.Errorf("%s: read the latest: %w", j.kind.Subjects, err)
		}
	}
	j.read.at.Store(int64(began.Sub(epoch)))
	return nil
}

// readFrom takes in what others wrote from an entry on.
func (j *Journal[S, E]) readFrom(ctx context.Context, from uint64) error {
	heard := map[*Entity[S, E]]bool{}
	err := j.log.Scan(ctx, j.kind.Subjects, from, func(e Entry) error {
		j.hear(e)
		heard[j.make(j.key(e.Subject))] = true
		return nil
	})
	// Whoever writes one of them takes in what was heard when that is done.
	for x := range heard {
		x.lock().unlock()
	}
	return err
}
