package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/registration"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/vault"
)

// desk is where agents register: a hub, and a token for it.
type desk struct {
	t          *testing.T
	url, token string
}

func deskOf(t *testing.T, h *hubtest.Hub) desk { return desk{t, h.URL, h.Token} }

func (d desk) do(method, path, lease, body string) (int, map[string]any) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Stoa-Lease", lease)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	raw, err := io.ReadAll(resp.Body)
	if err != nil || len(raw) > 0 && json.Unmarshal(raw, &out) != nil {
		d.t.Fatalf("%s, %v", raw, err)
	}
	return resp.StatusCode, out
}

// register registers an agent and returns its lease.
func (d desk) register(name, url, more string) string {
	d.t.Helper()
	status, out := d.do("POST", "/mcps", "", fmt.Sprintf(`{"name":%q,"url":%q%s}`, name, url, more))
	lease, _ := out["lease"].(string)
	if status != 201 || lease == "" {
		d.t.Fatalf("register %s: %d %v", name, status, out)
	}
	return lease
}

func (d desk) renew(name, lease string) int {
	d.t.Helper()
	status, _ := d.do("PUT", "/mcps/"+name, lease, "")
	return status
}

// state is what the hub says of an agent; "" if it knows none.
func (d desk) state(name string) string {
	d.t.Helper()
	status, out := d.do("GET", "/mcps/"+name, "", "")
	if status == http.StatusNotFound {
		return ""
	}
	s, _ := out["state"].(string)
	if status != 200 || s == "" {
		d.t.Fatalf("GET /mcps/%s: %d %v", name, status, out)
	}
	return s
}

func (d desk) waitFor(name, state string) {
	d.t.Helper()
	await.Until(d.t, fmt.Sprintf("%s is %q", name, state), func() bool { return d.state(name) == state })
}

// echoes fails unless the agent answers a call at its own face.
func (d desk) echoes(name string) {
	d.t.Helper()
	c := hubtest.Dial(d.t, d.url, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/" + name + "/mcp", Token: d.token})
	if m := c.Tool("echo", `{"a":1}`); m.Text() != `{"a":1}` {
		d.t.Errorf("a call of %s: %s", name, m.Raw)
	}
}

const longLease = `,"ttlMs":600000`

// An agent that registers at one hub is an agent of all on the store, and any of
// them can renew or end its lease.
func TestAgentOfAllHubs(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	atA, atB := hubtest.New(t, on(s)), hubtest.New(t, on(s))
	a, b := deskOf(t, atA), deskOf(t, atB)
	merged := atB.Client(t, hubtest.ClientOptions{Era: hubtest.Modern})
	heard := merged.Listen(`{"toolsListChanged":true}`)
	lease := a.register("worker", web.URL, longLease+`,"token":"shown-to-the-agent"`)
	if status := b.renew("worker", lease); status != 200 {
		t.Errorf("renewed at the other hub at once: %d", status)
	}
	if m := heard.Next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("the other hub's clients are told %s", m.Raw)
	}
	b.waitFor("worker", "connected")
	b.echoes("worker")
	if m := merged.Tool("worker__echo", `{"b":2}`); m.Text() != `{"b":2}` {
		t.Errorf("merged: %s", m.Raw)
	}
	shown := slices.ContainsFunc(web.Requests(), func(r peer.Request) bool { return strings.Contains(fmt.Sprint(r), "shown-to-the-agent") })
	if !shown {
		t.Error("the agent is not shown its token")
	}
	if status := b.renew("worker", "wrong"); status != 404 {
		t.Errorf("renewed by a stranger: %d", status)
	}
	if status, out := b.do("POST", "/mcps", "", fmt.Sprintf(`{"name":"worker","url":%q}`, web.URL)); status != 403 {
		t.Errorf("a second of that name: %d %v", status, out)
	}
	raw := string(storetest.Raw(t, s.URL))
	for _, secret := range []string{web.URL, "shown-to-the-agent", lease} {
		if strings.Contains(raw, secret) {
			t.Errorf("the store shows %q", secret)
		}
	}
	if status, _ := b.do("DELETE", "/mcps/worker", lease, ""); status != 204 || b.state("worker") != "" {
		t.Errorf("unregistered at the other hub: %d", status)
	}
	if status := a.renew("worker", lease); status != 404 {
		t.Errorf("renewed after that: %d", status)
	}
	a.waitFor("worker", "")
	b.register("worker", web.URL, `,"ttlMs":1000`)
	a.waitFor("worker", "connected")
	a.waitFor("worker", "") // its lease has ended
	b.waitFor("worker", "")
}

// Agents outlive the hub that they registered at, and a hub that is started knows
// them at once.
func TestAgentsOutliveHubs(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	dir := t.TempDir()
	there := &durable{data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log"), on: "1 " + s.URL, key: clusterKey}
	there.start(t)
	atThere := func() desk {
		token, err := os.ReadFile(filepath.Join(there.data, "token"))
		if err != nil {
			t.Fatal(err)
		}
		return desk{t, there.address(), strings.TrimSpace(string(token))}
	}
	here := hubtest.New(t, on(s))
	b := deskOf(t, here)
	lease := atThere().register("worker", web.URL, longLease)
	b.waitFor("worker", "connected")
	there.kill(t)
	b.echoes("worker")
	if status := b.renew("worker", lease); status != 200 {
		t.Errorf("renewed when the hub that it registered at is dead: %d", status)
	}
	there.start(t)
	if atThere().state("worker") == "" {
		t.Error("the hub that was killed does not know it")
	}
	atThere().waitFor("worker", "connected")
	here.Stop()
	again := deskOf(t, hubtest.New(t, on(s), hubtest.Data(here.Data)))
	if again.state("worker") == "" {
		t.Error("the hub that was started again does not know it")
	}
	again.waitFor("worker", "connected")
	again.echoes("worker")
	if status, _ := again.do("DELETE", "/mcps/worker", lease, ""); status != 204 {
		t.Errorf("unregistered there: %d", status)
	}
	atThere().waitFor("worker", "")
}

// The agents of a token that is revoked go, and no hub takes them in again.
func TestAgentsOfARevokedToken(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	tokens := principals(t, s).Tokens
	_, anns, err := tokens.Create("ann", auth.Scopes{"work*"}, 0, auth.RightRegister)
	if err != nil {
		t.Fatal(err)
	}
	a, b := deskOf(t, hubtest.New(t, on(s))), deskOf(t, hubtest.New(t, on(s)))
	ann := desk{t, a.url, anns}
	ann.register("worker", web.URL, longLease)
	a.register("other", web.URL, longLease)
	b.waitFor("worker", "connected")
	b.waitFor("other", "connected")
	if _, err := tokens.Revoke("ann"); err != nil {
		t.Fatal(err)
	}
	a.waitFor("worker", "")
	b.waitFor("worker", "")
	c := deskOf(t, hubtest.New(t, on(s)))
	if c.state("worker") != "" || c.state("other") == "" {
		t.Errorf("a hub that starts then: %q, %q", c.state("worker"), c.state("other"))
	}
	c.register("worker", web.URL, "") // the name is free
	b.waitFor("worker", "connected")
}

// Where a server of the config has the name, that one stays, and the hub says
// so. When it is gone the agent is served.
func TestAgentWithTheNameOfAServer(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	server := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "served", Behaviour: peer.Behaviour{Kind: peer.Echo}}}})
	a := deskOf(t, hubtest.New(t, on(s)))
	h := hubtest.New(t, on(s), hubtest.HTTP("worker", server.URL))
	b := deskOf(t, h)
	b.waitFor("worker", "connected")
	lease := a.register("worker", web.URL, longLease)
	said := func() bool {
		_, body := h.Get("/readyz")
		for _, item := range hubtest.Decode[health](body).Health {
			if item.Code == "agent_name" {
				return true
			}
		}
		return false
	}
	await.Until(t, "it says that the agent gives way", said)
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/worker/mcp"})
	if m := c.Tool("served", `{"a":1}`); m.Text() != `{"a":1}` {
		t.Errorf("the server of the config: %s", m.Raw)
	}
	if status, out := b.do("POST", "/mcps", lease, fmt.Sprintf(`{"name":"worker","url":%q}`, web.URL)); status != 400 {
		t.Errorf("registered where a server has the name: %d %v", status, out)
	}
	a.echoes("worker")
	if _, err := h.Reload(setupOf(h, on(s))); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is served when the server is gone", func() bool { return c.Tool("echo", `{"a":1}`).Text() == `{"a":1}` })
	await.Until(t, "nothing is said any more", func() bool { return !said() })
	if _, err := h.Reload(setupOf(h, on(s), hubtest.HTTP("worker", server.URL))); err == nil || !strings.Contains(err.Error(), "taken by a registered agent") {
		t.Errorf("a server of that name: %v", err)
	}
}

// Of two that register a name at two hubs at once, one has it, at both.
func TestAgentsRegisterAtOnce(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	webs := []*peer.HTTPServer{peer.Serve(t, peer.Spec{Tools: echoTool()}), peer.Serve(t, peer.Spec{Tools: echoTool()})}
	desks := []desk{deskOf(t, hubtest.New(t, on(s))), deskOf(t, hubtest.New(t, on(s)))}
	for round := range 5 {
		name := fmt.Sprint("worker", round)
		var leases [2]string
		var codes [2]int
		var wg sync.WaitGroup
		for i, d := range desks {
			wg.Go(func() {
				status, out := d.do("POST", "/mcps", "", fmt.Sprintf(`{"name":%q,"url":%q%s}`, name, webs[i].URL, longLease))
				codes[i] = status
				leases[i], _ = out["lease"].(string)
			})
		}
		wg.Wait()
		won := slices.Index(codes[:], 201)
		if won < 0 || codes[1-won] != 403 {
			t.Fatalf("round %d: %v", round, codes)
		}
		for _, d := range desks {
			d.waitFor(name, "connected")
			if status := d.renew(name, leases[won]); status != 200 {
				t.Errorf("round %d, who won: %d", round, status)
			}
		}
		before := len(webs[1-won].Requests())
		for _, d := range desks {
			d.echoes(name)
		}
		if n := len(webs[1-won].Requests()); n != before {
			t.Errorf("round %d: who lost was called", round)
		}
	}
}

// An agent that was registered from loopback is on that machine. A hub on another
// one never dials its own loopback for it, whatever its owner has listed, and
// says where the agent can be reached.
func TestAgentOfAnotherMachine(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	var dialled atomic.Int32
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialled.Add(1)
		}
	}
	web.Start()
	t.Cleanup(web.Close)
	key, err := vault.NewKey(clusterKey)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := registration.Open(t.Context(), registration.Options{Store: storetest.Open(t, store.Options{URL: s.URL}), Key: key, Most: 10,
		Settle: func(string, *registration.Registration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(elsewhere.Close)
	byName := strings.Replace(web.URL, "127.0.0.1", "localhost", 1)
	for name, r := range map[string]registration.Registration{
		"worker": {URL: web.URL, From: netip.MustParseAddr("127.0.0.1")},
		"named":  {URL: byName, From: netip.MustParseAddr("127.0.0.1")},
		"hidden": {URL: web.URL}, // through a proxy
	} {
		r.Name, r.Owner, r.Life, r.Loopback, r.At = name, auth.LocalName, 10*time.Minute, "another machine's", "the hub on far (192.0.2.1:8080)"
		if _, err := elsewhere.Add(t.Context(), r, ""); err != nil {
			t.Fatal(err)
		}
	}
	for what, h := range map[string]*hubtest.Hub{
		"a hub": hubtest.New(t, on(s)),
		"a hub whose owner lists loopback": hubtest.New(t, on(s), hubtest.Config(func(c *config.Config) {
			c.Auth.Register = []string{"127.0.0.1", "localhost"}
		})),
	} {
		d := deskOf(t, h)
		for _, name := range []string{"worker", "named", "hidden"} {
			d.waitFor(name, "error")
			if text := status(t, h, name).Error; !strings.Contains(text, "the hub on far (192.0.2.1:8080)") {
				t.Errorf("%s says of %s: %s", what, name, text)
			}
			c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/mcps/" + name + "/mcp"})
			if m := c.Tool("echo", `{}`); m.Fault().Data.Kind != "unreachable" || !strings.Contains(string(m.Raw), "the hub on far (192.0.2.1:8080)") || !strings.Contains(string(m.Raw), "Call it at that hub") {
				t.Errorf("%s, a call of %s: %s", what, name, m.Raw)
			}
		}
	}
	if n := dialled.Load(); n != 0 {
		t.Errorf("its own loopback was dialled %d times", n)
	}
}

// Hubs that share no cluster key keep to themselves who has registered.
func TestAgentsWithoutClusterKey(t *testing.T) {
	hubtest.Parallel(t)
	s := storetest.StartServer(t)
	alone := hubtest.Config(func(c *config.Config) { c.Store.URL = s.URL })
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	a, b := deskOf(t, hubtest.New(t, alone)), deskOf(t, hubtest.New(t, alone))
	lease := a.register("worker", web.URL, longLease)
	if status := b.renew("worker", lease); status != 404 {
		t.Errorf("renewed at the other hub: %d", status)
	}
	if raw := string(storetest.Raw(t, s.URL)); strings.Contains(raw, "bucket_agents.") || strings.Contains(raw, web.URL) {
		t.Error("the store has it")
	}
	a.echoes("worker")
}

// The name of a server is not for an agent while the server is in the config, also
// if it is disabled: it would get the rules about the server. One that was there
// before goes.
func TestAgentMayNotHaveTheNameOfADisabledServer(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: echoTool()})
	off := func(name string) hubtest.Edit {
		return hubtest.HTTP(name, web.URL, func(s *config.Server) { s.Enabled = false })
	}
	h := hubtest.New(t, off("github"))
	d := deskOf(t, h)
	d.token = tokenWith(t, h, "bob", auth.Rights{auth.RightRegister}, "*").token
	if status, out := d.do("POST", "/mcps", "", fmt.Sprintf(`{"name":"github","url":%q}`, web.URL)); status != 400 || !strings.Contains(fmt.Sprint(out), "a server of the config has this name") {
		t.Errorf("registered as a server that is disabled: %d %v", status, out)
	}
	d.register("worker", web.URL, longLease)
	d.waitFor("worker", "connected")
	if _, err := h.Reload(setupOf(h, off("github"), off("worker"))); err != nil {
		t.Fatal(err)
	}
	d.waitFor("worker", "")
	if _, err := h.Reload(setupOf(h)); err != nil {
		t.Fatal(err)
	}
	d.waitFor("worker", "connected")
	d.register("github", web.URL, longLease)
}
