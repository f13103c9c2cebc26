package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// What is switched off, forbidden or another's is neither named nor counted for a
// token, however it asks. The owner is told all, and can switch it on again.
func TestWhatIsUnseenIsNotTold(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "secret"}}}
	h := hubtest.New(t, hubtest.Stdio("up", spec), hubtest.Stdio("hushed", spec), hubtest.Modules(), hubtest.Config(func(c *config.Config) {
		c.Policy.Rules = config.Rules{Rules: []config.Rule{{Principals: []string{"guest"}, Tools: []string{"up:secret"}, Action: "deny"}}}
	}))
	waitTools(t, h)
	owner, guest, friend := apiClient{t, h, h.Token}, tokenFor(t, h, "guest", "*"), tokenFor(t, h, "friend", "*")
	await.Until(t, "the tools are there", func() bool { return len(owner.tools("?upstream=hushed").Tools) == 2 })
	for _, tool := range []string{"up__echo", "up__secret", "hushed__echo"} {
		owner.ok(http.MethodPost, "/api/tools/"+tool, "{}")
	}
	plan := `{"plan":{"steps":[{"id":"a","tool":"up__echo"}]},"publish":"mine"}`
	made := hubtest.Decode[struct{ Data struct{ Tool string } }](friend.ok(http.MethodPost, "/api/tools/plan_create", plan)).Data.Tool
	if made == "" {
		t.Fatal("the plan is not published")
	}
	friend.ok(http.MethodPost, "/api/tools/"+made, "{}")
	own := strings.TrimPrefix(made, "plan__")
	owner.ok(http.MethodPut, "/api/v1/modules/hushed", `{"on":false}`)
	read := func(c apiClient, path string) string {
		t.Helper()
		return string(c.ok(http.MethodGet, path, ""))
	}
	for _, path := range []string{"/api/v1/servers", "/readyz"} {
		if got := read(guest, path); strings.Contains(got, "hushed") || strings.Contains(got, `"pool"`) || !strings.Contains(got, `"tools":1`) || strings.Contains(got, `"tools":2`) {
			t.Errorf("a guest reads at %s: %s", path, got)
		}
		if got := read(owner, path); !strings.Contains(got, "hushed") || !strings.Contains(got, `"pool"`) || !strings.Contains(got, `"tools":2`) {
			t.Errorf("the owner reads at %s: %s", path, got)
		}
	}
	if got := guest.do(http.MethodGet, "/api/v1/servers/hushed", ""); got.Status != http.StatusNotFound {
		t.Errorf("a guest finds the server: %d %s", got.Status, got.Body)
	}
	if m, ok := owner.modules("")["hushed"]; !ok || m.On {
		t.Errorf("the owner cannot switch it on again: %+v", m)
	}
	const other = `stoa_calls_total{outcome="ok",tool="other",upstream="up"} 1`
	if got := read(guest, "/metrics"); strings.Contains(got, "secret") || strings.Contains(got, own) || !strings.Contains(got, other) || !strings.Contains(got, `tool="echo",upstream="up"`) {
		t.Errorf("a guest reads of calls: %s", calls(got))
	}
	if got := read(friend, "/metrics"); !strings.Contains(got, own) {
		t.Errorf("whose plan it is reads of calls: %s", calls(got))
	}
	if got := read(owner, "/metrics"); !strings.Contains(got, `tool="secret"`) || !strings.Contains(got, own) || strings.Contains(got, other) {
		t.Errorf("the owner reads of calls: %s", calls(got))
	}
}

// calls are the lines about calls.
func calls(metrics string) string {
	var out []string
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "stoa_calls_total") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
