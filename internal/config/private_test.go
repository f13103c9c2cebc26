package config

import (
	"path"
	"path/filepath"
	"slices"
	"testing"
)

func TestPrivate(t *testing.T) {
	user := t.TempDir()
	dir := folder(t, "own/hub.yaml", `stoa: 1
data: ../data
tls: {cert: tls.crt, key: tls.key}
auth: {tokensFile: tokens}
log: {file: {directory: log}}
store: {url: "tls://localhost:4222", credentials: nats.creds, keyFile: cluster.key, tls: {ca: nats.ca, cert: nats.crt, key: nats.key}}
servers:
  one: {command: x, envFile: one.env}
  two: {url: "https://two", tls: {ca: two.ca, cert: two.crt, key: two.key}}
`, "own/one.env", "", "vars", "", "elsewhere.json", `{"mcpServers":{}}`)
	own := func(names ...string) (out []string) {
		for _, name := range names {
			out = append(out, filepath.Join(dir, "own", name))
		}
		return out
	}
	var found []string // where no file is named
	for _, in := range []string{dir, user} {
		for _, name := range []string{"stoa.yaml", "stoa.yml", "stoa.jsonc", "stoa.json", "mcp.json", ".env"} {
			found = append(found, filepath.Join(in, name))
		}
	}
	for name, tc := range map[string]struct {
		o    Options
		want []string
	}{
		"nothing": {Options{}, nil},
		"named": {Options{Files: []string{"own/hub.yaml"}, EnvFiles: []string{"vars"}}, append(own("hub.yaml", ".env", "tls.crt", "tls.key", "tokens", "log", "nats.creds",
			"cluster.key", "nats.ca", "nats.crt", "nats.key", "one.env", "two.ca", "two.crt", "two.key"), filepath.Join(dir, "vars"), filepath.Join(dir, "data"))},
		"by a variable": {Options{Env: fixed("MCP_JSON_PATH", "elsewhere.json")}, []string{filepath.Join(dir, "elsewhere.json")}},
		"by a variable that is not looked at now": {Options{Files: []string{"own/hub.yaml"}, Env: fixed("MCP_JSON_PATH", "elsewhere.json")},
			[]string{filepath.Join(dir, "elsewhere.json"), filepath.Join(dir, "own/hub.yaml")}},
	} {
		tc.o.Dir, tc.o.UserDir = dir, user
		c, _ := must(t, tc.o)
		got := c.Private()
		for _, want := range append(tc.want, found...) {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is not private", name, want)
			}
		}
		if !slices.IsSorted(got) || slices.ContainsFunc(got, func(f string) bool { return !filepath.IsAbs(f) }) {
			t.Errorf("%s: %v", name, got)
		}
	}
	c := Default() // made by hand
	c.TLS.Key = "/etc/key"
	if got := c.Private(); !slices.Equal(got, []string{"/etc/key"}) {
		t.Errorf("%v", got)
	}
}

// What is looked for in a folder is private in every folder.
func TestPrivateNames(t *testing.T) {
	all := PrivateNames()
	for _, name := range slices.Concat(names, manifestNames, []string{".env", ".env.local", ".mcp.json", "claude_desktop_config.json"}) {
		if !slices.ContainsFunc(all, func(p string) bool { ok, err := path.Match(p, name); return ok && err == nil }) {
			t.Errorf("%s is not private", name)
		}
	}
}
