package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func work(t testing.TB, s *store.Store, o store.WorkOptions) *store.Work {
	t.Helper()
	o.Name, o.Subjects = "task", []string{"task.>"}
	w, err := s.Work(ctxFor(t, 20*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWork(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		w := work(t, s, store.WorkOptions{})
		for i := range 3 {
			if added, err := w.Add(ctx, "task.a", fmt.Append(nil, i), fmt.Sprint("id", i)); err != nil || !added {
				t.Fatal(added, err)
			}
		}
		if added, err := w.Add(ctx, "task.a", nil, "id1"); err != nil || added {
			t.Errorf("the same item twice: %v, %v", added, err)
		}
		if _, err := w.Add(ctx, "task.b", []byte("b"), ""); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			it, err := w.Take(ctx, "task.a")
			if err != nil || string(it.Data) != fmt.Sprint(i) || it.Deliveries != 1 || it.Subject != "task.a" {
				t.Fatalf("%+v, %v", it, err)
			}
			if err := it.InProgress(); err != nil {
				t.Error(err)
			}
			if err := it.Ack(ctx); err != nil {
				t.Error(err)
			}
		}
		await.Until(t, "one is left", func() bool { n, err := w.Pending(ctx); return err == nil && n == 1 })
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if it, err := w.Take(short, "task.a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", it, err)
		}
		if it, err := w.Take(ctx, "task.b"); err != nil || string(it.Data) != "b" {
			t.Errorf("%+v, %v", it, err)
		} else if err := it.Term(); err != nil {
			t.Error(err)
		}
		await.Until(t, "the queue is empty", func() bool { n, err := w.Pending(ctx); return err == nil && n == 0 })
	})
}

func TestRedelivery(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		dead := make(chan store.Dead, 1)
		w := work(t, s, store.WorkOptions{MaxDeliver: 3, AckWait: 300 * time.Millisecond, Exhausted: func(d store.Dead) error { dead <- d; return nil }})
		if _, err := w.Add(ctx, "task.a", []byte("poison"), ""); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			it, err := w.Take(ctx, "task.>")
			if err != nil || it.Deliveries != i+1 {
				t.Fatalf("%+v, %v", it, err)
			}
			if i == 1 { // the others are forgotten, as by a taker that died
				if err := it.Nak(10 * time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := w.Add(ctx, "task.b", []byte("good"), ""); err != nil {
			t.Fatal(err)
		}
		it, err := w.Take(ctx, "task.>")
		if err != nil || string(it.Data) != "good" {
			t.Fatalf("%+v, %v", it, err)
		}
		if err := it.Ack(ctx); err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		for len(dead) == 0 {
			if it, err := w.Take(short, "task.>"); err == nil {
				t.Fatalf("handed out again: %+v", it)
			} else if short.Err() != nil {
				break
			}
		}
		if d := <-dead; string(d.Data) != "poison" || d.Deliveries != 3 {
			t.Errorf("%+v", d)
		}
		await.Until(t, "the queue is empty", func() bool { n, err := w.Pending(ctx); return err == nil && n == 0 })
	})
}

func TestManyTakers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, cancel := context.WithCancel(ctxFor(t, 60*time.Second))
		w := work(t, s, store.WorkOptions{})
		const items = 100
		var mu sync.Mutex
		seen := map[string]int{}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				for {
					it, err := w.Take(ctx, "task.a")
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					seen[string(it.Data)]++
					mu.Unlock()
					if err := it.Ack(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range items {
			if _, err := w.Add(ctx, "task.a", fmt.Append(nil, i), ""); err != nil {
				t.Fatal(err)
			}
		}
		await.Until(t, "all is done", func() bool { n, err := w.Pending(ctx); return err == nil && n == 0 })
		cancel()
		all.Wait()
		for i := range items {
			if n := seen[fmt.Sprint(i)]; n != 1 {
				t.Errorf("item %d was done %d times", i, n)
			}
		}
	})
}
