package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	last, err := l.Last(ctx, "evt.a")
	if err == nil {
		err = l.PurgeBefore(ctx, "", last.Seq)
	}
	if err != nil {
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
	for text, want := range map[string]string{"3\n": "version 3, this program knows versions up to 2: use the release that wrote it", "x": "damaged", "0": "damaged"} {
		if b, err := os.ReadFile(name); err != nil || len(b) == 0 {
			t.Fatal(string(b), err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		if _, err := store.Open(context.Background(), store.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
			t.Errorf("%q: the folder was changed: %s", text, diff)
		}
	}
}

// contents are the files of a folder, with when each was written.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			all[path] = fmt.Sprint(info.Mode(), info.ModTime())
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = fmt.Sprint(info.Mode(), info.ModTime(), string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What hubs share on a server has a version, which the first of them writes. One
// of the future is left as it is.
func TestSharedVersion(t *testing.T) {
	srv := storetest.StartServer(t)
	ctx := ctxFor(t, time.Minute)
	open := func() (*store.Store, error) { return store.Open(ctx, store.Options{URL: srv.URL}) }
	var both [2]*store.Store
	var wg sync.WaitGroup
	for i := range both {
		wg.Go(func() {
			s, err := open()
			if err != nil {
				t.Error(err)
				return
			}
			both[i] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	b := bucket(t, both[0], store.BucketOptions{Name: "version"})
	v, err := b.Get(ctx, "store")
	if err != nil || string(v.Data) != "2" {
		t.Fatalf("the version is %q, %v", v.Data, err)
	}
	if again, err := open(); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
	both[1].Close()
	for text, want := range map[string]string{"3": "version 3, this program knows versions up to 2", "later": "which is none"} {
		if _, err := b.Put(ctx, "store", []byte(text), 0); err != nil {
			t.Fatal(err)
		}
		before, err := b.Usage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := open(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
			if s != nil {
				s.Close()
			}
		}
		if after, err := b.Usage(ctx); err != nil || after != before {
			t.Errorf("%q: it was changed: %+v, %v", text, after, err)
		}
	}
	if _, err := b.Put(ctx, "store", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if v, err := b.Get(ctx, "store"); err != nil || string(v.Data) != "2" {
		t.Errorf("the version is %q, %v", v.Data, err)
	}
	both[0].Close()
}

// A folder of version 1 may hold values that the engine has removed and not
// written down: with the step to version 2 they leave the disk, and nothing else
// does.
func TestReplacedValuesLeaveAnOldFolder(t *testing.T) {
	dir := t.TempDir()
	ctx := ctxFor(t, time.Minute)
	s, err := store.Open(ctx, store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	b := bucket(t, s, store.BucketOptions{Name: "b"})
	l := openLog(t, s, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}})
	for i := range 20 {
		for _, text := range []string{"first", "second"} {
			if _, err := b.Put(ctx, fmt.Sprintf("k%d", i), []byte(text+" value"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			if err := b.Delete(ctx, fmt.Sprintf("k%d", i), 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.AppendAny(ctx, "evt.a", fmt.Appendf(nil, "event %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	last, err := b.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "after a crash", "as a new folder"} {
		if when == "after a crash" {
			dropSummaries(t, dir)
		}
		if s, err = store.Open(ctx, store.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		if d := s.Damage(); len(d) > 0 {
			t.Errorf("%s: %v", when, d)
		}
		b := bucket(t, s, store.BucketOptions{Name: "b"})
		for i := range 20 {
			v, err := b.Get(ctx, fmt.Sprintf("k%d", i))
			if i%2 == 0 && !errors.Is(err, store.ErrNotFound) || i%2 == 1 && string(v.Data) != "second value" {
				t.Errorf("%s: k%d is %q, %v", when, i, v.Data, err)
			}
		}
		if _, data := entries(t, openLog(t, s, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}}), "", 0); len(data) != 20 || data[19] != "event 19" {
			t.Errorf("%s: of the log there is %q", when, data)
		}
		if now, err := b.Usage(ctx); err != nil || now.Last < last.Last {
			t.Errorf("%s: the last sequence was %d and is %d, %v", when, last.Last, now.Last, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for path, text := range contents(t, dir) {
			if strings.Contains(path, "bucket_b") && strings.Contains(text, "first value") {
				t.Errorf("%s: %s still holds what was replaced", when, path)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "VERSION")); err != nil || string(b) != "2\n" {
		t.Errorf("the version is %q, %v", b, err)
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
