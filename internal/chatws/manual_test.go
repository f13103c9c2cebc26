package chatws

import (
	"os"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/chat"
)

// TestManual holds docs/chat.md to the code: what it says that clients send is
// taken, and every event there is has its line.
func TestManual(t *testing.T) {
	b, err := os.ReadFile("../../docs/chat.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(b)
	_, rest, found := strings.Cut(manual, "```jsonl client\n")
	examples, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("there are no examples of frames")
	}
	types := map[string]bool{}
	for line := range strings.Lines(examples) {
		q, f := parse([]byte(strings.TrimSpace(line)), 1000)
		if f != nil {
			t.Errorf("%s: %v", line, f)
		}
		types[q.Type] = true
	}
	for _, kind := range askTypes {
		if !types[kind] {
			t.Errorf("there is no example of %s", kind)
		}
	}
	for _, kind := range []chat.Type{chat.InputAdded, chat.InputDropped, chat.TurnStarted, chat.TextPart, chat.ReasoningPart, chat.CallMade, chat.AnswerDone,
		chat.ApprovalAsked, chat.ApprovalDecided, chat.CallProgress, chat.ModelRetry, chat.Noted, chat.ContextUsed, chat.Compacted, chat.TurnEnded} {
		if !strings.Contains(manual, "\n| `"+string(kind)+"` |") {
			t.Errorf("there is no line for %s", kind)
		}
	}
}
