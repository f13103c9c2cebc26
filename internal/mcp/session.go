package mcp

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// A session is one connection of a legacy client over HTTP: what
// Mcp-Session-Id names.
type session struct {
	id       string
	scope    string // the face it was made on: an agent's name, or a path for others
	client   *Client
	handler  Handler
	listener *Listener
	detach   func()
	asks     asks
	out      outbox
	calls    calls
	replays  replays
	inbox    chan *buffer // HTTP+SSE: what was posted; else nil
	began    time.Time
	used     atomic.Int64 // unix nanoseconds of the last sign of life
	streams  atomic.Int32 // open GET streams

	mu      sync.Mutex
	uris    map[string]bool // that it is subscribed to
	replace chan struct{}   // closed when a newer GET stream takes over
	over    chan struct{}   // closed when the session ends
}

// calls are the running requests of one connection, by their raw id.
type calls struct {
	mu sync.Mutex
	m  map[string]context.CancelCauseFunc
}

var errClientGone = fault.New(fault.Cancelled, "", "the client went away")

var errSessionOver = fault.New(fault.Cancelled, "", "the session has ended")

var errClientCancelled = fault.New(fault.Cancelled, "", "the client cancelled the request")

// add registers a running request. Two running requests of one connection must
// not share an id: their answers could not be told apart.
func (c *calls) add(id []byte, cancel context.CancelCauseFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]context.CancelCauseFunc{}
	}
	if _, dup := c.m[string(id)]; dup {
		return fault.New(fault.InvalidRequest, "", "request id %s is in use by a running request", id)
	}
	c.m[string(id)] = cancel
	return nil
}

func (c *calls) remove(id []byte) {
	c.mu.Lock()
	delete(c.m, string(id))
	c.mu.Unlock()
}

// cancel ends the request that a notifications/cancelled names.
func (c *calls) cancel(m *wire.Message) {
	id := m.Param("requestId")
	c.mu.Lock()
	cancel := c.m[string(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errClientCancelled)
	}
}

// end cancels all that runs.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.m {
		cancel(errSessionOver)
	}
}

func (c *calls) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.m)
}

func (s *session) touch() { s.used.Store(time.Now().UnixNano()) }

func (s *session) idleSince() time.Time {
	if s.streams.Load() > 0 || s.calls.len() > 0 {
		return time.Now()
	}
	return time.Unix(0, s.used.Load())
}

func (s *session) end() {
	s.mu.Lock()
	select {
	case <-s.over:
		s.mu.Unlock()
		return
	default:
		close(s.over)
	}
	s.mu.Unlock()
	s.detach()
	s.calls.end()
	s.asks.close()
}

// takeStream makes the caller the session's only GET stream. The channel is
// closed when another takes over.
func (s *session) takeStream() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replace != nil {
		close(s.replace)
	}
	s.replace = make(chan struct{})
	return s.replace
}

// Sessions holds the legacy connections over HTTP of all faces.
type Sessions struct {
	mu   sync.RWMutex
	max  int
	idle time.Duration
	m    map[string]*session
	each map[string]int // how many each principal has

	ended func(id string) // told of those that end for good; nil: nobody is
}

// NewSessions keeps at most max connections, each for idle after its last use;
// 0 means for ever.
func NewSessions(max int, idle time.Duration) *Sessions {
	return &Sessions{max: max, idle: idle, m: map[string]*session{}, each: map[string]int{}}
}

// Bound changes how many are kept, and for how long. Those over a lower bound
// go as new ones come.
func (t *Sessions) Bound(max int, idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.max, t.idle = max, idle
}

// Len is the number of open connections.
func (t *Sessions) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.m)
}

// Connected is what can be told of a connection: not its id, by which another
// could use it.
type Connected struct {
	Principal string
	Face      string // where it was made: an agent's name, or a path
	Session   string // the Session that it named
	Client    string // how the client calls itself
	Version   string // of the protocol
	Since     time.Time
	Used      time.Time // the last sign of life
}

// List returns the open connections.
func (t *Sessions) List() []Connected {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Connected, 0, len(t.m))
	for _, s := range t.m {
		c := Connected{Principal: s.client.Actor.Name(), Face: s.scope, Version: s.client.Version, Since: s.began, Used: time.Unix(0, s.used.Load()).UTC()}
		if s.listener != nil {
			c.Session = s.listener.Session
		}
		c.Client, _ = wire.String(wire.Get(s.client.Info, "name"))
		if v, _ := wire.String(wire.Get(s.client.Info, "version")); c.Client != "" && v != "" {
			c.Client += " " + v
		}
		out = append(out, c)
	}
	return out
}

// get returns the session of that id if it belongs to the face and principal.
func (t *Sessions) get(id, scope string, who *auth.Principal) (*session, error) {
	t.mu.RLock()
	s := t.m[id]
	t.mu.RUnlock()
	if s == nil || s.scope != scope || !s.of(who) {
		return nil, fault.New(fault.UnknownSession, headerSession, "session not found")
	}
	s.touch()
	return s, nil
}

// of reports whether it is a connection of who asks: the same principal, come
// in the same way and by the same token, whether with that itself or signed in by
// it. One that a token opened is not there for who has none, nor for one that was
// made later under its name: the connection has the rights of the first.
func (s *session) of(who *auth.Principal) bool {
	own := s.client.Actor.Principal()
	return own.Name == who.Name && own.Via == who.Via && own.Token == who.Token
}

// has reports whether the id is that of an open connection, whosever it is.
func (t *Sessions) has(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.m[id] != nil
}

// shared is from how many connections on each principal has a share.
const shared = 16

// add keeps a connection. Each principal but the owner may have three quarters
// of all, and makes room among its own; where all are taken, the one who has most does.
func (t *Sessions) add(s *session) error {
	who := s.client.Actor.Principal()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !who.IsOwner() && t.max >= shared && t.each[who.Name] >= t.max*3/4 && !t.evict(who.Name) {
		return &fault.Error{Kind: fault.Limit, Subject: "sessions", Msg: fmt.Sprintf("%q has as many sessions as one caller may, and all are in use", who.Name), Hint: "End sessions by DELETE, or raise limits.sessions."}
	}
	if len(t.m) >= t.max && !t.evict(t.largest()) {
		return &fault.Error{Kind: fault.Limit, Subject: "sessions", Msg: "the hub has as many sessions as it may and all are in use", Hint: "End sessions by DELETE, or raise limits.sessions."}
	}
	if old := t.m[s.id]; old != nil {
		t.drop(old)
	}
	s.began = time.Now().UTC()
	t.m[s.id] = s
	t.each[who.Name]++
	return nil
}

// largest is the principal with most connections. Called with mu held.
func (t *Sessions) largest() (name string) {
	most := 0
	for who, n := range t.each {
		if n > most {
			name, most = who, n
		}
	}
	return name
}

// evict drops the connection of a principal that has been idle longest, for
// clients that open a new one for each call and never end any. Called with mu
// held.
func (t *Sessions) evict(name string) bool {
	var oldest *session
	at := time.Now().Add(-time.Second)
	for _, s := range t.m {
		if s.client.Actor.Principal().Name != name {
			continue
		}
		if u := s.idleSince(); u.Before(at) {
			oldest, at = s, u
		}
	}
	if oldest == nil {
		return false
	}
	t.drop(oldest)
	oldest.end()
	t.forget(oldest)
	return true
}

// forget tells that a connection has ended for good: neither because this process
// ends, nor because another has taken it up.
func (t *Sessions) forget(s *session) {
	if t.ended != nil {
		t.ended(s.id)
	}
}

// drop keeps a connection no more. Called with mu held.
func (t *Sessions) drop(s *session) {
	if t.m[s.id] != s {
		return
	}
	delete(t.m, s.id)
	name := s.client.Actor.Principal().Name
	if t.each[name]--; t.each[name] == 0 {
		delete(t.each, name)
	}
}

func (t *Sessions) remove(s *session) {
	t.leave(s)
	t.forget(s)
}

// leave ends a connection here.
func (t *Sessions) leave(s *session) {
	t.mu.Lock()
	t.drop(s)
	t.mu.Unlock()
	s.end()
}

// Leave ends what is here of a connection that another process has taken up.
func (t *Sessions) Leave(id string) {
	t.mu.RLock()
	s := t.m[id]
	t.mu.RUnlock()
	if s != nil {
		t.leave(s)
	}
}

// IDs are those of the open connections that clients name, and so may name at
// another process.
func (t *Sessions) IDs() (ids []string) {
	for _, s := range t.all() {
		if s.listener != nil || s.inbox != nil {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// Sweep ends what has been idle too long. Call it from time to time.
func (t *Sessions) Sweep() {
	t.mu.RLock()
	idle := t.idle
	t.mu.RUnlock()
	if idle == 0 {
		return // they are kept for ever
	}
	limit := time.Now().Add(-idle)
	for _, s := range t.all() {
		if s.idleSince().Before(limit) {
			t.remove(s)
		}
	}
}

// End ends all connections of a principal.
func (t *Sessions) End(principal string) {
	for _, s := range t.all() {
		if s.client.Actor.Name() == principal {
			t.remove(s)
		}
	}
}

// Close ends all connections. Another process may take them up.
func (t *Sessions) Close() {
	for _, s := range t.all() {
		t.leave(s)
	}
}

func (t *Sessions) all() []*session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*session, 0, len(t.m))
	for _, s := range t.m {
		out = append(out, s)
	}
	return out
}

func newSessionID() string { return rand.Text() }

// isAgent reports whether a scope is that of a single agent's face.
func isAgent(scope string) bool { return scope != "" && scope[0] != '/' }
