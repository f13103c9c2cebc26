package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// What is needed no longer goes from the store, however much it is, and nothing
// else does.
func TestSparesAreRemoved(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{History: 1})
	s := bind(t, r, "p", "s")
	ctx := ctxFor(t, 100*time.Second)
	n := soak(600, 1500)
	for i := range n {
		store1(t, s, fmt.Sprint("v", i%3), fmt.Sprint(i))
		if i%100 == 50 {
			if err := s.Remove(ctx, "v0"); err != nil {
				t.Fatal(err)
			}
			store1(t, s, "v0", `"again"`)
		}
	}
	start := time.Now()
	// opened, three values and the entry that told of the last removal
	await.Until(t, "five entries are left", func() bool { u, _ := usage(t, r); return u.Entries == 5 })
	t.Logf("%d spare entries were removed %v after the last write", n, time.Since(start))
	r = reopened(t, st, r)
	holds(t, bind(t, r, "p", "s"), "v1", fmt.Sprint(n-2))
	holds(t, bind(t, r, "p", "s"), "v2", fmt.Sprint(n-1))
}

// Over a folder, removing what a version replaces would cost as much as storing it.
// Who stores many does not pay for that: it is removed when nobody stores.
func TestReplacedVersionsGoLater(t *testing.T) {
	r := registry(t, storetest.Open(t, store.Options{}), Options{History: 1})
	s := bind(t, r, "p", "s")
	store1(t, s, "v", "0")
	const many = 400
	await.Until(t, "a burst leaves what it replaces", func() bool { // a machine may be as slow as if nobody stored
		await.Until(t, "what was replaced is gone", func() bool { u, _ := usage(t, r); return u.Entries == 2 })
		for i := range many {
			store1(t, s, "v", fmt.Sprint(i))
		}
		u, _ := usage(t, r)
		return u.Entries == 2+many
	})
	if err := s.Remove(ctxFor(t, patience), "v"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "all of it is gone", func() bool { u, _ := usage(t, r); return u.Entries == 2 })
}

// What a process did not come to remove, the next one does.
func TestSparesAreFoundAgain(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	first := registry(t, st, Options{History: 1})
	first.Close() // removes nothing more, but can be written to
	s := bind(t, first, "p", "s")
	n := soak(600, 2000)
	for i := range n {
		store1(t, s, "v", fmt.Sprint(i))
	}
	store1(t, s, "big", text(600_000, 1))
	store1(t, s, "big", text(600_000, 2))
	if err := s.Remove(ctxFor(t, patience), "big"); err != nil {
		t.Fatal(err)
	}
	if u, b := usage(t, first); u.Entries != uint64(n+4) || b.Entries == 0 {
		t.Fatalf("%d entries, %d of blobs", u.Entries, b.Entries)
	}
	r := reopened(t, st, first)
	start := time.Now()
	await.Until(t, "three entries and no blob are left", func() bool { u, b := usage(t, r); return u.Entries == 3 && b.Entries == 0 })
	t.Logf("%d spare entries were removed %v after the start", n+2, time.Since(start))
	holds(t, bind(t, reopened(t, st, r), "p", "s"), "v", fmt.Sprint(n-1))
}

// entry appends to a Session's log as no Session does.
func entry(t *testing.T, r *Registry, id string, data string) {
	t.Helper()
	l, _ := logs(t, r)
	if _, err := l.AppendAny(ctxFor(t, patience), subject(id), []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// Entries that cannot be read, or are of a kind that is not known yet, cost
// nothing but themselves.
func TestUnreadableEntries(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "s")
	store1(t, s, "v", "1")
	for _, odd := range []string{"", "not json", `{"k":"put"}`, `{"k":"put","value":7}`, `{"k":"future","x":1}`, "\n\n", `[]`} {
		entry(t, r, s.ID(), odd)
		// To the live one it comes as a conflict, to the next as it reads.
		again := registry(t, st, Options{})
		holds(t, bind(t, again, "p", "s"), "v", "1")
		store1(t, bind(t, again, "p", "s"), "w", `"`+strings.Repeat("x", len(odd))+`"`)
	}
	store1(t, s, "v", "2")
	holds(t, s, "w", `"xx"`)
	r = reopened(t, st, r)
	holds(t, bind(t, r, "p", "s"), "v", "2")
}

// A Session whose first entry is lost is found by who knows its key, and
// expires like others.
func TestOwnerIsLost(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{})
	ctx := ctxFor(t, patience)
	l, _ := logs(t, r)
	for _, name := range []string{"read", "written", "idle"} {
		store1(t, bind(t, r, "p", name), "v", `"`+name+`"`)
		first := uint64(0)
		err := l.Scan(ctx, subject(ID("p", name)), 0, func(e store.Entry) error {
			if first == 0 {
				first = e.Seq
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Delete(ctx, first); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	r = registry(t, st, Options{Timeout: time.Hour})
	if all := r.All(func(string) bool { return true }); len(all) != 0 {
		t.Errorf("it is not known whose they are, and yet: %v", all)
	}
	for _, principal := range []string{"q", ""} {
		if _, err := bind(t, r, principal, "read").Value("v"); err == nil {
			t.Errorf("%q reads what is p's", principal)
		}
	}
	holds(t, bind(t, r, "p", "read"), "v", `"read"`)
	if v := store1(t, bind(t, r, "p", "written"), "v", "2"); v.Version != 2 {
		t.Errorf("%+v", v)
	}
	if all := r.All(func(string) bool { return true }); len(all) != 2 || all[0].Name() != "read" || all[0].Info().Created.IsZero() {
		t.Errorf("%v", all)
	}
	r.Sweep(ctx, time.Now().Add(2*time.Hour))
	if n := len(r.each()); n != 0 {
		t.Errorf("%d are left", n)
	}
	shrinks(t, r, 0, 0)
}

// A process that died in the midst of a Session's end: the next one brings it
// to its end, and the name is free.
func TestEndIsBroughtToItsEnd(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "s")
	store1(t, s, "v", text(600_000, 1))
	entry(t, r, s.ID(), `{"k":"ended","e":"x","t":"2026-01-01T00:00:00Z"}`)
	if v := store1(t, s, "w", "1"); v.Version != 1 { // the live one finds it too
		t.Errorf("%+v", v)
	}
	if _, err := s.Value("v"); err == nil {
		t.Error("a value is there that went with its session")
	}
	entry(t, r, s.ID(), `{"k":"ended","e":"y","t":"2026-01-01T00:00:00Z"}`)
	again := registry(t, st, Options{})
	if again.Find("p", "s") != nil {
		t.Error("it had ended")
	}
	shrinks(t, again, 0, 0)
	store1(t, bind(t, again, "p", "s"), "x", "1")
	holds(t, bind(t, registry(t, st, Options{}), "p", "s"), "x", "1")
}

// Somebody wipes the engine while the hub runs: nothing of what was is given
// to anybody, and the hub can be used.
func TestWiped(t *testing.T) {
	srv := storetest.StartServer(t)
	st := storetest.Open(t, store.Options{URL: srv.URL})
	r := registry(t, st, Options{})
	a, b := bind(t, r, "a", "s"), bind(t, r, "b", "s")
	for i := range 5 {
		store1(t, a, "v", fmt.Sprintf(`"of a, %d"`, i))
	}
	l, _ := logs(t, r)
	if err := l.Purge(ctxFor(t, patience), ""); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		data := fmt.Sprintf(`"of b, %d"`, i)
		store1(t, b, "v", data)
		holds(t, b, "v", data)
	}
	if v := store1(t, a, "w", "1"); v.Version != 1 {
		t.Errorf("%+v", v)
	}
	// It is read again meanwhile, from a log that began anew.
	await.NoError(t, "w is there", func() error { _, err := a.Value("w"); return err })
	holds(t, a, "w", "1")
	if _, err := a.Value("v"); err == nil {
		t.Error("a value is listed that is nowhere")
	}
	await.Until(t, "what was read again is what another reads", func() bool {
		return cmp.Equal(projection(r), projection(registry(t, st, *r.opts.Load())), cmp.AllowUnexported(state{}, item{}, Value{}, toggle{}))
	})
}

// A removal that cannot name all that is left makes no other spare.
func TestRemovalsWithoutAList(t *testing.T) {
	var s state
	seq := uint64(0)
	apply := func(e *event) (spares int) {
		seq++
		return len(s.apply(e, journal.Place{Seq: seq}))
	}
	apply(&event{Kind: opened})
	for _, name := range []string{"a", "b", "c", "d"} {
		apply(&event{Kind: put, Keep: 1, Value: &Value{Name: name, Version: 1}})
	}
	for _, step := range []struct {
		name   string
		left   []uint64
		spares int // its value, and the removals before it
	}{{"a", nil, 1}, {"b", nil, 1}, {"c", s.left("c"), 3}, {"d", s.left("d"), 2}} {
		if step.left != nil {
			step.left = s.left(step.name)
		}
		if got := apply(&event{Kind: removed, Name: step.name, Left: step.left}); got != step.spares {
			t.Errorf("the removal of %s makes %d entries spare, want %d", step.name, got, step.spares)
		}
	}
}
