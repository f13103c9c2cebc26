package chat

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
)

// What was spent on attempts that came to nothing is paid for, whether the
// model's own or those of an answer that broke off.
func TestUsageOfAttempts(t *testing.T) {
	busy := func(_ context.Context, req llm.Request, say func(llm.Delta) bool) error {
		if req.Tried != 1 {
			t.Errorf("it was tried %d times before", req.Tried)
		}
		_ = say(llm.Delta{Kind: llm.Retrying, Attempt: 3, Text: "busy", Usage: llm.Usage{Input: 100}}) &&
			say(llm.Delta{Kind: llm.Text, Text: "Here"}) && say(llm.Delta{Kind: llm.Used, Usage: llm.Usage{Input: 7, Output: 2}}) && say(llm.Delta{Kind: llm.Stopped, Stop: llm.Done})
		return nil
	}
	s := newStage(t, staged{model: &spoken{answers: []answer{breaks("He", llm.Network), busy}}})
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	st := s.state(c)
	if got, want := st.Last.Usage, (llm.Usage{Input: 5 + 100 + 7, Output: 1 + 2}); got != want || st.Usage != want {
		t.Errorf("used %+v, and %+v in all; want %+v", got, st.Usage, want)
	}
	var attempts []int
	for _, ev := range s.log(c) {
		if ev.Retry != nil {
			attempts = append(attempts, ev.Retry.Attempt)
		}
	}
	if len(attempts) != 2 || attempts[0] != 2 || attempts[1] != 3 {
		t.Errorf("attempts %v", attempts)
	}
	if got := st.Messages[len(st.Messages)-1].Text(); got != "Here" {
		t.Errorf("the answer is %q", got)
	}
}

// A model wins over what the chat says.
func TestRetriesOfAModel(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{breaks("He", llm.Network)}}})
	s.model.Retries = new(1)
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	if end := s.state(c).Last; end.Attempts != 2 {
		t.Errorf("asked %d times", end.Attempts)
	}
}

// Errors of the hub that differ only in how long something rests are the same.
func TestErrorsAreARut(t *testing.T) {
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", `srv__rests`)}}})
	n := 0
	s.shop.add("srv__rests", `{"destructiveHint":false}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) {
		n++
		return "", fault.New(fault.BreakerOpen, "srv", "it failed too often and rests for %ds", 60-n)
	})
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	if end := s.state(c).Last; end.Reason != ReasonLoop || n != 4 || !strings.Contains(end.Text, "same call 5 times") {
		t.Errorf("%d calls, %+v", n, end)
	}
}
