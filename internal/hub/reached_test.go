package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// Who calls a tool of a server that is just being reached waits for it, by
// whichever form of the name, also when lists wait for nobody any more; who
// names one that never answers is told so within a bound.
func TestCallOfAServerBeingReached(t *testing.T) {
	hubtest.Parallel(t)
	slow := peer.Quirks{SlowStart: 1800 * time.Millisecond} // lists wait for 1 s
	mute := peer.Spec{Tools: echoTool(), Era: peer.EraLegacy, Quirks: peer.Quirks{HangInitialize: true, SilentOnUnknown: true}}
	h := hubtest.New(t, hubtest.Stdio("slow", peer.Spec{Tools: echoTool(), Quirks: slow}), hubtest.Stdio("mute", mute))
	c := h.Client(t, hubtest.ClientOptions{})
	if offers(c, "slow__echo") { // after it lists wait for nobody
		t.Fatal("the server was there before anybody had to wait for it")
	}
	began := time.Now()
	calls := map[string]*hubtest.Exchange{}
	for _, name := range []string{"slow__echo", "slow:echo", "mcp:slow:echo", "mute__echo", "mute:echo"} {
		calls[name] = c.Go("tools/call", hubtest.ToolParams(name, `{"a":1}`))
	}
	for name, x := range calls {
		m := x.Response()
		if strings.Contains(name, "slow") {
			if m.Text() != `{"a":1}` {
				t.Errorf("%s: %s", name, m.Raw)
			}
			continue
		}
		if text := string(m.Raw); !strings.Contains(text, "mute: the upstream has not been reached yet: connecting") {
			t.Errorf("%s: %s", name, text)
		}
	}
	// 2 s, and what a busy machine adds. The server has 30 s.
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("that took %v", took)
	}
}
