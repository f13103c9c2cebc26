package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
)

// kinds counts the compactions of a conversation.
func kinds(events []Event) map[string]int {
	out := map[string]int{}
	for _, ev := range events {
		if ev.Type == Compacted {
			out[ev.Compaction.Kind]++
		}
	}
	return out
}

// paired says what is wrong with the calls and results that the model is shown.
func paired(messages []llm.Message) error {
	for i, m := range messages {
		calls := m.Calls()
		if len(calls) == 0 {
			continue
		}
		if i+1 >= len(messages) || messages[i+1].Role != llm.FromTool || len(messages[i+1].Parts) != len(calls) {
			return fmt.Errorf("message %d has %d calls, and no results after it", i, len(calls))
		}
		for j, p := range messages[i+1].Parts {
			if p.Result.ID != calls[j].ID {
				return fmt.Errorf("message %d: result %d is of %s", i, j, p.Result.ID)
			}
		}
	}
	return nil
}

// TestOverflowIsCompactedOnce has a provider that finds the history too long:
// it is made shorter once, and no tool runs again.
func TestOverflowIsCompactedOnce(t *testing.T) {
	m := &spoken{answers: []answer{says("", "srv__change"), says("", `srv__long {"n":1}`), says("", `srv__long {"n":2}`), breaks("", llm.ContextTooLong), says("done")}}
	s := newStage(t, staged{model: m, settings: Settings{RetainNewest: 2}})
	s.shop.add("srv__change", `{"destructiveHint":false}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) { return "changed", nil })
	s.shop.add("srv__long", `{"readOnlyHint":true}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
		return strings.Repeat("long ", 2000), nil
	})
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	log := s.log(c)
	if got := kinds(log); len(got) != 1 || got[Prune] != 1 {
		t.Errorf("compactions: %v", got)
	}
	if got := strings.Join(s.shop.called(), " "); got != "srv__change srv__long srv__long" {
		t.Errorf("called: %s", got)
	}
	if st := s.state(c); st.Last.Reason != ReasonDone {
		t.Errorf("%+v", st.Last)
	}
	reqs := m.requests()
	last := reqs[len(reqs)-1]
	if err := paired(last.Messages); err != nil || len(last.Messages) != len(reqs[len(reqs)-2].Messages) {
		t.Errorf("%v: %d messages", err, len(last.Messages))
	}
	if r := last.Messages[4].Parts[0].Result.Content; !strings.Contains(r, "10000 bytes was taken out") {
		t.Errorf("the old result is %.80q", r)
	}
	if r := last.Messages[6].Parts[0].Result.Content; !strings.HasPrefix(r, "long long") {
		t.Errorf("the newest result is %.80q", r)
	}
}

// TestOverflowWithoutEnd ends the turn with the truth.
func TestOverflowWithoutEnd(t *testing.T) {
	for said, text := range map[string]string{"go": "The tools and instructions alone", strings.Repeat("go ", 2000): "has become too long"} {
		m := &spoken{answers: []answer{says("", "srv__echo"), breaks("", llm.ContextTooLong)}}
		s := newStage(t, staged{model: m})
		c := s.open("one")
		s.send(c, said)
		s.turns(c, 1)
		end := s.state(c).Last
		if end.Reason != ReasonBudget || !strings.Contains(end.Text, text) || len(m.requests()) > 3 {
			t.Errorf("%+v after %d requests", end, len(m.requests()))
		}
	}
}

// TestBudgetInsideATurn checks before every request, also within a turn, that
// it fits, and prunes the oldest results.
func TestBudgetInsideATurn(t *testing.T) {
	var answers []answer
	for i := range 20 {
		answers = append(answers, says("", fmt.Sprintf(`srv__long {"n":%d}`, i)))
	}
	m := &spoken{answers: append(answers, says("done"))}
	const window = 4000
	s := newStage(t, staged{model: m, window: window, settings: Settings{RetainNewest: 4}})
	s.shop.add("srv__long", `{"readOnlyHint":true}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
		return strings.Repeat("word ", 700), nil
	})
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	if st := s.state(c); st.Last.Reason != ReasonDone {
		t.Fatalf("%+v", st.Last)
	}
	for i, req := range m.requests() {
		if n := takes(req); n > window {
			t.Errorf("request %d takes %d tokens", i, n)
		}
		if err := paired(req.Messages); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	compactions, before := 0, 0
	for _, ev := range s.log(c) {
		switch ev.Type {
		case ContextUsed:
			before = ev.Context.Used
			if ev.Context.Limit != window || ev.Context.Used > window || ev.Context.System+ev.Context.Tools+ev.Context.History != ev.Context.Used {
				t.Errorf("context: %+v", *ev.Context)
			}
		case Compacted:
			compactions++
			if ev.Compaction.After >= ev.Compaction.Before {
				t.Errorf("nothing was gained after %d: %+v", before, *ev.Compaction)
			}
		}
	}
	if compactions == 0 || compactions > 15 {
		t.Errorf("%d compactions", compactions)
	}
}

// TestLongConversations sum old turns up, or leave them out, and go on.
func TestLongConversations(t *testing.T) {
	for kind, threshold := range map[string]float64{Drop: 0, Summary: 0.9} {
		t.Run(kind, func(t *testing.T) {
			talk := func(_ context.Context, req llm.Request, say func(llm.Delta) bool) error {
				text := "I say " + strings.Repeat("much ", 100)
				if req.System == sumPrompt {
					text = "They talked."
				}
				_ = say(llm.Delta{Kind: llm.Text, Text: text}) && say(llm.Delta{Kind: llm.Used, Usage: llm.Usage{Input: takes(req), Output: 1}}) && say(llm.Delta{Kind: llm.Stopped, Stop: llm.Done})
				return nil
			}
			m := &spoken{answers: []answer{talk}}
			s := newStage(t, staged{model: m, window: 2000, settings: Settings{Summarize: threshold, RetainNewest: 4}})
			c := s.open("one")
			for i := range 30 {
				s.send(c, fmt.Sprintf("question %d", i))
				s.turns(c, i+1)
				if st := s.state(c); st.Last.Reason != ReasonDone {
					t.Fatalf("turn %d: %+v", i, st.Last)
				}
			}
			st := s.state(c)
			if got := kinds(s.log(c)); got[kind] == 0 || len(got) != 1 || got[kind] > 15 {
				t.Errorf("compactions: %v", got)
			}
			if len(st.Messages) != 60 || st.Cut == 0 || st.Messages[st.Cut].Role != llm.User {
				t.Errorf("%d messages, cut at %d", len(st.Messages), st.Cut)
			}
			reqs := m.requests()
			last := reqs[len(reqs)-1]
			want := map[string]string{Drop: "are left out, since they would not fit", Summary: "They talked."}[kind]
			if first := last.Messages[0].Text(); !strings.Contains(first, want) || takes(last) > 2000 {
				t.Errorf("the model is shown %q first", first)
			}
			if st.Usage.Output != len(reqs) { // those for summaries too
				t.Errorf("%d tokens are counted, not %d", st.Usage.Output, len(reqs))
			}
		})
	}
}

// TestMaxHistory shows the model whole turns only.
func TestMaxHistory(t *testing.T) {
	m := &spoken{answers: []answer{says("", "srv__echo"), says("a"), says("", "srv__fail"), says("b"), says("c")}}
	s := newStage(t, staged{model: m, settings: Settings{MaxHistory: 6}})
	c := s.open("one")
	for i := range 3 {
		s.send(c, fmt.Sprint(i))
		s.turns(c, i+1)
	}
	reqs := m.requests()
	last := reqs[len(reqs)-1].Messages
	if len(last) != 5 || last[0].Text() != "1" || paired(last) != nil {
		t.Errorf("%d messages from %q on: %v", len(last), last[0].Text(), paired(last))
	}
}

// TestCost adds up what answers cost, also those that broke off.
func TestCost(t *testing.T) {
	broken := func(_ context.Context, _ llm.Request, say func(llm.Delta) bool) error {
		_ = say(llm.Delta{Kind: llm.Text, Text: "x"}) && say(llm.Delta{Kind: llm.Used, Usage: llm.Usage{Input: 1000, Output: 100}})
		return &llm.Error{Cause: llm.Network, Provider: "spoken", Attempts: 1}
	}
	m := &spoken{answers: []answer{broken, says("y")}}
	s := newStage(t, staged{model: m})
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	st := s.state(c)
	want := llm.Usage{Input: 1000 + takes(m.requests()[1]), Output: 110}
	if st.Usage != want || st.Last.Usage != want || math.Abs(st.Cost-float64(want.Input+2*110)/1e6) > 1e-9 {
		t.Errorf("%+v, %g; the turn %+v", st.Usage, st.Cost, st.Last.Usage)
	}
}
