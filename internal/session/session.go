package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// Session is the state of one client. One that holds nothing yet is not kept
// anywhere; it is made anew for each request.
type Session struct {
	r        *Registry
	explicit atomic.Bool  // it was named, not only bound to a connection
	used     atomic.Int64 // unix nanoseconds of the last sign of life
	alive    atomic.Int64 // what keeps it from expiring

	write sync.Mutex // held while an entry is decided on and appended
	gone  bool       // guarded by write: it has ended, and another may have its name

	mu    sync.RWMutex // guards state; its id, principal and name never change
	state state
}

// ID names the Session in the store, Name and Principal are its key.
func (s *Session) ID() string        { return s.state.id }
func (s *Session) Name() string      { return s.state.name }
func (s *Session) Principal() string { return s.state.principal }

func (s *Session) key() key { return key{s.state.principal, s.state.name} }

// Client is the Binding.Client that it came to be with.
func (s *Session) Client() json.RawMessage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.client
}

func (s *Session) touch() { s.used.Store(time.Now().UnixNano()) }

// Hold keeps the Session from expiring until release is called.
func (s *Session) Hold() (release func()) {
	s.alive.Add(1)
	return sync.OnceFunc(func() {
		s.touch()
		s.alive.Add(-1)
	})
}

// Refers reports whether references are active in it: if it was named, or has
// ever stored a value. Elsewhere a name with an @ is just that.
func (s *Session) Refers() bool {
	if s.explicit.Load() {
		return true
	}
	s = s.home()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.stored
}

// home is the Session of the same key that is kept, or s if none is.
func (s *Session) home() *Session {
	s.r.mu.RLock()
	defer s.r.mu.RUnlock()
	if kept := s.r.sessions[s.key()]; kept != nil {
		return kept
	}
	return s
}

// admit makes s kept, or returns the one that is.
func (r *Registry) admit(s *Session) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.sessions[s.key()]; kept != nil {
		return kept, nil
	}
	if most := r.opts.Load().Max; most > 0 && len(r.sessions) >= most {
		return nil, &fault.Error{Kind: fault.Limit, Subject: "session", Msg: fmt.Sprintf("the hub keeps %d sessions, which is as many as it may", len(r.sessions)),
			Hint: "Remove some with `stoa sessions remove`, or raise session.max."}
	}
	r.sessions[s.key()] = s
	return s, nil
}

// dismiss undoes admit for one in which nothing could be stored.
func (r *Registry) dismiss(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.key()] == s {
		delete(r.sessions, s.key())
	}
}

// decision is what to append to a Session in the state it is in: an event and
// its data. A nil event means that there is nothing to do.
type decision func(*state) (*event, []byte, error)

// commit decides and appends until nobody else came in between. It returns the
// Session that was written to and the event as it was appended.
func (s *Session) commit(ctx context.Context, decide decision) (*Session, *event, error) {
	d, err := s.r.on(ctx)
	if err != nil {
		return nil, nil, err
	}
	for {
		kept, err := s.r.admit(s)
		if err != nil {
			return nil, nil, err
		}
		kept.write.Lock()
		if kept.gone { // it ended while we waited
			kept.write.Unlock()
			fresh := &Session{r: s.r, state: state{id: s.state.id, principal: s.state.principal, name: s.state.name, client: s.state.client}}
			fresh.explicit.Store(s.explicit.Load())
			s = fresh
			continue
		}
		ev, err := kept.decideAndAppend(ctx, d, decide)
		if kept.state.seq == 0 {
			s.r.dismiss(kept)
		}
		kept.write.Unlock()
		kept.touch()
		return kept, ev, err
	}
}

// tries is how often an append is tried when others write the same Session.
const tries = 8

// decideAndAppend is called with write held, which also makes reading the
// state safe.
func (s *Session) decideAndAppend(ctx context.Context, d *disk, decide decision) (*event, error) {
	var err error
	for range tries {
		if s.state.seq == 0 {
			first := &event{Kind: opened, Principal: s.state.principal, Session: s.state.name, Client: s.state.client}
			if err = s.append(ctx, d, first, nil); again(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		ev, data, derr := decide(&s.state)
		if derr != nil || ev == nil {
			return nil, derr
		}
		if err = s.append(ctx, d, ev, data); !again(err) {
			return ev, err
		}
	}
	return nil, err
}

// errAgain means that somebody else has written, and that the state is as
// they left it.
var errAgain = errors.New("another process wrote the session at the same time")

func again(err error) bool { return errors.Is(err, errAgain) }

// append appends one event: first to the log, then to memory.
func (s *Session) append(ctx context.Context, d *disk, ev *event, data []byte) error {
	ev.ID, ev.Time = rand.Text()[:12], time.Now().UTC()
	if ev.Value != nil {
		ev.Value.Time = ev.Time
	}
	entry, err := ev.encode(data)
	if err != nil {
		return err
	}
	seq, err := d.log.Append(ctx, subject(s.state.id), entry, s.state.seq)
	if err == nil {
		s.take(ev, seq)
		return nil
	}
	_, conflict := errors.AsType[*store.Conflict](err)
	if !conflict && !errors.Is(err, store.ErrUncertain) {
		return err
	}
	found, look := s.catchUp(ctx, d, ev.ID)
	switch {
	case look != nil:
		return err
	case found:
		return nil
	case conflict:
		return errAgain
	}
	return err
}

// catchUp reads what others have appended, and reports whether the entry of
// that id is there.
func (s *Session) catchUp(ctx context.Context, d *disk, id string) (found bool, err error) {
	err = d.log.Scan(ctx, subject(s.state.id), s.state.seq+1, func(e store.Entry) error {
		ev, _, err := decode(e.Data)
		if err != nil {
			return err
		}
		found = found || ev.ID == id
		s.take(ev, e.Seq)
		return nil
	})
	return found, err
}

// take makes an entry that is in the log count.
func (s *Session) take(ev *event, seq uint64) {
	s.mu.Lock()
	spares := s.state.apply(ev, seq, s.r.opts.Load().History)
	s.mu.Unlock()
	if ev.Value != nil {
		ev.Value.seq, ev.Value.blob = seq, ev.Blob
	}
	for _, v := range spares {
		s.r.spare(s, v)
	}
}

// spare has an entry removed that is needed no longer. If there are too many
// of them, the next start finds them again.
func (r *Registry) spare(s *Session, v Value) {
	r.cache.forget(v.seq)
	sp := spare{session: s.state.id, seq: v.seq}
	if v.blob != "" && !s.state.holds(v.blob) {
		sp.blob = v.blob
	}
	select {
	case r.spares <- sp:
	default:
	}
}
