package session

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
)

// Session is the state of one client. One that holds nothing yet is not kept
// anywhere; it is made anew for each request.
type Session struct {
	r   *Registry
	id  string
	own atomic.Pointer[key] // nil if the log no longer tells whose it is, and nobody has named it

	explicit atomic.Bool  // it was named, not only bound to a connection
	used     atomic.Int64 // unix nanoseconds of the last sign of life

	mu      sync.RWMutex    // guards what follows
	client  json.RawMessage // what it is opened with; see Binding.Client
	counted bool            // it counts as one of its principal's; guarded by the registry's mu
	state   state           // changes with the entity locked
}

// make returns a Session of a key that is not kept.
func (r *Registry) make(k key) *Session {
	s := &Session{r: r, id: ID(k.principal, k.name)}
	s.own.Store(&k)
	return s
}

// ID names the Session in the store, Name and Principal are its key.
func (s *Session) ID() string        { return s.id }
func (s *Session) Name() string      { return s.key().name }
func (s *Session) Principal() string { return s.key().principal }

// key is empty if nobody knows whose the Session is.
func (s *Session) key() key {
	if own := s.own.Load(); own != nil {
		return *own
	}
	return key{}
}

// Client is the Binding.Client that it was opened with.
func (s *Session) Client() json.RawMessage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.client
}

func (s *Session) touch() { s.usedAt(time.Now()) }

// usedAt notes a sign of life, if it is later than those before.
func (s *Session) usedAt(t time.Time) {
	for now := t.UnixNano(); ; {
		was := s.used.Load()
		if was >= now || s.used.CompareAndSwap(was, now) {
			return
		}
	}
}

func (s *Session) lastUse() time.Time { return time.Unix(0, s.used.Load()).UTC() }

// Hold keeps the Session from expiring until release is called.
func (s *Session) Hold() (release func()) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds[s.id]++
	return sync.OnceFunc(func() {
		s.home().touch()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.holds[s.id]--; r.holds[s.id] == 0 {
			delete(r.holds, s.id)
		}
	})
}

func (s *Session) held() bool {
	s.r.mu.RLock()
	defer s.r.mu.RUnlock()
	return s.r.holds[s.id] > 0
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
	kept := s.r.kept(s.id)
	if kept == nil {
		return s
	}
	if own := s.own.Load(); own != nil && kept.own.Load() == nil {
		kept.belongs(*own)
	}
	return kept
}

// kept returns the Session of an id that is in the log, or nil.
func (r *Registry) kept(id string) *Session {
	if x := r.book.Get(id); x != nil {
		return x.State()
	}
	return nil
}

// count takes note of whether a Session counts as one of its principal's.
// Called with its entity locked.
func (r *Registry) count(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.own.Load() == nil || s.counted == s.state.open {
		return
	}
	s.counted = s.state.open
	if s.counted {
		r.sizes[s.Principal()]++
	} else {
		r.less(s.Principal())
	}
}

// less counts one Session less. Called with mu held.
func (r *Registry) less(principal string) {
	if r.sizes[principal]--; r.sizes[principal] == 0 {
		delete(r.sizes, principal)
	}
}

// reserve counts a Session that is about to be opened, until free is called.
func (r *Registry) reserve(principal string) (free func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.room(principal); err != nil {
		return nil, err
	}
	r.sizes[principal]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.less(principal)
	}, nil
}

// shared is from how many Sessions on each principal has a share.
const shared = 16

// room says why a principal cannot have another Session. Each but the owner may
// have half of all, and all of them together three quarters, so that nobody is
// locked out by another. Called with mu held.
func (r *Registry) room(principal string) error {
	most := r.opts.Load().Max
	if most <= 0 {
		return nil
	}
	all := 0
	for _, n := range r.sizes {
		all += n
	}
	own, others := r.sizes[principal], all-r.sizes[auth.LocalName]
	const hint = "Remove some, wait until some have expired, or raise session.max in the config."
	switch {
	case all >= most:
		return &fault.Error{Kind: fault.Limit, Subject: "session", Msg: fmt.Sprintf("the hub keeps %d sessions, which is as many as it may (session.max)", all), Hint: hint}
	case principal != auth.LocalName && most >= shared && (own >= most/2 || others >= most*3/4):
		return &fault.Error{Kind: fault.Limit, Subject: "session", Msg: fmt.Sprintf("%q has %d sessions, and others have %d: the rest of the %d that the hub may keep (session.max) is not for one caller", principal, own, others-own, most), Hint: hint}
	}
	return nil
}
