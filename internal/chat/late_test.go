package chat

import (
	"context"
	"testing"

	"github.com/stoahub/stoa/internal/journal"
)

// late is a log that answers before it has written: what it says is not known
// to be there is there with the next append, or when it is looked at again.
type late struct {
	journal.Log
	held  *journal.Entry // not written yet; its Seq is what was expected
	every int            // which appends are late
	n     int
}

func (l *late) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if held := l.held; held != nil {
		l.held = nil
		if _, err := l.Log.Append(ctx, held.Subject, held.Data, held.Seq); err != nil {
			return 0, err
		}
	}
	if l.n++; l.n%l.every == 0 {
		l.held = &journal.Entry{Seq: expect, Subject: subject, Data: data}
		return 0, journal.ErrUncertain
	}
	return l.Log.Append(ctx, subject, data, expect)
}

// TestLateAppend writes every event once, also if the store was so slow that an
// append had been given up when it was done.
func TestLateAppend(t *testing.T) {
	for _, every := range []int{2, 3, 5} {
		s := newStage(t, staged{model: &spoken{answers: []answer{says("I look.", "srv__echo"), says("There.")}}, over: func(l journal.Log) journal.Log {
			return &late{Log: l, every: every}
		}})
		c := s.open("one")
		s.send(c, "go")
		log := s.turns(c, 1)
		count := map[Type]int{}
		for _, ev := range log {
			if !ev.Live {
				count[ev.Type]++
			}
		}
		for kind, want := range map[Type]int{InputAdded: 1, TurnStarted: 1, CallMade: 1, CallStarted: 1, CallDone: 1, AnswerDone: 2, TurnEnded: 1} {
			if count[kind] != want {
				t.Errorf("%d of %s:\n%s", count[kind], kind, describe(log))
			}
		}
		if called := s.shop.called(); len(called) != 1 {
			t.Errorf("called: %q", called)
		}
	}
}
