package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func openValues(t *testing.T, s *store.Store, name string) *journal.Values[int] {
	t.Helper()
	v, err := store.Values(t.Context(), s, store.BucketOptions{Name: name}, journal.ValuesOptions[int]{
		Decode: func(data []byte) (n int, err error) { return n, json.Unmarshal(data, &n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func has(v *journal.Values[int], key string) string {
	got, err := v.Get(key)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(got.V)
}

// What earlier hubs put into a bucket is there, what they deleted is not, and
// what is removed since stays so when the values are opened again.
func TestValuesOfABucket(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := context.Background()
		b, err := s.Bucket(ctx, store.BucketOptions{Name: "numbers"})
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range []string{"a.b", "a.c", "gone", "a.b"} {
			if _, err := b.Put(ctx, key, fmt.Append(nil, i), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Delete(ctx, "gone", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Put(ctx, "short", []byte("9"), time.Second); err != nil {
			t.Fatal(err)
		}
		v := openValues(t, s, "numbers")
		if got := has(v, "a.b") + " " + has(v, "a.c") + " " + has(v, "gone"); got != "3 1 none" {
			t.Errorf("the values are %s", got)
		}
		if err := v.Remove(ctx, "a.c"); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Put(ctx, "gone", []byte("7")); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the bucket's own expiry is noticed", func() bool {
			_, err := v.Latest(ctx, "short")
			return errors.Is(err, store.ErrNotFound)
		})
		if _, err := v.PutAfter(ctx, "short", []byte("8"), 0); err != nil {
			t.Error(err)
		}
		again := openValues(t, s, "numbers")
		if got := has(again, "a.b") + " " + has(again, "a.c") + " " + has(again, "gone") + " " + has(again, "short"); got != "3 none 7 8" {
			t.Errorf("opened again, the values are %s", got)
		}
	})
}

// Two hubs on one store agree: what one puts, puts anew and removes the other
// knows at once if it asks for the latest, and soon if it does not.
func TestValuesAreShared(t *testing.T) {
	srv := storetest.StartServer(t)
	var all []*journal.Values[int]
	for range 2 {
		all = append(all, openValues(t, storetest.Open(t, store.Options{URL: srv.URL}), "shared"))
	}
	a, b, ctx := all[0], all[1], t.Context()
	latest := func(v *journal.Values[int], want int) {
		t.Helper()
		got, err := v.Latest(ctx, "k")
		if err != nil || got.V != want {
			t.Fatalf("the latest is %d, %v; want %d", got.V, err, want)
		}
	}
	if _, err := a.Put(ctx, "k", []byte("1")); err != nil {
		t.Fatal(err)
	}
	latest(b, 1)
	if _, err := b.Put(ctx, "k", []byte("2")); err != nil {
		t.Fatal(err)
	}
	latest(a, 2)
	data, rev, err := b.Read(ctx, "k")
	if err != nil || string(data) != "2" {
		t.Fatalf("read %q, %v", data, err)
	}
	if _, err := a.PutAfter(ctx, "k", []byte("3"), rev); err != nil {
		t.Fatal(err)
	}
	var conflict *journal.Conflict
	if _, err := b.PutAfter(ctx, "k", []byte("4"), rev); !errors.As(err, &conflict) {
		t.Fatalf("two put after the same revision: %v", err)
	}
	latest(b, 3)
	if _, err := a.Put(ctx, "other", []byte("5")); err != nil {
		t.Fatal(err)
	}
	if err := b.CatchUp(ctx); err != nil || has(b, "other") != "5" {
		t.Fatalf("after it has caught up, the other knows %s, %v", has(b, "other"), err)
	}
	await.Until(t, "the other knows without asking", func() bool { return has(a, "k") == "3" && has(b, "k") == "3" })
	if err := b.Remove(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Latest(ctx, "k"); !errors.Is(err, journal.ErrNotFound) {
		t.Fatalf("removed there, it is %v, %v here", got, err)
	}
	await.Until(t, "it is gone for both", func() bool { return has(a, "k") == "none" && has(b, "k") == "none" })
	if got := has(openValues(t, storetest.Open(t, store.Options{URL: srv.URL}), "shared"), "k"); got != "none" {
		t.Errorf("after a restart it is %s", got)
	}
}

// Of two hubs that put the same after the same revision one succeeds: the other
// is not told that it was its own.
func TestSameValueOnce(t *testing.T) {
	srv := storetest.StartServer(t)
	var hubs []*journal.Values[int]
	for range 2 {
		hubs = append(hubs, openValues(t, storetest.Open(t, store.Options{URL: srv.URL}), "shared"))
	}
	for round := range 50 {
		key := fmt.Sprint("k", round)
		errs := make(chan error, len(hubs))
		for _, v := range hubs {
			go func() {
				_, err := v.PutAfter(t.Context(), key, []byte("1"), 0)
				errs <- err
			}()
		}
		put := 0
		for range hubs {
			var conflict *journal.Conflict
			switch err := <-errs; {
			case err == nil:
				put++
			case !errors.As(err, &conflict):
				t.Fatal(err)
			}
		}
		if put != 1 {
			t.Fatalf("round %d: %d of 2 have put the value", round, put)
		}
	}
}
