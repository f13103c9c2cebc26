package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// .env.example can be copied as it is: every variable in it means something to
// the program, what it sets is the default, and it leaves none out that the
// hub knows.
func TestEnvExample(t *testing.T) {
	text, err := os.ReadFile("../../.env.example")
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, "stoa.yaml", "stoa: 1\nservers: {a: {command: x}}\n")
	load := func() *Config {
		c, notes := must(t, Options{Dir: dir, Env: fixed("HOME", dir)})
		if len(notes) > 0 {
			t.Errorf("notes: %v", notes)
		}
		return c
	}
	shown := func(c *Config) any {
		return []any{c.Listen, c.Data, c.Limits, c.Log, c.Session, c.Attach, c.Telemetry.Endpoint, c.Chat.MaxTokenCount, c.Modules, c.Models.Given == ModelVariables{}, c.Servers[0].Timeout}
	}
	before := shown(load())
	if err := os.WriteFile(filepath.Join(dir, ".env"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, shown(load())); diff != "" {
		t.Errorf("it changes something (-without +with):\n%s", diff)
	}
	var r report
	in := readEnvFile("../../.env.example", false, &r, 0)
	source := sourceText(t)
	for name := range in.vars {
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("%s means nothing to the program", name)
		}
	}
	want := strings.Fields("MCP_JSON_PATH PORT STOA_DATA STOA_TOKEN AIUR_SERVER_HOST AIUR_SERVER_PORT AIUR_MODULES DEFAULT_TOOL_TIMEOUT_MS AILUMINA_WS_URL AILUMINA_WS_TIMEOUT AGENT_PORT AGENT_CONCURRENCY AGENT_TOKEN ROUTER_HOST ROUTER_PORT")
	for _, m := range regexp.MustCompile(`"(AILUMINA_WS_[A-Z_]+)"`).FindAllStringSubmatch(source, -1) {
		want = append(want, m[1])
	}
	for _, v := range variables() {
		want = append(want, v.name)
	}
	for _, name := range want {
		if _, ok := in.vars[name]; !ok {
			t.Errorf("%s is not in it", name)
		}
	}
}

// sourceText is what the program is made of, without its tests.
func sourceText(t *testing.T) string {
	var b strings.Builder
	for _, dir := range []string{"../../internal", "../../pkg"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			b.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
