package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"github.com/stoahub/stoa/internal/llm"
)

// spoken is a model whose answers a test writes, one after the other; the last
// is given again and again.
type spoken struct {
	answers []answer

	mu    sync.Mutex
	asked []llm.Request
}

// answer says one answer: what it returns is the error it ends with.
type answer func(ctx context.Context, req llm.Request, say func(llm.Delta) bool) error

func (s *spoken) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		s.mu.Lock()
		a := s.answers[min(len(s.asked), len(s.answers)-1)]
		s.asked = append(s.asked, req)
		s.mu.Unlock()
		left := false
		err := a(ctx, req, func(d llm.Delta) bool {
			left = left || !yield(d, nil)
			return !left
		})
		if err != nil && !left {
			yield(llm.Delta{}, err)
		}
	}
}

func (s *spoken) requests() []llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]llm.Request(nil), s.asked...)
}

// says is an answer of a text and calls, written "name {json}".
func says(text string, calls ...string) answer {
	return func(_ context.Context, req llm.Request, say func(llm.Delta) bool) error {
		if text != "" && !say(llm.Delta{Kind: llm.Text, Text: text}) {
			return nil
		}
		for i, c := range calls {
			var name, args string
			if _, err := fmt.Sscanf(c, "%s %s", &name, &args); err != nil {
				name, args = c, "{}"
			}
			if !say(llm.Delta{Kind: llm.CallEnd, Index: i, Call: llm.ToolCall{ID: fmt.Sprintf("call_%d", i), Name: name, Args: json.RawMessage(args)}}) {
				return nil
			}
		}
		stop := llm.Done
		if len(calls) > 0 {
			stop = llm.Calls
		}
		_ = say(llm.Delta{Kind: llm.Used, Usage: llm.Usage{Input: takes(req), Output: 10}}) && say(llm.Delta{Kind: llm.Stopped, Stop: stop})
		return nil
	}
}

// takes is how many tokens a request takes, by the measure of a hub that has
// learned nothing.
func takes(req llm.Request) int { return new(llm.Meter).Estimate(req) }

// breaks is an answer that ends in an error after some text.
func breaks(text string, cause llm.Cause) answer {
	return func(_ context.Context, req llm.Request, say func(llm.Delta) bool) error {
		attempts := req.Tried + 1
		if text == "" {
			attempts = 4 // it was tried as often as may be
		} else if !say(llm.Delta{Kind: llm.Text, Text: text}) {
			return nil
		}
		return &llm.Error{Cause: cause, Provider: "spoken", Attempts: attempts, Usage: llm.Usage{Input: 5, Output: 1}}
	}
}

// hangs is an answer that does not end by itself.
func hangs(text string) answer {
	return func(ctx context.Context, _ llm.Request, say func(llm.Delta) bool) error {
		if text != "" && !say(llm.Delta{Kind: llm.Text, Text: text}) {
			return nil
		}
		<-ctx.Done()
		return &llm.Error{Cause: llm.Cancelled, Provider: "spoken", Err: ctx.Err()}
	}
}

var _ llm.Model = (*spoken)(nil)
