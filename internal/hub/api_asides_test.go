package hub_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// What passes besides calls is told too while somebody watches: how connections
// begin, what they listen for, and what both ends notify.
func TestAPIAsides(t *testing.T) {
	hubtest.Parallel(t)
	for _, era := range []peer.Era{peer.EraModern, peer.EraLegacy} {
		t.Run(string(era), func(t *testing.T) {
			spec := peer.Spec{Era: era, Tools: []peer.Tool{{Name: "grow", Behaviour: peer.Do(peer.Notify)}}}
			h := hubtest.New(t, hubtest.Stdio("up", spec), hubtest.Modules())
			waitTools(t, h)
			c := apiClient{t, h, h.Token}
			last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
			c.do("POST", "/api/v1/servers/up/restart", "")
			look := func(kind, method, what, text string) {
				t.Helper()
				r := c.done(last, kind, url.QueryEscape(method))
				x := c.exchange(r.Call)
				if got := passed(t, x, what); r.Upstream != "up" || r.Method != method || r.Level != event.Debug || !strings.Contains(got, text) {
					t.Errorf("%s %s is told as %+v, with %+v", kind, method, r, x)
				}
			}
			look(event.CallOwn, "server/discover", exchange.Request, "clientInfo")
			if era == peer.EraModern {
				look(event.CallOwn, "server/discover", exchange.Result, "supportedVersions")
				look(event.CallStarted, "subscriptions/listen", exchange.Request, `"toolsListChanged":true`)
				look(event.CallHeard, "notifications/subscriptions/acknowledged", exchange.Notification, "toolsListChanged")
			} else {
				look(event.CallOwn, "server/discover", exchange.Error, "code")
				look(event.CallOwn, "initialize", exchange.Request, `"clientInfo"`)
				look(event.CallOwn, "initialize", exchange.Result, `"serverInfo"`)
				look(event.CallSaid, "notifications/initialized", exchange.Request, "")
			}
			c.done(last, event.CallOwn, url.QueryEscape("tools/list"))
			c.ok("POST", "/api/tools/up__grow", "{}")
			look(event.CallHeard, "notifications/tools/list_changed", exchange.Notification, "")
		})
	}
}

// What the hub asks of a server that is not there is told as that, not as a
// mistake of the hub.
func TestAPIAsidesOfNobody(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.HTTP("nobody", "http://127.0.0.1:1/mcp"), hubtest.Modules())
	c := apiClient{t, h, h.Token}
	last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
	c.do("POST", "/api/v1/servers/nobody/restart", "")
	// A restart cancels the attempt that it finds under way; the next one is refused.
	var r event.Record
	await.Until(t, "an attempt is told as unreachable", func() bool {
		r = c.done(last, event.CallOwn, url.QueryEscape("server/discover"))
		return r.Kind == "unreachable"
	})
	if got := passed(t, c.exchange(r.Call), exchange.Fault); !strings.Contains(got, "refused") {
		t.Errorf("told as %+v, with %s", r, got)
	}
}
