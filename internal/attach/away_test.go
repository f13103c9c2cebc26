package attach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// While there is no hub nothing is lost: what was not sent is sent later, what
// was cancelled is not, and a ping is answered.
func TestWithoutAHub(t *testing.T) {
	p := newPost(t)
	p.oracle.gate = make(chan struct{})
	c := p.client()
	c.hello()
	c.say(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	c.hear(`"id":"list"`)
	c.say("%s", call(1, "wait_look", `{"k":1}`))
	await.Until(t, "the call runs", func() (yes bool) {
		p.oracle.look(func() { yes = p.oracle.waiting == 1 })
		return yes
	})
	p.kill()
	c.say(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	c.hear(`"id":"ping","result":{}`) // so the loss has been noticed
	c.say("%s", call(2, "act", `{"k":2}`))
	c.say("%s", call(3, "act", `{"k":3}`))
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	c.say("%s", call(4, "look", `{"k":4}`))
	close(p.oracle.gate)
	p.open()
	c.hear(`"id":2`, `"args":{"k":2}`)
	c.hear(`"id":4`, `"args":{"k":4}`)
	c.end()
	n := c.answers()
	if n["1"] != 0 || n["3"] != 0 || n["2"] != 1 || n["4"] != 1 {
		t.Errorf("answers: %v", n)
	}
	p.oracle.look(func() {
		if d := p.oracle.done; d[`wait_look {"k":1}`] != 1 || d[`act {"k":3}`] != 0 {
			t.Errorf("calls: %v", d)
		}
	})
}

// When no hub comes back, requests are told so; the pipe stays open, and a hub
// that comes late is used.
func TestHubThatStaysAway(t *testing.T) {
	p := newPost(t)
	c := p.client(func(o *Options) { o.Patience = 100 * time.Millisecond })
	c.hello()
	p.kill()
	c.say(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	c.hear(`"id":"ping","result":{}`) // so the loss has been noticed
	c.say("%s", call(1, "act", `{}`))
	c.hear(`"id":1`, `"kind":"unreachable"`, "no hub can be reached: no hub is running")
	p.open()
	await.Until(t, "the next hub answers", func() bool {
		c.say("%s", call(fmt.Sprint(`"`, rand.Int(), `"`), "look", `{"late":1}`))
		return c.count(`"args":{"late":1}`) > 0
	})
	c.end()
}

// A client that finds no hub is answered nevertheless, and told why; when one
// comes, it is used, and the client hears that there is something new.
func TestNoHubToBeginWith(t *testing.T) {
	p := newPost(t)
	p.kill()
	c := p.client()
	c.say(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.hear(`"id":"hello"`, `"protocolVersion":"2025-06-18"`, "no hub is running")
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	c.hear(`"id":"list"`, `{"tools":[]}`)
	c.say("%s", call(1, "act", `{}`))
	c.hear(`"id":1`, `"kind":"unreachable"`, "no hub is running")
	c.say(`{"jsonrpc":"2.0","id":"modern","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	c.hear(`"id":"modern"`, `"ttlMs":0`)
	p.open()
	c.hear(`"method":"notifications/tools/list_changed"`)
	c.say("%s", call(2, "act", `{"k":2}`))
	c.hear(`"id":2`, `"args":{"k":2}`)
	c.end()
}

// Where no hub comes at all, Run says so in the end.
func TestNoHubAtAll(t *testing.T) {
	p := newPost(t)
	p.kill()
	c := p.client()
	c.say("%s", call(1, "act", `{}`))
	c.hear(`"id":1`, `"kind":"unreachable"`)
	c.in.Close()
	if err := <-c.over; err == nil || !strings.Contains(err.Error(), "no hub is running") {
		t.Errorf("Run: %v", err)
	}
}

// A hub that stops in order loses nothing: what it gave up is repeated if it
// may be, what it has not read is sent to the next.
func TestHubThatStops(t *testing.T) {
	p := newPost(t)
	c := p.client()
	c.hello()
	c.say(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	c.hear(`"id":"list"`)
	const calls = 50
	for i := range calls {
		c.say("%s", call(i, "act", fmt.Sprintf(`{"k":%d}`, i)))
		if i == calls/2 {
			p.stop()
			p.open()
		}
	}
	for i := range calls {
		c.hear(fmt.Sprintf(`"id":%d,`, i), fmt.Sprintf(`"args":{"k":%d}`, i))
	}
	c.end()
	p.oracle.look(func() {
		for i := range calls {
			if n := p.oracle.done[fmt.Sprintf(`act {"k":%d}`, i)]; n != 1 {
				t.Errorf("call %d was made %d times", i, n)
			}
		}
	})
}

// Calls that a hub gives up when it stops have been begun: they are as those of
// a hub that died.
func TestHubThatStopsBeforeCallsEnd(t *testing.T) {
	p := newPost(t)
	p.oracle.gate = make(chan struct{})
	c := p.client()
	c.hello()
	c.say("%s", call(1, "wait_look", `{"k":1}`))
	c.say("%s", call(2, "wait_act", `{"k":2}`))
	await.Until(t, "both calls run", func() (yes bool) {
		p.oracle.look(func() { yes = p.oracle.waiting == 2 })
		return yes
	})
	p.stop() // which lets them run for a while
	close(p.oracle.gate)
	p.open()
	c.hear(`"id":1`, `"args":{"k":1}`)
	c.hear(`"id":2`, `"kind":"upstream_lost"`)
	c.end()
	if n := c.answers(); n["1"] != 1 || n["2"] != 1 {
		t.Errorf("answers: %v", n)
	}
}

// Who is not let in reads that it is for the token, and what to do.
func TestHubThatRefusesTheToken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer s.Close()
	at := &url.URL{Scheme: "ws", Host: strings.TrimPrefix(s.URL, "http://"), Path: "/mcp/ws"}
	for want, header := range map[string]http.Header{
		"wants a token":             {},
		"does not accept the token": {"Authorization": {"Bearer bad"}},
	} {
		p := newPost(t)
		c := p.client(func(o *Options) {
			o.Find = func(context.Context) (*Target, error) { return &Target{URL: at, Header: header}, nil }
		})
		c.say("%s", call(1, "act", `{}`))
		if line := c.hear(`"id":1`, `"kind":"unreachable"`, want, "with --token"); strings.Contains(line, "stoa serve") {
			t.Errorf("where no hub is launched: %s", line)
		}
		c.in.Close()
		if err := <-c.over; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v", err)
		}
	}
}
