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
	lost   chan struct{} // closed when it is not ours any more
	cancel context.CancelFunc
	done   chan struct{}
}

// lease waits until the run is ours to drive, and reads what another hub has
// written meanwhile.
func (r *Run) lease(ctx context.Context) (*lease, error) {
	l := &lease{run: r, lost: make(chan struct{}), done: make(chan struct{})}
	renew, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	if r.journal.disk == nil {
		close(l.done)
		return l, nil
	}
	for {
		rev, err := r.journal.disk.leases.Create(ctx, r.id, []byte(r.of.name), r.of.o.Lease)
		var conflict *store.Conflict
		switch {
		case err == nil:
			l.rev = rev
			if err := r.catchUp(ctx); err != nil {
				r.of.o.Logger.Error("the journal of a run cannot be read", "run", r.id, "err", err)
				cancel()
				return nil, err
			}
			go l.keep(renew)
			return l, nil
		case !errors.As(err, &conflict) && ctx.Err() == nil:
			r.of.o.Logger.Warn("take a run", "run", r.id, "err", err)
		}
		select {
		case <-time.After(r.of.o.Lease / 4):
		case <-ctx.Done():
			cancel()
			return nil, ctx.Err()
		}
	}
}

// keep renews the lease until it is given back or cannot be.
func (l *lease) keep(ctx context.Context) {
	defer close(l.done)
	d := l.run.of.o.Lease
	tick := time.NewTicker(d / 4)
	defer tick.Stop()
	good := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rev, err := l.run.journal.disk.leases.Update(ctx, l.run.id, []byte(l.run.of.name), l.rev, d)
		var conflict *store.Conflict
		switch {
		case err == nil:
			l.rev, good = rev, time.Now()
		case errors.As(err, &conflict), time.Since(good) > d:
			if ctx.Err() == nil {
				close(l.lost)
			}
			return
		}
	}
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

// catchUp reads what the journal holds that is not known here.
func (r *Run) catchUp(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, seq, err := r.journal.disk.read(ctx, r.journal.subject)
	if err != nil || seq == r.journal.seq {
		return err
	}
	state, err := Replay(events)
	if err != nil {
		return err
	}
	r.state, r.journal.seq = state, seq
	return nil
}
