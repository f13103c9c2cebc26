package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// heap is what is in use after all that can go has gone.
func heap() int {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A Session at rest, with three values and a history, costs at most 4 KB,
// that of the embedded engine included. Read from the log, none of its data is in
// memory; the bound of that is the cache's.
func TestMemoryAtRest(t *testing.T) {
	const few, many, bar = 100, 1000, 4 << 10
	per := (atRest(t, many) - atRest(t, few)) / (many - few)
	t.Logf("a session of 3 values takes %d bytes", per)
	if per > bar && !raceEnabled { // else it measures the detector
		t.Errorf("a session at rest takes %d bytes, more than %d", per, bar)
	}
}

// atRest is what is in use after so many sessions were read.
func atRest(t *testing.T, n int) int {
	t.Helper()
	dir := t.TempDir()
	fill(t, dir, n)
	st, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), st, Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	inUse := heap()
	if got := len(r.each()); got != n {
		t.Errorf("%d sessions were read", got)
	}
	holds(t, bind(t, r, "p", "s7"), "v1", `{"i":7,"v":1,"version":1}`)
	r.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return inUse
}

// fill stores sessions as registries do, but many at once.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	st, err := store.Open(context.Background(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx := ctxFor(t, 100*time.Second)
	l, err := st.Log(ctx, store.LogOptions{Name: logName, Subjects: []string{"evt.session.>"}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	add := func(id string, e event, data string) {
		e.ID, e.Time = rand.Text()[:16], now
		b, err := e.encode([]byte(data))
		if err == nil {
			_, err = l.AppendAny(ctx, subject(id), b)
		}
		if err != nil {
			t.Error(err)
		}
	}
	one := func(i int) {
		name := fmt.Sprint("s", i)
		id := ID("p", name)
		add(id, event{Kind: opened, Principal: "p", Session: name, Client: []byte(`{"version":"2025-11-25","info":{"name":"client","version":"1"},"capabilities":{}}`)}, "")
		for v := range 3 {
			for version := range 2 {
				data := fmt.Sprintf(`{"i":%d,"v":%d,"version":%d}`, i, v, version)
				value := &Value{Name: fmt.Sprint("v", v), Version: version + 1, Size: len(data), Time: now, By: "client", Description: "a value"}
				value.Type, value.Summary = Describe([]byte(data))
				add(id, event{Kind: put, Value: value}, data)
			}
		}
	}
	var writers sync.WaitGroup
	const many = 32
	for w := range many {
		writers.Go(func() {
			for i := w; i < n && !t.Failed(); i += many {
				one(i)
			}
		})
	}
	writers.Wait()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// The data that is kept in memory is bounded, and what it costs to keep it
// counts.
func TestCacheBound(t *testing.T) {
	c := cache{max: 1 << 20}
	before := heap()
	for i := range 200_000 {
		c.put(place{"s", uint64(i)}, []byte{1})
	}
	grown := heap() - before
	t.Logf("%d bytes for a bound of %d", grown, c.max)
	if grown > 2*c.max && !raceEnabled || c.size > c.max || len(c.m) == 0 {
		t.Errorf("a cache of %d bytes takes %d, says %d", c.max, grown, c.size)
	}
	runtime.KeepAlive(&c)
	c.put(place{"s", 1 << 40}, make([]byte, 1<<19))
	if _, ok := c.get(place{"s", 1 << 40}); ok {
		t.Error("half of the cache went to one")
	}
	c.put(place{"a", 1}, []byte("a"))
	c.put(place{"b", 1}, []byte("b"))
	c.put(place{"b", 1}, []byte("c"))
	if a, _ := c.get(place{"a", 1}); string(a) != "a" {
		t.Errorf("%s", a)
	}
	if b, _ := c.get(place{"b", 1}); string(b) != "c" {
		t.Errorf("%s", b)
	}
}

// BenchmarkRegistryResolve is the stage of a call that resolves three references of
// 1 KB each: held in memory, and read from the store.
func BenchmarkRegistryResolve(b *testing.B) {
	st := storetest.Open(b, store.Options{})
	r := registry(b, st, Options{})
	s := bind(b, r, "p", "s")
	var size int
	for i := range 3 {
		data := text(1024, uint64(i))
		size += len(data)
		store1(b, s, fmt.Sprint("v", i), data)
	}
	args := []byte(`{"first":"@v0","second":["@v1"],"third":{"$ref":"@v2"},"text":"something that stays as it is"}`)
	ctx := context.Background()
	run := func(b *testing.B, before func()) {
		b.ReportAllocs()
		for b.Loop() {
			before()
			out, used, err := r.Resolve(ctx, "p", s, args, 8<<20, nil)
			if err != nil || len(used) != 3 || len(out) < size {
				b.Fatal(err)
			}
		}
	}
	b.Run("held", func(b *testing.B) { run(b, func() {}) })
	b.Run("cold", func(b *testing.B) {
		seqs := []uint64{}
		for _, v := range must(s.Values("")) {
			seqs = append(seqs, v.seq)
		}
		run(b, func() {
			for _, seq := range seqs {
				r.cache.forget(place{s.id, seq})
			}
		})
	})
}

// BenchmarkPut is what it takes to store 1 KB durably, by one writer and by 16
// that have a Session each, once each version takes the place of an older one.
func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			r := registry(b, storetest.Open(b, store.Options{}), Options{})
			data := []byte(text(1024, 1))
			put := func(s *Session) {
				if _, _, err := s.Put(context.Background(), New{Name: "v", Data: data}); err != nil {
					b.Error(err)
				}
			}
			var all []*Session
			for i := range writers {
				s := bind(b, r, "p", fmt.Sprint("s", i))
				for range r.opts.Load().History + 1 {
					put(s)
				}
				all = append(all, s)
			}
			b.ResetTimer()
			var group sync.WaitGroup
			for i, s := range all {
				group.Go(func() {
					for n := i; n < b.N; n += writers {
						put(s)
					}
				})
			}
			group.Wait()
		})
	}
}

// TestResolveIsQuick holds that stage to its bar. The quickest of many runs
// counts: a machine that does other things makes some slow, never all.
func TestResolveIsQuick(t *testing.T) {
	if raceEnabled {
		t.Skip("it would measure the detector")
	}
	r := registry(t, storetest.Open(t, store.Options{}), Options{})
	s := bind(t, r, "p", "s")
	for i := range 3 {
		store1(t, s, fmt.Sprint("v", i), text(1024, uint64(i)))
	}
	args := []byte(`{"a":"@v0","b":"@v1","c":"@v2"}`)
	best := time.Hour
	for range 2000 {
		start := time.Now()
		if _, used, err := r.Resolve(context.Background(), "p", s, args, 8<<20, nil); err != nil || len(used) != 3 {
			t.Fatal(used, err)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("three references of 1 KB in memory take %v", best)
	if best > 60*time.Microsecond {
		t.Errorf("three references of 1 KB take %v", best)
	}
}
