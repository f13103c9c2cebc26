package journal

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// deaf is a log whose reads can be counted and refused, and which is followed by
// nobody.
type deaf struct {
	*Memory
	asked atomic.Int32
	away  atomic.Bool
}

func (d *deaf) Last(ctx context.Context, filter string) (Entry, error) {
	d.asked.Add(1)
	if d.away.Load() {
		return Entry{}, errors.New("away")
	}
	return d.Memory.Last(ctx, filter)
}

// Who asks for what was in the log at a moment gets it, whether what others write
// arrives or not. What is young enough costs nothing, and an error leaves what is
// known as old as it is.
func TestCurrent(t *testing.T) {
	log := &deaf{Memory: NewMemory()}
	kind := Records[string]("evt.words.*", nil)
	open := func() *Journal[Record[string], string] {
		j, err := Open(t.Context(), log, nil, kind, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(j.Close)
		return j
	}
	a, b := open(), open()
	say := func(key, word string) {
		t.Helper()
		if _, _, err := a.At(key).Commit(t.Context(), func(Record[string]) (*string, []byte, error) { return &word, nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(key string) string {
		if v := b.At(key).State().Value; v != nil {
			return *v
		}
		return ""
	}
	for _, word := range []string{"one", "two", "three"} {
		say("x", word)
		if got := hears("x"); got == word {
			t.Fatalf("it knows %q before it has asked", got)
		}
		if err := b.Current(t.Context(), time.Now()); err != nil || hears("x") != word {
			t.Fatalf("it has %q, want %q: %v", hears("x"), word, err)
		}
	}
	before := log.asked.Load()
	if err := b.Current(t.Context(), b.Known()); err != nil || log.asked.Load() != before {
		t.Errorf("it asked %d times for what it knows: %v", log.asked.Load()-before, err)
	}
	since := time.Now()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := b.Current(t.Context(), since); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := log.asked.Load() - before; n != 2 { // before it is read and after
		t.Errorf("16 who ask for the same moment asked %d times what is last", n)
	}
	log.away.Store(true)
	known := b.Known()
	if err := b.Current(t.Context(), time.Now()); err == nil || !b.Known().Equal(known) {
		t.Errorf("while the log is away: %v, known since %v later", err, b.Known().Sub(known))
	}
	log.away.Store(false)
	say("y", "four")
	if err := a.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Current(t.Context(), time.Now()); err != nil || hears("y") != "four" || b.Get("x") != nil {
		t.Errorf("after that: y is %q, x there: %v, %v", hears("y"), b.Get("x") != nil, err)
	}
}

// Of two who write the same thing at the same time, one has written it.
func TestOneOfTwoWrites(t *testing.T) {
	log := NewMemory()
	var all []*Journal[Record[string], string]
	for range 2 {
		j, err := Open(t.Context(), log, nil, Records[string]("evt.words.*", nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		j.Follow()
		all = append(all, j)
	}
	for i := range 200 {
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, j := range all {
			wg.Go(func() {
				mine := "taken"
				e, _, err := j.At(string(rune('a'+i))).Commit(t.Context(), func(s Record[string]) (*string, []byte, error) {
					if s.Value != nil {
						return nil, nil, nil
					}
					return &mine, nil, nil
				})
				if err != nil {
					t.Error(err)
				}
				if e != nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d have taken it", won.Load())
		}
	}
}
