package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// counted counts what a program's log is told.
type counted struct {
	mu    sync.Mutex
	lines []string
}

func (c *counted) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, string(b))
	return len(b), nil
}

func (c *counted) of(words string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

// growing is a kind of notes that knows no notes whose names begin with later.
func growing() Kind[notes, note] {
	k := kind(nil)
	decode, apply := k.Decode, k.Apply
	k.Decode = func(entry []byte) (*note, []byte, string, error) {
		if after, ok := strings.CutPrefix(string(entry), "later:"); ok {
			return nil, nil, "", &Unknown{Type: after}
		}
		return decode(entry)
	}
	k.Apply = func(s notes, e *note, at Place) (notes, []Spare, error) {
		if e.Put == "later" {
			return s, nil, &Unknown{Type: "put later"}
		}
		return apply(s, e, at)
	}
	return k
}

// Entries of types that a release does not know stay where they are, whatever
// happens to the rest of the entity, and go with it. The log is told once of each
// type, also if they come from others while the journal is open.
func TestEntriesOfALaterRelease(t *testing.T) {
	log, said := NewMemory(), &counted{}
	follow := func() *book {
		t.Helper()
		j, err := Open(t.Context(), log, nil, growing(), Options{Logger: slog.New(slog.NewTextHandler(said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(j.Close)
		j.Follow()
		return j
	}
	j := follow()
	var foreign []uint64
	strange := func(text string) {
		t.Helper()
		last, err := log.Last(t.Context(), "evt.notes.x.e")
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		seq, err := log.Append(t.Context(), "evt.notes.x.e", []byte(text), last.Seq)
		if err != nil {
			t.Fatal(err)
		}
		foreign = append(foreign, seq)
	}
	strange("later:first of all")
	mustPut(t, j, "x", "one", "two")
	for range 3 {
		strange("later:first of all")
		strange(`{"put":"later","stamp":1}` + "\n")
		mustPut(t, j, "x", "two", "three") // what replaces is trimmed
	}
	if err := take(j, "x", "one"); err != nil {
		t.Fatal(err)
	}
	until(t, "what was replaced is removed", func() bool {
		n := 0
		err := log.Scan(t.Context(), "evt.notes.x.e", 0, func(Entry) error { n++; return nil })
		return err == nil && n == len(foreign)+3 // two, three, and that one was taken
	})
	for _, seq := range foreign {
		if _, err := log.Read(t.Context(), seq); err != nil {
			t.Errorf("entry %d of a later release: %v", seq, err)
		}
	}
	if err := j.resync(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := known(j, "x"); got != "[three two]" {
		t.Errorf("there is %s", got)
	}
	of := func(kind string) int { return said.of(fmt.Sprintf("type=%q", kind)) }
	if a, b := of("first of all"), of("put later"); a != 1 || b != 1 {
		t.Errorf("the log was told %d and %d times: %q", a, b, said.lines)
	}
	if said.of("ERROR") > 0 {
		t.Errorf("the log was told of errors: %q", said.lines)
	}
	again := follow()
	if got := known(again, "x"); got != "[three two]" {
		t.Errorf("opened again there is %s", got)
	}
	if err := again.At("x").Replay(t.Context(), 0, func(e *note, _ []byte, _ Place) error {
		if e == nil {
			t.Error("an event that nobody can read is replayed")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := again.At("x").Remove(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	again.Bury(t.Context(), time.Now().Add(time.Hour))
	until(t, "they are gone with the entity", func() bool {
		for _, seq := range foreign {
			if _, err := log.Read(t.Context(), seq); !errors.Is(err, ErrNotFound) {
				return false
			}
		}
		return true
	})
}

// Types are made elsewhere: how many of them are said has a bound.
func TestManyUnknownTypes(t *testing.T) {
	log, said := NewMemory(), &counted{}
	for i := range 3 * mostUnknown {
		if _, err := log.Append(t.Context(), fmt.Sprintf("evt.notes.%d.e", i), fmt.Appendf(nil, "later:%d", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	j, err := Open(t.Context(), log, nil, growing(), Options{Logger: slog.New(slog.NewTextHandler(said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n := said.of("kept and skipped"); n != mostUnknown {
		t.Errorf("%d lines were said", n)
	}
}
