package registration

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/vault"
)

// Options say where registrations are kept, and what becomes of them.
type Options struct {
	// Store is where hubs keep them together, encrypted under Key. If either is
	// nil, or nobody else can use the store, they are in memory.
	Store *store.Store
	Key   *vault.Key

	Most      int // registrations in all
	MostOfOne int // of one principal, but the hubs' owner

	// Valid reports whether who registered an agent may still do so. It is asked
	// now and then where registrations are shared. Optional.
	Valid func(r *Registration) bool
	// Settle makes r count as the agent of a name here; nil means that there is
	// none. An error means that it cannot be one here: a registration that was
	// just made is taken back then.
	Settle func(name string, r *Registration) error
	Logger *slog.Logger // nil discards
}

// Book holds the registrations.
type Book struct {
	o      Options
	names  []byte        // the key of the hash that stands for a name in the store; nil in memory
	skew   time.Duration // by how much other clocks may differ
	values *journal.Values[Registration]
	stop   context.CancelFunc
	wg     sync.WaitGroup
	wake   chan struct{} // has room for one: there is something to settle

	settling sync.Mutex           // held while what is known is made what counts
	ends     map[string]time.Time // of those that count, by key

	mu  sync.Mutex
	due map[string]bool   // keys of what has changed
	of  map[string]string // names by key, of what is known or due
}

// bucketName is that of the bucket in the store.
const bucketName = "agents"

// Open reads the registrations that there are and settles them. Close ends what
// goes on behind; what is registered stays so.
func Open(ctx context.Context, o Options) (*Book, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Book{o: o, wake: make(chan struct{}, 1), ends: map[string]time.Time{}, due: map[string]bool{}, of: map[string]string{}}
	vo := journal.ValuesOptions[Registration]{
		Options: journal.Options{Logger: o.Logger, Alone: true}, Subjects: bucketName + ".>",
		Decode:  func(data []byte) (r Registration, err error) { return r, json.Unmarshal(data, &r) },
		Expired: func(r Registration, now time.Time) bool { return r.over(now, b.skew) },
		Changed: b.changed,
	}
	var log journal.Log = journal.NewMemory()
	if o.Store != nil && !o.Store.Alone() && o.Key != nil {
		b.names, b.skew, vo.Alone = o.Key.Derive("names of agents"), Skew, false
		var err error
		if log, vo.Subjects, err = o.Store.ValuesLog(ctx, store.BucketOptions{Name: bucketName}); err != nil {
			return nil, fmt.Errorf("open the registrations of agents: %w", err)
		}
		log = o.Key.Log(log)
	}
	var err error
	if b.values, err = journal.OpenValues(ctx, log, vo); err != nil {
		return nil, fmt.Errorf("read the registrations of agents: %w", err)
	}
	b.all()
	b.settleDue()
	ctx, b.stop = context.WithCancel(context.Background())
	b.wg.Go(func() { b.run(ctx) })
	return b, nil
}

// Close ends what goes on behind.
func (b *Book) Close() {
	b.stop()
	b.wg.Wait()
	b.values.Close()
}

// Shared reports whether other hubs know of what is registered here.
func (b *Book) Shared() bool { return b.names != nil }

// key stands for a name in the store, where nobody is to read it.
func (b *Book) key(name string) string {
	if b.names == nil {
		return name
	}
	h := hmac.New(sha256.New, b.names)
	h.Write([]byte(name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// get is what is known of a key and its revision; nil if its lease has ended, or
// there is none.
func (b *Book) get(key string) (*Registration, uint64, error) {
	v, err := b.values.Get(key)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fault.New(fault.Storage, "agents", "the registration cannot be read").Because(err)
	}
	return &v.V, v.Rev, nil
}

// Known is the registration of a name as it is known here, or nil.
func (b *Book) Known(name string) *Registration {
	r, _, _ := b.get(b.key(name))
	return r
}

func (b *Book) valid(r *Registration) bool {
	return !b.Shared() || b.o.Valid == nil || b.o.Valid(r)
}

// tries is how often is decided anew when others write the same.
const tries = 16

// Add registers an agent, or registers it anew if lease is the one that it has.
// It returns what is registered, with its lease.
func (b *Book) Add(ctx context.Context, r Registration, lease string) (*Registration, error) {
	key, last := b.key(r.Name), uint64(0)
	r.Lease = rand.Text()
	for range tries {
		if err := b.values.CatchUp(ctx); err != nil {
			return nil, err
		}
		old, rev, err := b.get(key)
		if err != nil {
			return nil, err
		}
		if old != nil {
			last = rev
		}
		if old != nil && !b.valid(old) {
			old = nil
		}
		r.First = 0
		switch {
		case old == nil:
			err = b.room(&r, math.MaxUint64)
		case !old.shows(r.Owner, lease):
			err = taken(r.Name)
		default:
			r.First = old.since(rev)
		}
		if err != nil {
			return nil, err
		}
		rev, err = b.put(ctx, key, &r, last)
		if c, ok := errors.AsType[*journal.Conflict](err); ok {
			last = c.Last // also that of one whose lease has ended
			continue
		}
		if err != nil {
			return nil, err
		}
		return b.added(ctx, key, rev, &r)
	}
	return nil, taken(r.Name)
}

// added has a registration that was written count, or takes it back.
func (b *Book) added(ctx context.Context, key string, rev uint64, r *Registration) (*Registration, error) {
	var err error
	if r.First == 0 { // others may have registered at the same time: those who were first stay
		if err = b.values.CatchUp(ctx); err == nil {
			err = b.room(r, rev)
		}
	}
	if err == nil {
		err = b.settle(key)
	}
	if err == nil {
		return r, nil
	}
	if back := b.values.RemoveAfter(context.WithoutCancel(ctx), key, rev); back != nil {
		b.o.Logger.Warn("an agent that was refused stays registered until its lease ends", "agent", r.Name, "err", back)
	}
	_ = b.settle(key)
	return nil, err
}

// lasting is how long a lease is written to last: a renewal needs to be written
// only when less than its life is left, which is every other time for who renews
// it three times in that.
func (b *Book) lasting(life time.Duration) time.Duration {
	if !b.Shared() {
		return life
	}
	return life + life/2
}

func (b *Book) put(ctx context.Context, key string, r *Registration, after uint64) (uint64, error) {
	r.Ends = time.Now().Add(b.lasting(r.Life)).UTC()
	data, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	return b.values.PutAfter(ctx, key, data, after)
}

// room says why r may not be added to those that were registered before a
// revision.
func (b *Book) room(r *Registration, before uint64) error {
	all, own := 0, 0
	for key, v := range b.values.All() {
		if key == b.key(r.Name) || v.V.since(v.Rev) >= before {
			continue
		}
		all++
		if v.V.Owner == r.Owner {
			own++
		}
	}
	switch {
	case r.TokenID != "" && own >= b.o.MostOfOne:
		return fault.New(fault.Limit, "agents", "%q has registered %d agents, which is as many as one caller may", r.Owner, own)
	case all >= b.o.Most:
		return fault.New(fault.Limit, "agents", "%d agents are registered, which is as many as may", b.o.Most)
	}
	return nil
}

// Renew has the lease of an agent begin anew, for who shows it.
func (b *Book) Renew(ctx context.Context, name, owner, lease string) (*Registration, error) {
	key := b.key(name)
	for range tries {
		if err := b.values.CatchUp(ctx); err != nil {
			return nil, err
		}
		old, rev, err := b.get(key)
		if err != nil {
			return nil, err
		}
		if old == nil || !old.shows(owner, lease) {
			return nil, unknown(name)
		}
		if b.Shared() && time.Until(old.Ends) >= old.Life {
			return old, nil
		}
		r := *old
		r.First = old.since(rev)
		_, err = b.put(ctx, key, &r, rev)
		if _, conflict := errors.AsType[*journal.Conflict](err); conflict {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &r, nil
	}
	return nil, fault.New(fault.Storage, name, "others renewed the lease each of the %d times that this was tried", tries)
}

// Remove ends a registration, for who shows its lease.
func (b *Book) Remove(ctx context.Context, name, owner, lease string) error {
	key := b.key(name)
	for range tries {
		if err := b.values.CatchUp(ctx); err != nil {
			return err
		}
		old, rev, err := b.get(key)
		if err != nil {
			return err
		}
		if old == nil || !old.shows(owner, lease) {
			return unknown(name)
		}
		err = b.values.RemoveAfter(ctx, key, rev)
		if _, conflict := errors.AsType[*journal.Conflict](err); conflict {
			continue // it was renewed
		}
		if err != nil {
			return err
		}
		return b.settle(key)
	}
	return fault.New(fault.Storage, name, "others renewed the lease each of the %d times that this was tried", tries)
}

// CatchUp takes in what other hubs have registered until now.
func (b *Book) CatchUp(ctx context.Context) error { return b.values.CatchUp(ctx) }

// Forget ends all registrations of a principal.
func (b *Book) Forget(ctx context.Context, owner string) error {
	if err := b.values.CatchUp(ctx); err != nil {
		return err
	}
	for key, v := range b.values.All() {
		if v.V.Owner != owner {
			continue
		}
		if err := b.values.Remove(ctx, key); err != nil {
			return err
		}
		if err := b.settle(key); err != nil {
			return err
		}
	}
	return nil
}
