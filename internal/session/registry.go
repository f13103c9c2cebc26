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
	opts  atomic.Pointer[Options]
	cache cache
	book  *book
	alone bool      // nobody else writes what it holds
	since time.Time // when it was opened
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.RWMutex
	sizes    map[string]int // how many Sessions each principal has
	holds    map[string]int // by id
	watchers []func(Change)
}

// key is what a Session is found by.
type key struct{ principal, name string }

// Change is something that happened to a Session.
type Change struct {
	Session *Session
	Value   string // the value that was stored or removed; empty for none
	Listed  bool   // a name came or went
	Modules bool   // a module was switched
	Opened  bool   // the Session holds something for the first time
	Ended   bool   // the Session is over
}

// Open returns the Sessions that st holds, and follows what other hubs write
// there. With a nil store they are in memory, and end with the process. Close
// ends it; the store stays open.
func Open(ctx context.Context, st *store.Store, o Options) (*Registry, error) {
	o.defaults()
	r := &Registry{sizes: map[string]int{}, holds: map[string]int{}, alone: st == nil || st.Alone(), since: time.Now()}
	r.opts.Store(&o)
	if st != nil {
		r.cache.max = o.Cache // else all is in memory anyway
	}
	var err error
	if r.book, err = r.openBook(ctx, st); err != nil {
		return nil, err
	}
	r.book.Each(func(x *entity) { r.found(ctx, x) })
	r.book.Follow()
	ctx, r.stop = context.WithCancel(context.Background())
	r.wg.Go(func() { r.sweep(ctx) })
	return r, nil
}

// found takes note of a Session that the log held when it was opened.
func (r *Registry) found(ctx context.Context, x *entity) {
	s, log := x.State(), r.opts.Load().Logger
	if s.state.over { // an earlier release was stopped in the midst of its end
		if err := x.Remove(ctx, isOpen); err != nil {
			log.Warn("what is left of a session could not be removed yet", "session", s.id, "err", err) // the next sweep does
		}
		return
	}
	if s.own.Load() == nil {
		log.Error("the entry that says whose a session is cannot be read; it is found again when its owner names it", "session", s.id)
	}
	r.count(s)
}

// Close stops sweeping and following. What was stored stays.
func (r *Registry) Close() {
	r.stop()
	r.wg.Wait()
	r.book.Close()
}

// Bound changes the bounds.
func (r *Registry) Bound(o Options) {
	o.defaults()
	o.Logger = r.opts.Load().Logger
	r.opts.Store(&o)
}

// Timeout is how long a Session may be idle; 0 means for ever.
func (r *Registry) Timeout() time.Duration { return r.opts.Load().Timeout }

// Watch makes f be called with every change, whichever hub made it: those of one
// Session in their order. f must not block, nor write to the Session.
func (r *Registry) Watch(f func(Change)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, f)
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
		s = r.make(key{b.Principal, name})
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
	s := r.make(key{principal, name})
	s.explicit.Store(true)
	s.touch()
	return s
}

// maxClient is the largest Binding.Client that is kept. It is in memory for as
// long as the Session lives, and in one entry.
const maxClient = 16 << 10

// find returns the Session of a key that is kept, or nil. One of which the log
// does not tell whose it is belongs to who knows the key that its id is made of.
func (r *Registry) find(k key) *Session {
	s := r.kept(ID(k.principal, k.name))
	if s != nil {
		s.belongs(k)
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
	return r.make(key{principal, name})
}

// opened reports whether the Session is in the log, and not on its way out.
func (s *Session) opened() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.open
}

// All returns the Sessions that pass, sorted by principal and name.
func (r *Registry) All(pass func(principal string) bool) []*Session {
	out := slices.DeleteFunc(r.each(), func(s *Session) bool { return s.own.Load() == nil || !pass(s.Principal()) || !s.opened() })
	slices.SortFunc(out, func(a, b *Session) int {
		return cmp.Or(strings.Compare(a.Principal(), b.Principal()), strings.Compare(a.Name(), b.Name()))
	})
	return out
}

// CatchUp takes in what other hubs have kept until now.
func (r *Registry) CatchUp(ctx context.Context) error { return r.book.Current(ctx, time.Now()) }

// each returns the Sessions that are kept.
func (r *Registry) each() (all []*Session) {
	r.book.Each(func(x *entity) { all = append(all, x.State()) })
	return all
}

// ID names a Session in the store: it tells nothing of principal and name.
func ID(principal, name string) string {
	sum := sha256.Sum256([]byte(principal + "\x00" + name))
	return idForm.EncodeToString(sum[:16])
}

var idForm = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

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
