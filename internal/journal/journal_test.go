package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// note is an event of a list of notes by name: one is put or taken.
type note struct {
	Put   string `json:"put,omitempty"`
	Take  string `json:"take,omitempty"`
	Stamp int64  `json:"stamp"`
	Blob  string `json:"blob,omitempty"`
}

// notes are the places of their data.
type notes map[string]Place

func kind(changed func(x *Entity[notes, note], e *note, at Place)) Kind[notes, note] {
	return Kind[notes, note]{
		Subjects: "evt.notes.*.e",
		Inline:   64,
		New:      func(string) notes { return nil },
		Encode: func(e *note, data []byte, blob string) ([]byte, error) {
			e.Blob = blob
			head, err := json.Marshal(e)
			return append(append(head, '\n'), data...), err
		},
		Decode: func(entry []byte) (*note, []byte, string, error) {
			head, data, _ := bytes.Cut(entry, []byte("\n"))
			e := &note{}
			err := json.Unmarshal(head, e)
			return e, data, e.Blob, err
		},
		Apply: func(s notes, e *note, at Place) (notes, []Spare, error) {
			next := maps.Clone(s)
			if next == nil {
				next = notes{}
			}
			switch {
			case e.Put != "":
				old, had := next[e.Put]
				next[e.Put] = at
				if had {
					return next, []Spare{{Seq: old.Seq, Blob: old.Blob, MayStay: 1}}, nil
				}
			case e.Take == "":
				return nil, nil, errors.New("it says nothing")
			default:
				old, had := next[e.Take]
				if !had {
					return nil, nil, fmt.Errorf("there is no %s", e.Take)
				}
				delete(next, e.Take)
				return next, []Spare{{Seq: old.Seq, Blob: old.Blob}}, nil
			}
			return next, nil, nil
		},
		Blobs: func(s notes) (all []string) {
			for _, at := range s {
				all = append(all, at.Blob)
			}
			return all
		},
		Changed: changed,
	}
}

type book = Journal[notes, note]

func open(t testing.TB, log Log, blobs Blobs, o Options, changed func(*Entity[notes, note], *note, Place)) *book {
	t.Helper()
	j, err := Open(context.Background(), log, blobs, kind(changed), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	j.Follow()
	return j
}

var stamps struct {
	sync.Mutex
	n int64
}

func stamp() int64 {
	stamps.Lock()
	defer stamps.Unlock()
	stamps.n++
	return stamps.n
}

func put(j *book, key, name, data string) error {
	_, _, err := j.At(key).Commit(context.Background(), func(notes) (*note, []byte, error) {
		return &note{Put: name, Stamp: stamp()}, []byte(data), nil
	})
	return err
}

// read returns all that the entities hold, by key and name.
func read(t testing.TB, j *book) map[string]string {
	t.Helper()
	out := map[string]string{}
	j.Each(func(x *Entity[notes, note]) {
		for name, at := range x.State() {
			b, err := x.Data(context.Background(), at)
			if err != nil {
				t.Errorf("%s of %s: %v", name, x.Key(), err)
			}
			out[x.Key()+"/"+name] = string(b)
		}
	})
	return out
}

const patience = time.Minute

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// What is written on one side is known there at once and on the other soon, large
// data too, and in the same order; what is removed is removed on both and after
// both were opened again.
func TestTwoAgree(t *testing.T) {
	log, blobs := NewMemory(), NewMemoryBlobs()
	var mu sync.Mutex
	heard := map[string][]string{}
	a := open(t, log, blobs, Options{}, nil)
	b := open(t, log, blobs, Options{}, func(x *Entity[notes, note], e *note, at Place) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e == nil:
			heard[x.Key()] = append(heard[x.Key()], "gone")
		default:
			heard[x.Key()] = append(heard[x.Key()], e.Put+e.Take)
		}
	})
	long := strings.Repeat("long ", 100)
	for _, w := range [][3]string{{"x", "one", "1"}, {"x", "two", long}, {"y", "three", "3"}, {"x", "one", "again"}} {
		if err := put(a, w[0], w[1], w[2]); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"x/one": "again", "x/two": long, "y/three": "3"}
	if got := read(t, a); !maps.Equal(got, want) {
		t.Errorf("here there is %v", got)
	}
	if s, err := b.At("x").Latest(t.Context()); err != nil || len(s) != 2 {
		t.Errorf("the latest is %v, %v", s, err)
	}
	until(t, "the other knows", func() bool { return maps.Equal(read(t, b), want) })
	if err := a.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "the other knows that it is gone", func() bool { return b.Get("x") == nil })
	if err := put(b, "x", "new", "life"); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"x/new": "life", "y/three": "3"}
	until(t, "the first knows of the new one", func() bool { return maps.Equal(read(t, a), want) })
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff(map[string][]string{"x": {"one", "two", "one", "gone", "new"}, "y": {"three"}}, heard); d != "" {
		t.Errorf("heard (-want +got):\n%s", d)
	}
	c := open(t, log, blobs, Options{}, nil)
	if got := read(t, c); !maps.Equal(got, want) {
		t.Errorf("opened again there is %v", got)
	}
}

// Nothing is left of what is needed no longer, nor of the note that an entity
// was removed.
func TestNothingIsLeft(t *testing.T) {
	log, blobs := NewMemory(), NewMemoryBlobs()
	j := open(t, log, blobs, Options{TombLife: time.Minute}, nil)
	long := strings.Repeat("long ", 100)
	for i := range 5 {
		if err := put(j, "x", "one", fmt.Sprint(long, i)); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (entries, values int) {
		log.mu.Lock()
		defer log.mu.Unlock()
		blobs.mu.Lock()
		defer blobs.mu.Unlock()
		return len(log.where), len(blobs.all)
	}
	until(t, "what was replaced is removed", func() bool { e, b := count(); return e == 1 && b == 1 })
	if err := j.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "all but the note is removed", func() bool { e, b := count(); return e == 1 && b == 0 })
	j.Bury(t.Context(), time.Now())
	if e, _ := count(); e != 1 {
		t.Error("the note went before others could read it")
	}
	j.Bury(t.Context(), time.Now().Add(2*time.Minute))
	if e, b := count(); e != 0 || b != 0 {
		t.Errorf("%d entries and %d blobs are left", e, b)
	}
	if err := put(j, "x", "one", "anew"); err != nil || j.Get("x") == nil {
		t.Errorf("the same key cannot be used again: %v", err)
	}
}

// An entry that nobody can read, or that cannot follow, costs nothing but
// itself, and is still there.
func TestStrangeEntriesAreSkipped(t *testing.T) {
	log := NewMemory()
	j := open(t, log, nil, Options{}, nil)
	if err := put(j, "x", "one", "1"); err != nil {
		t.Fatal(err)
	}
	seq := uint64(1)
	for _, odd := range []string{"{", `{"take":"nothing"}`, `{"from":"the future"}`, ""} {
		var err error
		if seq, err = log.Append(t.Context(), "evt.notes.x.e", []byte(odd), seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(j, "x", "two", "2"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"x/one": "1", "x/two": "2"}
	for what, j := range map[string]*book{"here": j, "opened again": open(t, log, nil, Options{}, nil)} {
		if got := read(t, j); !maps.Equal(got, want) {
			t.Errorf("%s there is %v", what, got)
		}
	}
	if n := len(log.where); n != 6 {
		t.Errorf("%d entries are left", n)
	}
}

// fickle is a Log whose appends are lost, late, or done without an answer.
type fickle struct {
	Log
	mu  sync.Mutex
	rnd *rand.Rand
}

func (f *fickle) roll(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(n) == 0
}

func (f *fickle) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	switch {
	case f.roll(6):
		return 0, fmt.Errorf("append: %w", ErrUncertain) // it never came
	case f.roll(6):
		if _, err := f.Log.Append(ctx, subject, data, expect); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("append: %w", ErrUncertain) // it was done
	}
	return f.Log.Append(ctx, subject, data, expect)
}

// Whatever happens to appends, and however many write: what was acknowledged is
// there, once, in the order of the log; all who follow come to the same, and so
// does whoever opens the log afterwards.
func TestEveryScheduleAgrees(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, blobs := NewMemory(), NewMemoryBlobs()
		seed := rapid.Uint64().Draw(rt, "seed")
		var books []*book
		for n := range uint64(3) {
			rnd := rand.New(rand.NewPCG(seed, n))
			j, err := Open(context.Background(), &fickle{Log: log, rnd: rnd}, blobs, kind(nil), Options{TombLife: time.Nanosecond})
			if err != nil {
				rt.Fatal(err)
			}
			defer j.Close()
			j.Follow()
			books = append(books, j)
		}
		var mu sync.Mutex
		acked := map[string]int64{} // the latest stamp by key and name that was acknowledged; each writer has names of its own
		var wg sync.WaitGroup
		for n, j := range books {
			steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 25).Draw(rt, "steps")
			wg.Go(func() {
				for i, step := range steps {
					key, name := fmt.Sprint("k", step%3), fmt.Sprint("w", n, "_", step%2)
					switch {
					case step == 9:
						j.Bury(context.Background(), time.Now())
					case step == 8:
						// Only this writer's own entity is ever removed.
						own := fmt.Sprint("own", n)
						if put(j, own, "v", "v") == nil {
							_ = j.At(own).Remove(context.Background(), nil) // an uncertain removal may be none
						}
					default:
						s := stamp()
						data := strings.Repeat("d", (i%3)*60)
						_, _, err := j.At(key).Commit(context.Background(), func(notes) (*note, []byte, error) {
							return &note{Put: name, Stamp: s}, []byte(fmt.Sprint(s, " ", data)), nil
						})
						if err == nil {
							mu.Lock()
							acked[key+"/"+name] = s
							mu.Unlock()
						}
					}
				}
			})
		}
		wg.Wait()
		final, err := Open(context.Background(), log, blobs, kind(nil), Options{})
		if err != nil {
			rt.Fatal(err)
		}
		defer final.Close()
		want := readIn(rt, final)
		for _, j := range books {
			for _, key := range []string{"k0", "k1", "k2", "own0", "own1", "own2"} {
				if _, err := j.At(key).Latest(context.Background()); err != nil {
					rt.Fatal(err)
				}
			}
			if d := cmp.Diff(want, readIn(rt, j)); d != "" {
				rt.Fatalf("they differ (-log +memory):\n%s", d)
			}
		}
		for at, s := range acked {
			var got int64
			if _, err := fmt.Sscan(want[at], &got); err != nil || got < s {
				rt.Fatalf("%s: %d was acknowledged, %q is there", at, s, want[at])
			}
		}
	})
}

func readIn(t rapid.TB, j *book) map[string]string {
	out := map[string]string{}
	j.Each(func(x *Entity[notes, note]) {
		for name, at := range x.State() {
			b, err := x.Data(context.Background(), at)
			if err != nil {
				t.Fatalf("%s of %s: %v", name, x.Key(), err)
			}
			out[x.Key()+"/"+name] = string(b)
		}
	})
	return out
}

// A slow append of one entity keeps nobody from hearing of others.
func TestSlowWriterHoldsNobodyUp(t *testing.T) {
	log := NewMemory()
	gate := make(chan struct{})
	slow := &gated{Log: log, gate: gate, reached: make(chan struct{})}
	a := open(t, slow, nil, Options{}, nil)
	b := open(t, log, nil, Options{}, nil)
	ended := make(chan error, 1)
	go func() { ended <- put(a, "slow", "one", "1") }()
	<-slow.reached
	for i := range 3 {
		if err := put(b, "slow", fmt.Sprint("other", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(b, "quick", "one", "1"); err != nil {
		t.Fatal(err)
	}
	until(t, "others are heard", func() bool { return a.Get("quick") != nil })
	close(gate)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	until(t, "all is known on both sides", func() bool {
		x, y := a.Get("slow"), b.Get("slow")
		return x != nil && y != nil && len(x.State()) == 4 && len(y.State()) == 4
	})
	names := slices.Sorted(maps.Keys(a.At("slow").State()))
	if fmt.Sprint(names) != "[one other0 other1 other2]" {
		t.Errorf("there is %v", names)
	}
}

// gated holds appends to one subject up.
type gated struct {
	Log
	gate    chan struct{}
	once    sync.Once
	reached chan struct{}
}

func (g *gated) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if strings.Contains(subject, "slow") {
		g.once.Do(func() { close(g.reached) })
		<-g.gate
	}
	return g.Log.Append(ctx, subject, data, expect)
}
