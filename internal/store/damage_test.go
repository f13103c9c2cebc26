package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/store"
)

const damagedEntries = 90

// sample is what a store holds that is to be damaged: every third entry is
// large, and all of them fill several blocks.
type sample struct {
	large    int
	maxBytes int64 // of the log; the engine's blocks are of 32 KB below 128 KB, and of 8 MiB without a bound
	entries  [][]byte
}

// small is a sample in small blocks: a byte more or less is a matter of CPU
// under the race detector. full is one in the blocks that most logs have.
var (
	small = sync.OnceValue(func() *sample { return newSample(3_000, 127_000) })
	full  = sync.OnceValue(func() *sample { return newSample(400_000, 0) })
)

func newSample(large int, maxBytes int64) *sample {
	m := &sample{large: large, maxBytes: maxBytes}
	for seq := range uint64(damagedEntries) + 1 {
		n := int(seq*61%700) + 8
		if seq%3 == 0 {
			n = large
		}
		b := noise(n, seq)
		copy(b, fmt.Sprintf("%07d", seq))
		m.entries = append(m.entries, b)
	}
	return m
}

func (m *sample) log(t *testing.T, s *store.Store) *store.Log {
	t.Helper()
	return openLog(t, s, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}, MaxBytes: m.maxBytes})
}

// original makes a store to be damaged: once as its process left it, once as a
// kill would have.
func (m *sample) original(t *testing.T) (clean, killed string) {
	t.Helper()
	clean, killed = t.TempDir(), t.TempDir()
	ctx := ctxFor(t, 60*time.Second)
	s, err := store.Open(ctx, store.Options{Dir: clean})
	if err != nil {
		t.Fatal(err)
	}
	l := m.log(t, s)
	for seq := range uint64(damagedEntries) {
		if _, err := l.AppendAny(ctx, fmt.Sprintf("evt.%d", seq%4), m.entries[seq+1]); err != nil {
			t.Fatal(err)
		}
		if seq == damagedEntries/2 { // a register is there, and is older
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = store.Open(ctx, store.Options{Dir: clean}); err != nil {
				t.Fatal(err)
			}
			l = m.log(t, s)
		}
	}
	copyDir(t, clean, killed) // all is synced, so this is what a crash leaves
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return clean, killed
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// intact opens a damaged store and holds it to the promise: each entry is
// right or reported, no sequence is used again, and the report stays.
func (m *sample) intact(t *testing.T, dir string) (lost int, damage []store.Damage) {
	t.Helper()
	for again := range 2 {
		s, err := store.Open(context.Background(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		l := m.log(t, s)
		damage, lost = s.Damage(), 0
		for seq := range uint64(damagedEntries) {
			seq++
			e, err := l.Read(context.Background(), seq)
			switch {
			case err == nil && string(e.Data) == string(m.entries[seq]) && e.Subject == fmt.Sprintf("evt.%d", (seq-1)%4):
			case errors.Is(err, store.ErrLost):
				lost++
			case err == nil:
				t.Errorf("entry %d is wrong", seq)
			default:
				t.Errorf("entry %d: %v", seq, err)
			}
		}
		seqs, _ := entries(t, l, "", 0)
		if want := damagedEntries - lost + again; len(seqs) != want {
			t.Errorf("a scan finds %d entries, %d are readable", len(seqs), want)
		}
		if seq, err := l.AppendAny(context.Background(), "evt.new", nil); err != nil || seq != uint64(damagedEntries+1+again) {
			t.Errorf("append: %d, %v", seq, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return lost, damage
}

func streamFile(dir string, parts ...string) string {
	return filepath.Join(append([]string{dir, "jetstream", "$G", "streams", "evt"}, parts...)...)
}

func edit(t *testing.T, name string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0x10; return b }
}

func TestDamage(t *testing.T) {
	m := small()
	if os.Getenv("STOA_SOAK") == "1" {
		m = full()
	}
	clean, killed := m.original(t)
	for _, tc := range []struct {
		name   string
		do     func(t *testing.T, dir string)
		lost   [2]int // at least, at most
		told   string
		killed bool // also shown after a kill; a short file is then what a crash leaves
	}{
		{"first record", func(t *testing.T, dir string) { edit(t, streamFile(dir, "msgs", "1.blk"), flip(40)) }, [2]int{1, 1}, "no record", true},
		{"a length", func(t *testing.T, dir string) { edit(t, streamFile(dir, "msgs", "1.blk"), flip(1)) }, [2]int{1, 1}, "no record", true},
		{"a large entry", func(t *testing.T, dir string) { edit(t, streamFile(dir, "msgs", "1.blk"), flip(m.large/2)) }, [2]int{1, 1}, "no record", true},
		{"a page of zeros", func(t *testing.T, dir string) {
			edit(t, streamFile(dir, "msgs", "2.blk"), func(b []byte) []byte { clear(b[len(b)/2:][:m.large/2]); return b })
		}, [2]int{1, 3}, "no record", true},
		{"the last record", func(t *testing.T, dir string) {
			edit(t, lastBlock(t, dir), func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, [2]int{1, 1}, "no record", true},
		{"cut short", func(t *testing.T, dir string) {
			edit(t, lastBlock(t, dir), func(b []byte) []byte { return b[:len(b)-10] })
		}, [2]int{1, 1}, "no record", false},
		{"cut at a record", func(t *testing.T, dir string) {
			edit(t, lastBlock(t, dir), func(b []byte) []byte { return b[:0] })
		}, [2]int{1, 40}, "it had", false},
		{"a block is gone", func(t *testing.T, dir string) { remove(t, streamFile(dir, "msgs", "1.blk")) }, [2]int{1, 80}, "gone", false},
		{"index", func(t *testing.T, dir string) { edit(t, streamFile(dir, "msgs", "index.db"), flip(20)) }, [2]int{0, 0}, "", false},
		{"no index", func(t *testing.T, dir string) { remove(t, streamFile(dir, "msgs", "index.db")) }, [2]int{0, 0}, "", false},
		{"settings", func(t *testing.T, dir string) { edit(t, streamFile(dir, "meta.inf"), flip(30)) }, [2]int{0, 0}, "settings", true},
		{"sum of settings", func(t *testing.T, dir string) { edit(t, streamFile(dir, "meta.sum"), flip(3)) }, [2]int{0, 0}, "settings", true},
		{"no settings", func(t *testing.T, dir string) { remove(t, streamFile(dir, "meta.inf")) }, [2]int{0, 0}, "", true},
		{"all is gone", func(t *testing.T, dir string) { remove(t, streamFile(dir)) }, [2]int{damagedEntries, damagedEntries}, "gone", false},
		{"register", func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "REGISTER.json"), flip(0)) }, [2]int{0, 0}, "register", false},
	} {
		for kind, from := range map[string]string{"clean": clean, "killed": killed} {
			if kind == "killed" && !tc.killed {
				continue
			}
			t.Run(tc.name+"/"+kind, func(t *testing.T) {
				dir := t.TempDir()
				copyDir(t, from, dir)
				tc.do(t, dir)
				lost, damage := m.intact(t, dir)
				if lost < tc.lost[0] || lost > tc.lost[1] {
					t.Errorf("%d are lost: %v", lost, damage)
				}
				if tc.told == "" && len(damage) == 0 {
					return
				}
				if len(damage) != 1 || tc.told == "" || !strings.Contains(damage[0].Detail, tc.told) {
					t.Fatalf("%v", damage)
				}
				if c := damage[0].Copy; c != "" {
					if _, err := os.Stat(filepath.Join(dir, c)); err != nil {
						t.Error(err)
					}
				}
				forget(t, dir)
			})
		}
	}
}

// forget shows that a person who moves the report away is told no more.
func forget(t *testing.T, dir string) {
	t.Helper()
	remove(t, filepath.Join(dir, "damaged"))
	s, err := store.Open(context.Background(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d := s.Damage(); len(d) != 0 {
		t.Errorf("it is told again: %v", d)
	}
}

func lastBlock(t *testing.T, dir string) string {
	t.Helper()
	for i := 20; i > 0; i-- {
		name := streamFile(dir, "msgs", fmt.Sprintf("%d.blk", i))
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return name
		}
	}
	t.Fatal("no block")
	return ""
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
}

// An entry whose subject seems to end elsewhere is lost, and not another.
func TestSubjectEndsElsewhere(t *testing.T) {
	dir := t.TempDir()
	open := func() (*store.Store, *store.Log) {
		s, err := store.Open(t.Context(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s, openLog(t, s, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}})
	}
	s, l := open()
	if _, err := l.AppendAny(t.Context(), "evt.1", []byte("0000 and more")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	const lengthAt = 20 // of the subject, in a record
	edit(t, lastBlock(t, dir), func(b []byte) []byte {
		b[lengthAt] ^= 2 // evt.100
		return b
	})
	s, l = open()
	defer s.Close()
	if e, err := l.Read(t.Context(), 1); !errors.Is(err, store.ErrLost) || len(s.Damage()) != 1 {
		t.Errorf("%s %q, %v; told: %v", e.Subject, e.Data, err, s.Damage())
	}
}

// Whatever bit of whatever file turns, no entry is wrong and none vanishes
// without being named.
func TestAnyBit(t *testing.T) {
	rounds := map[*sample]int{small(): 24, full(): 2}
	if os.Getenv("STOA_SOAK") == "1" {
		rounds[full()] = 24
	}
	for m, n := range rounds {
		m.anyBit(t, n)
	}
}

func (m *sample) anyBit(t *testing.T, rounds int) {
	t.Helper()
	clean, killed := m.original(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range rounds {
		dir := t.TempDir()
		copyDir(t, []string{clean, killed}[i%2], dir)
		var files []string
		err := filepath.WalkDir(filepath.Join(dir, "jetstream"), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		name := files[r.IntN(len(files))]
		at := 0
		edit(t, name, func(b []byte) []byte {
			if len(b) > 0 {
				at = r.IntN(len(b))
				b[at] ^= 1 << r.IntN(8)
			}
			return b
		})
		lost, damage := m.intact(t, dir)
		if lost > 1 || t.Failed() {
			t.Fatalf("seed %d: %s at %d: %d are lost: %v", seed, strings.TrimPrefix(name, dir), at, lost, damage)
		}
		remove(t, dir)
	}
}
