package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// Who calls a tool of a server that is just being reached waits for it, by
// whichever form of the name; who names one that never answers is told so.
func TestCallOfAServerBeingReached(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("slow", slowPeer()), hubtest.Stdio("mute", mutePeer()))
	c := h.Client(t, hubtest.ClientOptions{})
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
}

// The first list of a hub waits for servers that were never read, for a while:
// many clients list once. One that does not come keeps nobody from the others.
func TestFirstListWaits(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Stdio("slow", slowPeer()), hubtest.Stdio("mute", mutePeer()))
	if c := h.Client(t, hubtest.ClientOptions{}); !offers(c, "slow__echo") {
		t.Error("the first list came before the server")
	}
}

// slowPeer takes longer to start than anything waits that does not wait for it.
func slowPeer() peer.Spec {
	return peer.Spec{Tools: echoTool(), Quirks: peer.Quirks{SlowStart: 1800 * time.Millisecond}}
}

func mutePeer() peer.Spec {
	return peer.Spec{Tools: echoTool(), Era: peer.EraLegacy, Quirks: peer.Quirks{HangInitialize: true, SilentOnUnknown: true}}
}
