package hub_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// With a root that holds the configuration, no file tool reads or changes any
// part of it, nor what a reload makes a part of it.
func TestFileToolsLeaveTheConfiguration(t *testing.T) {
	hubtest.Parallel(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "state")
	text := func(envFile string) string {
		return `{"stoa": 1, "modules": {"file": {"roots": ["."]}}, "tls": {}, "auth": {"tokensFile": "people"},
			"servers": {"later": {"command": "cat", "enabled": false, "envFile": "` + envFile + `"}}}`
	}
	write("hub.jsonc", text("one.vars"))
	write("flag.vars", "A=1\n")
	write("one.vars", "TOKEN=sesame\n")
	write("two.vars", "TOKEN=sesame\n")
	write(".env", "B=1\n")
	o := config.Options{Files: []string{"hub.jsonc"}, EnvFiles: []string{"flag.vars"}, Dir: dir, UserDir: filepath.Join(dir, "user"), Listen: []string{"127.0.0.1:0"}, Data: data}
	load := func() *config.Config {
		t.Helper()
		cfg, _, err := config.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	h := hubtest.New(t, func(s *hubtest.Setup) { s.Config = *load() })
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	call := func(tool string, args map[string]any) hubtest.Message {
		t.Helper()
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return c.Tool(tool, string(b))
	}
	refused := func(name string) {
		t.Helper()
		for tool, args := range map[string]map[string]any{
			"file_read": {"path": name}, "file_info": {"path": name}, "file_search": {"path": name, "pattern": "e"},
			"file_write": {"path": name, "content": "x", "mode": "overwrite", "parents": true}, "file_edit": {"path": name, "edits": []map[string]any{{"find": "e", "replace": "x"}}},
			"file_remove": {"path": name, "recursive": true}, "file_move": {"from": name, "to": "mine"},
		} {
			if m := call(tool, args); bad(t, m) != "DENIED" {
				t.Errorf("%s %s: %s", tool, name, m.Raw)
			}
		}
		if m := call("file_move", map[string]any{"from": "two.vars", "to": name, "overwrite": true, "parents": true}); bad(t, m) != "DENIED" {
			t.Errorf("a move onto %s: %s", name, m.Raw)
		}
	}
	for _, name := range []string{"hub.jsonc", "flag.vars", "one.vars", ".env", "people", "state", "state/token", "state/key", "stoa.yaml", "mcp.json", "user/stoa.yaml",
		"user/.env", "some/where/agent.yaml", ".cursor/mcp.json", "claude_desktop_config.json"} {
		refused(name)
	}
	if got := string(good(t, call("file_list", map[string]any{"recursive": true}))); strings.Contains(got, "hub.jsonc") || strings.Contains(got, "state") || !strings.Contains(got, "two.vars") {
		t.Errorf("listed: %s", got)
	}
	good(t, call("file_read", map[string]any{"path": "two.vars"}))

	write("hub.jsonc", text("two.vars"))
	if _, err := h.Reload(load()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the new file is refused", func() bool {
		return strings.Contains(string(call("file_read", map[string]any{"path": "two.vars"}).Result), "DENIED")
	})
	refused("two.vars")
	if b, err := os.ReadFile(filepath.Join(dir, "hub.jsonc")); err != nil || string(b) != text("two.vars") {
		t.Errorf("%s %v", b, err)
	}
}

// Every built-in tool says of itself what a decision may rest on.
func TestBuiltInToolsAreAnnotated(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules(), hubtest.Config(func(c *config.Config) {
		c.Modules.File = config.FileModule{Enabled: true, Roots: []string{t.TempDir()}}
	}))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	var listed struct {
		Tools []struct {
			Name        string
			Annotations map[string]any
		}
	}
	if err := json.Unmarshal(c.Call("tools/list", `{}`).Result, &listed); err != nil || len(listed.Tools) < 15 {
		t.Fatalf("%v: %d tools", err, len(listed.Tools))
	}
	for _, tool := range listed.Tools {
		for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			if _, ok := tool.Annotations[hint].(bool); !ok {
				t.Errorf("%s has no %s: %v", tool.Name, hint, tool.Annotations)
			}
		}
		if tool.Annotations["readOnlyHint"] == true && tool.Annotations["destructiveHint"] == true {
			t.Errorf("%s: %v", tool.Name, tool.Annotations)
		}
	}
}
