package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	if role := roles[os.Getenv("STOA_SESSION_ROLE")]; role != nil {
		role(os.Getenv("STOA_SESSION_DIR"))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// roles are what the test binary does when it is started as a child.
var roles = map[string]func(dir string){"disk": roleDisk}

// soak chooses the long form of a test.
func soak(short, long int) int {
	if os.Getenv("STOA_SOAK") == "1" {
		return long
	}
	return short
}

// patience is how long a test waits for something that must happen.
const patience = await.Patience

func ctxFor(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// stores are those of the registries that registry opened.
var stores sync.Map

// logs returns the logs that a registry keeps its Sessions in.
func logs(t testing.TB, r *Registry) (*store.Log, *store.Blobs) {
	t.Helper()
	st, ok := stores.Load(r)
	if !ok {
		t.Fatal("it is not known which store the registry has")
	}
	ctx := ctxFor(t, 30*time.Second)
	l, err := st.(*store.Store).Log(ctx, store.LogOptions{Name: logName, Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := st.(*store.Store).Blobs(ctx, "blob")
	if err != nil {
		t.Fatal(err)
	}
	return l, b
}

// subject is that of a Session's entries.
func subject(id string) string { return subjectPrefix + id + subjectSuffix }

// registry opens the Sessions of a store until the test ends.
func registry(t testing.TB, st *store.Store, o Options) *Registry {
	t.Helper()
	r, err := Open(ctxFor(t, 60*time.Second), st, o)
	if err != nil {
		t.Fatal(err)
	}
	stores.Store(r, st)
	t.Cleanup(func() {
		r.Close()
		stores.Delete(r)
	})
	return r
}

// bind returns the Session of a name.
func bind(t testing.TB, r *Registry, principal, name string) *Session {
	t.Helper()
	s, err := r.Bind(Binding{Principal: principal, Name: name})
	if err != nil || s == nil {
		t.Fatalf("bind %s: %v, %v", name, s, err)
	}
	return s
}

// store1 stores a value, again and again if the store refuses it for the
// moment, as a cluster may that has just lost a node.
func store1(t testing.TB, s *Session, name, data string) Value {
	t.Helper()
	ctx := ctxFor(t, 90*time.Second)
	for {
		v, _, err := s.Put(ctx, New{Name: name, Data: []byte(data)})
		if err == nil {
			return v
		}
		if !fault.Is(err, fault.Storage) || errors.Is(err, store.ErrUncertain) || ctx.Err() != nil {
			t.Fatalf("put %s: %v", name, err)
		}
		t.Logf("put %s again: %v", name, err)
	}
}

// holds checks that a value is what it should be.
func holds(t testing.TB, s *Session, name, data string) {
	t.Helper()
	v, err := s.Value(name)
	if err != nil {
		t.Errorf("%s/%s: %v", s.Name(), name, err)
		return
	}
	got, err := s.Data(ctxFor(t, 60*time.Second), v)
	if err != nil || string(got) != data {
		t.Errorf("%s/%s is %.80s (%d bytes), %v; want %.80s (%d bytes)", s.Name(), name, got, len(got), err, data, len(data))
	}
}

// usage is how much the logs of a registry hold.
func usage(t testing.TB, r *Registry) (entries, blobs store.Usage) {
	t.Helper()
	ctx := ctxFor(t, 30*time.Second)
	l, b := logs(t, r)
	var err error
	if entries, err = l.Usage(ctx); err != nil {
		t.Fatal(err)
	}
	if blobs, err = b.Usage(ctx); err != nil {
		t.Fatal(err)
	}
	return entries, blobs
}

// shrinks waits until no more than so many entries are left, and of blobs, once
// every hub had time to learn what was removed.
func shrinks(t testing.TB, r *Registry, entries, blobs uint64) {
	t.Helper()
	var u, b store.Usage
	await.Until(t, fmt.Sprintf("%d entries and %d of blobs are left", entries, blobs), func() bool {
		r.book.Bury(ctxFor(t, 30*time.Second), time.Now().Add(time.Hour))
		u, b = usage(t, r)
		return u.Entries <= entries && b.Entries <= blobs
	})
}

// text is JSON of about n bytes that tells where it comes from. What it repeats
// is of a length that no chunk of a blob is a multiple of.
func text(n int, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range 61 {
		fmt.Fprintf(&b, "%016x", r.Uint64())
	}
	part := b.String()
	head := fmt.Sprintf(`{"seed":%d,"text":"`, seed)
	size := max(0, n-2-len(head)+15) / 16 * 16
	return head + strings.Repeat(part, size/len(part)+1)[:size] + `"}`
}
