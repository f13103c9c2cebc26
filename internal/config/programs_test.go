package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// started is a config whose servers are started in many ways.
func started(t *testing.T) (*Config, string) {
	t.Helper()
	dir := folder(t, "stoa.yaml", `stoa: 1
servers:
  plain: {command: python, args: [server.py, --verbose, notes]}
  option: {command: node, args: ["--import=./hook.mjs", lib/main], cwd: js}
  elsewhere: {command: uv, args: [--directory, app, run, it.py]}
  shell: {command: sh, args: [-c, "cd app && exec ./run.sh 'x y.txt'"]}
  built: {command: ./bin/made, args: [serve]}
  variable: {command: node, args: [.], cwd: js, env: {NODE_OPTIONS: "--require ./pre.js", MISSING: other.js}}
  agent: {command: stoa, args: [agent, --stdio, tools.yaml, --token-file, agent.token]}
  wrapped: {command: sh, args: [-c, "exec stoa agent --stdio 'more.yaml'"], cwd: sub}
`, "server.py", "", "notes/x", "", "js/hook.mjs", "", "js/lib/main", "", "js/pre.js", "", "app/it.py", "", "app/run.sh", "",
		"agent.token", "", "tools.yaml", "agent: 1\ntools:\n  t: {command: [python, scripts/t.py]}\n", "scripts/t.py", "",
		"sub/more.yaml", "agent: 1\ntools:\n  t: {command: [./t.sh], cwd: ../scripts}\n", "plain.txt", "", "tool.yaml", "agent: 1\n")
	c, _ := must(t, Options{Dir: dir, UserDir: t.TempDir()})
	return c, dir
}

func relative(dir string, files []string) []string {
	var out []string
	for _, f := range files {
		if in, ok := strings.CutPrefix(f, dir+string(filepath.Separator)); ok {
			out = append(out, filepath.ToSlash(in))
		}
	}
	return out
}

// The files that decide what a server runs are known, however it is started.
func TestPrograms(t *testing.T) {
	c, dir := started(t)
	t.Chdir(dir)
	got := relative(dir, c.Programs())
	for _, want := range []string{"server.py", "js/hook.mjs", "js/lib/main", "js/pre.js", "app/it.py", "app/run.sh", "bin/made", "scripts/t.py", "scripts/t.sh", "tools.yaml"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not known to be run: %v", want, got)
		}
	}
	for _, not := range []string{"notes", "app", "js", "serve", "plain.txt", "js/other.js", "run"} {
		if slices.Contains(got, not) {
			t.Errorf("%s is taken for what a server runs", not)
		}
	}
}

// The manifests of the agents that servers are, are configuration.
func TestManifestsArePrivate(t *testing.T) {
	c, dir := started(t)
	t.Chdir(dir)
	got := relative(dir, c.Private())
	for _, want := range []string{"tools.yaml", "agent.token", "sub/more.yaml"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not private: %v", want, got)
		}
	}
	if slices.Contains(got, "server.py") || slices.Contains(got, "tool.yaml") {
		t.Errorf("%v", got)
	}
}
