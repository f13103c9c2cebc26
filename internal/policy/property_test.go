package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
)

// act is one thing that somebody does.
type act struct {
	what             string
	who, session     int
	tool, which      int
	approve, settled bool // settled: the next waits until nothing moves any more
	scope            Remember
	wait             time.Duration
}

func drawActs(rt *rapid.T) []act {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) act {
		return act{
			what: rapid.SampledFrom([]string{"ask", "ask", "ask", "decide", "decide", "decide", "wait", "attend", "leave", "abort", "forget"}).Draw(rt, "what"),
			who:  rapid.IntRange(0, 1).Draw(rt, "who"), session: rapid.IntRange(0, 1).Draw(rt, "session"), tool: rapid.IntRange(0, 1).Draw(rt, "tool"),
			which: rapid.IntRange(0, 9).Draw(rt, "which"), approve: rapid.Bool().Draw(rt, "approve"), settled: rapid.IntRange(0, 3).Draw(rt, "settled") > 0,
			scope: rapid.SampledFrom([]Remember{Once, Once, Once, ForSession, ForTool, ForUpstream}).Draw(rt, "scope"),
			wait:  time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second,
		}
	}), 1, 60).Draw(rt, "acts")
}

// question is one approval of a schedule.
type question struct {
	Approval
	cancel  context.CancelFunc
	aborted bool
	done    bool
	times   int // how often it was decided
	out     outcome
	said    []Decision // that Decide took
}

// schedule plays acts and remembers what must come of them.
type schedule struct {
	d     *Desk
	mu    sync.Mutex
	wg    sync.WaitGroup
	all   []*question
	here  []func()
	where []place
	left  map[place]time.Time
}

var people = []*auth.Principal{{Name: "p0", Rights: auth.Rights{auth.RightApprove}}, {Name: "p1", Rights: auth.Rights{auth.RightApprove}}}

func (s *schedule) play(ctx context.Context, a act) {
	switch a.what {
	case "ask":
		s.ask(ctx, a)
	case "decide":
		s.decide(a)
	case "wait":
		<-time.After(a.wait)
	case "attend":
		at := place{people[a.who].Name, ""}
		if a.approve {
			at.session = fmt.Sprint("s", a.session)
		}
		s.here, s.where = append(s.here, s.d.Attend(at.principal, at.session)), append(s.where, at)
	case "leave":
		if n := len(s.here); n > 0 {
			i := a.which % n
			s.here[i]()
			s.left[s.where[i]] = time.Now()
			s.here, s.where = append(s.here[:i:i], s.here[i+1:]...), append(s.where[:i:i], s.where[i+1:]...)
		}
	case "abort":
		s.mu.Lock()
		if n := len(s.all); n > 0 {
			q := s.all[n-1-a.which%n]
			q.aborted = true
			q.cancel()
		}
		s.mu.Unlock()
	case "forget":
		_, _ = s.d.Forget(ctx, people[a.who].Name, "") // memory does not fail
	}
}

func (s *schedule) ask(ctx context.Context, a act) {
	ctx, cancel := context.WithCancel(ctx)
	tool := fmt.Sprint("t", a.tool)
	q := &question{cancel: cancel, Approval: Approval{Principal: people[a.who].Name, Session: fmt.Sprint("s", a.session), Tool: tool, Ref: "u:" + tool, Upstream: "u", Args: json.RawMessage(`{}`)}}
	s.mu.Lock()
	s.all = append(s.all, q)
	s.mu.Unlock()
	s.wg.Go(func() {
		dec, err := s.d.Ask(ctx, q.Approval, func(a Approval) {
			s.mu.Lock()
			defer s.mu.Unlock()
			q.ID = a.ID
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		q.done, q.out = true, outcome{dec, err}
		q.times++
	})
}

// decide answers one of the last questions, on a goroutine of its own.
func (s *schedule) decide(a act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.all)
	if n == 0 {
		return
	}
	q := s.all[n-1-a.which%n]
	id := q.ID
	if id == "" {
		return
	}
	s.wg.Go(func() {
		dec := Decision{Approve: a.approve, Remember: a.scope}
		if s.d.Decide(people[a.who], id, dec) != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		q.said = append(q.said, dec)
		if people[a.who].Name != q.Principal {
			q.said = append(q.said, dec) // counts as two: it must not have been taken
		}
	})
}

// Whatever people do and in whatever order, each question is decided exactly
// once, as the one who was first said, and never in favour of a call that
// nobody approved.
func TestEachQuestionIsDecidedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		acts := drawActs(rt)
		synctest.Test(t, func(t *testing.T) {
			bus := event.New(4096)
			d, err := OpenDesk(t.Context(), nil, DeskOptions{Expiry: 60 * time.Second, Linger: 15 * time.Second, Max: 6, Events: bus})
			if err != nil {
				rt.Fatal(err)
			}
			s := &schedule{d: d, left: map[place]time.Time{}}
			for _, a := range acts {
				s.play(t.Context(), a)
				if a.settled {
					synctest.Wait()
					s.attended(rt)
				}
			}
			<-time.After(2 * time.Minute)
			s.wg.Wait()
			for _, leave := range s.here {
				leave()
			}
			if left := d.Pending(""); len(left) != 0 {
				rt.Errorf("after all: %+v", left)
			}
			s.judge(rt, bus)
			d.Close()
			for _, q := range s.all {
				q.cancel()
			}
		})
	})
}

// attended checks that nothing waits for somebody who is not there.
func (s *schedule) attended(rt *rapid.T) {
	for _, a := range s.d.Pending("") {
		there := false
		for _, at := range s.where {
			there = there || at.principal == a.Principal && (at.session == "" || at.session == a.Session)
		}
		for at, when := range s.left {
			there = there || at.principal == a.Principal && (at.session == "" || at.session == a.Session) && time.Since(when) < 15*time.Second
		}
		if !there {
			rt.Errorf("%s waits and nobody is there", a.ID)
		}
	}
}

func (s *schedule) judge(rt *rapid.T, bus *event.Bus) {
	records, lost, _ := bus.After(0, 4096)
	asked, decided, total := map[string]int{}, map[string]int{}, 0
	for _, r := range records {
		id := r.Data.(Trace).ID
		if r.Type == event.PolicyAsked {
			asked[id]++
			continue
		}
		if total++; id != "" {
			decided[id]++
		}
	}
	if lost > 0 || total != len(s.all) {
		rt.Errorf("%d questions, %d decisions told", len(s.all), total)
	}
	ever := map[string]bool{} // what was ever said to hold for more
	for _, q := range s.all {
		for _, dec := range q.said {
			if r, ok := remembered(&q.Approval, dec.Remember); ok && dec.Approve {
				ever[r.Principal+string(r.Scope)+r.Session+r.Ref] = true
			}
		}
	}
	for i, q := range s.all {
		dec := q.out.dec
		switch {
		case q.times != 1 || len(q.said) > 1:
			rt.Errorf("question %d was decided %d times, and %d decisions were taken", i, q.times, len(q.said))
		case q.ID != "" && (asked[q.ID] != 1 || decided[q.ID] != 1):
			rt.Errorf("question %d: told %d and %d times", i, asked[q.ID], decided[q.ID])
		case len(q.said) == 1 && !q.aborted && (dec.Approve != q.said[0].Approve || dec.By != q.Principal):
			rt.Errorf("question %d: %+v, but the answer was %+v", i, dec, q.said[0])
		case q.out.err != nil && dec.Approve:
			rt.Errorf("question %d: approved with an error: %v", i, q.out.err)
		case dec.Approve && dec.Reason == ReasonRemembered && !s.covered(q, ever):
			rt.Errorf("question %d: approved by what nobody said", i)
		case dec.Approve && dec.Reason != ReasonRemembered && len(q.said) == 0:
			rt.Errorf("question %d: approved by nobody: %+v", i, dec)
		}
	}
}

func (s *schedule) covered(q *question, ever map[string]bool) bool {
	for _, scope := range scopes {
		if r, ok := remembered(&Approval{Principal: q.Principal, Session: q.Session, Ref: q.Ref, Upstream: q.Upstream, Kind: KindTool}, scope); ok && ever[r.Principal+string(r.Scope)+r.Session+r.Ref] {
			return true
		}
	}
	return false
}
