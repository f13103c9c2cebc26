package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stoahub/stoa/internal/secret"
)

// aiur are the variables of source 001 as its manual has them, each with
// another value than the default.
var aiur = []string{
	"AIUR_SERVER_HOST", "localhost", "AIUR_SERVER_PORT", "8081", "AIUR_SESSION_TIMEOUT", "7200000",
	"AIUR_AUTO_LAUNCH_SERVER", "false", "AIUR_SERVER_INDEPENDENT", "0", "AIUR_STOP_SERVER_ON_EXIT", "1", "AIUR_SERVER_LAUNCH_TIMEOUT", "15000",
	"AIUR_ENABLE_FILE_LOGGING", "FALSE", "AIUR_LOG_DIRECTORY", "/var/log/aiur", "AIUR_LOG_RETENTION_DAYS", "14", "AIUR_MAX_LOG_FILE_SIZE", "1048576",
	"OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318", "MAX_TOKEN_COUNT", "8192", "GEMINI_API_KEY", "hidden-g", "OPENAI_API_KEY", "hidden-o", "OPENAI_BASE_URL", "http://localhost:9/v1/", "ANTHROPIC_API_KEY", "hidden-a", "OLLAMA_HOST", "0.0.0.0",
	"STOA_STORE_KEY", "hidden-k", "AIUR_MODULES", "@legion/tools-registry/context,debug", "AIUR_VERBOSE", "true",
}

func sameSecret(a, b secret.String) bool { return a.Reveal() == b.Reveal() }

func TestVariables(t *testing.T) {
	c, notes := must(t, Options{Dir: t.TempDir(), Env: fixed(aiur...)})
	want := Default()
	want.Data = "/home/me/.local/state/stoa"
	want.Listen = []string{"localhost:8081"}
	want.Session.Timeout = 2 * time.Hour
	want.Attach = Attach{StopOnExit: true, LaunchTimeout: 15 * time.Second}
	want.Modules.Named = []string{"context", "debug"}
	want.Chat.MaxTokenCount = 8192
	want.Telemetry.Endpoint = "http://localhost:4318"
	want.Models.Given = ModelVariables{secret.New("hidden-g"), secret.New("hidden-o"), secret.New("hidden-a"), "http://localhost:9/v1", "http://127.0.0.1:11434"}
	want.Store.Key = secret.New("hidden-k")
	want.Log = Log{Level: "debug", Format: "auto", File: LogFile{Directory: "/var/log/aiur", RetentionDays: 14, MaxSize: 1 << 20}}
	if diff := cmp.Diff(want, *c, cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(sameSecret)); diff != "" || len(notes) > 0 {
		t.Errorf("-want +got\n%s\n%v", diff, notes)
	}
	for _, v := range variables() {
		if got := c.Origin(v.path); got != "env "+v.name && v.name != "LOG_LEVEL" {
			t.Errorf("the origin of %s is %q", v.path, got)
		}
	}
}

// A file wins over every variable, and what it does not say is left to them.
func TestFileWinsOverVariables(t *testing.T) {
	file := `stoa: 1
session: {timeout: 5m}
attach: {launch: true, independent: true, stopOnExit: false, launchTimeout: 1s}
log: {level: error, file: {enabled: true, directory: here, retentionDays: 1, maxSize: 2MiB}}
modules: {debug: {enabled: false}}
chat: {maxTokenCount: 4096}
telemetry: {endpoint: "https://otel.example/x"}
`
	dir := folder(t, "stoa.yaml", file)
	c, _ := must(t, Options{Dir: dir, Env: fixed(append(aiur, "LOG_LEVEL", "trace")...)})
	want := Default()
	want.Session.Timeout = 5 * time.Minute
	want.Attach.LaunchTimeout = time.Second
	want.Log = Log{Level: "error", Format: "auto", File: LogFile{true, filepath.Join(dir, "here"), 1, 2 << 20}}
	want.Modules.Debug.Enabled, want.Modules.Named = false, []string{"context"}
	want.Chat.MaxTokenCount = 4096
	want.Telemetry.Endpoint = "https://otel.example/x"
	want.Store.Key = secret.New("hidden-k")
	if diff := cmp.Diff(want, *c, cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(sameSecret), cmpopts.IgnoreFields(Config{}, "Data", "Listen", "Models")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	half, _ := must(t, Options{Dir: folder(t, "stoa.yaml", "stoa: 1\nsession: {max: 5}\n"), Env: fixed(aiur...)})
	if half.Session.Timeout != 2*time.Hour || half.Session.Max != 5 {
		t.Errorf("got %+v", half.Session)
	}
}

func TestLogLevels(t *testing.T) {
	for _, tt := range []struct {
		env          []string
		want, origin string
	}{
		{[]string{"LOG_LEVEL", "trace"}, "trace", "env LOG_LEVEL"},
		{[]string{"LOG_LEVEL", "WARNING"}, "warn", "env LOG_LEVEL"},
		{[]string{"LOG_LEVEL", "error", "AIUR_VERBOSE", "true"}, "error", "env LOG_LEVEL"},
		{[]string{"AIUR_VERBOSE", "1"}, "debug", "env AIUR_VERBOSE"},
		{[]string{"AIUR_VERBOSE", "false"}, "info", "default"},
		{[]string{"LOG_LEVEL", ""}, "info", "default"},
	} {
		c, _ := must(t, Options{Dir: t.TempDir(), Env: fixed(tt.env...)})
		if c.Log.Level != tt.want || c.Origin("/log/level") != tt.origin {
			t.Errorf("%v: level %s of %s", tt.env, c.Log.Level, c.Origin("/log/level"))
		}
	}
}

// A wrong value names the variable and where it stands, also that of a file.
func TestWrongVariables(t *testing.T) {
	for name, tt := range map[string]struct{ value, want string }{
		"LOG_LEVEL":                  {"loud", "the level is not known; allowed: trace, debug, info, warn, error"},
		"PORT":                       {"http", `the port of "127.0.0.1:http" is not a number`},
		"AIUR_SERVER_PORT":           {"90000", `the port of "127.0.0.1:90000" is not a number`},
		"DEFAULT_TOOL_TIMEOUT_MS":    {"5s", "must be a whole number; allowed: 1 to 315360000000 milliseconds"},
		"AIUR_SESSION_TIMEOUT":       {"-1", "-1 is out of bounds; allowed: 0 to 315360000000 milliseconds"},
		"AIUR_SERVER_LAUNCH_TIMEOUT": {"0", "0 is out of bounds; allowed: 1 to"},
		"AIUR_AUTO_LAUNCH_SERVER":    {"yes", "must be true or false; allowed: true, false, 1, 0"},
		"AIUR_VERBOSE":               {"2", "must be true or false"},
		"AIUR_LOG_RETENTION_DAYS":    {"a week", "must be a whole number; allowed: 0 to 3650"},
		"AIUR_MAX_LOG_FILE_SIZE":     {"10", "10 is out of bounds; allowed: 65536 to"},
		"MAX_TOKEN_COUNT":            {"many", "must be a whole number; allowed: 256 to"},
		"GEMINI_API_KEY":             {"two words", "this is no key: it has spaces or line breaks; copy the key alone"},
		"OPENAI_BASE_URL":            {"localhost", "this is no http or https address"},
		"OLLAMA_HOST":                {"ftp://x", "this is no address of Ollama"},
	} {
		dir := t.TempDir()
		_, _, err := Load(Options{Dir: dir, UserDir: dir, Env: fixed(name, tt.value)})
		if err == nil || !strings.Contains(err.Error(), "env "+name+": "+tt.want) {
			t.Errorf("%s=%s in the environment: %v", name, tt.value, err)
		}
		dir = folder(t, ".env", "OTHER=1\n"+name+"="+tt.value+"\n")
		_, _, err = Load(Options{Dir: dir, UserDir: dir, Env: fixed()})
		if want := dir + "/.env:2:1: " + name + ": " + tt.want; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s in .env: %v\nwant %s", name, tt.value, err, want)
		}
	}
}

// Source 002's two files as its manual has them.
func TestHostFiles(t *testing.T) {
	dotenv := `GEMINI_API_KEY=your_api_key_here
MCP_JSON_PATH=./mcp.json
LOG_LEVEL=info
PORT=3000
MAX_TOKEN_COUNT=8192
DEFAULT_TOOL_TIMEOUT_MS=5000
`
	data, err := readBounded("testdata/host.good.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, ".env", dotenv, "mcp.json", string(data))
	c, notes := must(t, Options{Dir: dir})
	if len(notes) > 0 {
		t.Errorf("a file that is read as it is gives notes: %v", notes)
	}
	if diff := cmp.Diff([]string{"127.0.0.1:3000"}, c.Listen); diff != "" || c.Origin("/log/level") != ".env LOG_LEVEL" {
		t.Errorf("listen %v, level of %s", c.Listen, c.Origin("/log/level"))
	}
	f, g := c.Server("filesystem"), c.Server("github")
	if f.Transport != Stdio || f.Command != "npx" || f.Timeout != 10*time.Second || g.Transport != HTTP || g.URL == "" || g.Timeout != 15*time.Second {
		t.Errorf("got %+v\n%+v", f, g)
	}
	var shown bytes.Buffer
	for _, asJSON := range []bool{false, true} {
		if err := c.Show(&shown, asJSON); err != nil {
			t.Fatal(err)
		}
	}
	if all := shown.String() + fmt.Sprintf("%v %+v", c, *c); strings.Contains(all, "your_api_key_here") {
		t.Errorf("the key is shown:\n%s", all)
	}
	if v, ok := c.Lookup("GEMINI_API_KEY"); !ok || v != "your_api_key_here" {
		t.Errorf("the key cannot be had: %q %v", v, ok)
	}
}

func TestDefaultToolTimeout(t *testing.T) {
	file := `{"servers": {
  "none": {"command": "x"}, "own": {"command": "x", "timeoutMs": 7000},
  "less": {"command": "x", "maxTimeoutMs": 40000}}}`
	dir := folder(t, "mcp.json", file)
	load := func(ms string) *Config {
		c, _ := must(t, Options{Dir: dir, Env: fixed("DEFAULT_TOOL_TIMEOUT_MS", ms)})
		return c
	}
	c := load("5000")
	if c.Server("none").Timeout != 5*time.Second || c.Server("own").Timeout != 7*time.Second || c.Origin("/servers/none/timeoutMs") != "env DEFAULT_TOOL_TIMEOUT_MS" {
		t.Errorf("got %+v", c.Servers)
	}
	c = load("3600000")
	if s := c.Server("none"); s.Timeout != time.Hour || s.MaxTimeout != time.Hour {
		t.Errorf("a time-out beyond the usual bound: %v, %v", s.Timeout, s.MaxTimeout)
	}
	if s := c.Server("less"); s.Timeout != 40*time.Second || s.MaxTimeout != 40*time.Second {
		t.Errorf("the server's own bound was left: %v, %v", s.Timeout, s.MaxTimeout)
	}
	if got := load("").Server("none").Timeout; got != 30*time.Second {
		t.Errorf("without the variable: %v", got)
	}
}

// The shapes of a server map differ by host; the same key means what its host
// means by it.
func TestServerMapsToldApart(t *testing.T) {
	tests := map[string]struct {
		name      string
		transport Transport
		note      string
	}{
		`{"servers": {"a": {"id": "a", "type": "local", "transport": "http", "url": "http://x"}}}`: {"a", HTTP, ""},
		`{"servers": {"a": {"id": "b", "type": "remote", "url": "http://x"}}}`:                     {"b", Auto, `the server "a" goes by its id, "b"`},
		`{"servers": {"a": {"type": "sse", "url": "http://x"}}, "inputs": []}`:                     {"a", SSE, "not read: inputs"},
		`{"servers": {"a": {"type": "stdio", "command": "x"}}}`:                                    {"a", Stdio, ""},
		`{"mcpServers": {"a": {"id": "6c1f", "type": "http", "url": "http://x"}}}`:                 {"a", HTTP, "not read: id"},
		`{"mcp": {"servers": [{"id": "b", "command": "x", "env": []}]}}`:                           {"b", Stdio, ""},
		`{"mcp": {"servers": {"a": {"id": "b", "command": "x"}}}}`:                                 {"b", Stdio, "goes by its id"},
		`{"stoa": 1, "servers": {"a": {"id": "b", "type": "local", "command": "x"}}}`:              {"b", Stdio, "goes by its id"},
	}
	for file, want := range tests {
		c, notes := must(t, Options{Dir: folder(t, "mcp.json", file)})
		if s := c.Server(want.name); s == nil || s.Transport != want.transport {
			t.Errorf("%s: %+v", file, c.Servers)
		}
		if text := fmt.Sprint(notes); !strings.Contains(text, want.note) || want.note == "" && len(notes) > 0 {
			t.Errorf("%s: notes %s, want %q", file, text, want.note)
		}
	}
}
