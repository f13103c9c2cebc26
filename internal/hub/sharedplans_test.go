package hub_test

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// What is published, changed, shared and taken back at one hub is offered, or no
// longer, by another on the same store, whose clients are told.
func TestHubsOfferTheSamePlans(t *testing.T) {
	hubtest.Parallel(t)
	server := storetest.StartServer(t)
	shared := hubtest.Config(func(c *config.Config) { c.Store.URL = server.URL })
	a, b := apiHub(t, shared), apiHub(t, shared)
	of := func(h apiClient) *hubtest.Client {
		return h.hub.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: h.token, Face: "/mcp"})
	}
	at := map[*hubtest.Client]*hubtest.Exchange{of(a): nil, of(b): nil}
	for c := range at {
		at[c] = c.Listen(`{"toolsListChanged":true}`)
	}
	both := func(what string, ok func(*hubtest.Client) bool) {
		t.Helper()
		for c := range at {
			await.Until(t, what, func() bool { return ok(c) })
		}
	}
	a.ok("PUT", "/api/v1/plans/echo", apiPlan)
	for _, x := range at {
		x.Await("notifications/tools/list_changed")
	}
	both("it is offered", func(c *hubtest.Client) bool { return has(t, c, "plan__echo") })
	if status, e := b.tool("plan__echo", `{"text":"hi"}`); status != 200 || !strings.Contains(string(e.Data), `"text":"hi"`) {
		t.Errorf("called at the other hub: %d %+v", status, e)
	}
	b.ok("PUT", "/api/v1/plans/echo", strings.NewReplacer(`"name":"text"`, `"name":"word"`, "@text", "@word").Replace(apiPlan))
	both("it is the other plan", func(c *hubtest.Client) bool { return offers(c, "word") })

	// Who can see it is the same at both, and both know whose it is.
	ann := tokenFor(t, b.hub, "ann", "*")
	annSees := func() bool {
		return has(t, b.hub.Client(t, hubtest.ClientOptions{Token: ann.token, Face: "/mcp"}), "plan__echo")
	}
	if annSees() {
		t.Error("another is offered what is not shared")
	}
	a.ok("POST", "/api/v1/plans/echo/share", `{"shared":true}`)
	await.Until(t, "another is offered what was shared at the other hub", annSees)

	b.hub.Stop()
	b = apiHub(t, shared, hubtest.Data(t.TempDir()))
	if c := of(b); !has(t, c, "plan__echo") {
		t.Error("a hub that was started later does not offer it")
	}
	b.ok("DELETE", "/api/v1/plans/echo", "")
	c := of(a)
	await.Until(t, "what was taken back at the other hub is offered no more", func() bool { return !has(t, c, "plan__echo") })
	if c := of(b); has(t, c, "plan__echo") {
		t.Error("it is offered by the hub that took it back")
	}
}
