package agentd

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

const resources = `
resources:
  readme:
    uri: desk://readme
    mimeType: text/markdown
    file: readme.md
    outputBytes: 100
  note:
    uri: desk://notes/{name}
    variables: {name: "[a-z./0-9-]+"}
    file: notes/{{name}}.md
  any:
    uri: desk://any/{name}/of/{kind}
    file: notes/{{name}}.{{kind}}
  beside:
    uri: desk://beside/{name}
    file: ./{{name}}
  kernel:
    uri: desk://kernel
    command: [uname]
  say:
    uri: desk://say/{word}
    command: [printf, --, "<%s>", "{{word}}"]
  bytes:
    uri: desk://bytes
    mimeType: image/png
    command: [printf, '\377\000']
  bad:
    uri: desk://bad
    command: [sh, -c, "echo no >&2; exit 5"]
`

func TestResources(t *testing.T) {
	s := open(t, resources)
	s.write("readme.md", "hello")
	s.write("notes/a.md", "note a")
	s.write("secret.md", "sesame")
	s.write("notes/a b.txt", "spaced")
	if err := os.Symlink("../secret.md", s.path("notes/out.md")); err != nil {
		t.Fatal(err)
	}
	s.write(".env", "KEY=sesame")
	if err := os.Link(s.path(".env"), s.path("notes/hard.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.path("notes/pipe.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, era := range eras {
		c := s.client(era)
		for uri, want := range map[string]string{
			"desk://readme":             `{"uri":"desk://readme","mimeType":"text/markdown","text":"hello"}`,
			"desk://notes/a":            `{"uri":"desk://notes/a","text":"note a"}`,
			"desk://any/a%20b/of/txt":   `"text":"spaced"`,
			"desk://say/a%20%22b%2F%C3": ``,
			"desk://say/-n%20%C3%A9":    `"text":"<-n é>"`,
			"desk://bytes":              `"mimeType":"image/png","blob":"/wA="`,
			"desk://kernel":             `"text":"`,
			"desk://beside/readme.md":   `"text":"hello"`,
			// Everything that cannot be read is simply not there.
			"desk://notes/A":                ``,
			"desk://notes/none":             ``,
			"desk://notes/..%2Fsecret":      ``,
			"desk://notes/out":              ``,
			"desk://notes/pipe":             ``,
			"desk://notes/hard":             ``,
			"desk://beside/.env":            ``,
			"desk://beside/agent.yaml":      ``,
			"desk://notes/a/b":              ``,
			"desk://notes/":                 ``,
			"desk://any/..%2Fsecret/of/md":  ``,
			"desk://any/%00/of/md":          ``,
			"desk://readme/":                ``,
			"DESK://readme":                 ``,
			"desk://any/%2Fetc%2Fpasswd/of": ``,
		} {
			m := c.Call("resources/read", `{"uri":"`+uri+`"}`)
			if want != "" && !strings.Contains(string(m.Result), want) {
				t.Errorf("%s %s: %s, want %s", era, uri, m.Raw, want)
			}
			if f := m.Fault(); want == "" && f.Data.Kind != "resource_not_found" {
				t.Errorf("%s %s: %s", era, uri, m.Raw)
			}
		}
		if m := c.Call("resources/read", `{"uri":"desk://bad"}`); !strings.Contains(string(m.Error), "exit status 5") || !strings.Contains(string(m.Error), `"stderr":"no"`) {
			t.Errorf("%s: a failing command: %s", era, m.Raw)
		}
		if m := c.Call("resources/list", "{}"); !strings.Contains(string(m.Result), `"uri":"desk://readme"`) || strings.Contains(string(m.Result), "{name}") {
			t.Errorf("%s: %s", era, m.Raw)
		}
		if m := c.Call("resources/templates/list", "{}"); !strings.Contains(string(m.Result), `"uriTemplate":"desk://notes/{name}"`) {
			t.Errorf("%s: %s", era, m.Raw)
		}
	}
	s.write("readme.md", strings.Repeat("x", 101))
	if f := s.client(hubtest.Modern).Call("resources/read", `{"uri":"desk://readme"}`).Fault(); f.Data.Kind != "limit" || !strings.Contains(f.Message, "100 bytes") {
		t.Errorf("a large file: %+v", f)
	}
}

func TestSubscriptions(t *testing.T) {
	s := open(t, resources)
	s.write("readme.md", "one")
	s.write("notes/a.md", "one")
	modern := s.client(hubtest.Modern).Listen(`{"resourceSubscriptions":["desk://readme","desk://notes/a"]}`)
	legacy := s.client(hubtest.Legacy)
	if m := legacy.Call("resources/subscribe", `{"uri":"desk://notes/a"}`); m.Error != nil {
		t.Fatal(string(m.Error))
	}
	if f := legacy.Call("resources/subscribe", `{"uri":"desk://kernel"}`).Fault(); f.Data.Kind != "invalid_params" {
		t.Errorf("subscribed to a command: %+v", f)
	}
	if f := legacy.Call("resources/subscribe", `{"uri":"desk://nothing"}`).Fault(); f.Data.Kind != "resource_not_found" {
		t.Errorf("subscribed to nothing: %+v", f)
	}
	stream := legacy.Listen("")
	s.write("readme.md", "two")
	if m := modern.Await("notifications/resources/updated"); !strings.Contains(string(m.Params), `"uri":"desk://readme"`) {
		t.Errorf("%s", m.Raw)
	}
	s.write("notes/a.md", "two")
	for _, x := range []*hubtest.Exchange{modern, stream} {
		if m := x.Await("notifications/resources/updated"); !strings.Contains(string(m.Params), `"uri":"desk://notes/a"`) {
			t.Errorf("%s", m.Raw)
		}
	}
	modern.Close()
	if m := legacy.Call("resources/unsubscribe", `{"uri":"desk://notes/a"}`); m.Error != nil {
		t.Error(string(m.Error))
	}
	await.Until(t, "nothing is watched but the manifest", func() bool {
		s.watch.mu.Lock()
		defer s.watch.mu.Unlock()
		return len(s.watch.uris) == 0 && len(s.watch.w.WatchList()) == 1
	})
}

func TestPrompts(t *testing.T) {
	s := open(t, `
prompts:
  tidy:
    description: Tidies.
    arguments:
      - {name: note, required: true, description: Which.}
      - {name: tone}
    text: "Tidy {{note}} ({{tone}}) {{{{x}}"
  talk:
    messages:
      - {role: user, text: Hello}
      - {role: assistant, text: "Hello \"you\""}
`)
	for _, era := range eras {
		c := s.client(era)
		m := c.Call("prompts/get", `{"name":"tidy","arguments":{"note":"{{tone}} \"a\""}}`)
		if want := `"description":"Tidies.","messages":[{"role":"user","content":{"type":"text","text":"Tidy {{tone}} \"a\" () {{x}}"}}]`; !strings.Contains(string(m.Result), want) {
			t.Errorf("%s: %s", era, m.Raw)
		}
		if m := c.Call("prompts/get", `{"name":"talk"}`); !strings.Contains(string(m.Result), `{"role":"assistant","content":{"type":"text","text":"Hello \"you\""}}]`) {
			t.Errorf("%s: %s", era, m.Raw)
		}
		for params, want := range map[string]string{
			`{"name":"tidy"}`:                                   `"note\" is missing`,
			`{"name":"tidy","arguments":{"noet":"x"}}`:          "Did you mean note?",
			`{"name":"tidy","arguments":{"note":1}}`:            "not a string",
			`{"name":"tidi","arguments":{"note":"x"}}`:          "unknown prompt",
			`{"name":"tidy","arguments":{"note":"x","tone":7}}`: "not a string",
		} {
			if m := c.Call("prompts/get", params); !strings.Contains(string(m.Error), strings.ReplaceAll(want, `"note\"`, `\"note\"`)) {
				t.Errorf("%s %s: %s", era, params, m.Raw)
			}
		}
		if m := c.Call("prompts/list", "{}"); !strings.Contains(string(m.Result), `{"arguments":[{"description":"Which.","name":"note","required":true},{"name":"tone"}],"description":"Tidies.","name":"tidy"}`) {
			t.Errorf("%s: %s", era, m.Raw)
		}
	}
}
