package hub_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func (c apiClient) modules(query string) map[string]modules.Switchable {
	c.t.Helper()
	out := map[string]modules.Switchable{}
	for _, m := range hubtest.Decode[struct{ Modules []modules.Switchable }](c.ok("GET", "/api/v1/modules"+query, "")).Modules {
		out[m.Name] = m
	}
	return out
}

// Who has nothing of a server is not told that it was switched.
func TestSwitchIsToldToWhomItConcerns(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	heard := c.hub.Client(t, hubtest.ClientOptions{}).Listen(`{"toolsListChanged":true}`)
	none := c.hub.Client(t, hubtest.ClientOptions{Token: tokenFor(t, c.hub, "bob", "elsewhere").token}).Listen(listenAll)
	c.ok("PUT", "/api/v1/modules/up", `{"on":false}`)
	heard.Await("notifications/tools/list_changed")
	c.hub.End() // the streams end, with what was told until then
	for {
		m, err := none.Read()
		if err != nil || m.IsResponse() {
			break
		}
		t.Errorf("told %s", m.Raw)
	}
}

func TestAPIModules(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	if m := c.modules(""); !m["up"].On || m["up"].Kind != "server" || m["up"].Tools == 0 || m["context"].Kind != "module" {
		t.Fatalf("modules: %+v", m)
	}
	client := c.hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	heard := client.Listen("")
	defer heard.Close()
	c.ok("PUT", "/api/v1/modules/up", `{"on":false}`)
	if m := heard.Next(); !strings.Contains(m.Method, "list_changed") {
		t.Errorf("told: %s", m.Raw)
	}
	c.ok("PUT", "/api/v1/modules/context", `{"on":true}`)
	if m := client.Call("tools/list", "{}"); strings.Contains(string(m.Result), "up__echo") || !strings.Contains(string(m.Result), "context_add") {
		t.Errorf("offered after up was switched off: %.300s", m.Result)
	}
	if status, _ := c.tool("up__echo", "{}"); status != http.StatusNotFound {
		t.Errorf("a tool that is off: %d", status)
	}
	if m := c.modules("")["up"]; m.On || m.Session {
		t.Errorf("for all: %+v", m)
	}
	c.ok("PUT", "/api/v1/modules/up", `{"on":true}`)
	// A Session that says otherwise has its way.
	c.ok("PUT", "/api/v1/modules/up?session=work", `{"on":false}`)
	if status, _ := c.tool("up__echo?session=work", `{"a":1}`); status != http.StatusNotFound {
		t.Errorf("in the session: %d", status)
	}
	if m := c.modules("?session=work")["up"]; m.On || !m.Session {
		t.Errorf("in the session: %+v", m)
	}
	if status, _ := c.tool("up__echo", "{}"); status != 200 {
		t.Errorf("on again: %d", status)
	}
	other := tokenFor(t, c.hub, "other", "up")
	for _, test := range []struct {
		c          apiClient
		path, body string
		status     int
		says       string
	}{
		{c, "contxt", `{"on":true}`, 404, "Did you mean context?"},
		{c, "up", `{"on":1}`, 400, `{\"on\":true}`},
		{c, "up", ``, 400, `{\"on\":true}`},
		{other, "up", `{"on":false}`, 403, "owner"},
		{other, "context?session=x", `{"on":false}`, 404, "up"},
		{other, "up?session=x", `{"on":false}`, 200, `"on":false`},
	} {
		if a := test.c.do("PUT", "/api/v1/modules/"+test.path, test.body); a.Status != test.status || !strings.Contains(string(a.Body), test.says) {
			t.Errorf("PUT %s %s: %d %s", test.path, test.body, a.Status, a.Body)
		}
	}
}

// What the owner has switched off for all, nobody switches on for a session:
// neither before nor after, by whatever way.
func TestOffForAllIsOffInEverySession(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	other := tokenFor(t, c.hub, "other", "*")
	early := c.hub.Client(t, hubtest.ClientOptions{Token: other.token, Face: "/s/early/mcp"})
	good(t, early.Tool("module_load", `{"module":"up"}`))
	c.ok("PUT", "/api/v1/modules/up", `{"on":false}`)
	late := c.hub.Client(t, hubtest.ClientOptions{Token: other.token, Face: "/s/late/mcp"})
	if e := bad(t, late.Tool("module_load", `{"module":"up"}`)); e != "DENIED" {
		t.Errorf("module_load: %s", e)
	}
	for _, by := range []apiClient{other, c} {
		if a := by.do("PUT", "/api/v1/modules/up?session=late", `{"on":true}`); a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), "switched it off for all") {
			t.Errorf("by the API: %d %s", a.Status, a.Body)
		}
	}
	for name, client := range map[string]*hubtest.Client{"loaded before": early, "loaded after": late} {
		if m := client.Call("tools/call", `{"name":"up__echo","arguments":{}}`); m.Error == nil {
			t.Errorf("%s: %s", name, m.Result)
		}
		if m := client.Call("tools/list", `{"_meta":{"stoa/all":true}}`); strings.Contains(string(m.Result), `"up__echo"`) {
			t.Errorf("%s: it is listed", name)
		}
	}
	if m := other.modules("?session=early")["up"]; m.On || !m.Hub {
		t.Errorf("in the session: %+v", m)
	}
	c.ok("PUT", "/api/v1/modules/up", `{"on":true}`)
	if m := early.Call("tools/call", `{"name":"up__echo","arguments":{}}`); m.Error != nil {
		t.Errorf("on again: %s", m.Raw)
	}
}

type eventPage struct {
	Events    []event.Record
	Gap, Next uint64
	Hub       string
	Restarted bool
}

func TestAPIEvents(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	get := func(query string) eventPage {
		t.Helper()
		return hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events"+query, ""))
	}
	c.put("work", "v", `1`)
	var types []string
	page := get("?limit=1")
	for len(page.Events) > 0 {
		for _, r := range page.Events {
			types = append(types, r.Type+" "+r.Session)
		}
		page = get("?wait=0s&after=" + strconv.FormatUint(page.Next, 10))
	}
	if got := strings.Join(types, ","); !strings.Contains(got, "session.stored work") || !strings.Contains(got, "call.done") {
		t.Errorf("events: %s", got)
	}
	// A look waits for what is to come; what upstreams offer may be told of late.
	waits := c.hub.Client(t, hubtest.ClientOptions{Face: "/api/v1/events?types=session.*&after=" + strconv.FormatUint(page.Next, 10), Token: c.token})
	came := make(chan hubtest.Answer, 1)
	go func() { came <- waits.Do(hubtest.Sent{Verb: http.MethodGet}) }()
	c.ok("DELETE", "/api/v1/sessions/work", "")
	if a := <-came; !strings.Contains(string(a.Body), `"session.ended"`) {
		t.Errorf("after waiting: %s", a.Body)
	}
	if page := get("?wait=0s&after=1000000"); !page.Restarted || len(page.Events) == 0 {
		t.Errorf("a number of another hub: %+v", page)
	}
	if page := get("?wait=0s&after=1&hub=another"); !page.Restarted || len(page.Events) == 0 || page.Events[0].Seq != 1 {
		t.Errorf("a small number of another hub: %+v", page)
	}
	if page := get("?wait=0s&after=1&hub=" + page.Hub); page.Restarted || len(page.Events) == 0 || page.Events[0].Seq != 2 {
		t.Errorf("a number of this hub: %+v", page)
	}
	for _, query := range []string{"?after=x", "?limit=0", "?limit=100000", "?wait=1h", "?nonsense=1"} {
		if a := c.do("GET", "/api/v1/events"+query, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, a.Status)
		}
	}
	if a := tokenFor(t, c.hub, "other", "*").do("GET", "/api/v1/events?wait=0s", ""); a.Status != http.StatusForbidden {
		t.Errorf("another than the owner: %d %s", a.Status, a.Body)
	}
}

// A hub that is told to stop does not wait for those who wait for events.
func TestAPIEventsDrain(t *testing.T) {
	hubtest.Parallel(t)
	c := apiHub(t)
	last := hubtest.Decode[eventPage](c.ok("GET", "/api/v1/events?wait=0s", "")).Next
	waits := c.hub.Client(t, hubtest.ClientOptions{Face: "/api/v1/events?types=session.*&wait=60s&after=" + strconv.FormatUint(last, 10), Token: c.token})
	came := make(chan hubtest.Answer, 1)
	go func() {
		defer close(came) // also where no answer comes
		came <- waits.Do(hubtest.Sent{Verb: http.MethodGet})
	}()
	await.Until(t, "the request waits", func() bool {
		_, metrics := c.hub.Get("/metrics")
		return strings.Contains(string(metrics), "\nstoa_event_polls 1\n")
	})
	c.hub.Stop()
	// What is waited for to the end of a drain is cut off, and not answered.
	if a := <-came; a.Status != http.StatusOK {
		t.Errorf("it was answered %d %s", a.Status, a.Body)
	}
}

type health struct {
	Ready  bool
	Store  string
	Health []struct{ Code, Severity, Text, Hint string }
}

// What cannot be kept, and what cannot be had, is told by /readyz.
func TestHealthOfState(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	c := apiHub(t, hubtest.Config(func(cfg *config.Config) {
		cfg.Store.URL, cfg.Store.Key = server.URL, secret.New(clusterKey)
		cfg.Modules.Failed = []config.ModuleFailure{{Name: "nosuch", From: "AIUR_MODULES", Text: "there is no module of that name", Hint: "Use another."}}
	}))
	look := func() health {
		_, body := c.hub.Get("/readyz")
		return hubtest.Decode[health](body)
	}
	h := look()
	if h.Store != "ok" || len(h.Health) != 1 || h.Health[0].Code != "module" || !strings.Contains(h.Health[0].Text, "nosuch") || h.Health[0].Hint != "Use another." {
		t.Fatalf("a module that cannot be had: %+v", h)
	}
	c.put("work", "v", `1`)
	server.Kill()
	await.Until(t, "the store is told to fail", func() bool {
		h = look()
		return h.Store == "failing" && len(h.Health) == 2 && h.Health[0].Code == "store" && h.Health[0].Severity == "error"
	})
	if !h.Ready {
		t.Error("calls that keep nothing still work, so the hub is ready")
	}
	server.Restart(t)
	await.Until(t, "the store is well again", func() bool { h = look(); return h.Store == "ok" && len(h.Health) == 1 })
	c.put("work", "w", `2`)
}
