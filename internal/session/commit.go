package session

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// decision is what to append to a Session in the state it is in: an event and
// its data. A nil event means that there is nothing to do. It is asked again if
// somebody else was quicker.
type decision func(*state) (*event, []byte, error)

// commit decides and appends until nobody else came in between. It returns the
// Session that was written to and the event as it was appended. What has begun
// is brought to its end even if whoever asked for it has gone: otherwise nobody
// would know whether it is there.
func (s *Session) commit(ctx context.Context, decide decision) (*Session, *event, error) {
	d, err := s.r.on(ctx)
	if err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	for {
		kept, err := s.r.admit(s)
		if err != nil {
			return nil, nil, err
		}
		kept.write.Lock()
		if kept.gone { // it ended while we waited
			kept.write.Unlock()
			continue
		}
		was := kept.state.open
		ev, err := kept.decideAndAppend(ctx, d, decide)
		begun := kept.state.open && !was
		if !kept.state.open && !kept.state.over {
			kept.leave() // nothing could be stored in it
		}
		kept.write.Unlock()
		kept.touch()
		if begun {
			kept.r.tell(Change{Session: kept, Opened: true})
		}
		return kept, ev, err
	}
}

// tries is how often an append is tried when others write the same Session.
const tries = 16

// decideAndAppend is called with write held.
func (s *Session) decideAndAppend(ctx context.Context, d *disk, decide decision) (*event, error) {
	for range tries {
		if s.state.over {
			if err := s.finish(ctx, d); err != nil {
				return nil, err
			}
		}
		ev, data, err := decide(&s.state)
		if err != nil || ev == nil {
			return nil, err
		}
		if !s.state.open {
			err = s.append(ctx, d, &event{Kind: opened, Principal: s.own.principal, Session: s.own.name, Client: s.client}, nil)
		}
		if err == nil {
			err = s.append(ctx, d, ev, data)
		}
		if !errors.Is(err, errAgain) {
			return ev, err
		}
	}
	return nil, fault.New(fault.Storage, "session "+s.own.name, "others wrote it each of the %d times that this was tried", tries).Because(errAgain)
}

// errAgain means that somebody else has written, and that the state is as
// they left it.
var errAgain = errors.New("another process wrote the session at the same time")

// append appends one event: first to the log, then to memory. It is called with
// write held.
func (s *Session) append(ctx context.Context, d *disk, ev *event, data []byte) error {
	if ev.ID == "" {
		ev.ID = newID()
	}
	if ev.Time.IsZero() {
		ev.Time = time.Now().UTC()
	}
	if ev.Value != nil {
		ev.Value.Time = ev.Time
	}
	entry, err := ev.encode(data)
	if err != nil {
		return err
	}
	if len(entry) > store.MaxEntry && len(data) > 0 {
		if ev.Blob, err = d.blobs.Put(ctx, s.id, slices.Concat(data, []byte(ev.ID))); err != nil {
			return err
		}
		if entry, err = ev.encode(nil); err != nil {
			return err
		}
	}
	seq, err := d.log.Append(ctx, subject(s.id), entry, s.state.seq)
	if err == nil {
		s.take(ev, seq)
		return nil
	}
	return s.refused(ctx, d, ev, err)
}

// newID is what tells one entry from another.
func newID() string { return rand.Text()[:16] }

// refused finds out what became of an event that was not acknowledged.
func (s *Session) refused(ctx context.Context, d *disk, ev *event, err error) error {
	conflict, isConflict := errors.AsType[*store.Conflict](err)
	if !isConflict && !errors.Is(err, store.ErrUncertain) {
		if ev.Blob != "" {
			s.r.spares.add(s.id, spare{blob: ev.Blob})
		}
		return err
	}
	if isConflict && conflict.Last < s.state.seq {
		// All that we know of was removed, and we were not told.
		s.mu.Lock()
		s.state = state{}
		s.mu.Unlock()
	}
	found, look := s.catchUp(ctx, d, ev)
	switch {
	case look != nil:
		return errors.Join(err, look)
	case found:
		return nil
	case isConflict:
		return errAgain
	}
	return err
}

// catchUp reads what others have appended, and reports whether the event is
// there after all.
func (s *Session) catchUp(ctx context.Context, d *disk, want *event) (found bool, err error) {
	err = d.log.Scan(ctx, subject(s.id), s.state.seq+1, func(e store.Entry) error {
		ev := s.r.read(s.id, e)
		if ev.ID == want.ID {
			found, ev = true, want
		}
		s.take(ev, e.Seq)
		return nil
	})
	return found, err
}

// take makes an entry that is in the log count.
func (s *Session) take(ev *event, seq uint64) {
	if ev.Kind == ended {
		s.forget()
	}
	s.mu.Lock()
	spares := s.state.apply(ev, seq, s.r.opts.Load().History)
	s.mu.Unlock()
	if ev.Value != nil {
		ev.Value.seq, ev.Value.blob = seq, ev.Blob
	}
	s.usedAt(ev.Time)
	s.r.discard(s.id, spares)
}

// forget drops the data of a Session that ends from memory.
func (s *Session) forget() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, it := range s.state.values {
		for _, v := range it.versions {
			s.r.cache.forget(place{s.id, v.seq})
		}
	}
}
