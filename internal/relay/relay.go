package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/vault"
)

// Options say how connections are kept.
type Options struct {
	Beat   time.Duration // how often others are asked whether they are there; 0 means 2 s
	Logger *slog.Logger  // nil discards
}

// Relay is one process's end of all its connections.
type Relay struct {
	st     *store.Store
	key    *vault.Key
	self   string // as in subjects
	o      Options
	name   string
	accept chan net.Conn
	ending atomic.Bool
	done   chan struct{}
	once   sync.Once
	unhear []func()
	wg     sync.WaitGroup

	mu    sync.Mutex
	next  uint64
	conns map[string]*conn // by id
}

// ErrGone means that a process cannot be dialled: it is not there. ErrLost means
// that it went while a connection was in use.
var (
	ErrGone = errors.New("that hub is not there")
	ErrLost = errors.New("that hub went away")
)

// The words of the door of a process, which is asked and answers. Behind yes,
// where a connection was to be opened, comes what nobody can have said before: a
// recording of another connection is no connection.
const (
	wordOpen = "open "
	wordBeat = "beat"
	wordYes  = "yes "
	wordBye  = "bye" // this process is ending
)

// silence is how many beats without an answer it takes until a process counts as
// gone. One that nobody hears at all needs only two.
const silence = 5

// backlog is how many connections may wait to be accepted.
const backlog = 256

// Open lets other processes connect to this one, by its name. What passes is
// encrypted under the key, which they must have too: connections are as good as
// the key is secret, whoever else uses the store.
func Open(st *store.Store, key *vault.Key, process string, o Options) (*Relay, error) {
	o.Beat = cmp.Or(o.Beat, 2*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Relay{st: st, key: key, self: token(process), name: process, o: o, accept: make(chan net.Conn, backlog), done: make(chan struct{}), conns: map[string]*conn{}}
	for subject, fn := range map[string]func(store.Sent){door(r.self): r.asked, wire(r.self, "*.*.*"): r.hear} {
		stop, err := st.Hear(subject, fn)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("open the relay: %w", err)
		}
		r.unhear = append(r.unhear, stop)
	}
	r.wg.Go(r.beat)
	return r, nil
}

// token is a process's name in subjects.
func token(process string) string {
	sum := sha256.Sum256([]byte(process))
	return hex.EncodeToString(sum[:12])
}

func door(self string) string   { return "stoa.door." + self }
func wire(to, id string) string { return "stoa.wire." + to + "." + id }
func idOf(subject string) string {
	return subject[strings.IndexByte(subject[len("stoa.wire."):], '.')+len("stoa.wire.")+1:]
}
func (r *Relay) Addr() net.Addr { return addr(r.self) }
func (a addr) Network() string  { return "relay" }
func (a addr) String() string   { return string(a) }

type addr string

// Close ends all connections.
func (r *Relay) Close() error {
	r.once.Do(func() {
		close(r.done)
		for _, stop := range r.unhear {
			stop()
		}
		for _, c := range r.all() {
			c.fail(net.ErrClosed, true)
		}
		r.wg.Wait()
	})
	return nil
}

// Process is the name by which others dial this process.
func (r *Relay) Process() string { return r.name }

// Shut lets nobody connect to this process any more: to who tries it is gone.
// Connections that there are go on.
func (r *Relay) Shut() { r.ending.Store(true) }

// Accept returns the next connection that another process has opened. With Close
// and Addr it makes the Relay a net.Listener.
func (r *Relay) Accept() (net.Conn, error) {
	select {
	case c := <-r.accept:
		return c, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// Dial connects to a process.
func (r *Relay) Dial(ctx context.Context, process string) (net.Conn, error) {
	return r.dial(ctx, token(process))
}

// dial asks again when no answer comes: a process that was just killed may still
// count as one that hears, for a moment. One that never answers is gone, too.
func (r *Relay) dial(caller context.Context, peer string) (net.Conn, error) {
	if peer == r.self {
		return nil, errors.New("dial a hub: it is this one")
	}
	ctx, cancel := context.WithTimeout(caller, silence*r.o.Beat)
	defer cancel()
	for {
		c, err := r.try(ctx, peer)
		if err == nil {
			return c, nil
		}
		switch {
		case !errors.Is(err, context.DeadlineExceeded) || caller.Err() != nil:
			return nil, fmt.Errorf("dial a hub: %w", err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("dial a hub: %w: it does not answer", ErrGone)
		}
	}
}

func (r *Relay) try(ctx context.Context, peer string) (net.Conn, error) {
	r.mu.Lock()
	r.next++
	c := r.make(peer, r.self+"."+peer+"."+strconv.FormatUint(r.next, 36))
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, r.o.Beat/2)
	defer cancel()
	said, err := r.st.Ask(ctx, door(peer), []byte(wordOpen+c.id))
	salt, yes := strings.CutPrefix(string(said), wordYes)
	switch {
	case errors.Is(err, store.ErrNobody), err == nil && string(said) == wordBye:
		err = ErrGone
	case err == nil && !yes:
		err = errors.New(string(said))
	case err == nil:
		err = c.encrypt(salt)
	}
	if err == nil {
		err = c.send(kindRead, 0, nil) // it must not speak before we have the key
	}
	if err != nil {
		c.fail(err, false)
		return nil, err
	}
	return c, nil
}

func (r *Relay) ask(ctx context.Context, peer string) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.Beat)
	defer cancel()
	if _, err := r.st.Ask(ctx, door(peer), []byte(wordBeat)); errors.Is(err, store.ErrNobody) {
		return ErrGone
	} else if err != nil {
		return fmt.Errorf("ask whether a hub is there: %w", err)
	}
	return nil
}

// make makes a connection. Called with mu held.
func (r *Relay) make(peer, id string) *conn {
	c := newConn(r, peer, id)
	c.known = strings.HasPrefix(id, r.self)
	r.conns[id] = c
	return c
}

func (r *Relay) drop(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns[c.id] == c {
		delete(r.conns, c.id)
	}
}

func (r *Relay) all() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*conn, 0, len(r.conns))
	for _, c := range r.conns {
		out = append(out, c)
	}
	return out
}

// asked answers at the door of this process.
func (r *Relay) asked(m store.Sent) {
	answer := wordYes
	if id, ok := strings.CutPrefix(string(m.Data), wordOpen); ok && r.ending.Load() {
		answer = wordBye
	} else if ok {
		salt := rand.Text()
		answer += salt
		if err := r.opened(id, salt); err != nil {
			answer = err.Error()
		}
	}
	if err := m.Answer([]byte(answer)); err != nil {
		r.o.Logger.Debug("another hub got no answer", "err", err)
	}
}

// opened takes in a connection that another process opens.
func (r *Relay) opened(id, salt string) error {
	peer, rest, _ := strings.Cut(id, ".")
	to, _, ok := strings.Cut(rest, ".")
	if !ok || to != r.self || peer == r.self {
		return errors.New("that is no connection to this hub")
	}
	select {
	case <-r.done:
		return errors.New("that hub is closing")
	default:
	}
	r.mu.Lock()
	if r.conns[id] != nil {
		r.mu.Unlock()
		return errors.New("there is such a connection")
	}
	c := r.make(peer, id)
	r.mu.Unlock()
	if err := c.encrypt(salt); err != nil {
		c.fail(err, false)
		return err
	}
	return nil
}

// greeted hands a connection to whoever accepts it, when the other end has shown
// that it has the key.
func (r *Relay) greeted(c *conn) {
	select {
	case r.accept <- c:
	default:
		r.o.Logger.Warn("another hub opens more connections than can be accepted", "action", "relay")
		c.fail(net.ErrClosed, true)
	}
}

// hear takes in what came for a connection.
func (r *Relay) hear(m store.Sent) {
	id := idOf(m.Subject)
	r.mu.Lock()
	c := r.conns[id]
	r.mu.Unlock()
	if c != nil {
		c.take(m.Data)
		return
	}
	if len(m.Data) > 0 && (m.Data[0] == kindData || m.Data[0] == kindProbe) {
		peer, rest, _ := strings.Cut(id, ".")
		if peer == r.self {
			peer, _, _ = strings.Cut(rest, ".")
		}
		_ = r.st.Send(wire(peer, id), []byte{kindReset})
	}
}

// beat asks those whom we are connected to whether they are there, and whether
// they got all that was sent.
func (r *Relay) beat() {
	tick := time.NewTicker(r.o.Beat)
	defer tick.Stop()
	failed := map[string]int{}
	for {
		select {
		case <-r.done:
			return
		case <-tick.C:
		}
		peers := map[string]bool{}
		for _, c := range r.all() {
			peers[c.peer] = true
			c.probe()
			if c.stranger(silence * r.o.Beat) {
				c.fail(ErrLost, false)
			}
		}
		for peer := range failed {
			if !peers[peer] {
				delete(failed, peer)
			}
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for peer := range peers {
			wg.Go(func() {
				err := r.ask(context.Background(), peer)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					delete(failed, peer)
				case errors.Is(err, ErrGone):
					failed[peer] += silence/2 + 1
				default:
					failed[peer]++
				}
			})
		}
		wg.Wait()
		for _, c := range r.all() {
			if failed[c.peer] >= silence {
				c.fail(ErrLost, true)
			}
		}
	}
}

var _ net.Listener = (*Relay)(nil)
