package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// refused checks that something was refused for a limit, that the fault says
// which one and what to do, and that nothing was stored.
func refused(t *testing.T, s *Session, n New, says string) {
	t.Helper()
	before := s.Info()
	_, _, err := s.Put(ctxFor(t, 60*time.Second), n)
	f := fault.Of(err)
	if err == nil || f.Kind != fault.Limit || !strings.Contains(f.Text(), says) || f.Advice() == "" {
		t.Errorf("want a limit that says %q: %v", says, err)
	}
	if after := s.Info(); after.Values != before.Values || after.Bytes != before.Bytes {
		t.Errorf("refused, but %+v became %+v", before, after)
	}
}

func suiteLimits(t *testing.T, st *store.Store) {
	ctx := ctxFor(t, 100*time.Second)
	r := registry(t, st, Options{MaxValues: 3, MaxBytes: 1_000_000, History: 2})
	s := bind(t, r, "p", "limits")
	refused(t, s, New{Name: "v", Data: []byte(text(1_000_100, 1))}, "session.maxBytes")
	if r.Find("p", "limits") != nil {
		t.Error("a session came to be in which nothing could be stored")
	}
	for i := range 3 {
		store1(t, s, fmt.Sprint("v", i), "1")
	}
	refused(t, s, New{Name: "more", Data: []byte("1")}, "session.maxValues")
	store1(t, s, "v0", `2`) // another version is no other value
	if err := s.Remove(ctx, "v1"); err != nil {
		t.Fatal(err)
	}
	store1(t, s, "more", text(990_000, 1))
	refused(t, s, New{Name: "more", Data: []byte(text(990_000, 2))}, "session.maxBytes")
	refused(t, s, New{Name: "v2", Data: []byte(text(20_000, 3))}, "session.maxBytes")
	refused(t, s, New{Name: "v2", Data: []byte("1"), Description: strings.Repeat("x", 5000)}, "4096")
	// What is refused leaves no blob behind.
	_, blobs := usage(t, r)
	holds(t, s, "more", text(990_000, 1))
	holds(t, s, "v0", "2")
	r = reopened(t, st, r)
	if _, again := usage(t, r); again.Bytes != blobs.Bytes {
		t.Errorf("%d bytes of blobs, then %d", blobs.Bytes, again.Bytes)
	}
	if i := bind(t, r, "p", "limits").Info(); i.Values != 3 || i.Bytes < 990_000 || i.Bytes > 1_000_000 {
		t.Errorf("%+v", i)
	}
}

// The bytes count what is kept, whatever comes and goes.
func TestBytesCount(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{History: 3, MaxBytes: 1000})
	s := bind(t, r, "p", "s")
	for i := range 50 {
		store1(t, s, "v", `"`+strings.Repeat("x", 298)+`"`)
		if want := 300 * min(i+1, 3); s.Info().Bytes != want {
			t.Fatalf("after %d: %d bytes, want %d", i, s.Info().Bytes, want)
		}
	}
	r.Bound(Options{History: 1, MaxBytes: 1000}) // the two that go make room for this one
	store1(t, s, "v", `"`+strings.Repeat("x", 898)+`"`)
	if got := s.Info().Bytes; got != 900 {
		t.Errorf("%d bytes", got)
	}
	if err := s.Remove(ctxFor(t, patience), "v"); err != nil || s.Info().Bytes != 0 {
		t.Errorf("%v, %+v", err, s.Info())
	}
}

func TestMaxSessions(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{Max: 2})
	ctx := ctxFor(t, 60*time.Second)
	a, b, c := bind(t, r, "p", "a"), bind(t, r, "p", "b"), bind(t, r, "q", "c")
	store1(t, a, "v", "1")
	store1(t, b, "v", "2")
	refused(t, c, New{Name: "v", Data: []byte("3")}, "session.max")
	store1(t, a, "w", "4") // those that are there can be used
	if err := r.Remove(ctx, b); err != nil {
		t.Fatal(err)
	}
	store1(t, c, "v", "3")
	refused(t, b, New{Name: "v", Data: []byte("3")}, "session.max")
	r = reopened(t, st, r)
	refused(t, bind(t, r, "p", "b"), New{Name: "v", Data: []byte("3")}, "session.max")
	holds(t, bind(t, r, "q", "c"), "v", "3")
}

// One principal does not lock out another, and all of them not the owner.
func TestSharesOfSessions(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{Max: 16})
	fill := func(principal string) (n int) {
		for ; n < 20; n++ {
			if _, _, err := bind(t, r, principal, fmt.Sprint("s", n)).Put(ctxFor(t, patience), New{Name: "v", Data: []byte("1")}); err != nil {
				if !strings.Contains(err.Error(), "session.max") {
					t.Fatal(err)
				}
				return n
			}
		}
		return n
	}
	if p, q, o := fill("p"), fill("q"), fill("local"); p != 8 || q != 4 || o != 4 {
		t.Errorf("p has %d, q has %d, the owner has %d", p, q, o)
	}
}

func TestMaxAge(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{})
	s := bind(t, r, "p", "s")
	store1(t, s, "v", "1")
	const age = 10 * time.Millisecond
	o := *r.opts.Load()
	o.MaxAge = age
	r.opts.Store(&o)
	await.Until(t, "it is too old", func() bool { return time.Since(s.Info().Created) > age })
	refused(t, s, New{Name: "w", Data: []byte("1")}, "session.maxAge")
	holds(t, s, "v", "1")
	release := s.Hold()
	r.Sweep(ctxFor(t, patience), time.Now())
	holds(t, s, "v", "1")
	release()
	r.Sweep(ctxFor(t, patience), time.Now())
	if _, err := s.Value("v"); err == nil {
		t.Error("it outlived its age")
	}
	o.MaxAge = time.Hour
	r.opts.Store(&o)
	store1(t, s, "v", "2") // a new session of that name
}

// What a client or server says of itself cannot make a value unstorable, nor
// the memory that it takes grow without bound.
func TestLongTales(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	r := registry(t, st, Options{})
	long := strings.Repeat("<", 600_000)
	used := make([]Used, MaxReferences)
	for i := range used {
		used[i] = Used{Name: strings.Repeat("n", 64), Session: strings.Repeat("s", 128), Version: i}
	}
	s, err := r.Bind(Binding{Principal: "p", Connection: "c", Client: []byte(`"` + long + `"`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"small": "1", "large": text(store.MaxEntry-30_000, 1)} {
		_, _, err = s.Put(ctxFor(t, patience), New{Name: name, Data: []byte(data), Description: strings.Repeat("<", 4096), By: long, Origin: &Origin{Tool: long, Used: used}})
		if err != nil {
			t.Fatal(err)
		}
		holds(t, s, name, data)
	}
	r = reopened(t, st, r)
	holds(t, bind(t, r, "p", "c"), "large", text(store.MaxEntry-30_000, 1))
}
