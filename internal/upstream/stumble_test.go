package upstream

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// A mistake in what we make of a server's lists, of what it says on the stream
// that we listen to, or of a call that may be parked costs just that. It is told
// with its stack; lists are read again, and the stream is opened again.
func TestUpstreamStumbles(t *testing.T) {
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			web := peer.Serve(t, peer.Spec{Era: era, Tools: []peer.Tool{{Name: "echo"}, {Name: "grow", Behaviour: peer.Do(peer.Notify)}}})
			var lists, asides atomic.Int32
			var log lines
			cat := catalog.New(0)
			pool := Open(cat, PoolOptions{
				OnAsk: func(_ string, o *mcp.Outgoing) func(mcp.Response, error) {
					if o.Method == "tools/list" && lists.Add(1) == 1 {
						panic("the first list")
					}
					return nil
				},
				OnAside: func(_ string, a mcp.Aside) {
					if a.Method == mcp.NoteToolsChanged && asides.Add(1) == 1 {
						panic("the first change")
					}
				},
			})
			t.Cleanup(pool.Close)
			u, err := pool.Add(Options{Name: "up", URL: web.URL, Logger: log.logger()})
			if err != nil {
				t.Fatal(err)
			}
			tools := func() int {
				if l := cat.Now().Of("up"); l != nil {
					return len(l.Items[catalog.Tool])
				}
				return 0
			}
			await.Until(t, "the lists are read after all", func() bool { return tools() == 2 })
			client := &mcp.Client{Era: mcp.Modern, Version: mcp.ModernVersion, Capabilities: []byte(`{"elicitation":{}}`), Actor: actor.New(actor.HTTP, auth.Local)}
			if era == peer.EraModern {
				client.Era, client.Version = mcp.Legacy, mcp.LegacyVersion
			}
			call := func(tool string, c Call) error {
				params := []byte(`{"name":"` + tool + `","arguments":{}}`)
				resp, err := u.Do(context.Background(), &mcp.Outgoing{Method: "tools/call", Raw: params, Fields: wire.Members(params), Name: tool, Client: client}, c)
				if err == nil && resp.Error != nil {
					t.Errorf("%s: %s", tool, resp.Error)
				}
				resp.Release()
				return err
			}
			if err := call("grow", Call{Tool: "grow"}); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the new tool is listed although its news was lost", func() bool { return tools() == 3 })
			told := []string{"the first list", "the first change"}
			if era == peer.EraLegacy { // where a call of a modern client may be parked, it has a goroutine of its own
				err := call("echo", Call{Tool: "echo", Starting: func(context.Context) error { panic("before it is sent") }})
				if !fault.Is(err, fault.Internal) {
					t.Errorf("the call: %v", err)
				}
				told = append(told, "before it is sent")
			}
			if err := call("echo", Call{Tool: "echo"}); err != nil {
				t.Errorf("after that: %v", err)
			}
			for _, what := range told {
				if log.count("level=ERROR", "upstream=up", what, "stumble_test.go") != 1 {
					t.Errorf("%q is not told once with its stack", what)
				}
			}
		})
	}
}
