package chat

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// TestListingKeepsNothingAlive: a console that shows the list all day must not
// keep what is in it from being forgotten.
func TestListingKeepsNothingAlive(t *testing.T) {
	s := newStage(t, staged{store: storetest.Open(t, store.Options{}), model: &spoken{answers: []answer{says("yes")}}, options: Options{Expire: time.Hour, Idle: time.Minute}})
	c := s.open("one")
	s.send(c, "hello")
	s.turns(c, 1)
	// Who answers lets go of it a moment after the end of the turn.
	await.Until(t, "nobody has it in hand", c.unused)
	s.e.Sweep(t.Context(), time.Now().Add(30*time.Minute)) // out of memory, so that listing has to read it
	used := c.used.Load()
	if list, more := s.e.List(s.who.Name, 10); len(list) != 1 || list[0].Title != "hello" || more {
		t.Fatalf("%+v, more %v", list, more)
	}
	if list, more := s.e.List(s.who.Name, 0); len(list) != 0 || !more {
		t.Errorf("with no room: %+v, more %v", list, more)
	}
	if got := c.used.Load(); got != used {
		t.Errorf("it was used %d ns later than before it was listed", got-used)
	}
}

// Whose the conversations are is known after a restart, also of one whose first
// message is too long for an entry; one in which nothing was said is none.
func TestKeysAfterARestart(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	s := newStage(t, staged{store: st, model: &spoken{answers: []answer{says("yes"), says("yes")}}})
	for name, text := range map[string]string{"short": "hello", "long": strings.Repeat("x", store.MaxEntry+100)} {
		c := s.open(name)
		s.send(c, text)
		s.turns(c, 1)
	}
	s.open("silent")
	keys := func(e *Engine) []Key {
		all := e.Keys(func(string) bool { return true })
		slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Session, b.Session) })
		return all
	}
	want := []Key{{s.who.Name, "long"}, {s.who.Name, "short"}}
	if got := keys(s.e); !slices.Equal(got, want) {
		t.Errorf("before: %v", got)
	}
	s.e.Close()
	s.use(staged{store: st, model: &spoken{}})
	if got := keys(s.e); !slices.Equal(got, want) {
		t.Errorf("after: %v", got)
	}
	if c := s.e.Find(s.who.Name, "long"); c == nil || c.Began().IsZero() || c.Used().Before(c.Began()) {
		t.Errorf("the long one: %+v", c)
	}
	if s.e.Find(s.who.Name, "silent") != nil || len(s.e.Keys(func(who string) bool { return who == "other" })) > 0 {
		t.Error("it knows of one that is not there")
	}
}
