package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// tally is a kind whose state is changed in place: names in the order in which
// they came, none twice.
type tally struct{ names []string }

type named struct {
	Name string `json:"name"`
}

func tallies(changed func(x *Entity[*tally, named], e *named, at Place)) Kind[*tally, named] {
	return Kind[*tally, named]{
		Subjects: "evt.tally.*.*",
		New:      func(string) *tally { return &tally{} },
		Encode:   func(e *named, _ []byte, _ string) ([]byte, error) { return json.Marshal(e) },
		Decode: func(entry []byte) (*named, []byte, string, error) {
			e := &named{}
			err := json.Unmarshal(entry, e)
			return e, nil, "", err
		},
		Check: func(s *tally, e *named) error {
			if slices.Contains(s.names, e.Name) {
				return fmt.Errorf("%s is there", e.Name)
			}
			return nil
		},
		Apply: func(s *tally, e *named, _ Place) (*tally, []Spare, error) {
			s.names = append(s.names, e.Name)
			return s, nil, nil
		},
		Changed: changed,
	}
}

func openTally(t *testing.T, log Log, changed func(x *Entity[*tally, named], e *named, at Place)) *Journal[*tally, named] {
	t.Helper()
	j, err := Open(context.Background(), log, nil, tallies(changed), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	j.Follow()
	return j
}

func names(x *Entity[*tally, named]) string {
	x = x.Lock()
	defer x.Unlock()
	return fmt.Sprint(x.Now().names)
}

// Who holds an entity hears of nothing; its append then says that others were
// quicker, and what they wrote is known.
func TestHolderIsToldThatOthersWrote(t *testing.T) {
	log := NewMemory()
	var told []string // with the entity locked
	a := openTally(t, log, func(x *Entity[*tally, named], e *named, at Place) {
		told = append(told, fmt.Sprint(x.Key(), " ", e.Name, " ", at.Seq))
	})
	b := openTally(t, log, nil)
	x := a.At("s.one").Lock()
	y := b.At("s.one").Lock()
	if err := y.Append(t.Context(), &named{"theirs"}, nil); err != nil {
		t.Fatal(err)
	}
	y.Unlock()
	err := x.Append(t.Context(), &named{"ours"}, nil)
	if !errors.Is(err, ErrAgain) || fmt.Sprint(x.Now().names) != "[theirs]" {
		t.Fatalf("the append ended with %v, and %v is known", err, x.Now().names)
	}
	if err := x.Append(t.Context(), &named{"theirs"}, nil); err == nil || errors.Is(err, ErrAgain) {
		t.Errorf("what cannot follow was appended: %v", err)
	}
	if err := x.Append(t.Context(), &named{"ours"}, nil); err != nil {
		t.Fatal(err)
	}
	x.Unlock()
	until(t, "both know both", func() bool { return names(a.At("s.one")) == "[theirs ours]" && names(b.At("s.one")) == "[theirs ours]" })
	x = x.Lock()
	if got := fmt.Sprint(told); got != "[s.one theirs 1 s.one ours 2]" {
		t.Errorf("it was told %s", got)
	}
	x.Unlock()
	if b.Get("s.two") != nil || b.Get("s") != nil {
		t.Error("there is what nobody wrote")
	}
}

// Replay gives what is known, from any entry on, and nothing of other entities.
func TestReplay(t *testing.T) {
	log := NewMemory()
	a := openTally(t, log, nil)
	for i := range 6 {
		x := a.At(fmt.Sprint("s.", i%2)).Lock()
		if err := x.Append(t.Context(), &named{fmt.Sprint("n", i)}, nil); err != nil {
			t.Fatal(err)
		}
		x.Unlock()
	}
	x := a.At("s.1").Lock()
	defer x.Unlock()
	var got []string
	if err := x.Replay(t.Context(), 3, func(e *named, _ []byte, at Place) error {
		got = append(got, fmt.Sprint(e.Name, "@", at.Seq))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[n3@4 n5@6]" {
		t.Errorf("it gave %v", got)
	}
}

// What an entity holds elsewhere goes before the last that tells of it does,
// also if that fails at first, and by the next process if this one ends.
func TestRemovedTakesTheRestAlong(t *testing.T) {
	log, blobs := NewMemory(), NewMemoryBlobs()
	var away, closing error
	var mu sync.Mutex
	start := func() *Journal[*tally, named] {
		kind := tallies(nil)
		kind.Removed = func(ctx context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			if err := errors.Join(away, closing); err != nil {
				away = nil
				return err
			}
			return blobs.Purge(ctx, strings.TrimPrefix(key, "s."))
		}
		j, err := Open(context.Background(), log, nil, kind, Options{Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(j.Close)
		return j
	}
	add := func(j *Journal[*tally, named], name string) {
		t.Helper()
		if _, err := blobs.Put(t.Context(), name, []byte("large")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := j.At("s."+name).Commit(t.Context(), func(*tally) (*named, []byte, error) { return &named{"x"}, nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	left := func() string {
		blobs.mu.Lock()
		defer blobs.mu.Unlock()
		return strings.Join(slices.Sorted(maps.Keys(blobs.all)), " ")
	}
	j := start()
	add(j, "one")
	add(j, "two")
	add(j, "three")
	away = errors.New("the disk is away")
	if err := j.At("s.one").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	until(t, "what the first held is gone", func() bool { return !strings.Contains(left(), "one.") })
	mu.Lock()
	closing = errors.New("the process ends")
	mu.Unlock()
	if err := j.At("s.two").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	j.Close()
	mu.Lock()
	closing = nil
	mu.Unlock()
	start()
	until(t, "what the second held is gone", func() bool { return !strings.Contains(left(), "two.") })
	if !strings.Contains(left(), "three.") {
		t.Error("what another holds is gone too")
	}
}

// slowLast is a log whose answers to Last are old when they come.
type slowLast struct {
	*Memory
	after func() // what happens in between; once
}

func (l *slowLast) Last(ctx context.Context, filter string) (Entry, error) {
	e, err := l.Memory.Last(ctx, filter)
	if f := l.after; f != nil {
		l.after = nil
		f()
	}
	return e, err
}

// What is heard while the latest is asked for is not taken for a removal.
func TestLatestIsOvertaken(t *testing.T) {
	log := &slowLast{Memory: NewMemory()}
	var removed atomic.Bool
	j := openTally(t, log, func(_ *Entity[*tally, named], e *named, _ Place) {
		if e == nil {
			removed.Store(true)
		}
	})
	add := func(name string) {
		t.Helper()
		x := j.At("s.one").Lock()
		defer x.Unlock()
		if err := x.Append(t.Context(), &named{name}, nil); err != nil {
			t.Fatal(err)
		}
	}
	add("a")
	log.after = func() { add("b") }
	if _, err := j.At("s.one").Latest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(j.At("s.one")); got != "[a b]" || removed.Load() {
		t.Errorf("%s is known, and it is told to be removed: %v", got, removed.Load())
	}
}

// Replay gives nothing of an entity that was removed, though its entries may be
// in the log still; nobody has to hold the entity.
func TestReplayAfterRemoval(t *testing.T) {
	slow := &keeping{Memory: NewMemory()}
	a := openTally(t, slow, nil)
	for _, name := range []string{"old", "", "new"} {
		x := a.At("s.one")
		if name == "" {
			if err := x.Remove(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			continue
		}
		x = x.Lock()
		if err := x.Append(t.Context(), &named{name}, nil); err != nil {
			t.Fatal(err)
		}
		x.Unlock()
	}
	var got []string
	if err := a.At("s.one").Replay(t.Context(), 0, func(e *named, _ []byte, at Place) error {
		got = append(got, fmt.Sprint(e.Name, "@", at.Seq))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[new@3]" {
		t.Errorf("it gave %v", got)
	}
}

// keeping removes nothing.
type keeping struct{ *Memory }

func (keeping) Delete(context.Context, uint64) error { return errors.New("not now") }

func (keeping) PurgeBefore(context.Context, string, uint64) error { return errors.New("not now") }

// Who is told that an entity was removed sees what it was; everybody else sees
// that it is not there.
func TestToldWhatWasRemoved(t *testing.T) {
	log := NewMemory()
	heard := make(chan string, 10)
	told := func(x *Entity[*tally, named], e *named, _ Place) {
		if e == nil {
			heard <- fmt.Sprint(x.Key(), " ", x.State().names, " ", x.There())
		}
	}
	a, b := openTally(t, log, told), openTally(t, log, told)
	x := a.At("s.one").Lock()
	if err := x.Append(t.Context(), &named{"first"}, nil); err != nil {
		t.Fatal(err)
	}
	x.Unlock()
	until(t, "the other knows", func() bool { return names(b.At("s.one")) == "[first]" })
	if err := a.At("s.one").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-heard; got != "s.one [first] false" {
			t.Errorf("it was told %s", got)
		}
	}
	for _, j := range []*Journal[*tally, named]{a, b} {
		if got := names(j.At("s.one")); got != "[]" {
			t.Errorf("there is %s", got)
		}
	}
}

// The log was wiped and counts anew: what stands where data was is not taken for
// it.
func TestDataIsNotAnothers(t *testing.T) {
	log := NewMemory()
	j := open(t, log, nil, Options{}, nil)
	for _, key := range []string{"x", "y"} {
		if err := put(j, key, "one", "of "+key); err != nil {
			t.Fatal(err)
		}
	}
	at := j.At("y").State()["one"]
	if b, err := j.At("y").Data(t.Context(), at); err != nil || string(b) != "of y" {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := j.At("x").Data(t.Context(), at); !errors.Is(err, ErrNotFound) {
		t.Errorf("x gives %q, %v", b, err)
	}
}
