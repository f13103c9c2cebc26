package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func bucket(t testing.TB, s *store.Store, o store.BucketOptions) *store.Bucket {
	t.Helper()
	b, err := s.Bucket(ctxFor(t, patience), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucket(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		b := bucket(t, s, store.BucketOptions{Name: "leases"})
		if _, err := b.Get(ctx, "a.b"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		one, err := b.Create(ctx, "a.b", []byte("1"), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Create(ctx, "a.b", []byte("x"), 0)
		if c, ok := errors.AsType[*store.Conflict](err); !ok || c.Last != one || c.Subject != "a.b" {
			t.Error(err)
		}
		two, err := b.Update(ctx, "a.b", []byte("2"), one, 0)
		if err != nil || two <= one {
			t.Error(two, err)
		}
		_, err = b.Update(ctx, "a.b", []byte("x"), one, 0)
		if c, ok := errors.AsType[*store.Conflict](err); !ok || c.Last != two {
			t.Error(err)
		}
		if v, err := b.Get(ctx, "a.b"); err != nil || string(v.Data) != "2" || v.Rev != two || v.Key != "a.b" {
			t.Errorf("%+v, %v", v, err)
		}
		if err := b.Delete(ctx, "a.b", one); err == nil {
			t.Error("an old revision was deleted")
		}
		if err := b.Delete(ctx, "a.b", two); err != nil {
			t.Error(err)
		}
		if _, err := b.Get(ctx, "a.b"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		if rev, err := b.Create(ctx, "a.b", []byte("3"), 0); err != nil || rev <= two {
			t.Errorf("create what was deleted: %d, %v", rev, err)
		}
		if err := b.Delete(ctx, "nobody", 0); err != nil {
			t.Error(err)
		}
		for _, key := range []string{"", "a..b", "*", "a.>", "a b", "."} {
			if _, err := b.Put(ctx, key, nil, 0); err == nil {
				t.Errorf("%q was a key", key)
			}
		}
	})
}

func TestOneCreates(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		b := bucket(t, s, store.BucketOptions{Name: "leases"})
		var mu sync.Mutex
		won := 0
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				_, err := b.Create(ctx, "lease", fmt.Append(nil, i), 0)
				_, lost := errors.AsType[*store.Conflict](err)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !lost {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won != 1 {
			t.Errorf("%d have the lease", won)
		}
	})
}

func TestExpiry(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		b := bucket(t, s, store.BucketOptions{Name: "leases"})
		gone := make(chan store.Value, 10)
		current := make(chan struct{})
		watch, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			done <- b.Watch(watch, "", func() { close(current) }, func(v store.Value) error {
				if v.Deleted {
					gone <- v
				}
				return nil
			})
		}()
		<-current
		rev, err := b.Create(ctx, "short", []byte("x"), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(ctx, "long", []byte("x"), time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(ctx, "short"); err != nil {
			t.Error(err)
		}
		// A lease that is renewed lives on, one that is not ends.
		if rev, err = b.Update(ctx, "short", []byte("y"), rev, time.Second); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the lease is over", func() bool {
			_, err := b.Get(ctx, "short")
			return errors.Is(err, store.ErrNotFound)
		})
		if v := <-gone; v.Key != "short" || v.Rev <= rev {
			t.Errorf("%+v", v)
		}
		if _, err := b.Create(ctx, "short", []byte("z"), 0); err != nil {
			t.Errorf("take a lease that was over: %v", err)
		}
		if _, err := b.Get(ctx, "long"); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestWatch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, cancel := context.WithCancel(ctxFor(t, 60*time.Second))
		defer cancel()
		b := bucket(t, s, store.BucketOptions{Name: "state"})
		put := func(key, value string) {
			t.Helper()
			if _, err := b.Put(ctx, key, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
		put("up.a", "1")
		put("up.a", "2")
		put("up.b", "1")
		put("other.c", "1")
		if err := b.Delete(ctx, "up.b", 0); err != nil {
			t.Fatal(err)
		}
		seen := make(chan string, 100)
		done := make(chan error, 1)
		go func() {
			done <- b.Watch(ctx, "up", func() { seen <- "current" }, func(v store.Value) error {
				seen <- fmt.Sprintf("%s=%s %v", v.Key, v.Data, v.Deleted)
				return nil
			})
		}()
		var got []string
		next := func(n int) {
			for range n {
				select {
				case v := <-seen:
					got = append(got, v)
				case <-ctx.Done():
					t.Fatalf("no more came after %v", got)
				}
			}
		}
		next(2)
		put("other.c", "2")
		put("up.d.e", "1")
		if err := b.Delete(ctx, "up.a", 0); err != nil {
			t.Fatal(err)
		}
		next(2)
		if want := []string{"up.a=2 false", "current", "up.d.e=1 false", "up.a= true"}; !cmp.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		cancel()
		<-done
	})
}
