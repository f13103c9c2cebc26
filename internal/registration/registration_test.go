package registration_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/registration"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/vault"
)

// desk is a book, and what it has settled.
type desk struct {
	*registration.Book
	mu     sync.Mutex
	agents map[string]registration.Registration
	valid  atomic.Pointer[func(*registration.Registration) bool]
	settle func(name string) error
}

func (d *desk) serves(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.agents[name]
	return ok
}

// open opens a book over a server, or one in memory if s is nil.
func open(t *testing.T, s *storetest.Server) *desk {
	t.Helper()
	d := &desk{agents: map[string]registration.Registration{}, settle: func(string) error { return nil }}
	o := registration.Options{Most: 5, MostOfOne: 3,
		Valid: func(r *registration.Registration) bool {
			f := d.valid.Load()
			return f == nil || (*f)(r)
		},
		Settle: func(name string, r *registration.Registration) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			if r == nil {
				delete(d.agents, name)
				return nil
			}
			if err := d.settle(name); err != nil {
				return err
			}
			d.agents[name] = *r
			return nil
		}}
	if s != nil {
		o.Store = storetest.Open(t, store.Options{URL: s.URL})
		var err error
		if o.Key, err = vault.NewKey("the-cluster-key-of-the-tests-0123456789"); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if d.Book, err = registration.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func agent(name string) registration.Registration {
	return registration.Registration{Name: name, URL: "http://192.0.2.1/mcp", Token: "shown-to-the-agent", Owner: "ann", TokenID: "t_ann", Life: time.Minute}
}

func add(t *testing.T, d *desk, r registration.Registration, lease string) *registration.Registration {
	t.Helper()
	got, err := d.Add(t.Context(), r, lease)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func is(err error, kind fault.Kind) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return ok && f.Kind == kind
}

// What is true of registrations in memory and of those that two books share.
func TestRegistrations(t *testing.T) {
	for name, shared := range map[string]bool{"in memory": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a, b *desk
			if shared {
				s := storetest.StartServer(t)
				a, b = open(t, s), open(t, s)
			} else {
				a = open(t, nil)
				b = a
			}
			if a.Shared() != shared {
				t.Fatal("it does not say whether it is shared")
			}
			one := add(t, a, agent("one"), "")
			if !a.serves("one") {
				t.Error("it does not count when Add has returned")
			}
			if _, err := b.Add(t.Context(), agent("one"), ""); !is(err, fault.Denied) {
				t.Errorf("a second of that name: %v", err)
			}
			for what, err := range map[string]error{
				"another lease":  second(b.Renew(t.Context(), "one", "ann", "x")),
				"another owner":  second(b.Renew(t.Context(), "one", "bob", one.Lease)),
				"another name":   second(b.Renew(t.Context(), "two", "ann", one.Lease)),
				"end of another": b.Remove(t.Context(), "one", "bob", one.Lease),
			} {
				if !is(err, fault.UnknownAgent) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := b.Renew(t.Context(), "one", "ann", one.Lease); err != nil {
				t.Errorf("renewed: %v", err)
			}
			again := add(t, b, agent("one"), one.Lease)
			if again.Lease == one.Lease || !b.serves("one") {
				t.Error("registered again, it has its old lease, or does not count")
			}
			if _, err := a.Renew(t.Context(), "one", "ann", one.Lease); !is(err, fault.UnknownAgent) {
				t.Errorf("the lease before: %v", err)
			}
			if err := a.Remove(t.Context(), "one", "ann", again.Lease); err != nil || a.serves("one") {
				t.Errorf("removed: %v", err)
			}
			if _, err := b.Renew(t.Context(), "one", "ann", again.Lease); !is(err, fault.UnknownAgent) {
				t.Errorf("after its end: %v", err)
			}
			await.Until(t, "it counts nowhere", func() bool { return !b.serves("one") })

			short := agent("short")
			short.Life = 20 * time.Millisecond
			add(t, a, short, "")
			await.Until(t, "its lease ends", func() bool { return !a.serves("short") && !b.serves("short") })
			add(t, b, agent("short"), "") // its name is free

			add(t, a, agent("two"), "")
			if err := b.Forget(t.Context(), "ann"); err != nil || b.serves("two") || b.serves("short") {
				t.Errorf("what ann had: %v", err)
			}
			await.Until(t, "that is forgotten everywhere", func() bool { return !a.serves("two") })

			for i := range 3 {
				add(t, a, agent(fmt.Sprint("n", i)), "")
			}
			if _, err := b.Add(t.Context(), agent("n3"), ""); !is(err, fault.Limit) {
				t.Errorf("more than one may have: %v", err)
			}
			owner := func(name string) registration.Registration {
				r := agent(name)
				r.Owner, r.TokenID = "local", ""
				return r
			}
			add(t, b, owner("n3"), "")
			add(t, b, owner("n4"), "")
			if _, err := a.Add(t.Context(), owner("n5"), ""); !is(err, fault.Limit) {
				t.Errorf("more than there may be: %v", err)
			}
			if err := a.Remove(t.Context(), "n0", "ann", a.Known("n0").Lease); err != nil {
				t.Fatal(err)
			}
			a.mu.Lock()
			a.settle = func(name string) error { return errors.New("no") }
			a.mu.Unlock()
			if _, err := a.Add(t.Context(), agent("n5"), ""); err == nil || a.Known("n5") != nil {
				t.Errorf("one that cannot be served stays: %v", err)
			}
		})
	}
}

func second(_ *registration.Registration, err error) error { return err }

// Of those who register at two hubs at the same time, one has the name, and no
// more are registered than may be.
func TestRegisteredAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.StartServer(t)
	desks := []*desk{open(t, s), open(t, s)}
	for round := range 8 {
		var names, bound atomic.Int32
		var wg sync.WaitGroup
		for i, d := range []*desk{desks[0], desks[1], desks[0], desks[1]} {
			wg.Go(func() {
				r := agent("same")
				r.Owner = fmt.Sprint("owner", i)
				switch _, err := d.Add(t.Context(), r, ""); {
				case err == nil:
					names.Add(1)
				case !is(err, fault.Denied):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if names.Load() != 1 {
			t.Fatalf("round %d: %d have the name", round, names.Load())
		}
		for i := range 6 {
			wg.Go(func() {
				switch _, err := desks[i%2].Add(t.Context(), agent(fmt.Sprint("n", i)), ""); {
				case err == nil:
					bound.Add(1)
				case !is(err, fault.Limit):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if bound.Load() != 3 {
			t.Fatalf("round %d: %d are registered, want 3", round, bound.Load())
		}
		for _, owner := range []string{"ann", "owner0", "owner1", "owner2", "owner3"} {
			if err := desks[round%2].Forget(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A renewal is written when less than the lease is left, and not before.
func TestRenewalsAreWrittenWhenTheyMustBe(t *testing.T) {
	t.Parallel()
	s := storetest.StartServer(t)
	a, b := open(t, s), open(t, s)
	r := agent("worker")
	first := add(t, a, r, "")
	for range 5 {
		got, err := b.Renew(t.Context(), "worker", "ann", first.Lease)
		if err != nil || !got.Ends.Equal(first.Ends) {
			t.Fatalf("a lease that has just begun was written again, or not renewed: %v", err)
		}
	}
	r.Life = 2 * time.Second
	short := add(t, a, r, first.Lease)
	await.Until(t, "a renewal at the other hub is written", func() bool {
		asked := time.Now()
		got, err := b.Renew(t.Context(), "worker", "ann", short.Lease)
		if is(err, fault.UnknownAgent) && time.Now().After(short.Ends) { // on a busy machine
			short = add(t, a, r, "")
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.Ends.Before(asked.Add(r.Life)) {
			t.Fatalf("renewed, the lease lasts %v only", got.Ends.Sub(asked))
		}
		return got.Ends.After(short.Ends)
	})
	await.Until(t, "all know", func() bool { k := a.Known("worker"); return k != nil && k.Ends.After(short.Ends) })
}

// Whose registrations are not valid any more has none, and their names are free.
func TestInvalid(t *testing.T) {
	t.Parallel()
	s := storetest.StartServer(t)
	a, b := open(t, s), open(t, s)
	add(t, a, agent("worker"), "")
	await.Until(t, "all know", func() bool { return b.serves("worker") })
	no := func(r *registration.Registration) bool { return r.Owner != "ann" }
	a.valid.Store(&no)
	b.valid.Store(&no)
	await.Until(t, "it counts nowhere", func() bool { return !a.serves("worker") && !b.serves("worker") })
	if c := open(t, s); !c.serves("worker") {
		t.Error("one who thinks otherwise does not know it")
	}
	bobs := agent("worker")
	bobs.Owner, bobs.TokenID = "bob", "t_bob"
	add(t, b, bobs, "")
	await.Until(t, "the name is another's", func() bool { return a.serves("worker") && a.Known("worker").Owner == "bob" })
}

// Who opens the book later knows what there is, and what ended meanwhile is not
// there. Nothing of it can be read in the store.
func TestOpenedLater(t *testing.T) {
	t.Parallel()
	s := storetest.StartServer(t)
	a := open(t, s)
	r := add(t, a, agent("worker"), "")
	a.Close()
	if b := open(t, s); !b.serves("worker") || b.Known("worker").Lease != r.Lease {
		t.Error("it is not known")
	}
	raw := string(storetest.Raw(t, s.URL))
	if !strings.Contains(raw, "bucket_agents.") {
		t.Fatal("nothing is kept")
	}
	for _, secret := range []string{"worker", "192.0.2.1", "shown-to-the-agent", "ann", r.Lease} {
		if strings.Contains(raw, secret) {
			t.Errorf("the store shows %q", secret)
		}
	}
}

// While the store is away nothing is promised, and nothing is lost.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s := storetest.StartServer(t)
	a, b := open(t, s), open(t, s)
	r := add(t, a, agent("worker"), "")
	await.Until(t, "all know", func() bool { return b.serves("worker") })
	s.Kill()
	for what, err := range map[string]error{
		"renew": second(b.Renew(t.Context(), "worker", "ann", r.Lease)),
		"end":   b.Remove(t.Context(), "worker", "ann", r.Lease),
		"add":   second(b.Add(t.Context(), agent("other"), "")),
	} {
		if !is(err, fault.Storage) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !a.serves("worker") || !b.serves("worker") {
		t.Error("it is gone while the store is away")
	}
	s.Restart(t)
	await.NoError(t, "it is renewed", func() error { return second(b.Renew(t.Context(), "worker", "ann", r.Lease)) })
	await.NoError(t, "it is ended", func() error { return b.Remove(t.Context(), "worker", "ann", r.Lease) })
	await.Until(t, "it counts nowhere", func() bool { return !a.serves("worker") && !b.serves("worker") })
}
