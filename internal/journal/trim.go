package journal

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// spares are what is to be removed, in the order in which it became so. None is
// forgotten: what is left at the end of the process is found again when the log
// is read.
type spares struct {
	more chan struct{} // has room for one: there is something to do

	mu    sync.Mutex
	list  []waste
	tombs []tombstone
	deferred
}

// tombstone is the entry of a removal after which there are others.
type tombstone struct {
	key string
	seq uint64
	at  time.Time // when it was read
}

func (q *spares) addTomb(all ...tombstone) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tombs = append(q.tombs, all...)
}

// takeTombs returns those that were read before a time.
func (q *spares) takeTombs(before time.Time) []tombstone {
	q.mu.Lock()
	defer q.mu.Unlock()
	var over, left []tombstone
	for _, t := range q.tombs {
		if t.at.After(before) {
			left = append(left, t)
		} else {
			over = append(over, t)
		}
	}
	q.tombs = left
	return over
}

type waste struct {
	key string
	Spare
	before uint64 // all entries before it
}

func newSpares(later bool) spares {
	return spares{more: make(chan struct{}, 1), deferred: deferred{allowed: later}}
}

func (q *spares) add(key string, all ...Spare) {
	if len(all) == 0 {
		return
	}
	q.mu.Lock()
	wake := false
	for _, sp := range all {
		switch {
		case sp == (Spare{}):
		case sp.MayStay > 0 && q.allowed:
			wake = q.hold(key, sp) || wake
		default:
			if sp.Seq != 0 { // it may say what was removed
				q.list = append(q.list, q.release(key)...)
			}
			q.list = append(q.list, waste{key: key, Spare: sp})
			wake = true
		}
	}
	q.mu.Unlock()
	if wake {
		q.wake()
	}
}

// addBefore has all entries of an entity removed before one. What waits of it is
// among them.
func (q *spares) addBefore(key string, seq uint64) {
	q.mu.Lock()
	q.release(key)
	q.list = append(q.list, waste{key: key, before: seq})
	q.mu.Unlock()
	q.wake()
}

func (q *spares) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// take returns all that there is to do.
func (q *spares) take() []waste {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// How long trim waits before it tries again.
const (
	trimPause    = 250 * time.Millisecond
	maxTrimPause = 30 * time.Second
)

// trim removes what is needed no longer, behind whoever made it so. What cannot
// be removed holds up what comes after it: see Spare.
func (j *Journal[S, E]) trim() {
	var quiet <-chan time.Time
	for {
		select {
		case <-j.ctx.Done():
			return
		case <-j.spares.more:
		case <-quiet:
		}
		if !j.trimAll(j.spares.take()) {
			return
		}
		some, pause := j.spares.takeDeferred(time.Now())
		if !j.trimAll(some) {
			return
		}
		quiet = nil
		if pause >= 0 {
			quiet = time.After(pause)
		}
	}
}

// trimAll removes in order, but for neighbours that may stay: those in any.
func (j *Journal[S, E]) trimAll(list []waste) bool {
	for len(list) > 0 {
		n := 1
		for n < min(together, len(list)) && list[n-1].MayStay > 0 && list[n].MayStay > 0 {
			n++
		}
		var group sync.WaitGroup
		for _, w := range list[1:n] {
			group.Go(func() { j.trimOne(w) })
		}
		j.trimOne(list[0])
		group.Wait()
		if j.ctx.Err() != nil {
			return false
		}
		list = list[n:]
	}
	return true
}

// trimOne does not give up before the journal ends.
func (j *Journal[S, E]) trimOne(w waste) {
	for pause := trimPause; ; pause = min(2*pause, maxTrimPause) {
		err := j.remove(j.ctx, w)
		if err == nil || j.ctx.Err() != nil {
			return
		}
		j.o.Logger.Debug("what is needed no longer could not be removed yet", "entity", w.key, "err", err)
		wait := time.NewTimer(pause)
		select {
		case <-j.ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

func (j *Journal[S, E]) remove(ctx context.Context, w waste) error {
	var err error
	if w.before != 0 {
		return j.purge(ctx, w.key, w.before)
	}
	if w.Blob != "" && j.blobs != nil {
		err = j.blobs.Delete(ctx, w.key, strings.TrimSuffix(w.Blob, salted))
	}
	if err == nil && w.Seq != 0 {
		err = j.log.Delete(ctx, w.Seq)
	}
	if errors.Is(err, ErrNotFound) {
		return nil // it went with its entity, or somebody else was quicker
	}
	return err
}

// purge removes what there was of an entity before its removal.
func (j *Journal[S, E]) purge(ctx context.Context, key string, removal uint64) error {
	if j.kind.Removed != nil {
		if err := j.kind.Removed(ctx, key); err != nil {
			return err
		}
	}
	return j.log.PurgeBefore(ctx, j.subject(key), removal)
}
