package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// odd is a result that no decoder and encoder leaves as it is.
const odd = `{ "zeta":1 ,"content" :[ {"type":"text","text":"\u0041\/é\u2028 😀 \ud83d\ude00 \ud800 ﷽"},{"type":"hologram","beam":[1.0,1e400,-0,0.10]} ],` +
	`"structuredContent":{"id":9223372036854775807,"min":-9223372036854775808,"huge":123456789012345678901234567890,"dup":1,"dup":2},` +
	`"resultType":"complete","ttlMs":0,"cacheScope":"private",` +
	`"vendor/x":{"":null,"\u0000":[ ]},	"alpha":{"b":1,"a":2}, "isError":false }`

const oddError = `{ "message" : "no\u002e \ud800" ,"data":{"n":9223372036854775807,"dup":1,"dup":2,"x":[1.0, 1e2]}, "code":-31999 }`

func oddSpec() peer.Spec {
	return peer.Spec{
		Tools: []peer.Tool{
			{Name: "odd", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: odd}},
			{Name: "bad", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: oddError}},
			{Name: "params", Behaviour: peer.Do(peer.Params)},
		},
		Prompts:   []peer.Prompt{{Name: "odd", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: odd}}},
		Resources: []peer.Resource{{URI: "odd://x", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: odd}}},
	}
}

func TestResultsArriveByteForByte(t *testing.T) {
	hubtest.Parallel(t)
	oneHub(t, oddSpec(), worldOptions{}, func(t *testing.T, w *world) {
		for _, accept := range []string{"application/json", "application/json, text/event-stream", "text/event-stream, application/json", "text/event-stream"} {
			w.client.Accept = accept
			same := func(what string, got []byte, want string) {
				t.Helper()
				if string(got) != want {
					t.Errorf("%s with Accept %q:\n got %s\nwant %s", what, accept, got, want)
				}
			}
			same("tools/call", w.call("odd", "").Result, odd)
			same("prompts/get", w.client.Call("prompts/get", `{"name":"`+w.name("up", "odd")+`"}`).Result, odd)
			same("resources/read", w.client.Call("resources/read", `{"uri":"odd://x"}`).Result, odd)
			same("an error", w.call("bad", "").Error, oddError)
			x := w.client.Go("tools/call", hubtest.ToolParams(w.name("up", "odd"), ""), `"progressToken":"p"`)
			same("tools/call with a token", x.Response().Result, odd)
			if sse := strings.HasPrefix(x.Header.Get("Content-Type"), "text/event-stream"); sse != strings.Contains(accept, "event-stream") {
				t.Errorf("a call with a progress token and Accept %q is answered as %s", accept, x.Header.Get("Content-Type"))
			}
		}
	})
}

// Arguments must arrive as they were sent, too.
func TestArgumentsArriveByteForByte(t *testing.T) {
	hubtest.Parallel(t)
	const args = `{ "n":9223372036854775807 ,"f":1.0,"e":1E+2,"s":"\u0041\/\u2028","u":"é😀", "o":{"b":1,"a":[ ]} }`
	oneHub(t, oddSpec(), worldOptions{}, func(t *testing.T, w *world) {
		if got := w.call("params", args).Text(); !strings.Contains(got, `"arguments":`+args) {
			t.Errorf("the peer got %s, want arguments %s", got, args)
		}
		if got := w.call("params", args, `"vendor/k":{"x":1.0}`).Text(); !strings.Contains(got, `"vendor/k":{"x":1.0}`) {
			t.Errorf("the peer got %s, want the foreign _meta", got)
		}
	})
}

// An answer with line breaks between its tokens keeps them where the way to
// the client can carry them; events and lines cannot.
func TestLineBreaksInResults(t *testing.T) {
	hubtest.Parallel(t)
	const pretty = "{\n  \"content\": [],\r\n\t\"resultType\": \"complete\"\n}"
	spec := peer.Spec{Tools: []peer.Tool{{Name: "pretty", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: pretty}}}}
	for _, merged := range []bool{true, false} {
		t.Run(cell{merged: merged}.String(), func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Modern, "json", merged}, spec, worldOptions{})
			w.client.Accept = "application/json"
			if got := string(w.call("pretty", "").Result); got != pretty {
				t.Errorf("in JSON: got %q, want %q", got, pretty)
			}
			w.client.Accept = "text/event-stream"
			one := strings.NewReplacer("\n", " ", "\r", " ").Replace(pretty)
			if got := string(w.call("pretty", "").Result); got != one {
				t.Errorf("as an event: got %q, want %q", got, one)
			}
		})
	}
}

// Large answers take another way through the hub than small ones.
func TestLargeResultsArriveWhole(t *testing.T) {
	hubtest.Parallel(t)
	const size = 300 << 10
	spec := peer.Spec{Tools: []peer.Tool{{Name: "big", Behaviour: peer.Behaviour{Kind: peer.Big, N: size}}}}
	oneHub(t, spec, worldOptions{}, func(t *testing.T, w *world) {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			w.client.Accept = accept
			if got := w.call("big", "").Text(); got != strings.Repeat("x", size) {
				t.Errorf("Accept %s: %d bytes came, want %d", accept, len(got), size)
			}
		}
	})
}

// What a decorated event stream says is what its parser says.
func TestDecoratedEventStream(t *testing.T) {
	hubtest.Parallel(t)
	spec := oddSpec()
	spec.HTTP.Decorated = true
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		t.Run(string(era), func(t *testing.T) {
			w := newWorld(t, cell{era, "sse", true}, spec, worldOptions{})
			w.client.Accept = "application/json"
			got := strings.ReplaceAll(string(w.call("odd", "").Result), "\n", "")
			if want := strings.ReplaceAll(odd, "\n", ""); got != want {
				t.Errorf("%s:\n got %s\nwant %s", era, got, want)
			}
		})
	}
}

func TestPipeFaceKeepsBytes(t *testing.T) {
	hubtest.Parallel(t)
	for _, transport := range []string{"stdio", "json", "sse"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Modern, transport, true}, oddSpec(), worldOptions{})
			p := w.Pipe(t)
			p.Send(w.client.Request(`"a b"`, "tools/call", hubtest.ToolParams("up__odd", "")).Body)
			if m := p.Await(""); string(m.Result) != odd || string(m.ID) != `"a b"` {
				t.Errorf("%s:\n got %s\nwant %s", transport, m.Raw, odd)
			}
			p.Send(w.client.Request(`-7`, "tools/call", hubtest.ToolParams("up__bad", "")).Body)
			if m := p.Await(""); string(m.Error) != oddError || string(m.ID) != `-7` {
				t.Errorf("%s:\n got %s\nwant %s", transport, m.Raw, oddError)
			}
		})
	}
}

// An answer over the limit fails the call that it answers, which is told which
// limit that is, and nobody else's.
func TestAnswerOverTheLimit(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{
		{Name: "big", Behaviour: peer.Behaviour{Kind: peer.Big, N: 300 << 10}},
		{Name: "gate", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 2 * time.Second}},
		{Name: "echo"},
	}}
	o := worldOptions{edits: []hubtest.Edit{hubtest.Config(func(c *config.Config) { c.Limits.MessageBytes = 64 << 10 })}}
	oneHub(t, spec, o, func(t *testing.T, w *world) {
		other := w.Hub.Client(t, hubtest.ClientOptions{Era: w.era, Face: w.face("up")})
		waits := other.Go("tools/call", hubtest.ToolParams(w.name("up", "gate"), ""))
		w.called(t, "gate")
		for range 3 {
			m := w.call("big", "")
			if m.Fault().Data.Kind != "limit" && !strings.Contains(m.Text(), "limits.messageBytes") || !strings.Contains(string(m.Raw), "larger than 65536 bytes") {
				t.Errorf("the large answer: %.500s", m.Raw)
			}
		}
		if m := waits.Response(); m.Text() != "done" {
			t.Errorf("the other call: %s", m.Raw)
		}
		if m := w.call("echo", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("afterwards: %s", m.Raw)
		}
		if n := w.peerState(t).Starts; n > 1 {
			t.Errorf("the server was started %d times", n)
		}
	})
}
