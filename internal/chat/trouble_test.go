package chat

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/wire"
)

// TestStoreThatCannotWrite keeps the end of a turn when the store is back: a
// tool is not called that could not be noted before.
func TestStoreThatCannotWrite(t *testing.T) {
	dead := &atomic.Bool{}
	s := newStage(t, staged{model: &spoken{answers: []answer{hangs("I will"), says("fine")}}, over: func(l journal.Log) journal.Log { return &mortal{l, dead} }})
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
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", "srv__wipe"), says("x")}}, rules: policy.Rules{Default: policy.Allow}, over: func(l journal.Log) journal.Log {
		return &failing{l, CallStarted}
	}})
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

// failing is a log that cannot keep events of one type.
type failing struct {
	journal.Log
	what Type
}

func (f *failing) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if kind, _ := wire.String(wire.Get(data, "type")); Type(kind) == f.what {
		return 0, errDead
	}
	return f.Log.Append(ctx, subject, data, expect)
}
