package session

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
)

// sweepEvery is how often Sessions are looked at.
const sweepEvery = 15 * time.Second

func (r *Registry) sweep(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			r.Sweep(ctx, now)
		}
	}
}

// Sweep ends the Sessions that are over at the given time, and makes sure that
// the others outlive a restart of the hub, and the sweeps of other hubs, if they
// are in use.
func (r *Registry) Sweep(ctx context.Context, now time.Time) {
	o := r.opts.Load()
	for _, s := range r.each() {
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

// noteEvery is how often the log is told that a Session is in use.
func (o *Options) noteEvery() time.Duration {
	if o.Timeout > 0 {
		return o.Timeout / 4
	}
	return o.MaxAge / 4
}

// keepEvery is for how long a hub that ends no Session by itself keeps others from
// ending one. It says so again in time.
const keepEvery = 30 * 24 * time.Hour

// until is when a hub may end a Session, once it was used last, with what it may not
// have said of later uses. It is what others have to wait for.
func (o *Options) until(created, used, now time.Time) time.Time {
	end := now.Add(keepEvery)
	if o.Timeout > 0 {
		end = used.Add(o.Timeout + o.noteEvery() + 2*sweepEvery)
	}
	if old := created.Add(o.MaxAge); o.MaxAge > 0 && (o.Timeout <= 0 || old.Before(end)) {
		end = old
	}
	return end
}

// since is when a Session was opened, or is now.
func (s *state) since(now time.Time) time.Time {
	if s.created.IsZero() {
		return now
	}
	return s.created
}

// unseen is how long a use in another hub may not be known here.
func (r *Registry) unseen(o *Options) time.Duration {
	if r.alone {
		return 0
	}
	return o.noteEvery() + 2*sweepEvery
}

// look does what is due for one Session.
func (s *Session) look(ctx context.Context, now time.Time, o *Options) error {
	if s.due(now, o) {
		return s.end(ctx, func(cur *Session) bool { return cur.due(now, o) })
	}
	every := o.noteEvery()
	if every == 0 && s.r.alone {
		return nil
	}
	s.mu.RLock()
	told, toldHeld, created, until := s.state.active, time.Unix(0, s.state.held), s.state.created, time.Unix(0, s.state.until)
	s.mu.RUnlock()
	ev := event{Kind: touched, Time: s.lastUse()}
	if !s.r.alone && every > 0 && s.held() && now.Sub(toldHeld) > every {
		ev.Held = now.UnixNano()
	}
	// Another hub may be configured to end it sooner than this one.
	wanted := !s.r.alone && o.until(created, ev.Time, now).Sub(until) > cmp.Or(every, keepEvery/4)
	if wanted || ev.Held != 0 || o.Timeout > 0 && ev.Time.Sub(told) > every {
		return s.note(ctx, &ev)
	}
	return nil
}

// due reports whether the Session has to end: if it has been idle for too long or
// is too old, and nothing of it is alive in any hub.
func (s *Session) due(now time.Time, o *Options) bool {
	s.mu.RLock()
	over, created, held, until := s.state.over, s.state.created, time.Unix(0, s.state.held), time.Unix(0, s.state.until)
	s.mu.RUnlock()
	unseen, used := s.r.unseen(o), s.lastUse()
	if created.IsZero() { // no entry of it can be read
		created, used = s.r.since, s.r.since
	}
	old := o.MaxAge > 0 && now.Sub(created) > o.MaxAge
	idle := o.Timeout > 0 && now.Sub(used) > o.Timeout+unseen
	return over || (old || idle) && !s.held() && (s.r.alone || now.Sub(held) > unseen && now.After(until))
}

// note makes a use durable.
func (s *Session) note(ctx context.Context, ev *event) error {
	x := s.r.book.At(s.id).Lock()
	defer x.Unlock()
	if !x.Now().state.open {
		return nil
	}
	err := s.append(ctx, x, ev, nil)
	if errors.Is(err, journal.ErrAgain) {
		return nil // the next sweep notes it
	}
	return err
}

// Remove ends a Session and forgets all that it held.
func (r *Registry) Remove(ctx context.Context, s *Session) error {
	ctx = context.WithoutCancel(ctx)
	if err := r.latest(ctx, s.id); err != nil {
		return err
	}
	return s.end(ctx, func(*Session) bool { return true })
}

var errInUse = errors.New("the session is in use")

// isOpen refuses the removal of a Session that is not over.
func isOpen(s *Session) error {
	if s.state.over {
		return nil
	}
	return errInUse
}

// end ends a Session if that is due. What another hub did to it meanwhile counts.
func (s *Session) end(ctx context.Context, due func(*Session) bool) error {
	err := s.r.book.At(s.id).Remove(ctx, func(cur *Session) error {
		if due(cur) {
			return nil
		}
		return errInUse
	})
	if errors.Is(err, errInUse) {
		return nil
	}
	return err
}
