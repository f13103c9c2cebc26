package attach

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func call(id any, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

// What passes is not touched, in either direction.
func TestBytesPassUnchanged(t *testing.T) {
	p := newPost(t)
	c := p.client()
	args := `{"n" : 123456789012345678901234567890, "e":1.0e+02,"\u0062":"\u00e9\ud83c\udfdb", "a":[ ]}`
	c.say("%s", ` {"params":{"arguments":`+args+`, "name":"look"} , "id":"\u0041b","method":"tools/call","jsonrpc":"2.0"}`)
	line := c.hear(`"args":`)
	if want := `{"jsonrpc":"2.0","id":"\u0041b","result":{"content":[],  "args":` + args + `}}`; line != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
	c.end()
	if p.oracle.count(`tools/call {"arguments":`+args+`, "name":"look"}`) != 1 {
		t.Errorf("the hub has seen %q", p.oracle.seen)
	}
}

// A hub that comes after another is told what that one knew, and the client
// hears nothing of it but that lists may have changed.
func TestNextHubIsToldOfTheClient(t *testing.T) {
	p := newPost(t)
	c := p.client()
	c.hello()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"warning"}}`)
	c.say(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"note://kept"}}`)
	c.say(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"note://left"}}`)
	c.hear(`"id":2`)
	c.hear(`"id":3`)
	c.say(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"note://left"}}`)
	c.hear(`"id":1`)
	c.hear(`"id":4`)
	p.kill()
	p.open()
	c.hear("notifications/tools/list_changed")
	c.hear("notifications/resources/updated", "note://kept")
	c.say("%s", call(5, "look", `{}`))
	c.hear(`"id":5`)
	if n := p.oracle.count(`initialize {"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"7"}}`); n != 2 {
		t.Errorf("initialize came %d times to two hubs", n)
	}
	await.Until(t, "the subscription is made again", func() bool { return p.oracle.count("subscribe note://kept") == 2 })
	if n := p.oracle.count("subscribe note://left"); n != 1 {
		t.Errorf("a subscription that was ended was made %d times", n)
	}
	// What happens at the new hub is heard.
	p.oracle.audience.Updated("note://kept", []byte(`{"uri":"note://kept","fresh":true}`), nil)
	c.hear("notifications/resources/updated", `"fresh":true`)
	c.end()
	for id, n := range c.answers() {
		if n != 1 || strings.Contains(id, "stoa-attach") {
			t.Errorf("%d answers to %s", n, id)
		}
	}
	if c.count("prompts/list_changed") > 0 {
		t.Error("the client hears of changes that it was not told it would")
	}
}

// Calls that are under way when the hub dies: those that may be repeated are,
// the others are answered by what is known.
func TestCallsOfAHubThatDied(t *testing.T) {
	for _, listed := range []bool{true, false} {
		t.Run(fmt.Sprintf("listed=%v", listed), func(t *testing.T) {
			p := newPost(t)
			p.oracle.gate = make(chan struct{})
			c := p.client()
			c.hello()
			if listed {
				c.say(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
				c.hear(`"id":"list"`)
			}
			c.say("%s", call(1, "wait_look", `{"k":1}`))
			c.say("%s", call(2, "wait_act", `{"k":2}`))
			c.say("%s", strings.Replace(call(3, "wait_act", `{"k":3}`), `"arguments"`, modernMeta+`,"arguments"`, 1))
			await.Until(t, "three calls run", func() (yes bool) {
				p.oracle.look(func() { yes = p.oracle.waiting == 3 })
				return yes
			})
			p.kill()
			p.open()
			close(p.oracle.gate)
			c.hear(`"id":2`, `"code":-32000`, `"kind":"upstream_lost"`, "wait_act: the hub went away during the call; whether it took effect is not known")
			c.hear(`"id":3`, `"code":-31005`)
			c.hear(`"id":1`, `"args":{"k":1}`)
			c.end()
			p.oracle.look(func() {
				if d := p.oracle.done; d[`wait_look {"k":1}`] != 2 || d[`wait_act {"k":2}`] != 1 || d[`wait_act {"k":3}`] != 1 {
					t.Errorf("calls: %v", d)
				}
			})
		})
	}
}

// A question of a hub that is gone is taken back. The answer to it is not
// taken for one to the same question of the next hub.
func TestQuestionOfAHubThatIsGone(t *testing.T) {
	p := newPost(t)
	c := p.client()
	c.hello()
	c.say("%s", call(1, "ask", `{}`))
	c.hear(`"id":"stoa-1"`, "elicitation/create")
	p.kill()
	p.open()
	c.hear("notifications/cancelled", `"requestId":"stoa-1"`)
	c.hear(`"id":1,`, "upstream_lost")
	c.say("%s", call(2, "ask", `{}`))
	c.hear(`"id":"stoa-link-2/`, "elicitation/create")
	c.say(`{"jsonrpc":"2.0","id":"stoa-1","result":{"action":"accept","content":{"late":true}}}`)
	c.say(`{"jsonrpc":"2.0","id":"stoa-link-2\/\u0022stoa-1\"","result":{"action":"accept","content":{"right":true}}}`)
	line := c.hear(`"id":2,`, `"result"`)
	if !strings.Contains(line, "right") || strings.Contains(line, "late") {
		t.Errorf("the hub got %s", line)
	}
	c.end()
}

// A modern subscription goes on at the next hub under its own name.
func TestSubscriptionGoesOn(t *testing.T) {
	for _, end := range []string{"kill", "stop"} {
		t.Run(end, func(t *testing.T) {
			p := newPost(t)
			c := p.client()
			c.say(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{%s,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note://one"]}}}`, modernMeta)
			c.hear("notifications/subscriptions/acknowledged", `"sub"`)
			if end == "kill" {
				p.kill()
			} else {
				p.stop()
			}
			p.open()
			c.hear("notifications/tools/list_changed", `"io.modelcontextprotocol/subscriptionId":"sub"`)
			await.Until(t, "the next hub tells what happens", func() bool {
				p.oracle.audience.Updated("note://one", []byte(`{"uri":"note://one","fresh":true}`), nil)
				return c.count(`"fresh":true`) > 0
			})
			if n := c.count("acknowledged"); n != 1 {
				t.Errorf("%d acknowledgements", n)
			}
			if n := c.answers()["\"sub\""]; n != 0 {
				t.Error("the subscription was ended")
			}
			c.end()
			c.hear(`"id":"sub"`, `"resultType":"complete"`)
		})
	}
}

// What cannot be a request is answered here, and a request's id is its own
// until it is answered.
func TestWhatIsNotForTheHub(t *testing.T) {
	p := newPost(t)
	p.oracle.gate = make(chan struct{})
	c := p.client(func(o *Options) { o.MessageBytes = 1000 })
	c.say("rubbish")
	c.hear(`"id":null`, `"code":-32700`)
	c.say(`{"jsonrpc":"1.0","id":1,"method":"ping"}`)
	c.hear(`"id":1`, `"code":-32600`)
	c.say("%s", call(2, "look", `{"long":"`+strings.Repeat("x", 1000)+`"}`))
	c.hear(`"id":2`, `"kind":"too_large"`)
	c.say("%s", call(3, "wait_look", `{}`))
	c.say("%s", call(3, "look", `{}`))
	c.hear(`"id":3`, `"code":-32600`, "running already")
	c.say(`[%s]`, call(4, "look", `{}`))
	c.hear(`"code":-32600`, "batch")
	close(p.oracle.gate)
	c.hear(`"id":3`, `"result"`)
	c.end()
}

// A batch is answered as a whole, also when the hub dies over it.
func TestBatch(t *testing.T) {
	p := newPost(t)
	p.oracle.gate = make(chan struct{})
	c := p.client()
	c.say(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"7"}}}`)
	c.hear(`"id":"hello"`, `"protocolVersion":"2025-03-26"`)
	c.say(`[%s,%s]`, call(1, "look", `{}`), call(2, "act", `{}`))
	c.hear(`[`, `"id":1`, `"id":2`)
	c.say(`[%s,%s]`, call(3, "look", `{}`), call(4, "wait_act", `{}`))
	c.say(`[%s,%s]`, call(5, "look", `{}`), call(6, "wait_look", `{}`))
	await.Until(t, "the calls run", func() (yes bool) {
		p.oracle.look(func() { yes = p.oracle.waiting == 2 })
		return yes
	})
	p.kill()
	close(p.oracle.gate)
	p.open()
	c.hear(`[{"jsonrpc":"2.0","id":3,"error":{`, `"id":4,"error":{`, "upstream_lost")
	c.hear(`[`, `"id":5,"result"`, `"id":6,"result"`)
	c.in.Close()
	if err := <-c.over; err != nil {
		t.Error(err)
	}
}

// After the end of stdin what runs may end, but not for ever.
func TestEndOfInput(t *testing.T) {
	p := newPost(t)
	p.oracle.gate = make(chan struct{})
	c := p.client()
	c.say("%s", call(1, "wait_look", `{"k":1}`))
	c.in.Close()
	await.Until(t, "the call runs", func() (yes bool) {
		p.oracle.look(func() { yes = p.oracle.waiting == 1 })
		return yes
	})
	close(p.oracle.gate)
	c.end()
	c.hear(`"id":1`, `"args":{"k":1}`)

	p.oracle.look(func() { p.oracle.gate = make(chan struct{}) })
	d := p.client(func(o *Options) { o.Grace = 50 * time.Millisecond })
	d.say("%s", call(1, "wait_look", `{}`))
	d.end()
	if n := d.answers()["1"]; n != 0 {
		t.Errorf("%d answers to what has not ended", n)
	}
}

// However the connections break, each request is answered once, what may be
// repeated succeeds, and nothing else is done twice.
func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	requests := 400
	if os.Getenv("STOA_SOAK") != "" {
		requests = 10_000
	}
	p := newPost(t)
	c := p.client()
	c.hello()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := range requests {
		tool := []string{"look", "act"}[random.IntN(2)]
		c.say("%s", call(i, tool, fmt.Sprintf(`{"k":%d}`, i)))
		switch random.IntN(20) {
		case 0:
			p.mu.Lock()
			p.budget = 1 + random.IntN(2000)
			p.mu.Unlock()
		case 1:
			c.hear(fmt.Sprintf(`"id":%d,`, i)) // let all come to rest
		}
	}
	p.mu.Lock()
	p.budget = 0
	p.mu.Unlock()
	c.end()
	answers, lost := c.answers(), c.count("upstream_lost")
	for i := range requests {
		if n := answers[fmt.Sprint(i)]; n != 1 {
			t.Errorf("request %d was answered %d times", i, n)
		}
	}
	p.oracle.look(func() {
		for what, n := range p.oracle.done {
			if strings.HasPrefix(what, "act ") && n != 1 {
				t.Errorf("%s was done %d times", what, n)
			}
		}
	})
	if n := c.count(`"error"`); n != lost {
		t.Errorf("%d errors, of which %d are calls that were lost", n, lost)
	}
	if n := p.oracle.count("initialize"); n < 3 {
		t.Errorf("only %d connections were made: the test breaks too few", n)
	}
	t.Logf("%d requests, %d connections, %d calls lost", requests, p.oracle.count("initialize"), lost)
}
