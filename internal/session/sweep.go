package session

import (
	"context"
	"time"
)

// trim removes entries that are needed no longer, behind whoever made them so.
func (r *Registry) trim() {
	for {
		var sp spare
		select {
		case <-r.ctx.Done():
			return
		case sp = <-r.spares:
		}
		d := r.disk.Load()
		if d == nil {
			continue
		}
		if err := d.log.Delete(r.ctx, sp.seq); err != nil && r.ctx.Err() == nil {
			r.opts.Load().Logger.Debug("an entry of a session could not be removed", "session", sp.session, "err", err)
		}
		if sp.blob != "" {
			if err := d.blobs.Delete(r.ctx, sp.session, sp.blob); err != nil && r.ctx.Err() == nil {
				r.opts.Load().Logger.Debug("a blob of a session could not be removed", "session", sp.session, "err", err)
			}
		}
	}
}

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
	for _, s := range r.All(func(string) bool { return true }) {
		used := time.Unix(0, s.used.Load())
		s.mu.RLock()
		created, told := s.state.created, s.state.active
		s.mu.RUnlock()
		idle := o.Timeout > 0 && now.Sub(used) > o.Timeout
		old := o.MaxAge > 0 && now.Sub(created) > o.MaxAge
		switch {
		case (idle || old) && s.alive.Load() == 0:
			if err := s.end(ctx, func() bool { return old || now.Sub(time.Unix(0, s.used.Load())) > o.Timeout }); err != nil && ctx.Err() == nil {
				o.Logger.Warn("a session that is over could not be removed", "session", s.state.id, "err", err)
			}
		case o.Timeout > 0 && used.Sub(told) > o.Timeout/4:
			_, _, err := s.commit(ctx, func(*state) (*event, []byte, error) { return &event{Kind: touched}, nil, nil })
			s.used.Store(used.UnixNano()) // that was us
			if err != nil && ctx.Err() == nil {
				o.Logger.Debug("the use of a session could not be noted", "session", s.state.id, "err", err)
			}
		}
	}
}

// Remove ends a Session and forgets all that it held.
func (r *Registry) Remove(ctx context.Context, s *Session) error {
	return s.home().end(ctx, func() bool { return true })
}

// end removes what a Session holds, unless it is alive or still stands not.
func (s *Session) end(ctx context.Context, still func() bool) error {
	d, err := s.r.on(ctx)
	if err != nil {
		return err
	}
	s.write.Lock()
	if s.gone || !still() {
		s.write.Unlock()
		return nil
	}
	err = d.log.Purge(ctx, subject(s.state.id))
	if err == nil {
		err = d.blobs.Purge(ctx, s.state.id)
	}
	if err == nil {
		s.gone = true
		s.r.dismiss(s)
	}
	s.write.Unlock()
	if err != nil {
		return err
	}
	s.r.tell(Change{Session: s, Listed: true, Ended: true})
	return nil
}
