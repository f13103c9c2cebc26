package plan

import (
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/store"
)

// lease makes sure that one hub drives a run. It is renewed while it is held;
// that of a hub that died ends by itself. The journal's expected sequences
// would keep two hubs from both writing, but not from both calling.
type lease struct {
	run    *Run
	rev    uint64
	good   time.Time     // when what holds it was asked for
	lost   chan struct{} // closed when it is not ours any more
	cancel context.CancelFunc
	done   chan struct{}
}

// lease waits until the run is ours to drive, and takes in what another hub has
// written meanwhile. It returns nil if there is nothing to drive by then.
func (r *Run) lease(ctx context.Context) (*lease, error) {
	l := &lease{run: r, lost: make(chan struct{}), done: make(chan struct{})}
	if r.journal.disk == nil {
		l.cancel = func() {}
		close(l.done)
		return l, nil
	}
	if r.foreign() { // its own hub is the first to have it
		if err := r.idle(ctx, r.of.o.Lease); err != nil {
			return nil, err
		}
	}
	for {
		if r.ended() || r.of.Closing() {
			return nil, nil
		}
		l.good = time.Now()
		rev, err := r.journal.disk.leases.Create(ctx, r.id, []byte(r.of.name), r.of.o.Lease)
		var conflict *store.Conflict
		switch {
		case err == nil:
			l.rev = rev
			return l.begin(ctx)
		case errors.As(err, &conflict):
			if l.dead(ctx) {
				continue
			}
		case ctx.Err() == nil:
			r.of.o.Logger.Warn("take a run", "run", r.id, "err", err)
		}
		if err := r.idle(ctx, r.of.o.Lease/4); err != nil {
			return nil, err
		}
	}
}

// dead removes a lease of which it is known that nobody holds it: one of this
// hub, which asked for it and got no answer, or of a hub before it.
func (l *lease) dead(ctx context.Context) bool {
	r := l.run
	v, err := r.journal.disk.leases.Get(ctx, r.id)
	if err != nil || string(v.Data) != r.of.name && !r.of.o.Alone {
		return errors.Is(err, store.ErrNotFound)
	}
	return r.journal.disk.leases.Delete(ctx, r.id, v.Rev) == nil
}

// begin makes a run this hub's in its journal too, so that a hub which held it
// before and does not know yet cannot write.
func (l *lease) begin(ctx context.Context) (*lease, error) {
	r := l.run
	renew, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.keep(renew)
	r.mu.Lock()
	var err error
	if r.state.Holder != r.of.name {
		err = r.reread(ctx)
	}
	for err == nil && r.state.Holder != r.of.name && !r.state.Status.Over() {
		if err = r.record(ctx, Event{Type: RunTaken, By: r.of.name}); errors.Is(err, errStale) || errors.Is(err, errTaken) {
			err = nil // it was read again
		}
	}
	r.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errGone) {
			r.of.o.Logger.Warn("a run cannot be taken up for now", "run", r.id, "err", err)
		}
		l.release()
		return nil, err
	}
	return l, nil
}

// foreign says whether the run is another hub's that may be alive.
func (r *Run) foreign() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told && r.state.Holder != r.of.name
}

// ended says whether nothing is left to do.
func (r *Run) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone || r.state.Status.Over()
}

// idle waits, not longer than the run goes on.
func (r *Run) idle(ctx context.Context, d time.Duration) error {
	late := time.NewTimer(d)
	defer late.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if r.ended() {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil
		case <-r.of.going.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keep renews the lease until it is given back or cannot be. It counts from
// when a renewal was asked for, and gives up before the store does: who may
// have lost it must not call any more when the next one does.
func (l *lease) keep(ctx context.Context) {
	defer close(l.done)
	d := l.run.of.o.Lease
	tick := time.NewTicker(d / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		within, cancel := context.WithDeadline(ctx, l.good.Add(d*7/8))
		rev, err := l.run.journal.disk.leases.Update(within, l.run.id, []byte(l.run.of.name), l.rev, d)
		cancel()
		var conflict *store.Conflict
		switch {
		case err == nil:
			l.rev, l.good = rev, asked
		case errors.As(err, &conflict) && l.again(ctx), time.Since(l.good) < d*3/4 && !errors.As(err, &conflict):
		default:
			if ctx.Err() == nil {
				close(l.lost)
			}
			return
		}
	}
}

// again finds out whether a renewal of which no answer came took effect.
func (l *lease) again(ctx context.Context) bool {
	v, err := l.run.journal.disk.leases.Get(ctx, l.run.id)
	if err != nil || string(v.Data) != l.run.of.name {
		return false
	}
	l.rev = v.Rev
	return true
}

// release gives the run free for other hubs.
func (l *lease) release() {
	l.cancel()
	<-l.done
	if l.run.journal.disk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = l.run.journal.disk.leases.Delete(ctx, l.run.id, l.rev) // else its time ends
}
