package session

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// suite is what Sessions do, whatever store they are in.
var suite = []struct {
	name string
	test func(t *testing.T, st *store.Store)
}{
	{"values", suiteValues},
	{"history", suiteHistory},
	{"blobs", suiteBlobs},
	{"authors", suiteAuthors},
	{"references", suiteReferences},
	{"limits", suiteLimits},
	{"switches", suiteSwitches},
	{"end", suiteEnd},
	{"expiry", suiteExpiry},
	{"two registries", suiteTwo},
	{"two ends", suiteTwoEnds},
	{"many at once", suiteMany},
}

func TestSuite(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { runSuite(t, storetest.Open(t, store.Options{}), nil) })
	t.Run("server", func(t *testing.T) {
		runSuite(t, storetest.Open(t, store.Options{URL: storetest.StartServer(t).URL}), nil)
	})
	t.Run("cluster", func(t *testing.T) {
		if testing.Short() {
			t.Skip("a cluster takes seconds to start")
		}
		c := storetest.StartCluster(t)
		// The leader is killed under some of the tests, and back for the next.
		disturb := func(t *testing.T, i int) {
			if name := suite[i].name; soak(0, 1) == 0 && name != "history" && name != "expiry" && name != "two registries" {
				return
			}
			c.Whole(t, logName)
			c.Whole(t, "blob")
			leader := c.Leader(t, logName)
			killed := make(chan struct{})
			go func() { defer close(killed); c.Kill(leader) }()
			t.Cleanup(func() {
				<-killed
				c.Restart(t, leader)
			})
		}
		runSuite(t, storetest.Open(t, c.Options()), disturb)
	})
}

func runSuite(t *testing.T, st *store.Store, disturb func(*testing.T, int)) {
	for i, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			if disturb != nil {
				registry(t, st, Options{}) // makes the log
				disturb(t, i)
			}
			start := time.Now()
			c.test(t, st)
			if disturb != nil {
				t.Logf("took %v", time.Since(start))
			}
		})
	}
}

// reopened checks that another registry reads from the store what this one has
// in memory.
func reopened(t *testing.T, st *store.Store, r *Registry) *Registry {
	t.Helper()
	again := registry(t, st, *r.opts.Load())
	if diff := cmp.Diff(projection(r), projection(again), cmp.AllowUnexported(state{}, item{}, Value{}, toggle{})); diff != "" {
		t.Errorf("what is read from the log differs (-live +read):\n%s", diff)
	}
	return again
}

// projection is all that a registry knows.
func projection(r *Registry) map[string]state {
	out := map[string]state{}
	for _, s := range r.All(func(string) bool { return true }) {
		s.mu.RLock()
		st := s.state
		if len(st.values) == 0 {
			st.values = nil
		}
		out[s.Principal()+" "+s.Name()] = st
		s.mu.RUnlock()
	}
	return out
}

func suiteValues(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{})
	a, b := bind(t, r, "p", "values"), bind(t, r, "q", "values")
	if a.Refers() != true || a.ID() == b.ID() {
		t.Errorf("%v, %s, %s", a.Refers(), a.ID(), b.ID())
	}
	want := []string{`{"big":12345678901234567890, "s" : "\ud800"}`, `null`, `"text"`, `[1,2,
3]`}
	for i, data := range want {
		v, replaced, err := a.Put(ctx, New{Name: fmt.Sprint("v", i), Data: []byte(data), Description: "what <it> is", By: "me", Origin: &Origin{Tool: "up:tool", Used: []Used{{Name: "x", Version: 1}}}})
		if err != nil || replaced != 0 || v.Version != 1 || v.Size != len(data) || v.By != "me" {
			t.Fatalf("%+v, %d, %v", v, replaced, err)
		}
	}
	if vs, err := b.Values(""); err != nil || len(vs) != 0 {
		t.Errorf("another principal's session of the same name has %v, %v", vs, err)
	}
	r2 := reopened(t, st, r)
	for _, s := range []*Session{a, bind(t, r, "p", "values"), bind(t, r2, "p", "values")} {
		for i, data := range want {
			holds(t, s, fmt.Sprint("v", i), data)
		}
		vs, err := s.Values("v[0-1]")
		if err != nil || len(vs) != 2 || vs[0].Name != "v0" || vs[0].Origin.Used[0].Name != "x" || vs[0].Description != "what <it> is" {
			t.Errorf("%+v, %v", vs, err)
		}
	}
	if err := a.Remove(ctx, "v0"); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(ctx, "v0"); !fault.Is(err, fault.BadReference) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := a.Value("v0"); !fault.Is(err, fault.BadReference) {
		t.Errorf("%v", err)
	}
	if v := store1(t, a, "v0", "1"); v.Version != 1 {
		t.Errorf("a removed name begins with version %d", v.Version)
	}
	reopened(t, st, r)
}

// On whose behalf a version was stored is known as long as it is, of those that
// say so.
func suiteAuthors(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "authors")
	model := &actor.Record{Path: actor.Chat, Principal: "p", Chain: []actor.DelegateRecord{{Kind: actor.Model, Name: "clerk"}}}
	run := &actor.Record{Path: actor.HTTP, Principal: "p", Chain: []actor.DelegateRecord{{Kind: actor.Plan, Name: "run_x"}}}
	others := &actor.Record{Path: actor.HTTP, Principal: "p", Chain: []actor.DelegateRecord{{Kind: actor.Plan, For: &actor.Record{Principal: "q"}}}}
	person := &actor.Record{Principal: "p"}
	for _, c := range []struct{ by, want *actor.Record }{{nil, nil}, {model, model}, {run, person}, {others, others}, {person, person}} {
		v, _, err := s.Put(ctx, New{Name: "v", Data: []byte("1"), Author: c.by})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Registry{r, reopened(t, st, r)} {
			got := r.Author("p", bind(t, r, "p", "authors"), Used{Name: "v", Version: v.Version})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("version %d (-want +got):\n%s", v.Version, diff)
			}
		}
	}
}

func suiteHistory(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{History: 3})
	s := bind(t, r, "p", "history")
	var first Value
	for i := range 7 {
		v := store1(t, s, "v", fmt.Sprint(i))
		if v.Version != i+1 {
			t.Fatalf("%+v", v)
		}
		if i == 0 {
			first = v
		}
	}
	r = reopened(t, st, r)
	s = bind(t, r, "p", "history")
	h, err := s.History("v")
	if err != nil || len(h) != 3 || h[0].Version != 7 || h[2].Version != 5 {
		t.Fatalf("%+v, %v", h, err)
	}
	for _, v := range h {
		if b, err := s.Data(ctx, v); err != nil || string(b) != fmt.Sprint(v.Version-1) {
			t.Errorf("version %d: %s, %v", v.Version, b, err)
		}
	}
	if v, err := s.Version("v", 6, h[1].seq); err != nil || v.seq != h[1].seq {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := s.Version("v", 1, 0); !fault.Is(err, fault.BadReference) {
		t.Errorf("%v", err)
	}
	// What is not kept goes from the store, and the data with it.
	await.Until(t, "old versions are removed", func() bool {
		_, err := s.read(ctx, first) // Data would keep in memory what it finds
		return errors.Is(err, journal.ErrNotFound)
	})
}

func suiteBlobs(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{History: 2})
	s := bind(t, r, "p", "blobs")
	sizes := []int{store.MaxEntry - 2000, store.MaxEntry - 50, store.MaxEntry, store.MaxEntry + 1, 3*store.MaxEntry + 7}
	for i, n := range sizes {
		store1(t, s, fmt.Sprint("b", i), text(n, uint64(i)))
	}
	same := text(600_000, 9)
	store1(t, s, "one", same)
	store1(t, s, "two", same)
	r2 := reopened(t, st, r)
	s2 := bind(t, r2, "p", "blobs")
	for i, n := range sizes {
		holds(t, s2, fmt.Sprint("b", i), text(n, uint64(i)))
	}
	// The same content twice: one of them goes, the other stays.
	if err := s.Remove(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	before := store1(t, s, "three", same)
	for i := range 3 {
		store1(t, s, "three", text(600_000, uint64(20+i)))
	}
	await.Until(t, "the blob of an old version is removed", func() bool {
		_, err := s.Data(ctx, before)
		return fault.Is(err, fault.BadReference)
	})
	r3 := registry(t, st, Options{})
	holds(t, bind(t, r3, "p", "blobs"), "two", same)
	holds(t, bind(t, r3, "p", "blobs"), "three", text(600_000, 22))
	if err := r.Remove(ctx, s); err != nil {
		t.Fatal(err)
	}
	entries, _ := usage(t, r)
	shrinks(t, r, entries.Entries, 0)
}

func suiteReferences(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "refs")
	v := store1(t, s, "doc", `{"rows":[{"id":1.50},{"id":"two"}]}`)
	big := text(700_000, 3)
	store1(t, s, "big", big)
	args := []byte(`{"a":"@doc.rows[0].id","b":{"$ref":"@doc.rows"},"c":"@@doc","d":"@big"}`)
	want := `{"a":1.50,"b":[{"id":1.50},{"id":"two"}],"c":"@doc","d":` + big + `}`
	for _, in := range []*Registry{r, reopened(t, st, r)} {
		out, used, err := in.Resolve(ctx, "p", bind(t, in, "p", "refs"), args, 8<<20, nil)
		if err != nil || string(out) != want || len(used) != 2 {
			t.Errorf("%.100s, %v, %v", out, used, err)
		}
		// From nowhere, by the name of the session.
		if out, _, err := in.Resolve(ctx, "p", nil, []byte(`["@refs:doc.rows[1].id","@doc"]`), 1000, nil); err != nil || string(out) != `["two","@doc"]` {
			t.Errorf("%s, %v", out, err)
		}
		if out, _, err := in.Resolve(ctx, "other", nil, []byte(`["@refs:doc"]`), 1000, nil); err != nil || string(out) != `["@refs:doc"]` {
			t.Errorf("another principal gets %s, %v", out, err)
		}
		other := bind(t, in, "other", "refs")
		if out, _, err := in.Resolve(ctx, "other", other, []byte(`["@refs:doc"]`), 1000, nil); !fault.Is(err, fault.BadReference) {
			t.Errorf("another principal gets %s, %v", out, err)
		}
	}
	store1(t, s, "doc", `2`)
	pins := []Used{{Name: "doc", Version: v.Version, Entry: v.seq}}
	if out, _, err := r.Resolve(ctx, "p", s, []byte(`["@doc.rows[1].id"]`), 1000, pins); err != nil || string(out) != `["two"]` {
		t.Errorf("pinned: %s, %v", out, err)
	}
}

func suiteSwitches(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "switches")
	for i := range 5 {
		if err := s.Switch(ctx, "m", i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Switch(ctx, "n", false); err != nil {
		t.Fatal(err)
	}
	s = bind(t, reopened(t, st, r), "p", "switches")
	if on, said := s.Switched("m"); !on || !said {
		t.Error(on, said)
	}
	if on, said := s.Switched("n"); on || !said {
		t.Error(on, said)
	}
	if _, said := s.Switched("x"); said {
		t.Error("nobody said anything of x")
	}
}

// Two hubs on one store: each sees what the other wrote when it writes, and
// nothing is lost.
func suiteTwo(t *testing.T, st *store.Store) {
	a, b := registry(t, st, Options{}), registry(t, st, Options{})
	const n = 12
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]string{}
	for i, r := range []*Registry{a, b} {
		s := bind(t, r, "p", "two")
		for j := range 2 {
			wg.Go(func() {
				for k := range n {
					name, data := fmt.Sprintf("v%d%d_%d", i, j, k), fmt.Sprintf("%d", i*1000+j*100+k)
					_, _, err := s.Put(ctxFor(t, 100*time.Second), New{Name: name, Data: []byte(data)})
					if err != nil && !fault.Is(err, fault.Storage) {
						t.Errorf("%s: %v", name, err)
					}
					if err == nil {
						mu.Lock()
						acked[name] = data
						mu.Unlock()
					}
				}
			})
		}
	}
	wg.Wait()
	s := bind(t, registry(t, st, Options{}), "p", "two")
	for name, data := range acked {
		holds(t, s, name, data)
	}
	if len(acked) < 4*n*3/4 {
		t.Errorf("only %d of %d were stored", len(acked), 4*n)
	}
	for _, r := range []*Registry{a, b} { // each writes once more, and knows all
		s := bind(t, r, "p", "two")
		store1(t, s, "last", "1")
		for name, data := range acked {
			holds(t, s, name, data)
		}
	}
}

// A registry that has not heard that a Session ended, or was used, elsewhere.
func suiteTwoEnds(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	o := Options{Timeout: time.Hour}
	a, b := registry(t, st, o), registry(t, st, o)
	sa := bind(t, a, "p", "ends")
	store1(t, sa, "v", "1")
	sb := bind(t, b, "p", "ends")
	store1(t, sb, "w", "2") // reads v first
	holds(t, sb, "v", "1")
	if err := b.Remove(ctx, sb); err != nil {
		t.Fatal(err)
	}
	if v := store1(t, sa, "v", "3"); v.Version != 1 {
		t.Errorf("the session had ended, and its value is now of version %d", v.Version)
	}
	if _, err := sa.Value("w"); err == nil {
		t.Error("a value is back that went with its session")
	}
	// b thinks it idle; a has written since.
	store1(t, sb, "w", "4")
	holds(t, sb, "v", "3")
	kept := b.find(sb.key())
	kept.used.Store(time.Now().Add(-2 * time.Hour).UnixNano())
	store1(t, sa, "x", "5")
	b.Sweep(ctx, time.Now())
	r := registry(t, st, o)
	holds(t, bind(t, r, "p", "ends"), "x", "5")
	await.NoError(t, "b hears of x", func() error { _, err := sb.Value("x"); return err })
	holds(t, sb, "x", "5")
}

// Many goroutines begin, fill and end the same Sessions.
func suiteMany(t *testing.T, st *store.Store) {
	r := registry(t, st, Options{MaxValues: 5})
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			ctx := ctxFor(t, 100*time.Second)
			for i := range 10 {
				s, err := r.Bind(Binding{Principal: "p", Name: fmt.Sprint("many", i%2)})
				if err != nil {
					t.Error(err)
					return
				}
				switch {
				case g == 0 && i%3 == 2:
					err = r.Remove(ctx, s)
				case g == 1 && i%2 == 0: // opens nothing, or finds no room
					err = s.Remove(ctx, "nothing")
				default:
					_, _, err = s.Put(ctx, New{Name: fmt.Sprintf("v%d", (g+i)%8), Data: []byte(`"x"`)})
				}
				if err != nil && !fault.Is(err, fault.Limit) && !fault.Is(err, fault.BadReference) {
					t.Errorf("%d, %d: %v", g, i, err)
				}
			}
		})
	}
	wg.Wait()
	reopened(t, st, r)
}
