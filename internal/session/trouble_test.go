package session

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// ledger is what a Session must hold while its store is in trouble.
type ledger struct {
	s      *Session
	values map[string]string
	unsure map[string]string // by name, if the last write had no clear end
	n      int
}

// put stores one more value, now and then a large one, and keeps count.
func (l *ledger) put(ctx context.Context) error {
	l.n++
	name := fmt.Sprint("v", l.n%7)
	size := 20_000
	if l.n%5 == 0 {
		size = 700_000
	}
	data := text(size, uint64(l.n))
	_, _, err := l.s.Put(ctx, New{Name: name, Data: []byte(data)})
	if err != nil {
		l.unsure[name] = data
		return err
	}
	delete(l.unsure, name)
	l.values[name] = data
	return nil
}

// check holds a Session to the ledger: each value is what was acknowledged
// last, or what was sent after that, whole.
func (l *ledger) check(ctx context.Context, s *Session) error {
	list, err := s.Values("")
	if err != nil {
		return err
	}
	for _, v := range list {
		data, err := s.Data(ctx, v)
		if err != nil {
			return fmt.Errorf("%s is listed and cannot be read: %w", v.Name, err)
		}
		if string(data) != l.values[v.Name] && string(data) != l.unsure[v.Name] {
			return fmt.Errorf("%s, version %d, has %d bytes that were not the last", v.Name, v.Version, len(data))
		}
	}
	for name := range l.values {
		if _, err := s.Value(name); err != nil {
			return fmt.Errorf("%s was acknowledged: %w", name, err)
		}
	}
	return nil
}

// mustBeRetryable is what a caller has to be told when the store is in trouble.
func mustBeRetryable(err error) error {
	if f := fault.Of(err); err == nil || f.Kind != fault.Storage || !f.Kind.Info().Retryable || f.Advice() == "" {
		return fmt.Errorf("not a clear fault of the store: %w", err)
	}
	return nil
}

// A cluster without a majority: a clear error in bounded time, reads of what is
// in memory go on, nothing is half stored, and it works again by itself.
func TestClusterLost(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	c := storetest.StartCluster(t)
	o := c.Options()
	o.Timeout = 3 * time.Second
	st := storetest.Open(t, o)
	r := registry(t, st, Options{Timeout: time.Hour})
	ctx := ctxFor(t, 3*await.Patience)
	l := &ledger{s: bind(t, r, "p", "s"), values: map[string]string{}, unsure: map[string]string{}}
	for range 10 {
		await.NoError(t, "it is written to", func() error { return l.put(ctx) })
	}
	leader := c.Leader(t, logName)
	c.Kill(leader)
	c.Kill((leader + 1) % 3)
	for range 2 {
		start := time.Now()
		if err := mustBeRetryable(l.put(ctx)); err != nil {
			t.Error(err)
		}
		t.Logf("refused after %v", time.Since(start))
	}
	if err := l.check(ctx, l.s); err != nil {
		t.Errorf("without its store: %v", err)
	}
	r.Sweep(ctx, time.Now().Add(2*time.Hour)) // can end nothing
	if r.Find("p", "s") == nil {
		t.Error("a session ended though that could not be stored")
	}
	c.Restart(t, leader)
	c.Restart(t, (leader+1)%3)
	await.Until(t, "it can be written to again", func() bool { return l.put(ctx) == nil })
	insist(t, func() error { return l.check(ctx, l.s) })
	insist(t, func() error {
		again, err := Open(ctx, st, Options{})
		if err != nil {
			return err
		}
		defer again.Close()
		return l.check(ctx, bind(t, again, "p", "s"))
	})
}

// Whoever asked may go away at any moment; what it asked for is stored whole
// and known, or not at all.
func TestCallerGoesAway(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "s")
	stored := 0
	for i := range 60 {
		ctx, cancel := context.WithCancel(context.Background())
		stop := time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
		_, _, err := s.Put(ctx, New{Name: fmt.Sprint("v", i), Data: []byte(text(1000+i%3*600_000, uint64(i)))})
		stop.Stop()
		cancel()
		if err == nil {
			stored++
			holds(t, s, fmt.Sprint("v", i), text(1000+i%3*600_000, uint64(i)))
		} else if _, err := s.Value(fmt.Sprint("v", i)); err == nil {
			t.Errorf("v%d was refused and is there", i)
		}
	}
	if vs, err := s.Values(""); err != nil || len(vs) != stored {
		t.Errorf("%d values for %d: %v", len(vs), stored, err)
	}
	reopened(t, st, r)
}

// What is acknowledged is one entry, which the store syncs once, and the first
// of a Session one more; a large value is its blob besides. Reading, binding and
// what changes nothing write nothing.
func TestOneEntryPerWrite(t *testing.T) {
	r := registry(t, storetest.Open(t, store.Options{}), Options{Timeout: time.Hour})
	ctx := ctxFor(t, patience)
	s := bind(t, r, "p", "s")
	last := func() uint64 { u, _ := usage(t, r); return u.Last }
	for i, step := range []struct {
		entries uint64
		do      func() error
	}{
		{0, func() error { r.Sweep(ctx, time.Now()); return nil }},
		{0, func() error { _, err := s.Values(""); return err }},
		{2, func() error { store1(t, s, "v", "1"); return nil }},
		{1, func() error { store1(t, s, "v", "1"); return nil }},
		{1, func() error { store1(t, s, "big", text(600_000, 1)); return nil }},
		{1, func() error { return s.Remove(ctx, "v") }},
		{1, func() error { return s.Switch(ctx, "m", true) }},
		{0, func() error { return s.Switch(ctx, "m", true) }},
		{0, func() error { holds(t, s, "big", text(600_000, 1)); return nil }},
		{0, func() error { r.Sweep(ctx, time.Now()); return nil }},
		{1, func() error { return r.Remove(ctx, s) }},
		{0, func() error { return r.Remove(ctx, s) }},
	} {
		before := last()
		if err := step.do(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if n := last() - before; n != step.entries {
			t.Errorf("step %d wrote %d entries, want %d", i, n, step.entries)
		}
	}
}
