package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// appender appends until its context ends, decides again what is uncertain,
// and keeps what was acknowledged.
type appender struct {
	mu     sync.Mutex
	acked  map[uint64]string
	failed int
}

func (a *appender) run(ctx context.Context, t *testing.T, l *store.Log, subject string) {
	last := uint64(0)
	for i := 0; ctx.Err() == nil; i++ {
		value := fmt.Sprintf("%s %d", subject, i)
		seq, err := l.Append(ctx, subject, []byte(value), last)
		if err != nil && ctx.Err() == nil {
			_, conflict := errors.AsType[*store.Conflict](err)
			if !fault.Is(err, fault.Storage) && !conflict {
				t.Errorf("not a fault of the store: %v", err)
				return
			}
			a.mu.Lock()
			a.failed++
			a.mu.Unlock()
			// It may be there all the same: look.
			if e, err := l.Last(ctx, subject); err == nil {
				last = e.Seq
			}
			continue
		}
		if err == nil {
			a.mu.Lock()
			a.acked[seq] = value
			a.mu.Unlock()
			last = seq
		}
	}
}

func (a *appender) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.acked)
}

func TestLeaderKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	c := storetest.StartCluster(t)
	s := storetest.Open(t, c.Options())
	l := evt(t, s)
	ctx, cancel := context.WithCancel(ctxFor(t, 100*time.Second))
	a := &appender{acked: map[uint64]string{}}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { a.run(ctx, t, l, fmt.Sprintf("evt.%d", i)) })
	}
	var tailed sync.Map
	tail, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		last := uint64(0)
		ended <- l.Tail(tail, "", 0, func(e store.Entry) error {
			if e.Seq <= last {
				return fmt.Errorf("%d comes after %d", e.Seq, last)
			}
			last = e.Seq
			tailed.Store(e.Seq, string(e.Data))
			return nil
		})
	}()
	grows := func(what string) {
		t.Helper()
		n := a.count() + 200
		start := time.Now()
		await.Until(t, what, func() bool { return a.count() >= n })
		t.Logf("%s after %v", what, time.Since(start))
	}
	grows("writes go on")
	leader := c.Leader(t, "evt")
	c.Kill(leader)
	grows("writes resume without the leader")
	c.Restart(t, leader)
	grows("writes go on with the leader back")
	cancel()
	all.Wait()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the tail: %v", err)
	}
	a.same(t, l, &tailed)
}

// same holds the log to what was acknowledged and to what a tail saw.
func (a *appender) same(t *testing.T, l *store.Log, tailed *sync.Map) {
	t.Helper()
	there := map[uint64]string{}
	if err := l.Scan(ctxFor(t, 30*time.Second), "", 0, func(e store.Entry) error { there[e.Seq] = string(e.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	for seq, value := range a.acked {
		if there[seq] != value {
			t.Errorf("entry %d was acknowledged as %q and is %q", seq, value, there[seq])
		}
	}
	t.Logf("%d acknowledged, %d there, %d attempts failed", len(a.acked), len(there), a.failed)
	tailed.Range(func(seq, value any) bool {
		if there[seq.(uint64)] != value {
			t.Errorf("the tail saw %v at %d, the log has %q", value, seq, there[seq.(uint64)])
		}
		return true
	})
}

// A cluster without a majority refuses in bounded time, and recovers by
// itself.
func TestClusterLost(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes seconds to start")
	}
	c := storetest.StartCluster(t)
	told := make(chan error, 100)
	o := c.Options()
	// One that has its time makes the log; the other is soon at the end of it.
	first, err := evt(t, storetest.Open(t, o)).AppendAny(ctxFor(t, await.Patience), "evt.a", []byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout, o.OnState = 2*time.Second, func(err error) { told <- err }
	s := storetest.Open(t, o)
	l := evt(t, s)
	ctx := ctxFor(t, 3*await.Patience)
	await.Until(t, "the store is well", func() bool { return s.State() == nil })
	for len(told) > 0 { // the machine is busy
		<-told
	}
	leader := c.Leader(t, "evt")
	c.Kill(leader)
	c.Kill((leader + 1) % 3)
	var sent []string
	failed := false
	for i := range 3 {
		value := fmt.Sprint("lost ", i)
		within, cancel := context.WithTimeout(ctx, await.Patience)
		_, err := l.AppendAny(within, "evt.a", []byte(value))
		sent = append(sent, value)
		if within.Err() != nil {
			t.Errorf("it waited for as long as its caller: %v", err)
		}
		cancel()
		if err != nil {
			failed = true
			if !fault.Is(err, fault.Storage) {
				t.Errorf("%v", err)
			}
		}
	}
	if !failed || s.State() == nil {
		t.Errorf("no majority, and the state is %v", s.State())
	}
	if err := <-told; !fault.Is(err, fault.Storage) {
		t.Errorf("told: %v", err)
	}
	c.Restart(t, leader)
	c.Restart(t, (leader+1)%3)
	await.Until(t, "the store recovers", func() bool { return s.State() == nil })
	await.Until(t, "it writes", func() bool { _, err := l.AppendAny(ctx, "evt.a", []byte("after")); return err == nil })
	_, data := entries(t, l, "", 0)
	if e, err := l.Read(ctx, first); err != nil || string(e.Data) != "before" || data[0] != "before" {
		t.Errorf("%+v, %v, %v", e, err, data)
	}
	for _, d := range data[1:] {
		if d != "after" && d != sent[0] && d != sent[1] && d != sent[2] {
			t.Errorf("nobody wrote %q", d)
		}
	}
}

func TestServerRestarted(t *testing.T) {
	srv := storetest.StartServer(t)
	s := storetest.Open(t, store.Options{URL: srv.URL})
	l := evt(t, s)
	ctx, cancel := context.WithCancel(ctxFor(t, 3*await.Patience))
	defer cancel()
	tailed := make(chan uint64, 10)
	ended := make(chan error, 1)
	go func() { ended <- l.Tail(ctx, "", 0, func(e store.Entry) error { tailed <- e.Seq; return nil }) }()
	if _, err := l.AppendAny(ctx, "evt.a", nil); err != nil {
		t.Fatal(err)
	}
	if seq := <-tailed; seq != 1 {
		t.Fatal(seq)
	}
	srv.Kill()
	await.Until(t, "the loss is noticed", func() bool { return s.State() != nil })
	within, done := context.WithTimeout(ctx, await.Patience)
	defer done()
	if _, err := l.AppendAny(within, "evt.a", nil); !fault.Is(err, fault.Storage) || within.Err() != nil {
		t.Errorf("%v, with its caller's time: %v", err, within.Err())
	}
	if _, err := l.Read(ctx, 1); !fault.Is(err, fault.Storage) {
		t.Errorf("%v", err)
	}
	srv.Restart(t)
	await.Until(t, "the store recovers", func() bool { return s.State() == nil })
	seq, err := l.AppendAny(ctx, "evt.a", nil)
	if err != nil || seq != 2 {
		t.Fatal(seq, err)
	}
	if seq := <-tailed; seq != 2 {
		t.Errorf("the tail goes on with %d", seq)
	}
	cancel()
	<-ended
}
