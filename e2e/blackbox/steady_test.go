package blackbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// B14: who waits for something is no loop, and an answer that broke off is asked
// for as often as the config says and shown once.

func TestPollingIsNoLoop(t *testing.T) {
	t.Parallel()
	const looks = 8
	files, l := withTools(t, tickTool)
	_, url := fakeModel(t, func(n int, a llmtest.Asked) llmtest.Reply {
		switch {
		case strings.Contains(string(a.Body), "without an end"):
			return calls(n, "files__read", `{"path":"x"}`)
		case n%(looks+1) < looks:
			return calls(n, "files__tick", `{"job":7}`)
		}
		return says("It is done.")
	})
	h := serve(t, object{"files": files}, using(url), object{"agents": object{"watcher": object{"tools": list{"files__*"}}}})
	said := h.say(t, h.owner, "Wait for the job.")
	if said.End.Reason != "done" || said.Text != "It is done." {
		t.Errorf("a turn that asks again while the results differ ends by %q: %s", said.End.Reason, clip(said.Text))
	}
	l.want(t, "tick", looks)
	if t.Failed() {
		t.FailNow() // the model is in the midst of it
	}
	mentions(t, "an agent that does so", h.tool(t, "/mcps/watcher/mcp", h.owner, "chat", object{"user_input": "Wait for the job."}).text, "It is done.")
	l.want(t, "tick", 2*looks)
	// The same result each time is a loop still.
	if said := h.say(t, h.owner, "Read without an end."); said.End.Reason != "loop" || l.count(t, "read") > 5 {
		t.Errorf("a turn that gets the same again and again ends by %q after %d calls", said.End.Reason, l.count(t, "read"))
	}
}

// tale is an answer as it is told whole.
const tale = "Once upon a time."

// breakingOff is a model whose answers break off so often, each a little later,
// before one is whole.
func breakingOff(t testing.TB, times int) (*llmtest.Fake, string) {
	t.Helper()
	whole := says("Once ", "upon ", "a time.").Frames
	return fakeModel(t, func(n int, _ llmtest.Asked) llmtest.Reply {
		if n %= times + 1; n < times {
			return llmtest.Reply{Frames: whole[:2+n%3], Cut: true}
		}
		return llmtest.Reply{Frames: whole}
	})
}

// told is a message, and all texts that come of it, as a client has them that
// only adds them up. end is the frame that ends the turn.
func (s *socket) told(text string) (all, end string) {
	s.t.Helper()
	s.send(object{"type": "message", "payload": object{"text": text}})
	for {
		kind, frame := s.until("text", "turn.ended")
		if kind == "turn.ended" {
			return all, frame
		}
		var part struct{ Payload struct{ Content string } }
		if err := json.Unmarshal([]byte(frame), &part); err != nil {
			s.t.Fatal(err)
		}
		all += part.Payload.Content
	}
}

func TestBrokenAnswerIsAskedForAgainAndShownOnce(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			model, url := breakingOff(t, attempts)
			h := prepare(t, object{}, using(url), object{
				"chat":   object{"retryAttempts": attempts, "retryDelay": 1},
				"agents": object{"poet": object{"systemPrompt": "Tell."}}})
			h.launch(t)
			s := h.socket(t, "/ws", h.owner, nil)
			s.until("connection")
			if all, end := s.told("Tell me."); all != tale || !strings.Contains(end, `"reason":"done"`) {
				t.Errorf("a client that adds up texts has %q: %s", all, clip(end))
			}
			if n := len(model.Asked()); n != attempts+1 {
				t.Fatalf("the model was asked %d times, want %d", n, attempts+1)
			}
			var sentences strings.Builder
			for line := range strings.Lines(h.askAgent(t, "poet", "Tell me.", nil)) {
				var one struct{ Sentence string }
				if json.Unmarshal([]byte(line), &one) == nil {
					sentences.WriteString(one.Sentence)
				}
			}
			if got := sentences.String(); got != tale {
				t.Errorf("an agent tells its caller %q", got)
			}
			if n := len(model.Asked()); n != 2*(attempts+1) {
				t.Errorf("the agent's model was asked %d times, want %d", n-attempts-1, attempts+1)
			}
		})
	}
}

// An answer that never comes to its end is asked for so often and no more, and
// how often is said.
func TestBrokenAnswersAreCounted(t *testing.T) {
	t.Parallel()
	const attempts = 2
	model, url := breakingOff(t, 100)
	h := prepare(t, object{}, using(url), object{"chat": object{"retryAttempts": attempts, "retryDelay": 1}})
	h.launch(t)
	s := h.socket(t, "/ws", h.owner, nil)
	s.until("connection")
	_, end := s.told("Tell me.")
	mentions(t, "the end of the turn", end, `"reason":"failed"`)
	mentions(t, "the end of the turn", end, fmt.Sprintf(`"attempts":%d`, attempts+1))
	if n := len(model.Asked()); n != attempts+1 {
		t.Errorf("the model was asked %d times, want %d", n, attempts+1)
	}
}
