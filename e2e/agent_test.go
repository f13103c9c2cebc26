package e2e

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// agentScenarios are those of the suite that need no more than a manifest can say; the others ask for tools that
// return pictures, ask the client back or log.
var agentScenarios = map[string][]string{
	legacy: {
		"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress", "server-sse-multiple-streams",
		"resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read", "resources-subscribe", "resources-unsubscribe",
		"prompts-list", "prompts-get-simple", "prompts-get-with-args", "dns-rebinding-protection", "server-session-lifecycle", "json-schema-2020-12", "server-sse-polling",
	},
	modern: {
		"tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress", "server-sse-multiple-streams",
		"resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read", "sep-2164-resource-not-found",
		"prompts-list", "prompts-get-simple", "prompts-get-with-args", "dns-rebinding-protection", "caching",
		"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation",
	},
}

// TestConformanceOfAgent has the suite judge an agent of commands, by itself.
func TestConformanceOfAgent(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	manifest, err := filepath.Abs(filepath.Join("testdata", "agent", "agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	address := port.Address(t)
	p := start(t, environment(t, set), stoaBinary(t), "agent", manifest, "--listen", address)
	p.await(t, "it listens", func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	for version, scenarios := range agentScenarios {
		t.Run(version, func(t *testing.T) {
			got := judge(t, set, nil, "server", "--url", "http://"+address+"/mcp", "--requirements", version)
			failed := map[string]string{}
			for check, why := range got.failures {
				// What the suite has no tool for says nothing of the agent.
				if !strings.Contains(why, "Not testable") {
					failed[check.scenario] += check.id + ": " + why
				}
			}
			for _, name := range scenarios {
				if why := failed[name]; why != "" || got.passes[name] == 0 {
					t.Errorf("%s: %d passed; %s", name, got.passes[name], why)
				}
			}
			if why := failed["server-stateless"]; version == modern && (why != "" || got.passes["server-stateless"] < 20) {
				t.Errorf("server-stateless: %d passed; %s", got.passes["server-stateless"], why)
			}
		})
	}
}
