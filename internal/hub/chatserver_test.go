package hub_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// What two servers say of themselves reaches the model, each by its name.
func TestChatTellsInstructions(t *testing.T) {
	var mu sync.Mutex
	var body string
	answer := func(_ int, a llmtest.Asked) llmtest.Reply {
		mu.Lock()
		defer mu.Unlock()
		body = string(a.Body)
		return llmtest.OpenAI.Answer(llmtest.Said{Text: []string{"ok"}})
	}
	h := hubtest.New(t, faked(t, make(chan time.Time, 64), answer),
		hubtest.Stdio("one", peer.Spec{Instructions: "Paths begin with /one.", Tools: []peer.Tool{{Name: "echo"}}}),
		hubtest.Stdio("two", peer.Spec{Instructions: "Ask before noon.", Era: peer.EraLegacy, Tools: []peer.Tool{{Name: "echo"}}}))
	client := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the servers are there", func() bool { return offers(client, "one__echo") && offers(client, "two__echo") })
	if got := dial(t, h, "/ws").say("hello"); got != "ok" {
		t.Fatalf("it says %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{`<server name=\"one\">\nPaths begin with /one.\n</server>`, `<server name=\"two\">\nAsk before noon.\n</server>`} {
		if !strings.Contains(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(body), want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}
