package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/secret"
)

func TestShowTellsNoSecret(t *testing.T) {
	file := `{"stoa": 1,
  "store": "nats://user:hidden1@n.example.com",
  "models": {"g": {"provider": "openai", "apiKey": "hidden2", "model": "flash", "headers": {"X-Key": "hidden0"}}},
  "servers": {
    "a": {"command": "x", "args": ["--token", "hidden3", "--api-key=hidden4", "${API_KEY}", "-e", "MY_TOKEN=hidden5",
      "--header", "Authorization: Bearer hidden6", "plain"], "env": {"K": "hidden7"}},
    "b": {"url": "https://me:hidden8@b.example.com/?api_key=hidden9&q=plain", "headers": {"X": "hidden0"}}
  }
}`
	dir := folder(t, "stoa.json", file)
	c, _ := must(t, Options{Dir: dir})
	var text, asJSON bytes.Buffer
	if err := c.Show(&text, false); err != nil {
		t.Fatal(err)
	}
	if err := c.Show(&asJSON, true); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), asJSON.String()} {
		if strings.Contains(out, "hidden") || strings.Contains(out, "sesame") {
			t.Errorf("a secret is shown in\n%s", out)
		}
		for _, want := range []string{"plain", "flash", "${API_KEY}", secret.Dots, "stoa.json:5, env API_KEY", "default"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	if got := c.Origin("/servers/a/timeoutMs"); got != "default" {
		t.Errorf("the origin of what the file does not say is %q", got)
	}
	if got := c.Origin("/servers/a/args/3"); !strings.HasSuffix(got, "stoa.json:5, env API_KEY") {
		t.Errorf("origin = %q", got)
	}
	var doc struct {
		Config struct {
			Servers map[string]map[string]any
		}
		Origins map[string]string
	}
	if err := json.Unmarshal(asJSON.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Config.Servers["a"]["command"] != "x" || !strings.HasSuffix(doc.Origins["/servers/a/command"], "stoa.json:5") || doc.Origins["/log/level"] != "default" {
		t.Errorf("got %+v", doc)
	}
}

func TestHash(t *testing.T) {
	load := func(file string, env ...string) *Config {
		dir := folder(t, "stoa.yaml", "stoa: 1\ndata: /d\n"+file)
		c, _ := must(t, Options{Dir: dir, Env: fixed(env...)})
		return c
	}
	a := load("servers: {a: {command: x, env: {K: one}}, b: {command: '${CMD}'}}", "CMD", "1").Hash()
	same := load("log: {level: info}\nservers:\n  b: {command: '${CMD}'}\n  a: {command: x, env: {K: two}}\n", "CMD", "2").Hash()
	other := load("servers: {a: {command: y, env: {K: one}}, b: {command: '${CMD}'}}", "CMD", "1").Hash()
	if a != same || a == other || len(a) != 32 {
		t.Errorf("hashes %s %s %s", a, same, other)
	}
	hand := Default()
	if hand.Hash() == "" || hand.Origin("/listen") != "default" {
		t.Error("a Config made by hand has no hash or origin")
	}
	if _, ok := hand.Lookup("HOME"); ok {
		t.Error("a Config made by hand looks variables up")
	}
}

func TestValidateByHand(t *testing.T) {
	c := Default()
	s := DefaultServer()
	s.Name, s.Command = "My Files", "x"
	c.Servers = []Server{s}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := c.Servers[0]; got.Name != "my-files" || got.Title != "My Files" || got.Transport != Stdio {
		t.Errorf("got %+v", got)
	}
	c.Servers = append(c.Servers, Server{Name: "my files", URL: "x"}, Server{Name: "plan", Tools: Tools{Deny: []string{"["}}})
	c.Listen = []string{"nowhere"}
	c.Modules.File.Enabled = true
	c.Store.Replicas = 3
	err := c.Validate()
	if err == nil {
		t.Fatal("no problems")
	}
	for _, want := range []string{"/listen/0: ", "are both my-files", "is reserved", "has neither", `the url has the scheme ""`, "/tools/deny/0", "/modules/file/roots: ", "/store/replicas: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
