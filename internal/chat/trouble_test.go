package chat

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// TestStoreThatCannotWrite keeps the end of a turn when the store is back: a
// tool is not called that could not be noted before.
func TestStoreThatCannotWrite(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{hangs("I will"), says("fine")}}})
	dead := &atomic.Bool{}
	under := s.e.ledgers
	s.e.ledgers = func(id string) ledger { return &mortal{under(id), dead} }
	c := s.open("one")
	s.send(c, "go")
	s.until(c, func(ev *Event) bool { return ev.Type == TextPart })
	dead.Store(true)
	if _, err := c.Send(t.Context(), Input{Text: "more"}); err == nil {
		t.Error("an input was taken that is not kept")
	}
	if ok, err := c.Abort("", false); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if st := s.state(c); st.Turn == nil {
		t.Error("the turn has ended, though nothing could be written")
	}
	dead.Store(false)
	s.turns(c, 1)
	s.send(c, "more")
	s.turns(c, 2)
	if log := describe(s.log(c)); !strings.Contains(log, `text "I will"`) || s.state(c).Last.Reason != ReasonDone {
		t.Errorf("%s", log)
	}
}

// TestCallsAreNotedBefore calls no tool of which the log does not say so.
func TestCallsAreNotedBefore(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", "srv__wipe"), says("x")}}, rules: policy.Rules{Default: policy.Allow}})
	dead := &atomic.Bool{}
	under := s.e.ledgers
	s.e.ledgers = func(id string) ledger { return &failing{under(id), CallStarted, dead} }
	dead.Store(true)
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	if got := s.shop.called(); len(got) != 0 {
		t.Errorf("called: %v", got)
	}
	if log := describe(s.log(c)); !strings.Contains(log, `cancelled "not called: the turn ended before"`) || !strings.Contains(log, "turn.ended failed") {
		t.Error(log)
	}
}

// TestTwoHubs lets one hub take a conversation over from another: the log stays
// one, and the other one's turn ends.
func TestTwoHubs(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	a := newStage(t, staged{store: st, model: &spoken{answers: []answer{hangs("I am a"), says("a again")}}})
	ca := a.open("one")
	a.send(ca, "go")
	a.until(ca, func(ev *Event) bool { return ev.Type == TextPart })
	b := newStage(t, staged{store: st, model: &spoken{answers: []answer{says("I am b")}}})
	cb := b.open("one")
	b.send(cb, "and you?")
	b.turns(cb, 2)

	// The first one learns of it when it writes.
	a.send(ca, "still there?")
	if _, err := ca.Abort("", false); err != nil {
		t.Fatal(err)
	}
	a.turns(ca, 3)
	log := a.log(ca)
	for i, ev := range log {
		if ev.Seq != uint64(i)+1 {
			t.Fatalf("event %d at %d\n%s", ev.Seq, i+1, describe(log))
		}
	}
	text := describe(log)
	if !strings.Contains(text, "turn.ended interrupted") || !strings.Contains(text, `"I am b"`) || strings.Count(text, "turn.started") != strings.Count(text, "turn.ended") {
		t.Error(text)
	}
}

// failing is a ledger that cannot keep events of one type.
type failing struct {
	ledger
	what Type
	on   *atomic.Bool
}

func (f *failing) append(ctx context.Context, ev *Event, expect uint64) (uint64, error) {
	if ev.Type == f.what && f.on.Load() {
		return 0, errDead
	}
	return f.ledger.append(ctx, ev, expect)
}
