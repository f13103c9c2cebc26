package hub_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

const apiSecret = `a "quoted" key of the config`

// exchangeHub has an upstream that writes down what it reads.
func exchangeHub(t *testing.T, edits ...hubtest.Edit) (c apiClient, read func() string) {
	t.Helper()
	record := filepath.Join(t.TempDir(), "read")
	spec := peer.Spec{RecordPath: record, Tools: []peer.Tool{
		{Name: "echo"},
		{Name: "strict", RawDefinition: `{"name":"strict","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`},
		{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not  today","data":{"big":12345678901234567890}}`}},
		{Name: "odd", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"two  spaces"}],  "b":1.0,"a":12345678901234567890}`}},
		{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3}},
		{Name: "hang", Behaviour: peer.Do(peer.Hang)},
		{Name: "big", Behaviour: peer.Behaviour{Kind: peer.Big, N: 200 << 10}},
	}, Prompts: []peer.Prompt{{Name: "greet", Behaviour: peer.Do(peer.Greet)}}, Resources: []peer.Resource{{URI: "mem://note", Text: "a note"}}}
	up := hubtest.Stdio("up", spec, hubtest.Within("hang", time.Second), func(s *config.Server) {
		s.Env["KEY"] = secret.New(apiSecret)
	})
	h := hubtest.New(t, append([]hubtest.Edit{up, hubtest.Modules()}, edits...)...)
	waitTools(t, h)
	return apiClient{t, h, h.Token}, func() string {
		b, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// done waits until a call of a tool, or of a method, is over, and returns its record.
func (c apiClient) done(after uint64, kind, tool string) event.Record {
	c.t.Helper()
	all := c.all(after, kind, tool)
	return all[len(all)-1]
}

// all are the records of a kind about a tool, once there is one.
func (c apiClient) all(after uint64, kind, tool string) (found []event.Record) {
	c.t.Helper()
	await.Until(c.t, "there is a "+kind+" of "+tool, func() bool {
		found = hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?limit=1000&wait=0s&types="+kind+"&tool="+tool+"&after="+strconv.FormatUint(after, 10), "")).Events
		return len(found) > 0
	})
	return found
}

func (c apiClient) exchange(call string) exchange.Exchange {
	c.t.Helper()
	return hubtest.Decode[struct{ Exchange exchange.Exchange }](c.ok("GET", "/api/v1/exchanges/"+call, "")).Exchange
}

// passed is the text of the only message of a kind.
func passed(t *testing.T, x exchange.Exchange, what string) string {
	t.Helper()
	text, n := "", 0
	for _, m := range x.Messages {
		if m.What == what {
			text, n = m.Text, n+1
		}
	}
	if n != 1 {
		t.Errorf("%d messages are a %s in %+v", n, what, x)
	}
	return text
}

// What passes while somebody watches can be looked at, byte for byte, whichever
// method it is and wherever it goes.
func TestAPIExchanges(t *testing.T) {
	hubtest.Parallel(t)
	c, read := exchangeHub(t)
	c.ok("POST", "/api/tools/up__echo", `{"text":"nobody watches"}`)
	unseen := c.done(0, event.CallDone, "echo")
	if a := c.do("GET", "/api/v1/exchanges/"+unseen.Call, ""); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "nobody watched") {
		t.Errorf("what nobody watched: %d %s", a.Status, a.Body)
	}
	last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
	client := c.hub.Client(t, hubtest.ClientOptions{Token: c.token})
	client.Tool("up__odd", `{"n":12345678901234567890,  "text":"<b>\u00e9</b>"}`)
	client.Tool("up__rude", `{}`)
	client.Call("prompts/get", `{"name":"up__greet","arguments":{"name":"Ada"}}`)
	client.Call("resources/read", `{"uri":"mem://note"}`)
	client.Tool("context_add", `{"name":"v","data":7,"session":"work"}`)
	for _, want := range []struct{ tool, method, sent, what, came string }{
		{"odd", "tools/call", `{"n":12345678901234567890,  "text":"<b>\u00e9</b>"}`, exchange.Result, `"a":12345678901234567890}`},
		{"rude", "tools/call", `"name":"rude"`, exchange.Error, `{"code":-32099,"message":"not  today","data":{"big":12345678901234567890}}`},
		{"prompts/get", "prompts/get", `"name":"greet"`, exchange.Result, "Ada"},
		{"resources/read", "resources/read", `"mem://note"`, exchange.Result, "a note"},
		{"context_add", "tools/call", `"data":7`, exchange.Result, "stored v"},
	} {
		r := c.done(last, event.CallDone, want.tool)
		x := c.exchange(r.Call)
		if x.Method != want.method || r.Method != want.method || !x.Done || x.Call != r.Call || x.Upstream != r.Upstream || x.Principal == "" {
			t.Errorf("%s: %+v of %+v", want.tool, x.Head, r)
		}
		sent := passed(t, x, exchange.Request)
		if !strings.Contains(sent, want.sent) || want.tool != "context_add" && !strings.Contains(read(), `"params":`+sent) {
			t.Errorf("%s: the upstream read something else than %s", want.tool, sent)
		}
		if came := passed(t, x, want.what); !strings.Contains(came, want.came) {
			t.Errorf("%s: it answered %s", want.tool, came)
		}
		if began := c.done(last, event.CallStarted, want.tool); began.Call != r.Call {
			t.Errorf("%s: it began as %+v", want.tool, began)
		}
	}
}

// What goes wrong can be looked at too: what was asked, and what the hub said.
func TestAPIExchangesOfFaults(t *testing.T) {
	hubtest.Parallel(t)
	c, _ := exchangeHub(t)
	last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
	client := c.hub.Client(t, hubtest.ClientOptions{Token: c.token})
	client.Tool("up__strict", `{"n":"none"}`)
	x := c.exchange(c.done(last, event.CallDone, "strict").Call)
	if asked := passed(t, x, exchange.Asked); !strings.Contains(asked, `{"n":"none"}`) || !strings.Contains(passed(t, x, exchange.Fault), "schema") || x.Kind != "invalid_arguments" {
		t.Errorf("refused: %+v", x)
	}
	client.Tool("up__hang", `{}`)
	x = c.exchange(c.done(last, event.CallDone, "hang").Call)
	if passed(t, x, exchange.Request); !strings.Contains(passed(t, x, exchange.Fault), `"timeout"`) || x.Kind != "timeout" {
		t.Errorf("not answered: %+v", x)
	}
	client.Tool("up__big", `{}`)
	x = c.exchange(c.done(last, event.CallDone, "big").Call)
	if m := x.Messages[len(x.Messages)-1]; !m.Cut || m.Bytes < 200<<10 || len(m.Text) > exchange.MaxMessage || len(m.Text) < exchange.MaxMessage-4 {
		t.Errorf("long: %v, %d of %d bytes", m.Cut, len(m.Text), m.Bytes)
	}
	legacy := c.hub.Client(t, hubtest.ClientOptions{Token: c.token, Era: hubtest.Legacy})
	legacy.Call("tools/call", `{"name":"up__steps","arguments":{},"_meta":{"progressToken":1}}`)
	x = c.exchange(c.done(last, event.CallDone, "steps").Call)
	notes := 0
	for _, m := range x.Messages {
		if m.What == exchange.Notification && strings.HasPrefix(m.Method, "notifications/") {
			notes++
		}
	}
	if notes < 3 {
		t.Errorf("%d notifications: %+v", notes, x.Messages)
	}
	// What the hub asks for itself.
	c.do("POST", "/api/v1/servers/up/restart", "")
	x = c.exchange(c.done(last, event.CallOwn, "tools%2Flist&upstream=up").Call)
	if !strings.Contains(passed(t, x, exchange.Result), `"strict"`) {
		t.Errorf("a list: %+v", x)
	}
}

// Secrets of the config and what the hub has signed are not shown; only the
// owner is; and all of it can be exported and switched off.
func TestAPIExchangesAreHidden(t *testing.T) {
	hubtest.Parallel(t)
	var cfg config.Config
	c, _ := exchangeHub(t, hubtest.Config(func(c *config.Config) { cfg = *c }))
	last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s&limit=1000", "")).Next
	text, err := json.Marshal(map[string]string{"secret": apiSecret, "token": c.token, "plain": "shown"})
	if err != nil {
		t.Fatal(err)
	}
	c.ok("POST", "/api/tools/up__echo", string(text))
	call := c.done(last, event.CallDone, "echo").Call
	all := c.ok("GET", "/api/v1/exchanges/"+call, "")
	exported := c.ok("GET", "/api/v1/exchanges/export", "")
	for _, body := range [][]byte{all, exported} {
		if bytes.Contains(body, []byte("quoted")) || bytes.Contains(body, []byte(c.token)) || !bytes.Contains(body, []byte("•••")) || !bytes.Contains(body, []byte("shown")) {
			t.Errorf("it tells %s", body)
		}
	}
	found := false
	for line := range bytes.Lines(exported) {
		x := hubtest.Decode[exchange.Exchange](line)
		found = found || x.Call == call && len(x.Messages) == 2
	}
	if !found {
		t.Errorf("the export has no %s: %s", call, exported)
	}
	other := tokenFor(t, c.hub, "other", "*")
	for _, path := range []string{call, "export"} {
		if a := other.do("GET", "/api/v1/exchanges/"+path, ""); a.Status != http.StatusForbidden || bytes.Contains(a.Body, []byte("shown")) {
			t.Errorf("another than the owner: %d %s", a.Status, a.Body)
		}
	}
	cfg.Console.Exchanges = false
	if _, err := c.hub.Reload(&cfg); err != nil {
		t.Fatal(err)
	}
	c.ok("POST", "/api/tools/up__echo", `{}`)
	for _, call := range []string{call, c.done(last, event.CallDone, "echo").Call} {
		if a := c.do("GET", "/api/v1/exchanges/"+call, ""); a.Status != http.StatusNotFound || !strings.Contains(string(a.Body), "console.exchanges") {
			t.Errorf("switched off: %d %s", a.Status, a.Body)
		}
	}
	if rest := c.ok("GET", "/api/v1/exchanges/export", ""); len(bytes.TrimSpace(rest)) != 0 {
		t.Errorf("switched off, there is still %s", rest)
	}
}
