package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
)

// Who was cut off from the log for longer than a removal stays in it may have
// missed one, and what others have written to the same key since would be taken
// for more of what was removed. So a journal takes note of when it was last in
// touch with the log. When that was too long ago it looks at all that the log
// holds before it goes on: an entity of which nothing is left that was known was
// removed meanwhile.

// touch is what is known of how well the log is followed.
type touch struct {
	mu     sync.Mutex
	at     time.Time // all that was in the log then is known
	heard  uint64    // the last sequence that the tail has told
	behind uint64    // what the last audit saw and the tail had not told
	anew   bool      // the log may have begun anew
	again  context.CancelFunc
}

// begin says where a tail begins.
func (t *touch) begin(outer context.Context) (ctx context.Context, from uint64, anew bool) {
	ctx, cancel := context.WithCancel(outer)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again, anew = cancel, t.anew
	if anew {
		t.heard, t.behind, t.anew = 0, 0, false
	}
	return ctx, t.heard + 1, anew
}

// end lets go of what a tail has used.
func (t *touch) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again()
}

func (t *touch) hear(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = max(t.heard, seq)
}

// saw compares what is last in the log with what the tail has told, and reports
// whether the tail tells nothing any more.
func (t *touch) saw(last uint64, asked time.Time) (deaf bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last <= t.heard {
		t.at, t.behind = asked, 0
		return false
	}
	deaf = t.behind != 0 && t.heard < t.behind
	t.behind = last
	return deaf
}

// restart has the tail begin again.
func (t *touch) restart(anew bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.anew = t.anew || anew
	if t.again != nil {
		t.again()
	}
}

// outOfTouch reports whether removals may have been missed.
func (j *Journal[S, E]) outOfTouch() bool {
	if j.o.Alone || j.ctx == nil {
		return false
	}
	j.touch.mu.Lock()
	defer j.touch.mu.Unlock()
	return elapsed.Between(j.touch.at, j.o.now()) > j.o.TombLife/2 // who sleeps misses them, too
}

// doubt has the journal look whether the log has begun anew.
func (j *Journal[S, E]) doubt() {
	j.o.Logger.Error("the log does not hold what it held; it is read again", "journal", j.kind.Subjects)
	j.touch.restart(true)
}

func (j *Journal[S, E]) audits() {
	tick := time.NewTicker(max(j.o.TombLife/10, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-j.ctx.Done():
			return
		case <-tick.C:
			if err := j.Audit(j.ctx); err != nil && j.ctx.Err() == nil {
				j.o.Logger.Debug("it cannot be seen whether all is known that others wrote", "journal", j.kind.Subjects, "err", err)
			}
		}
	}
}

// Audit looks whether all is known that others wrote, and sees to it that it
// will be. It is done now and then.
func (j *Journal[S, E]) Audit(ctx context.Context) error {
	asked := j.o.now()
	last, err := j.log.Last(ctx, j.kind.Subjects)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if j.outOfTouch() {
		return j.resync(ctx, false)
	}
	if j.touch.saw(last.Seq, asked) {
		j.o.Logger.Warn("what others write is not told any more; the log is followed anew", "journal", j.kind.Subjects)
		j.touch.restart(false)
	}
	return j.newest(ctx)
}

// newest looks whether the last that is known is still in the log. If it is not,
// the log has begun anew.
func (j *Journal[S, E]) newest(ctx context.Context) error {
	var newest *Entity[S, E]
	seq := uint64(0)
	j.Each(func(x *Entity[S, E]) {
		x.mu.RLock()
		defer x.mu.RUnlock()
		if x.seq > seq {
			newest, seq = x, x.seq
		}
	})
	if newest == nil {
		return nil
	}
	_, err := newest.Latest(ctx)
	return err
}

// resync makes what is known what the log holds. If the log may have begun anew,
// only those entities count whose last entry it has.
func (j *Journal[S, E]) resync(ctx context.Context, anew bool) error {
	asked := j.o.now()
	kept, err := j.kept(ctx, anew)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	err = j.log.Scan(ctx, j.kind.Subjects, 0, func(e Entry) error {
		key := j.key(e.Subject)
		x := j.At(key).lock()
		defer x.unlock()
		if !seen[key] && x.seq != 0 && (e.Seq > x.seq || anew && !kept[key]) {
			x.forget()
		}
		seen[key] = true
		x.apply(e)
		return nil
	})
	if err != nil {
		return err
	}
	j.mu.RLock()
	var missing []*Entity[S, E]
	for key, x := range j.all {
		if !seen[key] {
			missing = append(missing, x)
		}
	}
	j.mu.RUnlock()
	for _, x := range missing {
		if err := j.vanished(ctx, x.lock(), anew); err != nil {
			return err
		}
	}
	j.touch.mu.Lock()
	defer j.touch.mu.Unlock()
	if j.touch.at.Before(asked) {
		j.touch.at = asked
	}
	return nil
}

// kept are the keys of the entities whose last entry the log has.
func (j *Journal[S, E]) kept(ctx context.Context, anew bool) (map[string]bool, error) {
	kept := map[string]bool{}
	if !anew {
		return kept, nil
	}
	err := j.log.Scan(ctx, j.kind.Subjects, 0, func(e Entry) error {
		j.mu.RLock()
		x := j.all[j.key(e.Subject)]
		j.mu.RUnlock()
		if x != nil {
			x.mu.RLock()
			defer x.mu.RUnlock()
			if x.seq == e.Seq {
				kept[x.key] = true
			}
		}
		return nil
	})
	return kept, err
}

// vanished forgets an entity of which the log holds nothing, and lets go of it.
func (j *Journal[S, E]) vanished(ctx context.Context, x *Entity[S, E], anew bool) error {
	defer x.unlock()
	last, err := x.last(ctx)
	switch {
	case err != nil:
		return err
	case last == 0 && x.seq != 0, anew && last < x.seq:
		x.forget()
	}
	if last == 0 {
		return nil
	}
	_, err = x.read(ctx, nil)
	return err
}
