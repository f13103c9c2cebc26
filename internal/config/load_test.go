package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stoahub/stoa/internal/secret"
)

// folder writes files, given as name and text, into a new folder.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func must(t *testing.T, o Options) (*Config, []Note) {
	t.Helper()
	if o.UserDir == "" {
		o.UserDir = t.TempDir()
	}
	if o.Env == nil {
		o.Env = fixed()
	}
	c, notes, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return c, notes
}

func TestDefaults(t *testing.T) {
	c, notes := must(t, Options{Dir: t.TempDir()})
	want := Default()
	want.Data = "/home/me/.local/state/stoa"
	if diff := cmp.Diff(want, *c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(notes) > 0 {
		t.Errorf("notes without a file: %v", notes)
	}
}

func TestPrecedence(t *testing.T) {
	tests := []struct {
		name   string
		file   string
		env    []string
		dotenv string
		listen []string
		data   string
		want   string
		origin string
		folder string
	}{
		{name: "port", env: []string{"PORT", "3000"}, want: "127.0.0.1:3000", origin: "env PORT"},
		{name: "port of .env", dotenv: "PORT=3000", want: "127.0.0.1:3000", origin: ".env PORT"},
		{name: "environment over .env", dotenv: "PORT=3000", env: []string{"PORT", "3001"}, want: "127.0.0.1:3001", origin: "env PORT"},
		{name: "aiur over port", env: []string{"PORT", "1", "AIUR_SERVER_HOST", "localhost", "AIUR_SERVER_PORT", "2"}, want: "localhost:2", origin: "env AIUR_SERVER_HOST, env AIUR_SERVER_PORT"},
		{name: "aiur port alone", env: []string{"AIUR_SERVER_PORT", "2"}, want: "127.0.0.1:2", origin: "env AIUR_SERVER_PORT"},
		{name: "aiur host alone", env: []string{"AIUR_SERVER_HOST", "::1"}, want: "[::1]:8080", origin: "env AIUR_SERVER_HOST"},
		{name: "file over aiur", file: "listen: 127.0.0.1:5", env: []string{"AIUR_SERVER_PORT", "2"}, want: "127.0.0.1:5", origin: "stoa.yaml:2"},
		{name: "flag over file", file: "listen: 127.0.0.1:5", listen: []string{"127.0.0.1:6"}, want: "127.0.0.1:6", origin: "--listen"},
		{name: "xdg", env: []string{"XDG_STATE_HOME", "/x"}, want: "127.0.0.1:8080", origin: "default", folder: "/x/stoa"},
		{name: "stoa data over xdg", env: []string{"XDG_STATE_HOME", "/x", "STOA_DATA", "/d"}, want: "127.0.0.1:8080", origin: "default", folder: "/d"},
		{name: "file data", file: "data: ~/here", env: []string{"STOA_DATA", "/d"}, want: "127.0.0.1:8080", origin: "default", folder: "/home/me/here"},
		{name: "flag data", file: "data: ~/here", data: "/f", want: "127.0.0.1:8080", origin: "default", folder: "/f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, "stoa.yaml", "stoa: 1\n"+tt.file, ".env", tt.dotenv)
			c, _ := must(t, Options{Dir: dir, Env: fixed(tt.env...), Listen: tt.listen, Data: tt.data})
			if len(c.Listen) != 1 || c.Listen[0] != tt.want {
				t.Errorf("Listen = %v, want %s", c.Listen, tt.want)
			}
			if got := strings.TrimPrefix(c.Origin("/listen"), dir+"/"); got != tt.origin {
				t.Errorf("origin = %q, want %q", got, tt.origin)
			}
			if tt.folder != "" && c.Data != tt.folder {
				t.Errorf("Data = %q, want %q", c.Data, tt.folder)
			}
		})
	}
}

func TestBadAddressOutsideFiles(t *testing.T) {
	_, _, err := Load(Options{Dir: t.TempDir(), UserDir: t.TempDir(), Env: fixed("PORT", "http")})
	if err == nil || !strings.Contains(err.Error(), "env PORT: ") {
		t.Errorf("got %v", err)
	}
	_, _, err = Load(Options{Dir: t.TempDir(), UserDir: t.TempDir(), Env: fixed(), Listen: []string{"8080", "x"}})
	var p Problems
	if !errors.As(err, &p) || len(p) != 2 || p[0].File != "--listen" {
		t.Errorf("got %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	server := func(name string) string { return fmt.Sprintf(`{"mcpServers": {%q: {"command": "x"}}}`, name) }
	dir := folder(t, "stoa.jsonc", `{"stoa": 1, "servers": {"own": {"command": "x"}}}`, "mcp.json", server("other"))
	user := folder(t, "stoa.yml", `{"mcpServers": {user: {command: x}}}`)
	one := func(o Options) string {
		t.Helper()
		o.UserDir = user
		c, _ := must(t, o)
		if len(c.Servers) != 1 {
			t.Fatalf("%d servers", len(c.Servers))
		}
		return c.Servers[0].Name
	}
	if got := one(Options{Dir: dir}); got != "own" {
		t.Errorf("the folder's own file was not taken, but that of %s", got)
	}
	if got := one(Options{Dir: t.TempDir()}); got != "user" {
		t.Errorf("the user's file was not taken, but that of %s", got)
	}
	if got := one(Options{Dir: dir, Env: fixed("MCP_JSON_PATH", "mcp.json")}); got != "other" {
		t.Errorf("MCP_JSON_PATH was not followed, but %s", got)
	}
	if got := one(Options{Dir: dir, Env: fixed("MCP_JSON_PATH", "none"), Files: []string{"mcp.json"}}); got != "other" {
		t.Errorf("--config was not followed, but %s", got)
	}
	named := folder(t, ".env", "MCP_JSON_PATH=./sub/servers.json\nWHO=me", "sub/servers.json", `{"mcpServers": {"a-${WHO}": {"command": "${WHO}"}}}`)
	c, _ := must(t, Options{Dir: named})
	if c.Servers[0].Command != "me" {
		t.Errorf("the .env that names the file does not speak for it: %q", c.Servers[0].Command)
	}
	for _, o := range []Options{{Files: []string{"none.yaml"}}, {Env: fixed("MCP_JSON_PATH", "none.json")}, {EnvFiles: []string{"none.env"}}, {Files: []string{"."}}} {
		o.Dir, o.UserDir = dir, user
		if o.Env == nil {
			o.Env = fixed()
		}
		if _, _, err := Load(o); err == nil {
			t.Errorf("a missing file is no problem: %+v", o)
		}
	}
}

func TestMerge(t *testing.T) {
	dir := folder(t,
		"a.yaml", "stoa: 1\nlisten: 127.0.0.1:1\nlimits: {depth: 10, sessions: 5}\nservers:\n  x: {command: one, cwd: /tmp}\n  y: {command: two}\n",
		"b.json", `{"stoa": 1, "listen": ["127.0.0.1:2"], "limits": {"depth": 20}, "servers": {"x": {"url": "https://x"}}}`)
	c, notes := must(t, Options{Dir: dir, Files: []string{"a.yaml", "b.json"}})
	if c.Listen[0] != "127.0.0.1:2" || c.Limits.Depth != 20 || c.Limits.Sessions != 5 {
		t.Errorf("got %v %+v", c.Listen, c.Limits)
	}
	if x := c.Server("x"); x.Command != "" || x.Cwd != "" || x.URL != "https://x" || c.Server("y") == nil || len(c.Servers) != 2 {
		t.Errorf("got %+v", c.Servers)
	}
	text := fmt.Sprint(notes)
	for _, want := range []string{"/listen: replaces the value of", "/limits/depth: replaces the value of", `the server "x" replaces that of`, "a.yaml:5"} {
		if !strings.Contains(text, want) {
			t.Errorf("no note %q in %s", want, text)
		}
	}
	if got := c.Origin("/limits/sessions"); !strings.HasSuffix(got, "a.yaml:3") {
		t.Errorf("origin = %q", got)
	}
	if got := c.Origin("/servers/x/cwd"); got != "default" {
		t.Errorf("the replaced server's origin stays: %q", got)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	dir := folder(t,
		"a.yaml", "stoa: 1\nlistne: x\nservers:\n  plan: {command: x}\n  b: {url: 'ftp://x'}\n",
		"broken.json", `{`,
		"c.json", `{"mcpServers": {"c": {"command": "${NOPE}", "args": "x"}}}`)
	_, _, err := Load(Options{Dir: dir, UserDir: dir, Env: fixed(), Files: []string{"a.yaml", "broken.json", "c.json"}, Listen: []string{"8080"}})
	var p Problems
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	var got []string
	for _, one := range p {
		got = append(got, fmt.Sprintf("%s:%d", filepath.Base(one.File), one.Line))
	}
	want := []string{"--listen:0", "a.yaml:2", "a.yaml:4", "a.yaml:5", "broken.json:1", "c.json:1", "c.json:1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s\n%v", diff, p)
	}
}

func TestVSCode(t *testing.T) {
	file := "testdata/vscode/.vscode/mcp.json"
	_, _, err := loadFiles(t, file)
	var p Problems
	if !errors.As(err, &p) || len(p) != 1 || !strings.Contains(p[0].Text, "${input:perplexity-key}") {
		t.Fatalf("got %v", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	vars, err := os.ReadFile("testdata/vscode/vars.env")
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, ".vscode/mcp.json", strings.ReplaceAll(string(data), "${input:perplexity-key}", "${API_KEY}"), "vars.env", string(vars))
	c, notes := must(t, Options{Dir: dir, Files: []string{".vscode/mcp.json"}})
	if got := c.Server("playwright").Cwd; got != filepath.Join(dir, "web") {
		t.Errorf("workspaceFolder = %q", got)
	}
	if s := c.Server("github"); s.Transport != HTTP || s.URL == "" {
		t.Errorf("got %+v", s)
	}
	env := c.Server("envfile").Env
	if env["FROM_FILE"].Reveal() != "one" || env["QUOTED"].Reveal() != "two\nlines" || env["LITERAL"].Reveal() != "$x" {
		t.Errorf("the envFile was not read: %d variables", len(env))
	}
	if !strings.Contains(fmt.Sprint(notes), "not read: inputs") {
		t.Errorf("notes: %v", notes)
	}
}

func TestKubestack(t *testing.T) {
	c, _, err := loadFiles(t, "testdata/kubestack.good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !c.AutoDiscover || c.Pool.MaxIdleTime != 5*time.Minute || c.Pool.CleanupInterval != time.Minute {
		t.Errorf("got %v %+v", c.AutoDiscover, c.Pool)
	}
	g := c.Server("github")
	if diff := cmp.Diff([]string{"--token", "ghp_sesame"}, g.Args); diff != "" || g.Idle != 5*time.Minute || g.Transport != Stdio {
		t.Errorf("got %+v %s", g, diff)
	}
}

func TestFullFile(t *testing.T) {
	c, _, err := loadFiles(t, "testdata/full.good.jsonc")
	if err != nil {
		t.Fatal(err)
	}
	abs, _ := filepath.Abs("testdata")
	on, off := true, false
	want := Server{
		Name: "files", Title: "files", Command: "npx",
		Args:       []string{"-y", "server-files", "/home/me/notes", "8080", "true"},
		Env:        map[string]secret.String{"DEBUG": secret.New("true"), "PORT": secret.New("8080"), "API_KEY": secret.New("sesame")},
		InheritEnv: InheritEnv{Names: []string{"HTTPS_PROXY"}},
		Cwd:        filepath.Join(abs, "sub"), Transport: Stdio, Protocol: Legacy,
		Timeout: 5 * time.Second, MaxTimeout: time.Minute, MaxSessions: 32, Retries: 3,
		Tools: Tools{Allow: []string{"read_*"}, Deny: []string{"read_[a-c]*"}, Override: map[string]Override{"read_file": {Description: "x", Priority: "high", References: &on, SaveAs: &on, Cards: Cards{Threshold: 2048}, Cache: Cache{TTL: 5 * time.Minute}}}},
		Pin:   PinQuarantine, Sharing: PerSession, Task: TaskAuto, Sampling: SamplingHost, SamplingModel: "gemini", Queue: &Queue{2, 10, time.Second}, References: &off, SaveAs: &off, Cards: Cards{On: &off, Threshold: 16 << 10},
		Breaker: Breaker{3, 10 * time.Second, 5 * time.Second}, Idle: 90 * time.Second, Enabled: true,
	}
	if diff := cmp.Diff(want, *c.Server("files")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if s := c.Server("search"); s.Transport != Auto || s.Idle != 10*time.Minute || s.Headers["Authorization"].Reveal() != "Bearer sesame" {
		t.Errorf("got %+v", s)
	}
	if c.Server("live").Transport != WS || c.Server("old").Transport != SSE || *c.Server("inherits").Queue != (Queue{1, 100, 30 * time.Second}) {
		t.Error("transports or queue")
	}
	if c.Limits.MessageBytes != 20<<20 || c.Limits.HeaderBytes != 64<<10 || c.Limits.SessionIdle != 90*time.Minute {
		t.Errorf("got %+v", c.Limits)
	}
}

func TestYAMLFeatures(t *testing.T) {
	c, _, err := loadFiles(t, "testdata/full.good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := c.Server("derived")
	if d.Command != "node" || d.Timeout != 2*time.Second || len(d.Args) != 3 {
		t.Errorf("merge keys: %+v", d)
	}
	if d.Env["A"].Reveal() != "2" || d.Env["ZIP"].Reveal() != "0755" || d.Env["LONG"].Reveal() != "two\nlines\n" {
		t.Errorf("env: %q %q %q", d.Env["A"].Reveal(), d.Env["ZIP"].Reveal(), d.Env["LONG"].Reveal())
	}
	if c.Server("quoted-name").Title != "quoted name" {
		t.Error("title")
	}
}

func TestDollar(t *testing.T) {
	c, _, err := loadFiles(t, "testdata/dollar.good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"$", "${HOME}", "a$b", "5$", "", "a:-b", "/home/me", "sesame"}
	if diff := cmp.Diff(want, c.Servers[0].Args); diff != "" || c.Servers[0].Command != "$HOME/bin/x" {
		t.Errorf("-want +got\n%s %s", diff, c.Servers[0].Command)
	}
}

// A mistake in one key does not hide those in others, nor is it blamed twice.
func TestServerProblemsTogether(t *testing.T) {
	tests := map[string][]string{
		`{"command": "x", "url": "http://x", "args": "y"}`:                       {"/args: must be a list", "has both"},
		`{"url": "ftp://x", "timeoutMs": -1, "headers": {"X Y": "1"}}`:           {"not be negative", "scheme", "no name of a header"},
		`{"command": 5, "cwd": []}`:                                              {"/cwd: must be a string"},
		`{"command": []}`:                                                        {"/command: must be a string"},
		`{"url": "${NOPE}/mcp"}`:                                                 {"NOPE is not set"},
		`{"command": "x", "timeoutMs": "1s", "maxTimeoutMs": 10}`:                {"milliseconds"},
		`{"url": "${NOPE}/mcp", "transport": "http", "disabled": true}`:          {},
		`{"url": "http://x", "type": "stdoi", "idle": "x", "env": {"A=": "${"}}`: {"stdoi", "no duration", "${ without }"},
	}
	for server, want := range tests {
		dir := folder(t, "mcp.json", `{"mcpServers": {"a": `+server+`}}`)
		_, _, err := Load(Options{Dir: dir, UserDir: dir, Env: fixed()})
		var p Problems
		errors.As(err, &p)
		for _, w := range want {
			if !strings.Contains(p.Error(), w) {
				t.Errorf("%s: no %q in\n%v", server, w, p)
			}
		}
		if len(p) != len(want) {
			t.Errorf("%s: %d problems, want %d:\n%v", server, len(p), len(want), p)
		}
	}
}

// What one server has wrong is told of that server; the others are there.
func TestTolerantOfOneServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stoa.yaml")
	const text = `stoa: 1
servers:
  good: {command: cat}
  double: {command: python3, command: cat}
  twice: {command: cat}
  twice: {command: cat}
  empty:
  context: {command: cat}
  PY: {command: cat}
  py: {command: cat}
  py-2: {command: cat}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Files: []string{file}, Dir: t.TempDir(), Data: t.TempDir(), Env: func(string) (string, bool) { return "", false }}
	wrong := map[string]string{
		"double":         `the key "command" is there twice, first in line 4`,
		"twice":          `the key "twice" is there twice, first in line 5`,
		"empty":          `the server "empty" has neither command nor url`,
		"context-server": `the server name "context" is reserved`,
		"py-3":           `the server names "py" and "PY"`,
	}
	_, _, err := Load(o)
	for _, want := range wrong {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a check does not say %q: %v", want, err)
		}
	}
	o.Tolerant = true
	c, _, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range c.Servers {
		names = append(names, s.Name)
		if want := wrong[s.Name]; want == "" != (s.Wrong == nil) || !strings.Contains(s.Wrong.Error(), want) {
			t.Errorf("%s: %v, want %q", s.Name, s.Wrong, want)
		}
	}
	if got := strings.Join(names, " "); got != "context-server double empty good py py-2 py-3 twice" {
		t.Errorf("servers: %s", got)
	}
	// A key of the hub itself is nobody else's.
	if err := os.WriteFile(file, []byte(text+"autoDiscover: true\nautoDiscover: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(o); err == nil || !strings.Contains(err.Error(), `"autoDiscover" is there twice`) || strings.Contains(err.Error(), "command") {
		t.Errorf("a key that is no server's: %v", err)
	}
}
