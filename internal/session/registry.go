package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
)

// Options bound the Sessions of a hub. A zero value means no bound.
type Options struct {
	Timeout   time.Duration // of idleness
	MaxAge    time.Duration
	MaxValues int
	MaxBytes  int // of one Session, history included
	History   int // versions kept of a value, the present one included; 0 means 10
	Max       int // Sessions
	Cache     int // bytes of data kept in memory; 0 means 64 MiB
	Logger    *slog.Logger
	// Store opens the store when something is stored for the first time, for
	// hubs that mostly store nothing. It is used if Open is given no store.
	Store func(context.Context) (*store.Store, error)
}

func (o *Options) defaults() {
	if o.History == 0 {
		o.History = 10
	}
	if o.Cache == 0 {
		o.Cache = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Registry holds the Sessions of a hub.
type Registry struct {
	opts   atomic.Pointer[Options]
	cache  cache
	spares spares
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	openMu sync.Mutex
	disk   atomic.Pointer[disk] // nil until the store is open

	mu       sync.RWMutex
	sessions map[key]*Session
	lost     map[string]*Session // by id: those of which the store no longer tells whose they are
	holds    map[key]int
	watchers []func(Change)
}

// key is what a Session is found by.
type key struct{ principal, name string }

// disk is where Sessions are kept.
type disk struct {
	log   *store.Log
	blobs *store.Blobs
}

// Change is something that happened to a Session.
type Change struct {
	Session *Session
	Value   string // the value that was stored or removed; empty for none
	Listed  bool   // a name came or went
	Modules bool   // a module was switched
	Opened  bool   // the Session holds something for the first time
	Ended   bool   // the Session is over
}

// Open returns the Sessions that st holds. With a nil store they are kept in
// the one that o.Store opens. Close ends it; the store stays open.
func Open(ctx context.Context, st *store.Store, o Options) (*Registry, error) {
	o.defaults()
	r := &Registry{sessions: map[key]*Session{}, lost: map[string]*Session{}, holds: map[key]int{}, spares: newSpares()}
	r.opts.Store(&o)
	r.cache.max = o.Cache
	r.ctx, r.stop = context.WithCancel(context.Background())
	if st != nil {
		if err := r.open(ctx, st); err != nil {
			r.stop()
			return nil, err
		}
	}
	r.wg.Go(r.sweep)
	r.wg.Go(r.trim)
	return r, nil
}

// Close stops sweeping. What was stored stays.
func (r *Registry) Close() {
	r.stop()
	r.wg.Wait()
}

// Bound changes the bounds.
func (r *Registry) Bound(o Options) {
	o.defaults()
	o.Logger, o.Store = r.opts.Load().Logger, r.opts.Load().Store
	r.opts.Store(&o)
}

// Timeout is how long a Session may be idle; 0 means for ever.
func (r *Registry) Timeout() time.Duration { return r.opts.Load().Timeout }

const logName = "session"

func subject(id string) string { return "evt.session." + id + ".e" }

// open reads what the store holds.
func (r *Registry) open(ctx context.Context, st *store.Store) error {
	l, err := st.Log(ctx, store.LogOptions{Name: logName, Subjects: []string{"evt.session.>"}})
	if err != nil {
		return fmt.Errorf("open the sessions: %w", err)
	}
	blobs, err := st.Blobs(ctx, "blob")
	if err != nil {
		return fmt.Errorf("open the blobs of sessions: %w", err)
	}
	found := map[string]*Session{}
	if err := l.Scan(ctx, "", 0, func(e store.Entry) error { r.replay(found, e); return nil }); err != nil {
		return fmt.Errorf("read the sessions: %w", err)
	}
	d := &disk{l, blobs}
	for id, s := range found {
		if s.state.over { // the hub was stopped in the midst of its end
			if err := s.finish(ctx, d); err != nil {
				r.opts.Load().Logger.Warn("what is left of a session could not be removed yet", "session", id, "err", err)
				continue // the next sweep does
			}
			delete(found, id)
		}
	}
	r.mu.Lock()
	for id, s := range found {
		if ID(s.own.principal, s.own.name) == id {
			r.sessions[s.own] = s
			continue
		}
		r.opts.Load().Logger.Error("the entry that says whose a session is cannot be read; it is found again when its owner names it", "session", id)
		r.lost[id] = s
	}
	r.mu.Unlock()
	r.disk.Store(d)
	return nil
}

// replay takes one entry in.
func (r *Registry) replay(found map[string]*Session, e store.Entry) {
	id := strings.TrimSuffix(strings.TrimPrefix(e.Subject, "evt.session."), ".e")
	ev := r.read(id, e)
	s := found[id]
	if s == nil {
		s = &Session{r: r, id: id}
		found[id] = s
	}
	if ev.Kind == opened {
		s.own, s.client = key{ev.Principal, ev.Session}, ev.Client
	}
	s.take(ev, e.Seq)
}

// read makes an event of an entry. One that cannot be read means nothing and is
// told of: the rest of the Session is worth having.
func (r *Registry) read(id string, e store.Entry) *event {
	ev, _, err := decode(e.Data)
	if err != nil {
		r.opts.Load().Logger.Error("an entry of a session cannot be read", "session", id, "seq", e.Seq, "err", err)
		return &event{Time: e.Time}
	}
	return ev
}

// on returns the disk, opening it if that was put off.
func (r *Registry) on(ctx context.Context) (*disk, error) {
	if d := r.disk.Load(); d != nil {
		return d, nil
	}
	r.openMu.Lock()
	defer r.openMu.Unlock()
	if d := r.disk.Load(); d != nil {
		return d, nil
	}
	open := r.opts.Load().Store
	if open == nil {
		return nil, fault.New(fault.Internal, "session", "this hub keeps no sessions")
	}
	st, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.open(ctx, st); err != nil {
		return nil, err
	}
	return r.disk.Load(), nil
}

// Watch makes f be called with every change. f must not block.
func (r *Registry) Watch(f func(Change)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, f)
}

func (r *Registry) tell(c Change) {
	r.mu.RLock()
	watchers := r.watchers
	r.mu.RUnlock()
	for _, f := range watchers {
		f(c)
	}
}

// Binding is what a request says of the Session it wants.
type Binding struct {
	Principal  string
	Name       string // said explicitly; empty if nothing was
	Connection string // the connection it came by; empty if it stands alone
	// Client is what it takes to take the connection up again after the hub
	// has been restarted. It is kept as it is.
	Client json.RawMessage
}

// Bind returns the Session that a request is bound to, or nil if it is bound
// to none. The Session need not hold anything yet.
func (r *Registry) Bind(b Binding) (*Session, error) {
	name, explicit := b.Name, true
	if name == "" {
		name, explicit = b.Connection, false
	}
	if name == "" {
		return nil, nil
	}
	if err := validSession(name); err != nil {
		return nil, err
	}
	s := r.find(key{b.Principal, name})
	if s == nil {
		s = &Session{r: r, id: ID(b.Principal, name), own: key{b.Principal, name}}
		if !explicit && len(b.Client) <= maxClient {
			s.client = b.Client
		}
	}
	if explicit && !s.explicit.Load() {
		s.explicit.Store(true)
	}
	s.touch()
	return s, nil
}

// Mint returns a new Session with a name that nobody can guess.
func (r *Registry) Mint(principal string) *Session {
	name := "s_" + strings.ToLower(rand.Text())
	s := &Session{r: r, id: ID(principal, name), own: key{principal, name}}
	s.explicit.Store(true)
	s.touch()
	return s
}

// maxClient is the largest Binding.Client that is kept. It is in memory for as
// long as the Session lives, and in one entry.
const maxClient = 16 << 10

// find returns the Session of a key that is kept, or nil.
func (r *Registry) find(k key) *Session {
	r.mu.RLock()
	s, lost := r.sessions[k], len(r.lost) > 0
	r.mu.RUnlock()
	if s != nil || !lost {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept(k)
}

// kept is find with mu held for writing: a Session of which the store does not
// tell whose it is belongs to who knows the key that its id is made of.
func (r *Registry) kept(k key) *Session {
	if s := r.sessions[k]; s != nil || len(r.lost) == 0 {
		return s
	}
	id := ID(k.principal, k.name)
	s := r.lost[id]
	if s != nil {
		s.own = k
		delete(r.lost, id)
		r.sessions[k] = s
	}
	return s
}

// Find returns the Session of that key if it holds anything, or nil.
func (r *Registry) Find(principal, name string) *Session {
	s := r.find(key{principal, name})
	if s == nil || !s.opened() {
		return nil
	}
	s.touch()
	return s
}

// Named returns the Session of that key, which need not hold anything. Unlike
// Bind and Find it does not count as a use.
func (r *Registry) Named(principal, name string) *Session {
	if s := r.find(key{principal, name}); s != nil {
		return s
	}
	return &Session{r: r, id: ID(principal, name), own: key{principal, name}}
}

// opened reports whether the Session is in the log, and not on its way out.
func (s *Session) opened() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.open
}

// All returns the Sessions that pass, sorted by principal and name.
func (r *Registry) All(pass func(principal string) bool) []*Session {
	out := slices.DeleteFunc(r.each(), func(s *Session) bool { return !pass(s.own.principal) || !s.opened() })
	slices.SortFunc(out, func(a, b *Session) int {
		return cmp.Or(strings.Compare(a.own.principal, b.own.principal), strings.Compare(a.own.name, b.own.name))
	})
	return out
}

// each returns the Sessions that are kept.
func (r *Registry) each() []*Session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.sessions))
}

// ID names a Session in the store: it tells nothing of principal and name.
func ID(principal, name string) string {
	sum := sha256.Sum256([]byte(principal + "\x00" + name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

const maxSessionName = 128

func validSession(name string) error {
	ok := len(name) <= maxSessionName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '.')
	}
	if !ok {
		return &fault.Error{Kind: fault.InvalidParams, Subject: "session", Msg: fmt.Sprintf("%.140q is no name of a session", name),
			Hint: fmt.Sprintf("Use up to %d letters, digits, _, and after the first character also - and .", maxSessionName)}
	}
	return nil
}
