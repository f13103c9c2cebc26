package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
	"github.com/stoahub/stoa/internal/store"
)

// Life is how long a hub that died keeps a lease. It is twice as long as a write
// to a cluster may take: a holder that the store does not answer for as long as it
// needs for another leader goes on.
const Life = 30 * time.Second

// Options say whose leases they are and how long they last.
type Options struct {
	Bucket string // of the store
	// Hub is the holder's name. No two processes may have the same, also not the next
	// one of the same hub: a copy of its data folder may run elsewhere.
	Hub string
	// Before is the name of a process that is known to have ended. Its leases are as
	// good as free. Empty: none is.
	Before string
	Life   time.Duration // 0: the constant Life
	Alone  bool          // no other hub can use the store
	Logger *slog.Logger  // nil: discard

	now func() time.Time // for tests; nil means time.Now
}

// Book holds the leases of one hub.
type Book struct {
	bucket *store.Bucket // nil: only this process can hold leases
	o      Options

	mu   sync.Mutex
	held map[string]bool // also those that are being asked for or given back
}

// Open opens the leases of a bucket. st may be nil.
func Open(ctx context.Context, st *store.Store, o Options) (*Book, error) {
	o.Life = cmp.Or(o.Life, Life)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.now == nil {
		o.now = time.Now
	}
	b := &Book{o: o, held: map[string]bool{}}
	if st == nil || o.Alone {
		return b, nil
	}
	var err error
	if b.bucket, err = st.Bucket(ctx, store.BucketOptions{Name: o.Bucket}); err != nil {
		return nil, fmt.Errorf("open the leases %s: %w", o.Bucket, err)
	}
	return b, nil
}

// Hub is the name by which this hub holds leases.
func (b *Book) Hub() string { return b.o.Hub }

// Held is how many leases this process holds.
func (b *Book) Held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.held)
}

// Alone reports whether only this process can hold leases.
func (b *Book) Alone() bool { return b.bucket == nil }

// Lease is one that this hub holds until Release or until it is Lost.
type Lease struct {
	b      *Book
	key    string
	rev    uint64    // in the bucket
	good   time.Time // when what holds it was asked for: it lasts Life from then on
	lost   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

// Try takes the lease of a key. If somebody else holds it, there is no lease and
// no error, and holder is that hub's name; it may be this hub.
func (b *Book) Try(ctx context.Context, key string) (l *Lease, holder string, err error) {
	if !b.reserve(key) {
		return nil, b.o.Hub, nil
	}
	defer func() {
		if l == nil {
			b.unreserve(key)
		}
	}()
	l = &Lease{b: b, key: key, lost: make(chan struct{}), done: make(chan struct{})}
	if b.bucket == nil {
		l.cancel = func() {}
		close(l.done)
		return l, b.o.Hub, nil
	}
	if holder, err = l.take(ctx); err != nil {
		return nil, "", fmt.Errorf("take the lease of %s: %w", key, err)
	}
	if l.rev == 0 {
		return nil, holder, nil
	}
	var renew context.Context
	renew, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go l.keep(renew)
	return l, b.o.Hub, nil
}

// reserve makes the key one that nobody else in this process asks for.
func (b *Book) reserve(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[key] {
		return false
	}
	b.held[key] = true
	return true
}

func (b *Book) unreserve(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, key)
}

// take asks the store for the lease, and returns who holds it. rev stays 0 if
// another hub does.
func (l *Lease) take(ctx context.Context) (holder string, err error) {
	b := l.b
	for {
		l.good = b.o.now()
		l.rev, err = b.bucket.Create(ctx, l.key, []byte(b.o.Hub), b.o.Life)
		if err == nil {
			return b.o.Hub, nil
		}
		conflict := isConflict(err)
		if !conflict && !errors.Is(err, store.ErrUncertain) {
			return "", err
		}
		v, look := b.bucket.Get(ctx, l.key)
		switch {
		case errors.Is(look, store.ErrNotFound) && conflict:
			continue // it ended just now
		case look != nil:
			return "", errors.Join(err, look)
		case string(v.Data) == b.o.Before && b.o.Before != "":
		case string(v.Data) != b.o.Hub:
			return string(v.Data), nil
		case !conflict: // the answer was lost, and it was stored
			l.rev = v.Rev
			return b.o.Hub, nil
		}
		// Who held it has ended. Or nobody in this process holds it: it was asked for
		// before, and no answer came. How long it lasts still is not known.
		if err := b.bucket.Delete(ctx, l.key, v.Rev); err != nil && !isConflict(err) {
			return "", err
		}
	}
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*store.Conflict](err)
	return ok
}

// Lost is closed when the lease may not be ours any more. The work must end at
// once; Release is still to be called.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// age is how long ago what holds the lease was asked for. For the store time goes
// on while this machine sleeps.
func (l *Lease) age() time.Duration { return elapsed.Between(l.good, l.b.o.now()) }

// longestLook bounds how long after a sleep it may take until the lease is known
// to be lost.
const longestLook = time.Second

// keep renews the lease until it is given back or cannot be. It counts from when
// a renewal was asked for, and gives up before the store does: when the next
// holder begins, this one has ended.
func (l *Lease) keep(ctx context.Context) {
	defer close(l.done)
	life := l.b.o.Life
	tick := time.NewTicker(min(life/8, longestLook))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if l.age() < life/4 {
			continue
		}
		err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, !isConflict(err) && l.age() < life*3/4:
		default:
			l.b.o.Logger.Warn("a lease is lost", "bucket", l.b.o.Bucket, "key", l.key, "err", err)
			close(l.lost)
			return
		}
	}
}

// renew asks the store for more time. It is a *store.Conflict if the lease is
// not ours any more.
func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.b.o.Life*7/8-l.age())
	defer cancel()
	for {
		asked := l.b.o.now()
		rev, err := l.b.bucket.Update(ctx, l.key, []byte(l.b.o.Hub), l.rev, l.b.o.Life)
		if err == nil {
			l.rev, l.good = rev, asked
			return nil
		}
		if !isConflict(err) {
			return err
		}
		// A renewal of which no answer came may have taken effect.
		v, look := l.b.bucket.Get(ctx, l.key)
		switch {
		case look != nil || string(v.Data) != l.b.o.Hub:
			return err
		case v.Rev == l.rev:
			return fmt.Errorf("a renewal before it is being decided: %v", err)
		}
		l.rev = v.Rev
	}
}

// releaseTime bounds how long Release waits for the store.
const releaseTime = 2 * time.Second

// Release gives the lease back. It must be called once.
func (l *Lease) Release() {
	l.cancel()
	<-l.done
	if l.b.bucket != nil {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		if err := l.b.bucket.Delete(ctx, l.key, l.rev); err != nil && !isConflict(err) {
			l.b.o.Logger.Debug("a lease could not be given back and ends by itself", "bucket", l.b.o.Bucket, "key", l.key, "err", err)
		}
	}
	l.b.unreserve(l.key)
}

// doAgain is how often Do tries to take a lease that another holds.
const doAgain = 50 * time.Millisecond

// Do calls f while it holds the lease of a key, for which it waits. The context
// of f ends when the lease is lost.
func (b *Book) Do(ctx context.Context, key string, f func(context.Context) error) error {
	for {
		l, holder, err := b.Try(ctx, key)
		if err != nil {
			return err
		}
		if l != nil {
			defer l.Release()
			return l.during(ctx, f)
		}
		wait := time.NewTimer(doAgain)
		select {
		case <-ctx.Done():
			wait.Stop()
			return fmt.Errorf("wait for the lease of %s, which the hub %s holds: %w", key, holder, context.Cause(ctx))
		case <-wait.C:
		}
	}
}

func (l *Lease) during(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-l.Lost():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(); <-ended }()
	return f(ctx)
}
