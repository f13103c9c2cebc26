package session

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
)

// decision is what to append to a Session in the state it is in: an event and
// its data. A nil event means that there is nothing to do. It is asked again if
// somebody else was quicker.
type decision func(*state) (*event, []byte, error)

// commit decides and appends. It returns the event as it was appended. What has
// begun is brought to its end even if whoever asked for it has gone: otherwise
// nobody would know whether it is there.
func (s *Session) commit(ctx context.Context, decide decision) (*event, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	ev, wrote, err := s.decideAndAppend(ctx, decide)
	if !wrote && !s.r.alone {
		// That there is nothing to do, or that it cannot be done, may be so only
		// because we do not know yet what others have written.
		if err := s.r.latest(ctx, s.id); err != nil {
			return nil, err
		}
		ev, _, err = s.decideAndAppend(ctx, decide)
	}
	return ev, err
}

// tries is how often an append is tried when others write the same Session.
const tries = 16

// decideAndAppend returns with wrote false if it was decided to append nothing.
func (s *Session) decideAndAppend(ctx context.Context, decide decision) (ev *event, wrote bool, err error) {
	x := s.r.book.At(s.id).Lock()
	defer x.Unlock()
	for range tries {
		ev, data, err := decide(&x.Now().state)
		if err != nil || ev == nil {
			return nil, false, err
		}
		if !x.Now().state.open {
			if err = s.open(ctx, x); err == nil {
				continue // others may have written since: decide on what it is now
			}
		} else {
			err = s.append(ctx, x, ev, data)
		}
		if !errors.Is(err, journal.ErrAgain) {
			s.join(x.Now())
			return ev, true, err
		}
	}
	return nil, true, fault.New(fault.Storage, "session "+s.Name(), "others wrote it each of the %d times that this was tried", tries).Because(journal.ErrAgain)
}

// open appends the entry that says whose the Session is. Called with its entity
// locked.
func (s *Session) open(ctx context.Context, x *entity) error {
	own := s.key()
	free, err := s.r.reserve(own.principal)
	if err != nil {
		return err
	}
	defer free()
	return s.append(ctx, x, &event{Kind: opened, Principal: own.principal, Session: own.name, Client: s.Client()}, nil)
}

// append appends one event, which gets an id and a time. Called with the entity
// locked.
func (s *Session) append(ctx context.Context, x *entity, ev *event, data []byte) error {
	ev.ID = rand.Text()[:16]
	if ev.Time.IsZero() {
		ev.Time = time.Now().UTC()
	}
	o := s.r.opts.Load()
	if ev.Value != nil {
		ev.Value.Time, ev.Keep = ev.Time, max(o.History, 1)
	}
	if st := &x.Now().state; !s.r.alone && ev.Kind != ended {
		ev.Until = max(st.until, o.until(st.since(ev.Time), ev.Time, time.Now()).UnixNano())
	}
	err := x.Append(ctx, ev, data)
	if err == nil && ev.Value != nil {
		// It may have been found in the log after its answer was lost, and applied
		// as it was read.
		ev.Value.seq, ev.Value.blob = x.Appended(), ev.Blob
	}
	return err
}

// join passes on to the Session that is kept what is known of one that a request
// made.
func (s *Session) join(kept *Session) {
	if s.explicit.Load() {
		kept.explicit.Store(true)
	}
	kept.touch()
}
