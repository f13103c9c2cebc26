package hub_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// spoken is a message that those who watch are to be told of.
type spoken struct {
	kind, tool string // of the record
	face       string
	fault      string
	what, text string // in the exchange
}

const aNote = "notifications/tools/list_changed"

// What clients say and the hub answers by itself, what either notifies, and what
// is refused before any server could be asked: all of it is told, once, to those
// who watch.
func TestAPISpoken(t *testing.T) {
	hubtest.Parallel(t)
	// A server of the legacy era notifies whether anybody has asked for it yet or not.
	spec := peer.Spec{Era: peer.EraLegacy, Tools: []peer.Tool{{Name: "grow", Behaviour: peer.Do(peer.Notify)}}, Resources: []peer.Resource{{URI: "mem://a", Text: "alpha"}}}
	legacy := func(t *testing.T, h *hubtest.Hub) {
		c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
		c.Listen("")
		for _, ask := range [][2]string{{"tools/list", "{}"}, {"ping", `{"n":1}`}, {"resources/subscribe", `{"uri":"mem://a"}`}, {"resources/unsubscribe", `{"uri":"mem://a"}`},
			{"logging/setLevel", `{"level":"info"}`}, {"logging/setLevel", `{"level":"loud"}`}, {"tools/call", `{"name":"up__none"}`}, {"server/discover", "{}"}} {
			c.Call(ask[0], ask[1])
		}
		c.Notify("notifications/cancelled", `{"requestId":99}`)
		c.Notify("notifications/roots/list_changed", "")
		c.Do(hubtest.Sent{Body: "{nonsense"})
		c.Tool("up__grow", "{}")
	}
	// On faces and transports alike.
	same := []spoken{
		{event.CallAnswered, "initialize", "", "", exchange.Result, "protocolVersion"},
		{event.CallHeard, "notifications/initialized", "", "", exchange.Asked, ""},
		{event.CallAnswered, "ping", "", "", exchange.Asked, `{"n":1}`},
		{event.CallAnswered, "ping", "", "", exchange.Result, "{}"},
		{event.CallAnswered, "resources/subscribe", "", "", exchange.Asked, "mem://a"},
		{event.CallSaid, aNote, "", "", exchange.Notification, ""},
	}
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, h *hubtest.Hub)
		want []spoken
	}{
		{"legacy", legacy, append([]spoken{
			{event.CallAnswered, "tools/list", "", "", exchange.Result, "up__grow"},
			{event.CallAnswered, "resources/unsubscribe", "", "", exchange.Result, "{}"},
			{event.CallAnswered, "logging/setLevel", "", "invalid_params", exchange.Fault, "loud"},
			{event.CallAnswered, "up__none", "", "unknown_tool", exchange.Fault, "up__none"},
			{event.CallAnswered, "server/discover", "", "unknown_method", exchange.Fault, "does not exist"},
			{event.CallHeard, "notifications/cancelled", "", "", exchange.Asked, `"requestId":99`},
			{event.CallHeard, "notifications/roots/list_changed", "", "", exchange.Asked, ""},
			{event.CallAnswered, "unreadable message", "", "parse", exchange.Asked, "{nonsense"},
		}, same...)},
		{"socket", func(t *testing.T, h *hubtest.Hub) {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			c, _, err := websocket.Dial(within(t), strings.Replace(h.URL, "http", "ws", 1)+"/mcp/ws", &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseNow()
			say(t, c, hello)
			if err := c.Write(within(t), websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
				t.Fatal(err)
			}
			say(t, c, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1}}`)
			say(t, c, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"mem://a"}}`)
			say(t, c, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"up__none"}}`)
			say(t, c, "{nonsense")
			say(t, c, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"up__grow"}}`)
			await.Until(t, "the socket hears of it", func() bool {
				_, b, err := c.Read(within(t))
				return err != nil || strings.Contains(string(b), aNote)
			})
		}, append([]spoken{
			{event.CallAnswered, "up__none", "", "unknown_tool", exchange.Fault, "up__none"},
			{event.CallAnswered, "unreadable message", "", "parse", exchange.Asked, "{nonsense"},
		}, same...)},
		{"agent", func(t *testing.T, h *hubtest.Hub) {
			c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/mcps/up/mcp"})
			c.Call("logging/setLevel", `{"level":"info"}`)
			h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/none/mcp"}).Do(hubtest.Sent{Body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`})
		}, []spoken{
			{event.CallAnswered, "initialize", "up", "", exchange.Result, "protocolVersion"},
			{event.CallHeard, "notifications/initialized", "up", "", exchange.Asked, ""},
			{event.CallAnswered, "tools/list", "", "unknown_agent", exchange.Fault, "none"},
		}},
		{"modern", func(t *testing.T, h *hubtest.Hub) {
			c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern})
			x := c.Listen(`{"toolsListChanged":true,"resourceSubscriptions":["mem://a"]}`)
			c.Call("subscriptions/listen", `{}`)
			c.Call("ping", `{}`)
			c.Tool("up__grow", "{}")
			x.Await(aNote)
		}, []spoken{
			{event.CallHeard, "subscriptions/listen", "", "", exchange.Asked, "mem://a"},
			{event.CallSaid, "notifications/subscriptions/acknowledged", "", "", exchange.Notification, "mem://a"},
			{event.CallSaid, aNote, "", "", exchange.Notification, "subscriptionId"},
			{event.CallAnswered, "subscriptions/listen", "", "invalid_params", exchange.Fault, "notifications is missing"},
			{event.CallAnswered, "ping", "", "unknown_method", exchange.Fault, "does not exist"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hubtest.New(t, hubtest.Stdio("up", spec), hubtest.Modules())
			waitTools(t, h)
			c := apiClient{t, h, h.Token}
			last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
			tt.do(t, h)
			for _, want := range tt.want {
				c.spoken(last, want)
			}
		})
	}
}

// A call that might have become a task and did not is told of once, as any other
// call is: nobody hears of an answer of the hub's own, nor of a second fault.
func TestAPISpokenOnce(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "slow", Behaviour: peer.Do(peer.Hang)}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec, hubtest.Within("slow", 100*time.Millisecond), func(s *config.Server) { s.Task = config.TaskAuto }))
	settled(t, h, "up")
	api := apiClient{t, h, h.Token}
	last := hubtest.Decode[eventPage](api.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
	for _, face := range []string{"/mcp", "/mcps/up/mcp"} {
		c, prefix := h.Client(t, hubtest.ClientOptions{Face: face, Capabilities: tasksCapability}), "up__"
		if face != "/mcp" {
			prefix = ""
		}
		if m := c.Tool(prefix+"echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Fatalf("%s: %s", face, m.Raw)
		}
		if m := c.Tool(prefix+"slow", "{}"); !strings.Contains(string(m.Raw), "timeout") {
			t.Fatalf("%s: %s", face, m.Raw)
		}
	}
	for _, tool := range []string{"echo", "slow"} {
		if got := api.all(last, event.CallDone, tool); len(got) != 2 {
			t.Errorf("%d calls of %s are told of, want 2", len(got), tool)
		}
	}
	all := "/api/v1/events?limit=1000&wait=0s&types=" + event.CallAnswered + "&after=" + strconv.FormatUint(last, 10)
	for _, r := range hubtest.Decode[eventPage](api.ok("GET", all, "")).Events {
		if r.Method == "tools/call" {
			t.Errorf("it is told of again: %+v", r)
		}
	}
	if page := errorsOf(t, h, ""); !hasGroup(page, "TIMEOUT", "up", "slow") || hasGroup(page, "TIMEOUT", "", "tools/call") {
		t.Errorf("the book has %+v", page.Groups)
	}
}

// spoken looks for a message that was told of.
func (c apiClient) spoken(after uint64, want spoken) {
	c.t.Helper()
	near := ""
	for _, r := range c.all(after, want.kind, url.QueryEscape(want.tool)) {
		if r.Principal == "" || r.Upstream != want.face || r.Kind != want.fault {
			continue
		}
		x := c.exchange(r.Call)
		for _, m := range x.Messages {
			if m.What == want.what && strings.Contains(m.Text, want.text) {
				return
			}
			near += "\n" + m.What + " " + m.Text
		}
	}
	c.t.Errorf("nothing is told of %+v; there is %s", want, near)
}
