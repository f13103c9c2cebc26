package chat

import (
	"testing"
	"time"

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
	for deadline := time.Now().Add(10 * time.Second); !c.unused(); {
		if time.Now().After(deadline) {
			t.Fatal("somebody still has it in hand")
		}
	}
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
