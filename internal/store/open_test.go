package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// Everything is there again, and a store that was used as it is meant to has
// no damage, whatever was deleted.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	ctx := ctxFor(t, 60*time.Second)
	for round := range uint64(4) {
		s, err := store.Open(ctx, store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Damage(); len(d) != 0 {
			t.Fatalf("round %d: %v", round, d)
		}
		l, b := evt(t, s), bucket(t, s, store.BucketOptions{Name: "b"})
		blob, _ := blobs(t, s)
		gone := openLog(t, s, store.LogOptions{Name: "gone", Subjects: []string{"gone.>"}, Async: true})
		var last uint64
		if round > 0 {
			if e, err := l.Last(ctx, "evt.a"); err != nil || e.Seq != round*2-1 {
				t.Errorf("round %d: %+v, %v", round, e, err)
			} else {
				last = e.Seq
			}
			if v, err := b.Get(ctx, "k"); err != nil || !cmp.Equal(v.Data, []byte{byte(round - 1)}) {
				t.Errorf("round %d: %+v, %v", round, v, err)
			}
		}
		steps := []func() error{
			func() error { _, err := l.Append(ctx, "evt.a", nil, last); return err },
			func() error { _, err := l.AppendAny(ctx, "evt.b", nil); return err },
			func() error { return l.Purge(ctx, "evt.b") },
			func() error { _, err := b.Put(ctx, "k", []byte{byte(round)}, 0); return err },
			func() error { _, err := b.Put(ctx, "d", nil, 0); return err },
			func() error { return b.Delete(ctx, "d", 0) },
			func() error { _, err := blob.Put(ctx, "o", noise(2*store.MaxEntry, round)); return err },
			func() error { return blob.Purge(ctx, "o") },
			func() error { _, err := gone.AppendAny(ctx, "gone.x", noise(100, 1)); return err },
			func() error { return gone.Purge(ctx, "") },
			s.Close, s.Close,
		}
		for i, step := range steps {
			if err := step(); err != nil {
				t.Fatalf("round %d, step %d: %v", round, i, err)
			}
		}
		if _, err := l.AppendAny(ctx, "evt.a", nil); !errors.Is(err, store.ErrClosed) {
			t.Errorf("append after the end: %v", err)
		}
		if !errors.Is(s.State(), store.ErrClosed) {
			t.Error(s.State())
		}
	}
}

// What went by itself is no damage either.
func TestReopenAfterExpiry(t *testing.T) {
	dir := t.TempDir()
	ctx := ctxFor(t, 60*time.Second)
	var last uint64
	for round := range 3 {
		s, err := store.Open(ctx, store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Damage(); len(d) != 0 {
			t.Fatalf("round %d: %v", round, d)
		}
		l := openLog(t, s, store.LogOptions{Name: "short", Subjects: []string{"short"}, MaxAge: 200 * time.Millisecond})
		for range 3 {
			seq, err := l.AppendAny(ctx, "short", nil)
			if err != nil || seq != last+1 {
				t.Fatal(seq, err)
			}
			last = seq
		}
		await.Until(t, "all are gone", func() bool { u, err := l.Usage(ctx); return err == nil && u.Entries == 0 })
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMaxBytes(t *testing.T) {
	s := storetest.Open(t, store.Options{MaxBytes: 1 << 20})
	l := evt(t, s)
	ctx := ctxFor(t, 30*time.Second)
	var err error
	n := 0
	for ; err == nil && n < 30; n++ {
		_, err = l.AppendAny(ctx, "evt.a", make([]byte, 100_000))
	}
	if !fault.Is(err, fault.Storage) || n < 9 || n > 12 {
		t.Errorf("after %d entries: %v", n, err)
	}
	if err := l.PurgeKeep(ctx, "", 1); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "there is room again", func() bool { _, err := l.AppendAny(ctx, "evt.a", nil); return err == nil && s.State() == nil })
}

func TestVersion(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(context.Background(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "VERSION")
	for text, want := range map[string]string{"2\n": "use the newer program", "x": "damaged", "0": "damaged"} {
		if b, err := os.ReadFile(name); err != nil || len(b) == 0 {
			t.Fatal(string(b), err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(context.Background(), store.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%q: %v", text, err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("it was changed to %q, %v", b, err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		o    store.Options
		want string
	}{
		"nothing":  {store.Options{}, "either a folder or a URL"},
		"both":     {store.Options{Dir: dir, URL: "nats://x"}, "either a folder or a URL"},
		"replicas": {store.Options{Dir: dir, Replicas: 3}, "need a cluster"},
		"a file":   {store.Options{Dir: file}, "choose another"},
		"nobody":   {store.Options{URL: "nats://user:geheim@127.0.0.1:1", Timeout: time.Second}, "cannot connect to nats://127.0.0.1:1"},
	} {
		s, err := store.Open(context.Background(), tc.o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", name, err)
		}
		if name == "nobody" && !fault.Is(err, fault.Storage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := storetest.Open(t, store.Options{})
	for _, o := range []store.LogOptions{{Name: "a.b", Subjects: []string{"x"}}, {Name: "", Subjects: []string{"x"}}, {Name: "x"}, {Name: "x", Subjects: []string{"a b"}}} {
		if _, err := s.Log(context.Background(), o); err == nil {
			t.Errorf("%+v was a log", o)
		}
	}
}

// Whoever waits is told when the store ends.
func TestCloseEndsWaiting(t *testing.T) {
	s, err := store.Open(context.Background(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, b := evt(t, s), bucket(t, s, store.BucketOptions{Name: "b"})
	done := make(chan error, 2)
	ready := make(chan struct{})
	go func() {
		done <- l.Tail(context.Background(), "", 0, func(store.Entry) error { close(ready); return nil })
	}()
	current := make(chan struct{})
	go func() {
		done <- b.Watch(context.Background(), "", func() { close(current) }, func(store.Value) error { return nil })
	}()
	if _, err := l.AppendAny(context.Background(), "evt.a", nil); err != nil {
		t.Fatal(err)
	}
	<-ready
	<-current
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	}
}
