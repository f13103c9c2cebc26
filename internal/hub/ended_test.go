package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

// Everybody learns that a program ended and what to do; why it did, which it wrote
// to stderr, is for the person whose hub it is and for their clients, without
// secrets, on every way that an error takes.
func TestStderrOfAnEndedProgramIsTheOwners(t *testing.T) {
	hubtest.Parallel(t)
	var guest string
	h := hubtest.New(t, hubtest.Modules(), func(s *hubtest.Setup) { guest = token(t, s, "guest", "*") },
		hubtest.Stdio("up", peer.Spec{}, func(s *config.Server) {
			s.Command, s.Args = "sh", []string{"-c", `echo "Error accessing directory /srv/of-the-owner with $KEY" >&2; exit 1`}
			s.Env = map[string]secret.String{"KEY": secret.New("a-secret-0f-the-config")}
		}))
	servers := func(token string) string {
		return string(apiClient{t, h, token}.do(http.MethodGet, "/api/v1/servers", "").Body)
	}
	await.Until(t, "the owner sees why it ended", func() bool {
		said := servers(h.Token)
		return strings.Contains(said, "of-the-owner") && strings.Contains(said, "the program ended")
	})
	ways := func(token string) map[string]string {
		c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: token})
		return map[string]string{
			"the API":      servers(token),
			"instructions": string(c.Hello.Raw),
			"a tool":       string(c.Tool("up__x", "{}").Raw),
			"an agent":     string(h.Client(t, hubtest.ClientOptions{Token: token, Face: "/mcps/up/mcp"}).Tool("x", "{}").Raw),
		}
	}
	for way, said := range ways(h.Token) {
		if !strings.Contains(said, "Error accessing directory /srv/of-the-owner") || strings.Contains(said, "a-secret") {
			t.Errorf("%s does not tell the owner why, or tells a secret: %s", way, said)
		}
	}
	for way, said := range ways(guest) {
		if strings.Contains(said, "of-the-owner") {
			t.Errorf("%s passes stderr on: %s", way, said)
		}
		if way != "the API" && !strings.Contains(said, "the program ended: exit status 1") {
			t.Errorf("%s does not say what is wrong: %s", way, said)
		}
	}
}
