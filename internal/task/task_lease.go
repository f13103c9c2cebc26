package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/lease"
)

// mostLook bounds how often a hub looks whether Tasks of others are free: those of
// a hub that stopped are at once, those of one that died when their leases end.
const mostLook = 2500 * time.Millisecond

// errTaken is why a run ends whose Task another hub runs now.
var errTaken = errors.New("another hub has taken the task over")

// foreign says why this hub may write nothing more of a run. The expected sequence
// of the journal makes sure that what it goes by is the latest.
func (t *Task) foreign(s State) error {
	switch {
	case s.Status.Final():
		return errFinal
	case s.Holder != t.r.leases.Hub():
		return errTaken
	}
	return nil
}

// Resume takes up what was not finished when its hub ended, and goes on doing so
// with the Tasks of other hubs on the same store. It keeps Tasks no longer than
// they may live, and follows what others do with theirs. Work that the upstream may
// have had is begun again only if it bears repetition. Once is enough.
func (r *Registry) Resume() { r.resumed.Do(r.resume) }

func (r *Registry) resume() {
	if b := r.book.Load(); b != nil {
		b.Follow()
	}
	if r.leases.Alone() {
		r.takeUp(r.ctx)
	} else {
		r.wg.Go(r.lookOut)
	}
	r.wg.Go(r.sweep)
}

// lookOut takes up the Tasks of hubs that ended.
func (r *Registry) lookOut() {
	tick := time.NewTicker(r.look)
	defer tick.Stop()
	for {
		r.takeUp(r.ctx)
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeUp takes up all Tasks that no hub runs.
func (r *Registry) takeUp(ctx context.Context) {
	for _, t := range r.List(func(s *State) bool { return !s.Status.Final() }) {
		if r.leaving.Load() || ctx.Err() != nil {
			return
		}
		if t.isRunHere() {
			continue
		}
		if err := r.adopt(ctx, t); err != nil && !errors.Is(err, errFinal) && ctx.Err() == nil {
			r.opts.Logger.Warn("a task could not be taken up", "task", t.ID(), "err", err)
		}
	}
}

// adopt runs a Task from where it stands, unless another hub does.
func (r *Registry) adopt(ctx context.Context, t *Task) error {
	l, _, err := r.leases.Try(ctx, t.ID())
	if l == nil {
		return err
	}
	s, err := t.commit(ctx, func(s State) (*Event, []byte, error) {
		if s.Status.Final() {
			return nil, nil, errFinal
		}
		return &Event{Kind: taken, By: r.leases.Hub()}, nil, nil
	})
	if err != nil || !r.launch(t, l, r.again(&s)) {
		l.Release()
	}
	return err
}

// again is how a Task goes on whose hub has ended.
func (r *Registry) again(s *State) Runner {
	switch {
	case s.Running && !s.Work.Repeat:
		return func(context.Context, *Run) Outcome {
			return unknown(&s.Work, "the hub ended while the tool was at work")
		}
	case s.Attempts >= maxAttempts:
		return func(context.Context, *Run) Outcome {
			return unknown(&s.Work, fmt.Sprintf("the hub ended %d times while the tool was at work", s.Attempts))
		}
	}
	return r.opts.Run
}

// launch runs a Task, whose lease it gives back when the run has ended. It reports
// false if the registry is closed.
func (r *Registry) launch(t *Task, l *lease.Lease, run Runner) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	ctx, halt := context.WithCancelCause(t.ctx)
	t.mu.Lock()
	t.halt = halt
	t.mu.Unlock()
	done := make(chan struct{})
	r.wg.Go(func() { t.keep(l, done) })
	r.wg.Go(func() {
		defer close(done)
		t.end(ctx, guarded(ctx, run, &Run{t}))
		t.mu.Lock()
		t.halt = nil
		t.announce()
		t.mu.Unlock()
		halt(nil)
		if t.State().Status.Final() {
			t.cancel(nil)
		}
	})
	return true
}

// keep has the lease of a Task until its run is done. A run whose lease is
// lost goes on until another hub takes the Task over: the call may be at work, and
// its result would be lost. Nothing is sent twice, as each sending is written down
// before, which a hub that took it over keeps this one from.
func (t *Task) keep(l *lease.Lease, done <-chan struct{}) {
	for {
		select {
		case <-done:
			l.Release()
			return
		case <-l.Lost():
			l.Release()
		}
		for l = nil; l == nil; {
			wait := time.NewTimer(t.r.look)
			select {
			case <-done:
				wait.Stop()
				return
			case <-wait.C:
			}
			l, _, _ = t.r.leases.Try(t.ctx, t.id)
		}
	}
}

// stop ends the run of a Task that goes on here, if one does.
func (t *Task) stop(why error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.halt != nil {
		t.halt(fault.New(fault.Cancelled, t.state.Work.Shown, "%s", why).Because(why))
	}
}

// isRunHere reports whether this hub runs the Task.
func (t *Task) isRunHere() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.halt != nil
}
