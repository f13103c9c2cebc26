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

// Everybody learns that a program ended and what to do; what it wrote to stderr
// is for the hub's owner, on every way that an error takes.
func TestStderrOfAnEndedProgramIsTheOwners(t *testing.T) {
	hubtest.Parallel(t)
	var guest string
	h := hubtest.New(t, hubtest.Modules(), func(s *hubtest.Setup) { guest = token(t, s, "guest", "*") },
		hubtest.Stdio("up", peer.Spec{}, func(s *config.Server) {
			s.Command, s.Args = "sh", []string{"-c", `echo "Error: Cannot find module '/srv/of-the-owner.js'" >&2; exit 1`}
		}))
	servers := func(token string) string {
		return string(apiClient{t, h, token}.do(http.MethodGet, "/api/v1/servers", "").Body)
	}
	await.Until(t, "the owner sees why it ended", func() bool {
		said := servers(h.Token)
		return strings.Contains(said, "of-the-owner") && strings.Contains(said, "the program ended")
	})
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Token: guest})
	for way, said := range map[string]string{
		"the API":      servers(guest),
		"instructions": string(c.Hello.Raw),
		"a tool":       string(c.Tool("up__x", "{}").Raw),
		"an agent":     string(h.Client(t, hubtest.ClientOptions{Token: guest, Face: "/mcps/up/mcp"}).Tool("x", "{}").Raw),
	} {
		if strings.Contains(said, "of-the-owner") {
			t.Errorf("%s passes stderr on: %s", way, said)
		}
		if way != "the API" && !strings.Contains(said, "the program ended: exit status 1") {
			t.Errorf("%s does not say what is wrong: %s", way, said)
		}
	}
}
