package chat

import (
	"context"
	"testing"

	"github.com/stoahub/stoa/internal/store"
)

// late is a ledger that answers before it has written: what it says was in vain
// is there with the next append, or when it is looked at again.
type late struct {
	ledger
	held  *Event // not written yet
	at    uint64
	every int // which appends are late
	n     int
}

func (l *late) append(ctx context.Context, ev *Event, expect uint64) (uint64, error) {
	if held := l.held; held != nil {
		l.held = nil
		if _, err := l.ledger.append(ctx, held, l.at); err != nil {
			return 0, err
		}
	}
	if l.n++; l.n%l.every == 0 {
		copied := *ev
		l.held, l.at = &copied, expect
		return 0, &store.Conflict{Expected: expect, Last: expect}
	}
	return l.ledger.append(ctx, ev, expect)
}

// TestLateAppend writes every event once, also if the store was so slow that an
// append had been given up when it was done.
func TestLateAppend(t *testing.T) {
	for _, every := range []int{2, 3, 5} {
		s := newStage(t, staged{model: &spoken{answers: []answer{says("I look.", "srv__echo"), says("There.")}}})
		under := s.e.ledgers
		s.e.ledgers = func(id string) ledger { return &late{ledger: under(id), every: every} }
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
