package session

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func suiteEnd(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{})
	before, blobs := usage(t, r)
	var told []Change
	r.Watch(func(c Change) { told = append(told, c) })
	s := bind(t, r, "p", "end")
	store1(t, s, "v", "1")
	store1(t, s, "v", text(700_000, 1))
	if err := r.Remove(ctx, s); err != nil {
		t.Fatal(err)
	}
	if len(told) != 4 || !told[0].Opened || !told[1].Listed || told[2].Listed || told[2].Value != "v" || !told[3].Ended || told[3].Session.ID() != s.ID() {
		t.Errorf("told: %+v", told)
	}
	if r.Find("p", "end") != nil || len(r.All(func(p string) bool { return true })) != len(reopened(t, st, r).All(func(string) bool { return true })) {
		t.Error("it is still there")
	}
	// What other tests left to be removed may have gone meanwhile.
	shrinks(t, r, before.Entries, blobs.Entries)
	// Who still has it in hand begins anew.
	if v := store1(t, s, "v", "2"); v.Version != 1 {
		t.Errorf("%+v", v)
	}
	holds(t, s, "v", "2")
	holds(t, bind(t, reopened(t, st, r), "p", "end"), "v", "2")
	if err := r.Remove(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(ctx, s); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

func suiteExpiry(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	o := Options{Timeout: time.Hour}
	r := registry(t, st, o)
	for _, s := range r.each() { // of other tests
		insist(t, func() error { return r.Remove(ctx, s) })
	}
	idle, held, busy := bind(t, r, "p", "idle"), bind(t, r, "p", "held"), bind(t, r, "p", "busy")
	for _, s := range []*Session{idle, held, busy} {
		store1(t, s, "v", `"x"`)
		store1(t, s, "big", text(600_000, 1))
	}
	release := bind(t, r, "p", "held").Hold()
	later := time.Now().Add(61*time.Minute + r.unseen(&o))
	r.find(busy.key()).usedAt(later.Add(-5 * time.Minute)) // as if it had been in use
	sweep(t, r, later, 2)
	if r.Find("p", "idle") != nil {
		t.Error("an idle session is still there")
	}
	if r.find(held.key()) == nil || r.find(busy.key()) == nil {
		t.Error("a session in use is gone")
	}
	// That it was in use is known after a restart, and not for ever.
	r2 := reopened(t, st, r)
	sweep(t, r2, later.Add(30*time.Minute), 1)
	if r2.find(busy.key()) == nil {
		t.Error("a session that was in use before the restart has expired")
	}
	if r2.find(held.key()) != nil { // nobody holds it any more
		t.Error("a session that was held before the restart is still there")
	}
	sweep(t, r2, later.Add(2*time.Hour), 0)
	release()
	if n := len(r2.each()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	shrinks(t, r2, 0, 0)
}

// insist does something until the store, which may be in trouble, lets it.
func insist(t *testing.T, do func() error) {
	t.Helper()
	await.Until(t, "the store does it", func() bool {
		err := do()
		if err != nil && !fault.Is(err, fault.Storage) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// sweep sweeps until so many sessions are left, which takes once if the store
// is not in trouble.
func sweep(t *testing.T, r *Registry, at time.Time, left int) {
	t.Helper()
	await.Until(t, fmt.Sprint(left, " sessions are left"), func() bool {
		r.Sweep(ctxFor(t, 60*time.Second), at)
		return len(r.each()) == left
	})
}

// Released, it has the whole time again.
func TestHold(t *testing.T) {
	r := registry(t, storetest.Open(t, store.Options{}), Options{Timeout: time.Hour})
	ctx := ctxFor(t, patience)
	s := bind(t, r, "p", "s")
	// Held by a handle that never becomes the session itself.
	other := bind(t, r, "p", "s")
	one, two := other.Hold(), s.Hold()
	store1(t, s, "v", "1")
	if !s.Info().Held {
		t.Error("it is not said to be held")
	}
	home := r.find(s.key())
	home.used.Store(time.Now().Add(-2 * time.Hour).UnixNano())
	r.Sweep(ctx, time.Now())
	one()
	one() // counts once
	home.used.Store(time.Now().Add(-2 * time.Hour).UnixNano())
	r.Sweep(ctx, time.Now())
	holds(t, s, "v", "1")
	two()
	r.Sweep(ctx, time.Now())
	holds(t, s, "v", "1")
	if s.Info().Held {
		t.Error("it is said to be held")
	}
	r.Sweep(ctx, time.Now().Add(2*time.Hour))
	if _, err := s.Value("v"); err == nil {
		t.Error("it does not expire")
	}
}

// Uses are told to the log now and then, in one entry at a time.
func TestTouched(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{Timeout: time.Hour})
	ctx := ctxFor(t, patience)
	s := bind(t, r, "p", "s")
	store1(t, s, "v", "1")
	now := time.Now()
	for i := range 100 {
		now = now.Add(10 * time.Minute)
		r.find(s.key()).usedAt(now)
		r.Sweep(ctx, now.Add(time.Second))
		if i == 0 {
			if u, _ := usage(t, r); u.Entries != 2 {
				t.Errorf("%d entries: a use within a quarter of the time-out was noted", u.Entries)
			}
		}
	}
	await.Until(t, "one entry tells of the last use", func() bool { u, _ := usage(t, r); return u.Entries == 3 })
	again := reopened(t, st, r)
	if got := bind(t, again, "p", "s").home().state.active; now.Sub(got) > 15*time.Minute {
		t.Errorf("used at %v, but the log says %v", now, got)
	}
	again.Close() // else its idea of the time would differ
	r.Sweep(ctx, now.Add(time.Hour+2*time.Second))
	if n := len(r.each()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	shrinks(t, r, 0, 0)
}

// A session that comes and goes, and is written to, all at once: what is
// acknowledged is there, or went with the session after that.
func TestEndWhileWriting(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{Timeout: time.Hour})
	ctx, cancel := context.WithCancel(ctxFor(t, 60*time.Second))
	var wg, ender sync.WaitGroup
	ender.Go(func() {
		for ctx.Err() == nil {
			for _, s := range r.each() {
				s.used.Store(0)
			}
			r.Sweep(ctx, time.Now())
		}
	})
	for g := range 4 {
		wg.Go(func() {
			s := bind(t, r, "p", "s") // kept in hand over all its ends
			for i := range soak(40, 500) {
				data := fmt.Sprint(g*10000 + i)
				if i%10 == 9 {
					data = text(530_000, uint64(g*10000+i))
				}
				v, _, err := s.Put(ctx, New{Name: fmt.Sprint("v", g), Data: []byte(data)})
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				got, err := s.Data(ctx, v)
				if err != nil && !fault.Is(err, fault.BadReference) || err == nil && string(got) != data {
					t.Errorf("%.50s for %.50s, %v", got, data, err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	ender.Wait()
	s := bind(t, r, "p", "s")
	store1(t, s, "last", text(600_000, 1))
	again := reopened(t, st, r)
	for _, v := range must(bind(t, again, "p", "s").Values("")) {
		if _, err := bind(t, again, "p", "s").Data(ctxFor(t, patience), v); err != nil {
			t.Errorf("%s is listed and cannot be read: %v", v.Name, err)
		}
	}
	if err := r.Remove(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	shrinks(t, r, 0, 0)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
