package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestAppendAndRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		start := time.Now().Add(-time.Minute)
		one, err := l.Append(ctx, "evt.a.x", []byte("one"), 0)
		if err != nil || one != 1 {
			t.Fatal(one, err)
		}
		two, err := l.AppendAny(ctx, "evt.b.x", nil)
		if err != nil || two != 2 {
			t.Fatal(two, err)
		}
		three, err := l.Append(ctx, "evt.a.y", []byte{0, 255, '\n'}, 0)
		if err != nil || three != 3 {
			t.Fatal(three, err)
		}
		e, err := l.Read(ctx, 3)
		if err != nil || e.Subject != "evt.a.y" || !bytes.Equal(e.Data, []byte{0, 255, '\n'}) || e.Time.Before(start) || e.Seq != 3 {
			t.Errorf("%+v, %v", e, err)
		}
		if e, err = l.Last(ctx, "evt.a.x"); err != nil || e.Seq != 1 || string(e.Data) != "one" {
			t.Errorf("%+v, %v", e, err)
		}
		if e, err = l.Last(ctx, "evt.a.>"); err != nil || e.Seq != 3 {
			t.Errorf("%+v, %v", e, err)
		}
		for _, seq := range []uint64{0, 4, 1 << 40} {
			if _, err := l.Read(ctx, seq); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("read %d: %v", seq, err)
			}
		}
		if _, err := l.Last(ctx, "evt.nobody"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestConflict(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		for i := range uint64(3) {
			if _, err := l.Append(ctx, "evt.a", nil, i); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			subject      string
			expect, last uint64
		}{{"evt.a", 0, 3}, {"evt.a", 2, 3}, {"evt.a", 9, 3}, {"evt.b", 1, 0}} {
			_, err := l.Append(ctx, tc.subject, nil, tc.expect)
			c, ok := errors.AsType[*store.Conflict](err)
			if want := (store.Conflict{Subject: tc.subject, Expected: tc.expect, Last: tc.last}); !ok || *c != want {
				t.Errorf("%+v: %v", tc, err)
			}
		}
		if seqs, _ := entries(t, l, "", 0); len(seqs) != 3 {
			t.Errorf("an append that failed left something: %v", seqs)
		}
		if s.State() != nil {
			t.Error(s.State())
		}
	})
}

// Many write to one aggregate; each decision is made on what it had seen.
func TestConcurrentAppenders(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		const writers, each = 6, 20
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				var last uint64
				for i := 0; i < each; {
					seq, err := l.Append(ctx, "evt.a", fmt.Appendf(nil, "%d.%d after %d", w, i, last), last)
					if c, ok := errors.AsType[*store.Conflict](err); ok {
						if c.Last == last {
							t.Errorf("a conflict with what was expected: %v", c)
							return
						}
						last = c.Last
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					last, i = seq, i+1
				}
			})
		}
		all.Wait()
		seqs, data := entries(t, l, "evt.a", 0)
		if len(seqs) != writers*each {
			t.Fatalf("%d entries", len(seqs))
		}
		before := uint64(0)
		for i, d := range data {
			if !strings.HasSuffix(d, fmt.Sprintf(" after %d", before)) {
				t.Errorf("%d: %s, though %d was before it", seqs[i], d, before)
			}
			before = seqs[i]
		}
	})
}

func TestTooLarge(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		if _, err := l.AppendAny(ctx, "evt.a", make([]byte, store.MaxEntry)); err != nil {
			t.Errorf("the largest entry: %v", err)
		}
		_, err := l.AppendAny(ctx, "evt.a", make([]byte, store.MaxEntry+1))
		if !fault.Is(err, fault.Limit) || !strings.Contains(err.Error(), "524288") || fault.Of(err).Advice() == "" {
			t.Error(err)
		}
		if e, err := l.Last(ctx, "evt.a"); err != nil || e.Seq != 1 || len(e.Data) != store.MaxEntry {
			t.Errorf("%d, %v", e.Seq, err)
		}
	})
}

// What is deleted twice, as two hubs do that keep the same, is not found the
// second time, wherever in the log it was.
func TestDeleteTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		for i := range 9 {
			if _, err := l.AppendAny(ctx, "evt.a.x", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, seq := range []uint64{1, 5, 2, 9} {
			if err := l.Delete(ctx, seq); err != nil {
				t.Errorf("%d: %v", seq, err)
			}
			if err := l.Delete(ctx, seq); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%d a second time: %v", seq, err)
			}
		}
		if err := l.Delete(ctx, 77); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("what never was: %v", err)
		}
	})
}

func TestScan(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		if seqs, _ := entries(t, l, "", 0); len(seqs) != 0 {
			t.Error(seqs)
		}
		for i := range 9 {
			if _, err := l.AppendAny(ctx, fmt.Sprintf("evt.%c.x", 'a'+i%3), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, seq := range []uint64{4, 9} {
			if err := l.Delete(ctx, seq); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Delete(ctx, 4); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		for _, tc := range []struct {
			filter string
			from   uint64
			want   []uint64
		}{
			{"", 0, []uint64{1, 2, 3, 5, 6, 7, 8}}, {">", 4, []uint64{5, 6, 7, 8}}, {"evt.a.*", 0, []uint64{1, 7}},
			{"evt.c.x", 3, []uint64{3, 6}}, {"evt.c.x", 7, nil}, {"evt.d.x", 0, nil}, {"", 100, nil},
		} {
			if seqs, _ := entries(t, l, tc.filter, tc.from); !cmp.Equal(seqs, tc.want) {
				t.Errorf("%s from %d: %v", tc.filter, tc.from, seqs)
			}
		}
		two := openLog(t, s, store.LogOptions{Name: "two", Subjects: []string{"x.>", "y"}})
		for _, subject := range []string{"x.1", "y", "x.2"} {
			if _, err := two.AppendAny(ctx, subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := two.Purge(ctx, "x.2"); err != nil {
			t.Fatal(err)
		}
		if seqs, _ := entries(t, two, "", 0); !cmp.Equal(seqs, []uint64{1, 2}) {
			t.Errorf("of two kinds, the last being purged: %v", seqs)
		}
		enough := errors.New("enough")
		n := 0
		if err := l.Scan(ctx, "", 0, func(store.Entry) error { n++; return enough }); !errors.Is(err, enough) || n != 1 {
			t.Error(n, err)
		}
	})
}

func TestScanMany(t *testing.T) {
	n := 5_000
	if os.Getenv("STOA_SOAK") == "1" {
		n = 100_000
	}
	s := storetest.Open(t, store.Options{})
	l := openLog(t, s, store.LogOptions{Name: "many", Subjects: []string{"many.>"}, Async: true})
	ctx := ctxFor(t, 100*time.Second)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := w; i < n; i += 8 {
				if _, err := l.AppendAny(ctx, fmt.Sprintf("many.%d", i%100), fmt.Appendf(nil, "value %d", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	start := time.Now()
	next := uint64(1)
	seen := make([]bool, n)
	err := l.Scan(ctx, "", 0, func(e store.Entry) error {
		var i int
		if _, err := fmt.Sscanf(string(e.Data), "value %d", &i); err != nil || e.Seq != next || seen[i] || e.Subject != fmt.Sprintf("many.%d", i%100) {
			return fmt.Errorf("entry %d (%s %q) comes after %d: %w", e.Seq, e.Subject, e.Data, next-1, err)
		}
		seen[i] = true
		next++
		return nil
	})
	if err != nil || next != uint64(n)+1 {
		t.Fatal(next, err)
	}
	t.Logf("%d entries scanned in %v", n, time.Since(start))
	count := 0
	if err := l.Scan(ctx, "many.7", 0, func(store.Entry) error { count++; return nil }); err != nil || count != n/100 {
		t.Error(count, err)
	}
}

func TestTail(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, cancel := context.WithCancel(ctxFor(t, 60*time.Second))
		defer cancel()
		l := evt(t, s)
		for i := range 5 {
			if _, err := l.AppendAny(ctx, "evt.a", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan uint64, 100)
		done := make(chan error, 1)
		go func() {
			done <- l.Tail(ctx, "evt.a", 3, func(e store.Entry) error { got <- e.Seq; return nil })
		}()
		for i := range 5 {
			for _, subject := range []string{"evt.b", "evt.a"} {
				if _, err := l.AppendAny(ctx, subject, fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, want := range []uint64{3, 4, 5, 7, 9, 11, 13, 15} {
			select {
			case seq := <-got:
				if seq != want {
					t.Fatalf("%d, want %d", seq, want)
				}
			case <-ctx.Done():
				t.Fatalf("%d did not come", want)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		enough := errors.New("enough")
		if err := l.Tail(ctxFor(t, patience), "", 1, func(store.Entry) error { return enough }); !errors.Is(err, enough) {
			t.Error(err)
		}
	})
}

func TestPurge(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		l := evt(t, s)
		payload := make([]byte, 10_000)
		for i := range 60 {
			if _, err := l.AppendAny(ctx, fmt.Sprintf("evt.%c.x", 'a'+i%2), payload); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.PurgeBefore(ctx, "evt.a.x", 57); err != nil {
			t.Fatal(err)
		}
		if seqs, _ := entries(t, l, "evt.a.>", 0); !cmp.Equal(seqs, []uint64{57, 59}) {
			t.Error(seqs)
		}
		if err := l.PurgeBefore(ctx, "evt.b.x", 58); err != nil {
			t.Fatal(err)
		}
		if seqs, _ := entries(t, l, "", 0); !cmp.Equal(seqs, []uint64{57, 58, 59, 60}) {
			t.Error(seqs)
		}
		if err := l.Purge(ctx, "evt.b.>"); err != nil {
			t.Fatal(err)
		}
		if err := l.Purge(ctx, "evt.nobody"); err != nil {
			t.Errorf("purge nothing: %v", err)
		}
		if u, err := l.Usage(ctx); err != nil || u.Entries != 2 || u.Bytes > 25_000 || u.Last != 60 || u.Subjects != 1 {
			t.Errorf("%+v, %v", u, err)
		}
		if err := l.Purge(ctx, ""); err != nil {
			t.Fatal(err)
		}
		// Sequences go on; an aggregate that was purged begins anew.
		if seq, err := l.Append(ctx, "evt.a.x", nil, 0); err != nil || seq != 61 {
			t.Error(seq, err)
		}
	})
}

func TestBounds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := ctxFor(t, 60*time.Second)
		o := store.LogOptions{Name: "events", Subjects: []string{"events"}, MaxBytes: 100_000, PerSubject: 50, Async: true}
		l := openLog(t, s, o)
		for range 100 {
			if _, err := l.AppendAny(ctx, "events", make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		if u, err := l.Usage(ctx); err != nil || u.Entries != 50 || u.Last != 100 {
			t.Errorf("%+v, %v", u, err)
		}
		o.MaxBytes, o.PerSubject = 20_000, 0
		l = openLog(t, s, o)
		if u, err := l.Usage(ctx); err != nil || u.Entries > 20 || u.Entries == 0 || u.Last != 100 {
			t.Errorf("after its bounds were changed: %+v, %v", u, err)
		}
		if _, err := l.AppendAny(ctx, "other", nil); err == nil {
			t.Error("a subject that is not the log's was taken")
		}
	})
}

// A scan may take longer than an operation, if who reads needs that long: only a
// silent engine ends it.
func TestScanOutlastsASlowReader(t *testing.T) {
	t.Parallel()
	const n, each = 40, 80 * time.Millisecond
	l := evt(t, storetest.Open(t, store.Options{Dir: t.TempDir(), Timeout: n * each * 9 / 10}))
	for range n {
		if _, err := l.AppendAny(t.Context(), "evt.a", nil); err != nil {
			t.Fatal(err)
		}
	}
	read := 0
	if err := l.Scan(t.Context(), "", 1, func(store.Entry) error {
		read++
		<-time.After(each)
		return nil
	}); err != nil || read != n {
		t.Errorf("%d entries, %v", read, err)
	}
}
