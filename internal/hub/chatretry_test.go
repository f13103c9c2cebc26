package hub_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// An answer that breaks off is asked for as often as the config says, whether or
// not something of it came, and a client that only adds up texts has it once.
func TestChatRetriesAsConfigured(t *testing.T) {
	hubtest.Parallel(t)
	var asked atomic.Int32
	answer := func(n int, _ llmtest.Asked) llmtest.Reply {
		asked.Add(1)
		whole := llmtest.OpenAI.Say(llmtest.Said{Text: []string{"Once ", "upon ", "a time."}})
		switch n {
		case 1:
			return llmtest.Reply{Status: 503}
		case 0, 2:
			return llmtest.Reply{Frames: whole[:n+1], Cut: true}
		}
		return llmtest.Reply{Frames: whole}
	}
	patient := func(attempts int) hubtest.Edit {
		return hubtest.Config(func(c *config.Config) { c.Chat.RetryAttempts, c.Chat.RetryDelay = attempts, time.Millisecond })
	}
	h := hubtest.New(t, faked(t, make(chan time.Time, 64), answer), patient(3))
	c := dial(t, h, "/ws")
	c.next()
	if got := c.say("Tell me"); got != "Once upon a time." || asked.Load() != 4 {
		t.Errorf("asked %d times: %q", asked.Load(), got)
	}

	asked.Store(0)
	h = hubtest.New(t, faked(t, make(chan time.Time, 64), answer), patient(2))
	c = dial(t, h, "/ws")
	c.next()
	c.send(`{"type":"message","payload":{"text":"Tell me"}}`)
	end, _ := c.until("turn.ended")
	if asked.Load() != 3 || !strings.Contains(end.raw, `"attempts":3`) {
		t.Errorf("asked %d times: %s", asked.Load(), end.raw)
	}
}
