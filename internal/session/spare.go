package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/store"
)

// spares are what is to be removed from the store, in the order in which it
// became so. None is forgotten: what is left at the end of the process is found
// again when the log is read.
type spares struct {
	more chan struct{} // has room for one: there is something to do

	mu   sync.Mutex
	list []waste
}

type waste struct {
	session string // id
	spare
}

func newSpares() spares { return spares{more: make(chan struct{}, 1)} }

func (q *spares) add(session string, all ...spare) {
	q.mu.Lock()
	for _, sp := range all {
		q.list = append(q.list, waste{session, sp})
	}
	q.mu.Unlock()
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

// discard has entries of a Session removed that are needed no longer.
func (r *Registry) discard(session string, all []spare) {
	if len(all) == 0 {
		return
	}
	for _, sp := range all {
		r.cache.forget(place{session, sp.seq})
	}
	r.spares.add(session, all...)
}

// How long trim waits before it tries again.
const (
	trimPause    = 250 * time.Millisecond
	maxTrimPause = 30 * time.Second
)

// trim removes entries that are needed no longer, behind whoever made them so.
// One that cannot be removed holds up those after it: see state.apply.
func (r *Registry) trim() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.spares.more:
		}
		for _, w := range r.spares.take() {
			if !r.trimOne(w) {
				return
			}
		}
	}
}

// trimOne removes one entry and does not give up before the registry ends.
func (r *Registry) trimOne(w waste) bool {
	for pause := trimPause; ; pause = min(2*pause, maxTrimPause) {
		err := r.remove(r.ctx, w)
		if r.ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		r.opts.Load().Logger.Debug("what a session needs no longer could not be removed yet", "session", w.session, "err", err)
		select {
		case <-r.ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

func (r *Registry) remove(ctx context.Context, w waste) error {
	d := r.disk.Load()
	if d == nil {
		return errors.New("the log is still being read")
	}
	var err error
	if w.blob != "" {
		err = d.blobs.Delete(ctx, w.session, w.blob)
	}
	if err == nil && w.seq != 0 {
		err = d.log.Delete(ctx, w.seq)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil // it went with its Session, or another process was quicker
	}
	return err
}
