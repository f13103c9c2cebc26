package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
)

// crashed is the store as it would be found if the process were killed now:
// with the engine's own summary of its files, or without.
func crashed(t *testing.T, dir string, summary bool) *store.Store {
	t.Helper()
	copied := t.TempDir()
	copyDir(t, dir, copied)
	if !summary {
		dropSummaries(t, copied)
	}
	s, err := store.Open(context.Background(), store.Options{Dir: copied})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// dropSummaries removes what the engine has written about its files, so that it
// has to read all of them.
func dropSummaries(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "index.db" {
			err = os.Remove(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What was deleted or is over stays so after a crash, however old the note of
// it, and whatever the key held before.
func TestDeletedStaysDeleted(t *testing.T) {
	defer store.MarkersFor(time.Second)()
	dir := t.TempDir()
	s, err := store.Open(context.Background(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := ctxFor(t, 2*time.Minute)
	b := bucket(t, s, store.BucketOptions{Name: "b"})
	put := func(b *store.Bucket, key, value string, ttl time.Duration) {
		t.Helper()
		if _, err := b.Put(ctx, key, []byte(value), ttl); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	want := map[string]string{} // "" is for what must not be there
	for i := range 400 {
		key := fmt.Sprintf("k.%d", rnd.IntN(60))
		switch rnd.IntN(5) {
		case 0:
			if err := b.Delete(ctx, key, 0); err != nil {
				t.Fatal(err)
			}
			want[key] = ""
		case 1:
			put(b, key, "short", time.Second)
			want[key] = ""
		default:
			want[key] = fmt.Sprint(i)
			put(b, key, want[key], 0)
		}
	}
	gone := 0
	for _, value := range want {
		if value == "" {
			gone++
		}
	}
	if gone < 10 || len(want)-gone < 10 {
		t.Fatalf("%d of %d keys are gone", gone, len(want))
	}
	await.Until(t, "the notes of the deletions are gone", func() bool {
		u, err := b.Usage(ctx)
		return err == nil && u.Entries == uint64(len(want)-gone)
	})
	check := func(what string, s *store.Store) {
		t.Helper()
		b := bucket(t, s, store.BucketOptions{Name: "b"})
		for key, value := range want {
			v, err := b.Get(ctx, key)
			if value == "" && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %s is there again: %q, %v", what, key, v.Data, err)
			}
			if value != "" && (err != nil || string(v.Data) != value) {
				t.Errorf("%s: %s is %q instead of %q, %v", what, key, v.Data, value, err)
			}
		}
	}
	check("running", s)
	for _, summary := range []bool{true, false} {
		check(fmt.Sprintf("killed, with a summary: %v", summary), crashed(t, dir, summary))
	}
}

// roleDelete writes, replaces and deletes without end: values of a bucket, and
// entries of a log by subject. It says what it is about to do and when that is
// acknowledged.
func roleDelete() {
	defer store.MarkersFor(time.Second)()
	ctx := context.Background()
	s := roleStore()
	b := must(s.Bucket(ctx, store.BucketOptions{Name: "b"}))
	l := must(s.Log(ctx, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}}))
	for i := 1; ; i++ {
		if i%100 == 0 {
			awaitMarkers(ctx, b)
		}
		op := deletion{Key: fmt.Sprintf("k%d", rand.IntN(40)), Log: rand.IntN(2) == 0}
		if rand.IntN(3) > 0 {
			op.Value = fmt.Sprintf("%d.%d", os.Getpid(), i)
		}
		fmt.Printf("try %s\n", must(json.Marshal(op)))
		switch {
		case op.Log && op.Value == "":
			must(0, l.Purge(ctx, "evt."+op.Key))
		case op.Log:
			must(l.AppendAny(ctx, "evt."+op.Key, []byte(op.Value)))
		case op.Value == "":
			must(0, b.Delete(ctx, op.Key, 0))
		default:
			must(b.Put(ctx, op.Key, []byte(op.Value), 0))
		}
		fmt.Println("done")
	}
}

// awaitMarkers waits until the notes of deletions are gone.
func awaitMarkers(ctx context.Context, b *store.Bucket) {
	live := uint64(0)
	for i := range 40 {
		if _, err := b.Get(ctx, fmt.Sprintf("k%d", i)); err == nil {
			live++
		} else if !errors.Is(err, store.ErrNotFound) {
			must(0, err)
		}
	}
	for must(b.Usage(ctx)).Entries != live {
		<-time.After(10 * time.Millisecond)
	}
}

// deletion is what roleDelete does: an empty Value is a deletion.
type deletion struct {
	Key, Value string
	Log        bool
}

// kept is what must be in the store.
type kept struct {
	values map[string]string
	logs   map[string][]string
}

func (k *kept) do(op deletion) {
	switch {
	case op.Log && op.Value == "":
		delete(k.logs, op.Key)
	case op.Log:
		k.logs[op.Key] = append(k.logs[op.Key], op.Value)
	case op.Value == "":
		delete(k.values, op.Key)
	default:
		k.values[op.Key] = op.Value
	}
}

func (k *kept) clone() *kept {
	out := &kept{values: maps.Clone(k.values), logs: map[string][]string{}}
	for key, list := range k.logs {
		out.logs[key] = slices.Clone(list)
	}
	return out
}

// found is what is in the store.
func found(t *testing.T, s *store.Store) *kept {
	t.Helper()
	k := &kept{values: map[string]string{}, logs: map[string][]string{}}
	b := bucket(t, s, store.BucketOptions{Name: "b"})
	for i := range 40 {
		key := fmt.Sprintf("k%d", i)
		v, err := b.Get(ctxFor(t, time.Minute), key)
		if err == nil {
			k.values[key] = string(v.Data)
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	err := evt(t, s).Scan(ctxFor(t, time.Minute), "", 0, func(e store.Entry) error {
		key := strings.TrimPrefix(e.Subject, "evt.")
		k.logs[key] = append(k.logs[key], string(e.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Whenever the process is killed, every write and every deletion that it was
// told of holds, and nothing that was deleted comes back.
func TestKilledWhileDeleting(t *testing.T) {
	rounds, ops := 4, 150
	if os.Getenv("STOA_SOAK") == "1" {
		rounds, ops = 60, 300
	}
	dir := t.TempDir()
	want := &kept{values: map[string]string{}, logs: map[string][]string{}}
	done := 0
	for round := range rounds {
		cmd, out := role(t, "delete", dir, nil)
		var last *deletion
		killed := false
		for n := 0; ; {
			line, err := out.ReadString('\n')
			if err != nil {
				if killed {
					break
				}
				t.Fatalf("%q: %v", line, err)
			}
			if text, ok := strings.CutPrefix(line, "try "); ok {
				last = &deletion{}
				if err := json.Unmarshal([]byte(text), last); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if line != "done\n" {
				t.Fatalf("it said %q", line)
			}
			want.do(*last)
			last = nil
			n++
			done++
			if n >= ops+round && !killed {
				killed = true
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		if round%2 == 1 {
			dropSummaries(t, dir)
		}
		s, err := store.Open(context.Background(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		got := found(t, s)
		// What was under way may have happened or not.
		other := want.clone()
		if last != nil {
			other.do(*last)
		}
		if d := cmp.Diff(other, got, cmp.AllowUnexported(kept{})); d == "" {
			want = other
		} else if d := cmp.Diff(want, got, cmp.AllowUnexported(kept{})); d != "" {
			t.Errorf("round %d, while %+v: %s", round, last, d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d writes and deletions over %d kills", done, rounds)
}
