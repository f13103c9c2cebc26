package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever is wrong with one server or agent is told of that one, and the others
// are there.
func TestTolerantOfEveryEntry(t *testing.T) {
	const good = `stoa: 1
servers: {good: {command: cat}}
agents: {writer: {systemPrompt: Write.}}
`
	for name, tc := range map[string]struct{ file, text, who, want string }{
		"a model that is not there": {"stoa.yaml", `stoa: 1
servers:
  good: {command: cat}
  bad: {command: sh, sampling: host, samplingModel: nosuch}
`, "bad", `there is no model "nosuch"`},
		"a model without sampling": {"stoa.yaml", `stoa: 1
servers:
  good: {command: cat}
  bad: {command: sh, samplingModel: nosuch}
`, "bad", `there is no model "nosuch"`},
		"a list with one that has no name": {"stoa.yaml", `stoa: 1
mcp: {servers: [{id: good, command: cat}, {command: sh}]}
`, "entry-2", "a server in a list needs a name"},
		"a list with a text": {"stoa.yaml", `stoa: 1
mcp: {servers: [{id: good, command: cat}, hello]}
`, "entry-2", "must be an object"},
		"a list of our own": {"stoa.yaml", `stoa: 1
servers: [{id: good, command: cat}, 5]
`, "entry-2", "must be an object"},
		"a key twice in one without a name": {"stoa.yaml", `stoa: 1
servers:
  - {id: good, command: cat}
  - command: sh
    command: cat
`, "entry-2", `the key "command" is there twice`},
		"an id that is no text": {"stoa.yaml", `stoa: 1
mcp: {servers: {good: {command: cat}, bad: {id: [], command: sh}}}
`, "bad", "must be a string"},
		"a text in another host's file": {"mcp.json", `{"mcpServers": {"good": {"command": "cat"}, "bad": "hello"}}`, "bad", "must be an object"},
		"an agent called like a server": {"stoa.yaml", good + `  good: {systemPrompt: I am good.}
`, "good-2", `the agent "good" is called like the server "good"`},
		"an agent's model": {"stoa.yaml", good + `  poet: {model: nosuch}
`, "poet", `there is no model "nosuch"`},
		"an agent's key": {"stoa.yaml", good + `  poet: {modle: x}
`, "poet", "modle"},
		"an agent's key twice": {"stoa.yaml", good + `  poet:
    model: x
    model: y
`, "poet", `the key "model" is there twice`},
		"a stock agent's key": {"stoa.yaml", good + `  crud: {maxSteps: none}
`, "crud", "maxSteps"},
		"an agent that is a text": {"stoa.yaml", good + `  poet: hello
`, "poet", "must be an object"},
		"an agent's reserved name": {"stoa.yaml", good + `  mcp: {systemPrompt: I am.}
`, "mcp-server", "is reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), tc.file)
			text := strings.Replace(tc.text, "agents: {writer: {systemPrompt: Write.}}\n", "agents:\n  writer: {systemPrompt: Write.}\n", 1)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o := Options{Files: []string{file}, Dir: t.TempDir(), Data: t.TempDir(), Env: func(string) (string, bool) { return "", false }}
			if _, _, err := Load(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a check does not say %q: %v", tc.want, err)
			}
			o.Tolerant = true
			c, _, err := Load(o)
			if err != nil {
				t.Fatalf("all is refused: %v", err)
			}
			if s := c.Server("good"); s == nil || s.Wrong != nil {
				t.Errorf("the other server is not there: %+v", s)
			}
			if strings.Contains(text, "writer") && c.Agent("writer") == nil {
				t.Error("the other agent is not there")
			}
			if s := c.Server(tc.who); s == nil || !strings.Contains(s.Wrong.Error(), tc.want) || c.Agent(tc.who) != nil {
				t.Errorf("%s does not say %q: %+v", tc.who, tc.want, c.Servers)
			}
		})
	}
}
