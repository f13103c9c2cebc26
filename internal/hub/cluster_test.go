package hub_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// legacyAt is a legacy client's connection, used at another hub than the one that
// it was made at.
func legacyAt(t *testing.T, h *hubtest.Hub, of *hubtest.Client, o hubtest.ClientOptions) *hubtest.Client {
	o.Era, o.Sessionless = hubtest.Legacy, true
	c := h.Client(t, o)
	c.Session = of.Session
	return c
}

// A legacy client's connection is there at every hub on the store, from the moment
// that it is made until its client ends it, at whichever.
func TestLegacyConnectionIsThereAtAnyHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	for _, face := range []string{"/mcp", "/s/work/mcp", "/mcps/up/mcp"} {
		t.Run(strings.Trim(face, "/"), func(t *testing.T) {
			tool := "up__echo"
			if strings.HasPrefix(face, "/mcps") {
				tool = "echo"
			}
			o := hubtest.ClientOptions{Era: hubtest.Legacy, Face: face}
			here := p.hubs[0].hub.Client(t, o)
			there := legacyAt(t, p.hubs[1].hub, here, o)
			for range 3 {
				for _, c := range []*hubtest.Client{here, there} {
					if m := c.Call("ping", "{}"); m.Error != nil {
						t.Fatalf("ping: %s", m.Error)
					}
					if m := c.Tool(tool, `{"text":"hello"}`); m.Error != nil {
						t.Fatalf("a call: %s", m.Error)
					}
				}
			}
			stranger := p.hubs[1].hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: face, Sessionless: true, Token: p.hubs[1].token})
			stranger.Session = here.Session
			if a := stranger.Do(stranger.Request("1", "ping", "{}")); a.Status != http.StatusNotFound {
				t.Errorf("somebody else got %d", a.Status)
			}
			if a := there.Do(hubtest.Sent{Verb: http.MethodDelete}); a.Status != http.StatusNoContent {
				t.Errorf("its end was answered by %d", a.Status)
			}
			for i, c := range []*hubtest.Client{here, there} {
				if a := c.Do(c.Request("1", "tools/list", "{}")); a.Status != http.StatusNotFound {
					t.Errorf("after its end hub %d answered %d", i, a.Status)
				}
			}
		})
	}
}

// What a hub has to tell a legacy client, and ask it, reaches the client's stream
// at another hub, and so does the answer come back.
func TestStreamOfALegacyClientAtAnotherHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	here := p.hubs[0].hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Capabilities: `{"elicitation":{}}`})
	there := legacyAt(t, p.hubs[1].hub, here, hubtest.ClientOptions{})
	stream := there.Listen("")
	p.hubs[0].ok(http.MethodPut, "/api/v1/modules/context", `{"on":false}`)
	stream.Await("notifications/tools/list_changed")
	for name, c := range map[string]*hubtest.Client{"there": there, "here": here} {
		other := map[*hubtest.Client]*hubtest.Client{here: there, there: here}[c]
		x := c.Go("tools/call", hubtest.ToolParams("up__elicit", "{}"))
		q := x.Await("elicitation/create")
		other.Answer(q, "result", `{"action":"accept","content":{}}`)
		if m := x.Response(); m.Error != nil || !strings.Contains(m.Text(), "accept") {
			t.Errorf("asked %s, answered at the other: %s", name, m.Raw)
		}
	}
}

// When the hub that has a connection stops, or is gone, the next request takes
// the connection to the hub that it comes to.
func TestLegacyConnectionOutlivesItsHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	here := p.hubs[0].hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	if m := here.Call("logging/setLevel", `{"level":"warning"}`); m.Error != nil {
		t.Fatalf("set the level: %s", m.Error)
	}
	there := legacyAt(t, p.hubs[1].hub, here, hubtest.ClientOptions{})
	p.hubs[0].hub.Stop()
	if m := there.Tool("up__echo", `{"text":"hello"}`); m.Error != nil {
		t.Fatalf("a call after its hub was stopped: %s", m.Error)
	}
	p.open(0)
	back := legacyAt(t, p.hubs[0].hub, here, hubtest.ClientOptions{})
	if m := back.Tool("up__echo", `{"text":"hello"}`); m.Error != nil {
		t.Fatalf("a call at the hub that is back: %s", m.Error)
	}
	p.hubs[1].hub.Stop()
	if m := back.Tool("up__echo", `{"text":"hello"}`); m.Error != nil {
		t.Fatalf("a call when only the first is left: %s", m.Error)
	}
}

// asking calls a tool that a person is asked about, at a hub where nobody may be
// there yet, until the call waits. It returns what the call ends with.
func asking(t *testing.T, h *hubtest.Hub, waits func() bool) <-chan string {
	t.Helper()
	client := h.Client(t, hubtest.ClientOptions{})
	var ended chan string
	await.Until(t, "somebody is asked", func() bool {
		if ended == nil {
			ended = make(chan string, 1)
			go func(ended chan<- string) {
				ended <- string(client.Do(client.Request("1", "tools/call", hubtest.ToolParams("up__write", `{"text":"hello"}`))).Body)
			}(ended)
		}
		select {
		case <-ended: // nobody was there, as far as the hub knew
			ended = nil
			return false
		default:
			return waits()
		}
	})
	return ended
}

// A person at one hub is asked about the calls at another, sees what waits there,
// and answers it; and both hubs say what became of it.
func TestApprovalIsAnsweredAtAnotherHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	defer attend(t, p.hubs[1].hub, p.hubs[1].token)()
	for _, decision := range []string{"approve", "deny"} {
		call := asking(t, p.hubs[0].hub, func() bool { return len(p.hubs[1].approvals()) == 1 })
		a := p.hubs[1].approvals()[0]
		if !strings.Contains(string(a.Args), "hello") || a.Tool != "up__write" {
			t.Errorf("what is shown: %+v", a)
		}
		p.hubs[1].decide(a.ID, `{"decision":"`+decision+`"}`)
		if m := await.Value(t, "the call ends", call); strings.Contains(m, "does not want it") != (decision == "deny") {
			t.Errorf("%s: the call ended with %s", decision, m)
		}
		await.Until(t, "nothing waits", func() bool { return len(p.hubs[0].approvals())+len(p.hubs[1].approvals()) == 0 })
		for i := range p.hubs {
			again := p.hubs[i].do(http.MethodPost, "/api/v1/approvals/"+a.ID, `{"decision":"approve"}`)
			if again.Status != http.StatusNotFound || !strings.Contains(string(again.Body), "already") {
				t.Errorf("%s: again at hub %d: %d %s", decision, i, again.Status, again.Body)
			}
		}
	}
}

// What waits at a hub that ends waits no more at the others, and whoever was there
// to be asked at it is not there any more.
func TestApprovalsOfAHubThatEnds(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	leave := attend(t, p.hubs[0].hub, p.hubs[0].token)
	here := asking(t, p.hubs[0].hub, func() bool { return len(p.hubs[1].approvals()) == 1 })
	there := asking(t, p.hubs[1].hub, func() bool { return len(p.hubs[1].approvals()) == 2 })
	p.hubs[0].hub.End()
	leave()
	for i, call := range []<-chan string{here, there} {
		if m := await.Value(t, fmt.Sprintf("call %d ends", i), call); !strings.Contains(m, "nobody is there") && !strings.Contains(m, "the call ended before") {
			t.Errorf("a call ended with %s", m)
		}
	}
	if all := p.hubs[1].approvals(); len(all) != 0 {
		t.Errorf("still waiting: %+v", all)
	}
}

// A modern client brings its input to whichever hub: the call goes on at the one
// where it waits, and an approval that a person gave counts there.
func TestInputIsTakenAtAnotherHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	clients := [2]*hubtest.Client{}
	for i := range clients {
		clients[i] = p.hubs[i].hub.Client(t, hubtest.ClientOptions{Capabilities: `{"elicitation":{}}`})
	}
	for at := range clients {
		first := clients[at].Tool("up__elicit", `{}`)
		r := hubtest.Decode[struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}](first.Result)
		if r.RequestState == "" || len(r.InputRequests) != 1 {
			t.Fatalf("nobody was asked: %s", first.Raw)
		}
		answers := map[string]any{}
		for name := range r.InputRequests {
			answers[name] = map[string]any{"action": "accept", "content": map[string]any{}}
		}
		params, err := json.Marshal(map[string]any{"name": "up__elicit", "arguments": map[string]any{}, "requestState": r.RequestState, "inputResponses": answers})
		if err != nil {
			t.Fatal(err)
		}
		if m := clients[1-at].Call("tools/call", string(params)); m.Error != nil || !strings.Contains(m.Text(), "accept") {
			t.Errorf("asked at hub %d, answered at the other: %s", at, m.Raw)
		}
	}
}

// What a client of HTTP+SSE posts at another hub than the one that has its stream
// is answered on the stream.
func TestOldEventStreamAtAnotherHub(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.hubs[0].hub.URL+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return ""
	}
	address := next()
	for i, method := range []string{"ping", "tools/list"} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, i, method)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.hubs[1-i].hub.URL+address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		said, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = said.Body.Close()
		if said.StatusCode != http.StatusAccepted {
			t.Fatalf("posted at hub %d: %d", 1-i, said.StatusCode)
		}
		if m := next(); !strings.Contains(m, fmt.Sprintf(`"id":%d`, i)) {
			t.Errorf("the answer is %s", m)
		}
	}
}

// Each hub tells of all, and of what runs and who is connected at any; a call is
// cancelled at whichever.
func TestHubsTellOfEachOther(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	type told struct {
		Hubs []struct {
			ID, State   string
			Self        bool
			Connections int
		}
	}
	p.hubs[0].hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	for i := range p.hubs {
		await.Until(t, "both are listed", func() bool {
			all := hubtest.Decode[told](p.hubs[i].ok(http.MethodGet, "/api/v1/hubs", "")).Hubs
			connections, self := 0, 0
			for _, h := range all {
				connections += h.Connections
				if h.Self {
					self++
				}
			}
			return len(all) == 2 && all[0].State == "ok" && all[1].State == "ok" && self == 1 && connections == 1
		})
		if n := strings.Count(string(p.hubs[i].ok(http.MethodGet, "/api/v1/connections", "")), `"kind":"mcp"`); n != 1 {
			t.Errorf("hub %d lists %d connections", i, n)
		}
	}
	call := p.hubs[0].hub.Client(t, hubtest.ClientOptions{}).Go("tools/call", hubtest.ToolParams("up__slow", "{}"))
	var id string
	await.Until(t, "the other hub knows of the call", func() bool {
		for _, c := range hubtest.Decode[struct{ Calls []struct{ Call string } }](p.hubs[1].ok(http.MethodGet, "/api/v1/calls", "")).Calls {
			id = c.Call
		}
		return id != ""
	})
	p.hubs[1].ok(http.MethodDelete, "/api/v1/calls/"+id, "")
	if m := call.Response(); !strings.Contains(string(m.Raw), "cancelled") {
		t.Errorf("it ended with %s", m.Raw)
	}
	if a := p.hubs[1].do(http.MethodDelete, "/api/v1/calls/"+id, ""); a.Status != http.StatusNotFound {
		t.Errorf("cancelled again: %d", a.Status)
	}
}

// The header in which one hub tells another who is asking means nothing when
// anybody else sends it.
func TestHeaderOfHubsCountsBetweenHubsOnly(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	owner := base64.RawURLEncoding.EncodeToString([]byte(`{"Name":"local","Scopes":["*"],"Via":"owner"}`))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.hubs[0].hub.URL+"/api/v1/hubs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Stoa-Relayed", owner)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("it was answered with status %d", resp.StatusCode)
	}
}
