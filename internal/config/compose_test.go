package config

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The example servers of compose.yaml are those of the config that is mounted
// for them, at the ports that they have.
func TestComposeExample(t *testing.T) {
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Profiles, Expose []string
			Build            any
			Environment      map[string]string
		}
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	c, _ := must(t, Options{Files: []string{"../../examples/compose/stoa.yaml"}, Env: fixed("DESK_TOKEN", "t")})
	if len(c.Servers) < 2 {
		t.Errorf("%d servers", len(c.Servers))
	}
	for _, s := range c.Servers {
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		service, ok := compose.Services[u.Hostname()]
		if !ok || len(service.Expose) != 1 || service.Expose[0] != u.Port() || len(service.Profiles) != 1 || service.Profiles[0] != "examples" {
			t.Errorf("%s: the service is %+v", s.URL, service)
		}
	}
	if token := compose.Services["stoa"].Environment["DESK_TOKEN"]; token == "" || token != compose.Services["desk"].Environment["AGENT_LISTEN_TOKEN"] {
		t.Errorf("the hub and its agent have different tokens: %q", token)
	}
	docker, err := os.ReadFile("../../Dockerfile")
	if err != nil || !strings.Contains(string(docker), " AS desk\n") || !strings.Contains(string(docker), "COPY examples/agents/desk /desk\n") {
		t.Errorf("the Dockerfile does not make the agent: %v", err)
	}
	if _, err := os.Stat("../../examples/agents/desk/agent.yaml"); err != nil {
		t.Error(err)
	}
}
