package chatws

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// TestList: everybody sees their own conversations, the last used first, also
// those that a hub before this one has held; an empty one is none.
func TestList(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	b := openOn(t, st, Options{})
	listed := func(who string) []chat.Brief {
		t.Helper()
		var out struct{ Conversations []chat.Brief }
		text := body(t, b.get("/api/chat", "Authorization", "Bearer "+who))
		if err := json.Unmarshal([]byte(text), &out); err != nil || out.Conversations == nil {
			t.Fatalf("%v: %s", err, text)
		}
		return out.Conversations
	}
	say := func(who, session, text string) {
		t.Helper()
		c := b.dial("sessionId="+session, who)
		c.find("connection")
		c.message(text)
		b.says("Yes.")
		b.stops()
		c.find("turn.ended")
	}
	b.dial("sessionId=empty", "ann").find("connection")
	say("ann", "old", "first\n words")
	say("bob", "his", "mine")
	say("ann", "new", strings.Repeat("é", 100))
	check := func() {
		t.Helper()
		got := listed("ann")
		if len(got) != 2 || got[0].Session != "new" || got[1].Session != "old" || got[1].Title != "first words" || got[0].Title != strings.Repeat("é", 79)+"…" || got[1].Seq == 0 || got[1].Turn != "" {
			t.Errorf("ann sees %+v", got)
		}
		if got := listed("bob"); len(got) != 1 || got[0].Session != "his" {
			t.Errorf("bob sees %+v", got)
		}
		if got := listed("carl"); len(got) != 0 {
			t.Errorf("carl sees %+v", got)
		}
	}
	check()
	b.close()
	b = openOn(t, st, Options{})
	check()
}
