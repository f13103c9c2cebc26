package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A9 and A14: `stoa agent` keeps options to its manifest and callers without
// its token out.

// agent runs `stoa agent` over a manifest in a folder of its own, and returns
// it as a hub is: an address to send requests to.
func agent(t testing.TB, manifest string, env []string, flags ...string) *hub {
	t.Helper()
	h := &hub{folder: t.TempDir(), env: env}
	file := filepath.Join(h.folder, "agent.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(h.folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := command(t, h, append([]string{"agent", "--listen", "127.0.0.1:0", file}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // how it ended is in its log
	})
	where := regexp.MustCompile(`serves MCP at http://(\S+)/mcp`)
	await.NoError(t, "the agent says where it is", func() error {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			return err
		}
		found := where.FindSubmatch(text)
		if found == nil {
			return fmt.Errorf("%s", text)
		}
		h.address = string(found[1])
		return nil
	})
	return h
}

// content is the text of a tool's result, and whether the tool did not fail.
func (r reply) content(t testing.TB) (text string, done bool) {
	t.Helper()
	var answer struct {
		Result *struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	if err := json.Unmarshal([]byte(r.text), &answer); err != nil {
		t.Fatalf("%v: %d %s", err, r.status, r.text)
	}
	if answer.Result == nil || len(answer.Result.Content) == 0 {
		return r.text, false
	}
	return answer.Result.Content[0].Text, !answer.Result.IsError
}

const searching = `agent: 1
name: desk
tools:
  search: # the example of the finding
    command: [grep, [-e, "{{pattern}}"], "{{file}}"]
    inputSchema: {type: object, properties: {pattern: {type: string}, file: {type: string}}}
  pair:
    command: [printf, "<%s>", [in, "{{a}}"], [-e, "{{b}}", "{{c}}"]]
    inputSchema: {type: object, properties: {a: {}, b: {}, c: {}}}
  lines:
    command: [head, -n, "{{n}}", --, "{{file}}"]
    inputSchema: {type: object, properties: {n: {type: string}, file: {type: string}}}
`

func TestCallersWriteNoOptions(t *testing.T) {
	t.Parallel()
	a := agent(t, searching, nil)
	if err := os.WriteFile(filepath.Join(a.folder, "secret.txt"), []byte("-- "+mark+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		tool string
		args object
	}{
		{"search", object{"pattern": "--", "file": "-r"}},
		{"search", object{"pattern": "x", "file": "-r"}},
		{"search", object{"pattern": "--", "file": "--recursive"}},
		{"search", object{"file": "-r" + mark}},
		{"pair", object{"a": "-r"}},
		{"pair", object{"a": "--"}},
		{"pair", object{"b": "x", "c": "-r"}},
		{"pair", object{"a": -5}},
		{"lines", object{"file": "-c9"}},
	} {
		got, done := a.tool(t, "/mcp", "", tc.tool, tc.args).content(t)
		if done || !strings.Contains(got, "begins with -") {
			t.Errorf("%s with %v was run: %s", tc.tool, tc.args, clip(got))
		}
		lacks(t, tc.tool, got, mark)
	}
	for _, tc := range []struct {
		tool string
		args object
		want string
	}{
		{"search", object{"pattern": "--", "file": "secret.txt"}, "-- " + mark + "\n"},
		{"pair", object{"a": "x", "b": "-r"}, ""}, // left out as a whole
		{"lines", object{"n": "1", "file": "secret.txt"}, "-- " + mark + "\n"},
	} {
		if got, done := a.tool(t, "/mcp", "", tc.tool, tc.args).content(t); !done || tc.want != "" && got != tc.want {
			t.Errorf("%s with %v: %s", tc.tool, tc.args, clip(got))
		}
	}
}

func TestAgentWantsItsToken(t *testing.T) {
	t.Parallel()
	const manifest = "agent: 1\nname: desk\ntools: {hello: {command: [echo, hello]}}\n"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("letmein\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for how, a := range map[string]*hub{
		"--token-file":       agent(t, manifest, nil, "--token-file", file),
		"AGENT_LISTEN_TOKEN": agent(t, manifest, []string{"AGENT_LISTEN_TOKEN=letmein"}),
	} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "letmein": http.StatusOK} {
			if got := a.post(t, "/mcp", token, rpc("tools/call", object{"name": "hello", "arguments": object{}})); got.status != want {
				t.Errorf("%s, a call with the token %q: %d %s", how, token, got.status, clip(got.text))
			}
			if got := a.get(t, "/status", token); got.status != want {
				t.Errorf("%s, /status with the token %q: %d", how, token, got.status)
			}
		}
	}
	// What an agent shows to its hub is no key to the agent.
	a := agent(t, manifest, []string{"AGENT_TOKEN=shown"})
	if got := a.post(t, "/mcp", "shown", rpc("tools/list", object{})); got.status != http.StatusUnauthorized {
		t.Errorf("AGENT_TOKEN let a caller in: %d %s", got.status, clip(got.text))
	}
}
