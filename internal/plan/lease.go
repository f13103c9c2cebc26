package plan

import (
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/lease"
)

// lease waits until the run is ours to drive, and notes that in its journal too,
// so that a hub which held it before and does not know yet cannot write: the
// expected sequences would keep two hubs from both writing, but not from both
// calling. It returns nil if there is nothing to drive by then.
func (r *Run) lease(ctx context.Context) (*lease.Lease, error) {
	if r.foreign() { // its own hub is the first to have it
		if err := r.idle(ctx, r.of.patience); err != nil {
			return nil, err
		}
	}
	for {
		if r.ended() || r.of.Closing() {
			return nil, nil
		}
		l, _, err := r.of.leases.Try(ctx, r.id)
		if l != nil {
			if err = r.locked(func() error { return r.taken(ctx) }); err != nil {
				l.Release()
				l = nil
			}
			return l, err
		}
		if err != nil && ctx.Err() == nil {
			r.of.o.Logger.Warn("take a run", "run", r.id, "err", err)
		}
		if err := r.idle(ctx, r.of.patience/4); err != nil {
			return nil, err
		}
	}
}

// taken makes the run this hub's in its journal. The run is locked.
func (r *Run) taken(ctx context.Context) error {
	for r.state.Holder != r.of.name && !r.state.Status.Over() {
		err := r.record(ctx, Event{Type: RunTaken, By: r.of.name})
		if errors.Is(err, errStale) || errors.Is(err, errTaken) {
			continue // what others wrote is known now
		}
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, errGone) {
				r.of.o.Logger.Warn("a run cannot be taken up for now", "run", r.id, "err", err)
			}
			return err
		}
	}
	return nil
}

// foreign says whether the run is another hub's that may be alive.
func (r *Run) foreign() bool {
	r.lock()
	defer r.unlock()
	return r.told && r.state.Holder != r.of.name
}

// ended says whether nothing is left to do.
func (r *Run) ended() bool {
	r.lock()
	defer r.unlock()
	return r.gone || r.state.Status.Over()
}

// idle waits, not longer than the run goes on.
func (r *Run) idle(ctx context.Context, d time.Duration) error {
	late := time.NewTimer(d)
	defer late.Stop()
	for {
		r.lock()
		changed := r.changed
		r.unlock()
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
