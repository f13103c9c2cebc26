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
	own key
	// client is what it is opened with; see Binding.Client.
	client json.RawMessage

	explicit atomic.Bool  // it was named, not only bound to a connection
	used     atomic.Int64 // unix nanoseconds of the last sign of life

	// write is held while an entry is decided on and appended. Who holds it may
	// read the state.
	write sync.Mutex
	// gone means that it is kept no more, and that another may have its name.
	// It is set with write and the registry's mu held, and read with either.
	gone bool

	mu    sync.RWMutex // guards state
	state state
}

// ID names the Session in the store, Name and Principal are its key.
func (s *Session) ID() string        { return s.id }
func (s *Session) Name() string      { return s.own.name }
func (s *Session) Principal() string { return s.own.principal }

// Client is the Binding.Client that it came to be with.
func (s *Session) Client() json.RawMessage { return s.client }

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
	r.holds[s.own]++
	return sync.OnceFunc(func() {
		s.home().touch()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.holds[s.own]--; r.holds[s.own] == 0 {
			delete(r.holds, s.own)
		}
	})
}

func (s *Session) held() bool {
	s.r.mu.RLock()
	defer s.r.mu.RUnlock()
	return s.r.holds[s.own] > 0
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
	if kept := s.r.find(s.own); kept != nil {
		return kept
	}
	return s
}

// admit makes s kept, or returns the one that is.
func (r *Registry) admit(s *Session) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.kept(s.own); kept != nil {
		return kept, nil
	}
	if err := r.room(s.own.principal); err != nil {
		return nil, err
	}
	if s.gone { // a caller had it from before its end
		fresh := &Session{r: r, id: s.id, own: s.own, client: s.client}
		fresh.explicit.Store(s.explicit.Load())
		fresh.used.Store(s.used.Load())
		s = fresh
	}
	r.sessions[s.own] = s
	return s, nil
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
	own, others := 0, 0
	for k := range r.sessions {
		if k.principal == principal {
			own++
		}
		if k.principal != auth.LocalName {
			others++
		}
	}
	const hint = "Remove some, wait until some have expired, or raise session.max in the config."
	switch {
	case len(r.sessions) >= most:
		return &fault.Error{Kind: fault.Limit, Subject: "session", Msg: fmt.Sprintf("the hub keeps %d sessions, which is as many as it may (session.max)", len(r.sessions)), Hint: hint}
	case principal != auth.LocalName && most >= shared && (own >= most/2 || others >= most*3/4):
		return &fault.Error{Kind: fault.Limit, Subject: "session", Msg: fmt.Sprintf("%q has %d sessions, and others have %d: the rest of the %d that the hub may keep (session.max) is not for one caller", principal, own, others-own, most), Hint: hint}
	}
	return nil
}

// leave makes s kept no more. It is called with write held.
func (s *Session) leave() {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	s.gone = true
	if r.sessions[s.own] == s {
		delete(r.sessions, s.own)
	}
	if r.lost[s.id] == s {
		delete(r.lost, s.id)
	}
}
