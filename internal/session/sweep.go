package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/fault"
)

// sweepEvery is how often Sessions are looked at.
const sweepEvery = 15 * time.Second

func (r *Registry) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case now := <-t.C:
			r.Sweep(r.ctx, now)
		}
	}
}

// Sweep ends the Sessions that are over at the given time, and makes sure that
// the others outlive a restart of the hub if they are in use.
func (r *Registry) Sweep(ctx context.Context, now time.Time) {
	o := r.opts.Load()
	r.mu.RLock()
	all := slices.AppendSeq(slices.Collect(maps.Values(r.sessions)), maps.Values(r.lost))
	r.mu.RUnlock()
	for _, s := range all {
		err := s.look(ctx, now, o)
		if err == nil || ctx.Err() != nil {
			continue
		}
		o.Logger.Warn("a session could not be swept", "session", s.id, "err", err)
		if fault.Is(err, fault.Storage) {
			return // nor can the others
		}
	}
}

// look does what is due for one Session.
func (s *Session) look(ctx context.Context, now time.Time, o *Options) error {
	s.mu.RLock()
	over, created, told := s.state.over, s.state.created, s.state.active
	s.mu.RUnlock()
	old := o.MaxAge > 0 && now.Sub(created) > o.MaxAge
	due := func() bool { return (old || o.Timeout > 0 && now.Sub(s.lastUse()) > o.Timeout) && !s.held() }
	used := s.lastUse()
	switch {
	case over || due():
		return s.end(ctx, due)
	case o.Timeout > 0 && used.Sub(told) > o.Timeout/4:
		return s.noteUse(ctx, used)
	}
	return nil
}

// noteUse makes the time of the last use durable.
func (s *Session) noteUse(ctx context.Context, used time.Time) error {
	d, err := s.r.on(ctx)
	if err != nil {
		return err
	}
	s.write.Lock()
	defer s.write.Unlock()
	if s.gone || !s.state.open {
		return nil
	}
	err = s.append(ctx, d, &event{Kind: touched, Time: used}, nil)
	if errors.Is(err, errAgain) {
		return nil // what the other wrote tells as much
	}
	return err
}

// Remove ends a Session and forgets all that it held.
func (r *Registry) Remove(ctx context.Context, s *Session) error {
	return s.home().end(context.WithoutCancel(ctx), func() bool { return true })
}

// end ends a Session if that is due. First the log is told so: if the process
// ends before all is removed, the next one goes on with it, and a process that
// did not know of the latest use learns of it instead.
func (s *Session) end(ctx context.Context, due func() bool) error {
	d, err := s.r.on(ctx)
	if err != nil {
		return err
	}
	s.write.Lock()
	did, err := s.appendEnd(ctx, d, due)
	if err == nil && s.state.over {
		err = s.finish(ctx, d)
	}
	if !s.state.open && !s.state.over {
		s.leave()
	}
	s.write.Unlock()
	if did {
		s.r.tell(Change{Session: s, Listed: true, Ended: true})
	}
	return err
}

// appendEnd is called with write held. did says that the Session has ended now.
func (s *Session) appendEnd(ctx context.Context, d *disk, due func() bool) (did bool, err error) {
	for range tries {
		if s.gone || !s.state.open || !due() {
			return false, nil
		}
		if err = s.append(ctx, d, &event{Kind: ended}, nil); !errors.Is(err, errAgain) {
			return err == nil, err
		}
	}
	return false, nil // it is in use
}

// finish removes all that a Session held which has ended. It is called with
// write held. Blobs go first: nothing would lead to them without the log.
func (s *Session) finish(ctx context.Context, d *disk) error {
	if err := d.blobs.Purge(ctx, s.id); err != nil {
		return err
	}
	if err := d.log.PurgeBefore(ctx, subject(s.id), s.state.seq+1); err != nil {
		return err
	}
	s.mu.Lock()
	s.state = state{}
	s.mu.Unlock()
	return nil
}
