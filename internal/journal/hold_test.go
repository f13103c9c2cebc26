package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
