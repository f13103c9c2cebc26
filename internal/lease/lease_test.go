package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

// brief is how long a lease lasts whose end is waited for. All others last for
// longer than a busy machine could keep their holder from renewing them.
const brief = 2 * time.Second

func open(t *testing.T, st *store.Store, o lease.Options) *lease.Book {
	t.Helper()
	if o.Life == 0 {
		o.Life = await.Patience
	}
	o.Bucket = "worklease"
	b, err := lease.Open(t.Context(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// take takes a lease that must be free.
func take(t *testing.T, b *lease.Book, key string) *lease.Lease {
	t.Helper()
	l, holder, err := b.Try(t.Context(), key)
	if err != nil || l == nil || holder != b.Hub() {
		t.Fatalf("%s is not granted but held by %q: %v", key, holder, err)
	}
	return l
}

// refused asks for a lease that somebody must have.
func refused(t *testing.T, b *lease.Book, key, by string) {
	t.Helper()
	if l, holder, err := b.Try(t.Context(), key); err != nil || l != nil || holder != by {
		t.Fatalf("%s: granted %v, held by %q, and not by %s: %v", key, l != nil, holder, by, err)
	}
}

func lost(l *lease.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// eventually takes a lease when it becomes free.
func eventually(t *testing.T, b *lease.Book, key string) (l *lease.Lease) {
	t.Helper()
	await.Until(t, key+" is free", func() bool {
		l, _, _ = b.Try(t.Context(), key)
		return l != nil
	})
	return l
}

// Where no other hub can be, a lease is granted unless somebody in the process
// has it.
func TestOneHub(t *testing.T) {
	for name, b := range map[string]*lease.Book{
		"without a store": open(t, nil, lease.Options{Hub: "a"}),
		"alone":           open(t, storetest.Open(t, store.Options{}), lease.Options{Hub: "a", Alone: true}),
		"with a store":    open(t, storetest.Open(t, store.Options{}), lease.Options{Hub: "a"}),
	} {
		t.Run(name, func(t *testing.T) {
			l := take(t, b, "k")
			refused(t, b, "k", "a")
			take(t, b, "other").Release()
			l.Release()
			take(t, b, "k").Release()
		})
	}
}

// Many ask at once, in two hubs: one has it.
func TestExclusive(t *testing.T) {
	s := storetest.StartServer(t)
	a := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "a"})
	b := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "b"})
	var wg sync.WaitGroup
	var working, granted atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				l, _, err := []*lease.Book{a, b}[i%2].Try(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				if l == nil {
					continue
				}
				if granted.Add(1); working.Add(1) != 1 {
					t.Error("two hold it")
				}
				working.Add(-1)
				l.Release()
			}
		})
	}
	wg.Wait()
	if granted.Load() == 0 {
		t.Error("nobody ever had it")
	}
}

// A lease lasts as long as it is held, and not longer than that. A machine may be
// too busy for one to be renewed in time, but not each time: then its holder knows.
func TestHeldAndReleased(t *testing.T) {
	s := storetest.StartServer(t)
	a := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "a", Life: brief})
	b := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "b", Life: brief})
	await.Until(t, "it was held for longer than it lives", func() bool {
		l := eventually(t, a, "k")
		defer l.Release()
		until := time.Now().Add(2 * brief)
		await.Until(t, "the time is over, or it is lost", func() bool {
			theirs, _, err := b.Try(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if theirs != nil {
				theirs.Release()
				if !lost(l) {
					t.Fatal("another hub has it, and its holder does not know")
				}
			}
			return lost(l) || time.Now().After(until)
		})
		return !lost(l)
	})
	take(t, b, "k").Release()
}

// What a hub asked for and never got an answer to does not keep it from asking
// again, and keeps others only for its time.
func TestDeadLease(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	a, b := open(t, st, lease.Options{Hub: "a"}), open(t, st, lease.Options{Hub: "b"})
	bucket, err := st.Bucket(t.Context(), store.BucketOptions{Name: "worklease"})
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, life time.Duration) {
		t.Helper()
		if _, err := bucket.Put(t.Context(), key, []byte("a"), life); err != nil {
			t.Fatal(err)
		}
	}
	put("one", await.Patience)
	refused(t, b, "one", "a")
	take(t, a, "one").Release()
	asked := time.Now()
	put("two", brief)
	if l, _, err := b.Try(t.Context(), "two"); err != nil || l != nil && time.Since(asked) < brief {
		t.Fatalf("two was granted while another may have it: %v", err)
	} else if l != nil { // the machine is busy
		l.Release()
	}
	eventually(t, b, "two").Release()
}

// A hub whose clock is ahead of the store's takes nobody's lease.
func TestClockAhead(t *testing.T) {
	s := storetest.StartServer(t)
	p := proxy.New(t, s.URL)
	p.Behind(11 * time.Second)
	a := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "a", Life: 10 * time.Second})
	ahead := open(t, storetest.Open(t, store.Options{URL: p.URL}), lease.Options{Hub: "ahead", Life: 10 * time.Second})
	l := take(t, a, "k")
	refused(t, ahead, "k", "a")
	l.Release()
	take(t, ahead, "k").Release()
}

// A store that does not answer for as long as a cluster needs for another leader
// costs no lease.
func TestStoreIsSilentForAWhile(t *testing.T) {
	s := storetest.StartServer(t)
	p := proxy.New(t, s.URL)
	a := open(t, storetest.Open(t, store.Options{URL: p.URL}), lease.Options{Hub: "a", Life: lease.Life})
	b := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "b"})
	l := take(t, a, "k")
	defer l.Release()
	p.Set(proxy.Lose, proxy.Lose)
	back := time.Now().Add(9 * time.Second)
	await.Until(t, "the store is back", func() bool { return lost(l) || time.Now().After(back) })
	p.Restore()
	await.NoError(t, "its holder can ask the store again", func() error {
		other, _, err := a.Try(t.Context(), "other")
		if other != nil {
			other.Release()
		}
		return err
	})
	refused(t, b, "k", "a")
	if lost(l) {
		t.Error("it was given up")
	}
}

// The lease of a process that is known to have ended is free; of any other it is
// not, whatever hub it says that it is.
func TestProcessBefore(t *testing.T) {
	s := storetest.StartServer(t)
	st := storetest.Open(t, store.Options{URL: s.URL})
	bucket, err := st.Bucket(t.Context(), store.BucketOptions{Name: "worklease"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), "k", []byte("a.1"), time.Hour); err != nil {
		t.Fatal(err)
	}
	refused(t, open(t, st, lease.Options{Hub: "a.3"}), "k", "a.1")
	next := open(t, st, lease.Options{Hub: "a.2", Before: "a.1"})
	l := take(t, next, "k")
	defer l.Release()
	refused(t, open(t, st, lease.Options{Hub: "a.3"}), "k", "a.2")
}

// A holder that the store does not hear of knows that it has lost its lease
// before another hub gets it.
func TestStalledHolder(t *testing.T) {
	t.Parallel() // it waits for long: the longer a lease lasts, the earlier its holder knows
	s := storetest.StartServer(t)
	p := proxy.New(t, s.URL)
	a := open(t, storetest.Open(t, store.Options{URL: p.URL}), lease.Options{Hub: "a", Life: 3 * brief})
	b := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "b"})
	l := take(t, a, "k")
	p.Set(proxy.Lose, proxy.Lose)
	theirs := eventually(t, b, "k")
	if !lost(l) {
		t.Error("another hub has it, and its holder does not know")
	}
	p.Restore()
	await.NoError(t, "it can ask the store again", func() error {
		other, _, err := a.Try(t.Context(), "other")
		if other != nil {
			other.Release()
		}
		return err
	})
	l.Release()
	refused(t, a, "k", "b") // what it released was not its own any more
	theirs.Release()
}

// A renewal of which no answer comes may have been stored: its holder finds out
// and goes on.
func TestUnansweredRenewal(t *testing.T) {
	t.Parallel()
	s := storetest.StartServer(t)
	p := proxy.New(t, s.URL)
	long := lease.Options{Hub: "a", Life: 8 * time.Second}
	a := open(t, storetest.Open(t, store.Options{URL: p.URL}), long)
	there := storetest.Open(t, store.Options{URL: s.URL})
	b := open(t, there, lease.Options{Hub: "b"})
	bucket, err := there.Bucket(t.Context(), store.BucketOptions{Name: "worklease"})
	if err != nil {
		t.Fatal(err)
	}
	rev := func() uint64 {
		v, err := bucket.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		return v.Rev
	}
	l := take(t, a, "k")
	defer l.Release()
	first := rev()
	p.Set(proxy.Pass, proxy.Lose)
	await.Until(t, "a renewal is stored", func() bool { return rev() > first })
	second := rev()
	p.Restore()
	await.Until(t, "it is renewed again", func() bool { return rev() > second })
	refused(t, b, "k", "a")
	if lost(l) {
		t.Error("it was given up")
	}
}

// Do waits until nobody else has the lease, and tells what it does when the lease
// is lost.
func TestDo(t *testing.T) {
	s := storetest.StartServer(t)
	a := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "a"})
	b := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "b"})
	var working, done atomic.Int32
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if err := []*lease.Book{a, b}[i%2].Do(t.Context(), "k", func(context.Context) error {
				if working.Add(1) != 1 {
					t.Error("two are at it")
				}
				working.Add(-1)
				done.Add(1)
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done.Load() != 6 {
		t.Errorf("done %d times", done.Load())
	}
	held := take(t, a, "k")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Do(over, "k", func(context.Context) error { t.Error("it began"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("while another holds it: %v", err)
	}
	held.Release()
	// One that lasts for long would be held for long where the store is gone.
	dying := open(t, storetest.Open(t, store.Options{URL: s.URL}), lease.Options{Hub: "dying", Life: brief})
	if err := dying.Do(t.Context(), "k", func(ctx context.Context) error {
		s.Kill()
		<-ctx.Done()
		return ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is lost: %v", err)
	}
}
