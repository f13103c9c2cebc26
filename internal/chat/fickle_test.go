package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/llm"
)

// fickle is a model that says anything.
type fickle struct {
	mu    sync.Mutex
	rng   *rand.Rand
	tame  atomic.Bool // answers with a text
	check func(llm.Request)
	whole map[string]int // texts of answers that came to their end
}

func (f *fickle) pick(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}

func (f *fickle) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		f.check(req)
		if f.tame.Load() {
			f.mu.Lock()
			f.whole["well"]++
			f.mu.Unlock()
			_ = yield(llm.Delta{Kind: llm.Text, Text: "well"}, nil) && yield(llm.Delta{Kind: llm.Stopped, Stop: llm.Done}, nil)
			return
		}
		said, calls, text := 0, 0, ""
		for range f.pick(5) {
			if ctx.Err() != nil {
				break
			}
			d, ok := f.delta(req, said, &calls)
			if !ok {
				continue
			}
			said++
			if d.Kind == llm.Text {
				text += d.Text
			}
			if !yield(d, nil) {
				return
			}
		}
		switch f.pick(12) {
		case 0, 1:
			causes := []llm.Cause{llm.Network, llm.Overloaded, llm.BadRequest, llm.ContextTooLong, llm.BadAnswer}
			yield(llm.Delta{}, &llm.Error{Cause: causes[f.pick(len(causes))], Provider: "fickle", Attempts: 1})
			return
		case 2:
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			yield(llm.Delta{}, &llm.Error{Cause: llm.Cancelled, Provider: "fickle", Err: ctx.Err()})
			return
		}
		f.mu.Lock()
		f.whole[text]++
		f.mu.Unlock()
		stop := llm.Done
		if calls > 0 {
			stop = llm.Calls
		}
		_ = yield(llm.Delta{Kind: llm.Used, Usage: llm.Usage{Input: 10, Output: said}}, nil) && yield(llm.Delta{Kind: llm.Stopped, Stop: stop}, nil)
	}
}

func (f *fickle) delta(req llm.Request, said int, calls *int) (llm.Delta, bool) {
	switch n := f.pick(10); {
	case n == 0 && said == 0:
		return llm.Delta{Kind: llm.Retrying, Attempt: 1, Text: "because"}, true
	case n <= 1 && *calls == 0:
		return llm.Delta{Kind: llm.Reason, Text: "hm "}, true
	case n == 2 && *calls == 0:
		return llm.Delta{Kind: llm.ReasonEnd, Opaque: &llm.Opaque{Provider: "anthropic", Data: json.RawMessage(`{"type":"redacted_thinking","data":"s"}`)}}, true
	case n <= 5 && *calls == 0:
		return llm.Delta{Kind: llm.Text, Text: fmt.Sprintf("word%d ", f.pick(100))}, true
	case n <= 5:
		return llm.Delta{}, false
	}
	names := []string{"srv__echo", "srv__echo", "srv__fail", "srv__wipe", "srv__wipe", "srv__wait", "srv__nothing", ""}
	c := llm.ToolCall{ID: fmt.Sprintf("call_%d", *calls), Name: names[f.pick(len(names))], Args: json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, f.pick(3)))}
	if c.Name == "" || f.pick(10) == 0 {
		c.Malformed, c.Args = "{ not json", json.RawMessage("{}")
	}
	*calls++
	return llm.Delta{Kind: llm.CallEnd, Index: *calls - 1, Call: c}, true
}

// mortal is a log that takes nothing more when its hub dies.
type mortal struct {
	journal.Log
	dead *atomic.Bool
}

var errDead = errors.New("the hub is dead")

func (m *mortal) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	if m.dead.Load() {
		return 0, errDead
	}
	return m.Log.Append(ctx, subject, data, expect)
}

var _ llm.Model = (*fickle)(nil)
