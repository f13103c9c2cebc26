package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/secret"
)

func TestModules(t *testing.T) {
	type want struct {
		off    string   // of those that are on by default
		roots  int      // of file; it is on if there are any
		failed []string // "name from"
		named  string   // what every client is offered
		listed bool     // and nothing else is
	}
	const servers = "servers: {github: {command: x}, gone: {command: x, enabled: false}}\n"
	tests := []struct {
		name, file string
		env        string
		want       want
	}{
		{"default", "", "", want{}},
		{"list", "modules: [context, '@legion/tools-registry/github']", "", want{named: "context", listed: true}},
		{"list of strangers", "modules: [nobody, gone, github]", "", want{listed: true, failed: []string{"nobody stoa.yaml:3", "gone stoa.yaml:3"}}},
		{"map", "modules: {plan: {enabled: false}, file: {roots: [a, /b], readOnly: true}}", "", want{off: "plan", roots: 2, named: "file"}},
		{"one root", "modules: {file: {roots: a}}", "", want{roots: 1, named: "file"}},
		{"map of strangers", "modules: {github: {}, nobody: {x: 1}, other: {enabled: false}}", "", want{failed: []string{"nobody stoa.yaml:3"}}},
		{"file without roots", "modules: [file]", "", want{named: "file", listed: true, failed: []string{"file stoa.yaml:3"}}},
		{"file on without roots", "modules: {file: {enabled: true}}", "", want{named: "file", failed: []string{"file stoa.yaml:3"}}},
		{"file off with roots", "modules: {file: {enabled: false, roots: [a]}}", "", want{}},
		{"variable", "", "@legion/tools-registry/file, @legion/tools-registry/github,,@legion/tools-registry/jira", want{named: "file", failed: []string{"file env AIUR_MODULES", "jira env AIUR_MODULES"}}},
		{"variable with roots", "modules: {file: {roots: [a]}}", "file", want{roots: 1, named: "file"}},
		{"roots in the variable", "", "@legion/tools-registry/file=notes:~/docs:/b, context", want{roots: 3, named: "file context"}},
		{"no root in the variable", "", "file=", want{named: "file", failed: []string{"file env AIUR_MODULES"}}},
		{"roots of the file over those of the variable", "modules: {file: {roots: [a]}}", "file=/b:/c", want{roots: 1, named: "file"}},
		{"off in the file, roots in the variable", "modules: {file: {enabled: false}}", "file=/b", want{}},
		{"roots for a module that has none", "", "context=/b", want{failed: []string{"context=/b env AIUR_MODULES"}}},
		{"file over variable", "modules: {plan: {enabled: false}}", "plan", want{off: "plan"}},
		{"asked twice", "modules: [nobody]", "nobody", want{listed: true, failed: []string{"nobody stoa.yaml:3"}}},
		{"empty list", "modules: []", "", want{listed: true}},
		{"empty list and a variable", "modules: []", "plan", want{named: "plan", listed: true}},
		{"named, and no more", "modules: {context: {}, plan: {enabled: true}, debug: null}", "", want{named: "context plan"}},
		{"the hub's own", "modules: [stoa, plan, stoa]", "stoa", want{named: "stoa plan", listed: true}},
		{"the hub's own by name", "modules: {stoa: {}}", "", want{named: "stoa"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, "stoa.yaml", "stoa: 1\n"+servers+tt.file)
			c, notes := must(t, Options{Dir: dir, Env: fixed("AIUR_MODULES", tt.env)})
			for _, name := range []string{"context", "plan", "debug"} {
				if on := *c.Modules.enabled(name); on != (name != tt.want.off) {
					t.Errorf("%s is on: %v", name, on)
				}
			}
			if got := strings.Join(c.Modules.Named, " "); got != tt.want.named || c.Modules.Listed != tt.want.listed {
				t.Errorf("named are %q, and nothing else: %v", got, c.Modules.Listed)
			}
			f := c.Modules.File
			if on := tt.want.roots > 0; f.Enabled != on || on && len(f.Roots) != tt.want.roots {
				t.Errorf("file is %+v", f)
			}
			for _, root := range f.Roots {
				if !filepath.IsAbs(root) {
					t.Errorf("the root %s is relative", root)
				}
			}
			var failed []string
			for _, one := range c.Modules.Failed {
				failed = append(failed, one.Name+" "+strings.TrimPrefix(one.From, dir+"/"))
				if one.Text == "" || one.Hint == "" || !strings.Contains(fmt.Sprint(notes), one.Text) {
					t.Errorf("not told, or without advice: %+v", one)
				}
			}
			if diff := cmp.Diff(tt.want.failed, failed); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestHandling(t *testing.T) {
	file := `stoa: 1
servers:
  a:
    command: x
    references: off
    cards: {threshold: 1KiB}
    tools: {override: {t: {references: on, saveAs: off, cards: {threshold: 2KiB}}, u: {cards: off, task: always}}}
    task: auto
  b: {command: x, saveAs: on, cards: on}
`
	c, _ := must(t, Options{Dir: folder(t, "stoa.yaml", file)})
	on, off := true, false
	for _, tt := range []struct {
		server, tool string
		want         Handling
	}{
		{"a", "other", Handling{References: &off, CardBytes: 1 << 10, Task: TaskAuto}},
		{"a", "t", Handling{References: &on, SaveAs: &off, CardBytes: 2 << 10, Task: TaskAuto}},
		{"a", "u", Handling{References: &off, Cards: &off, CardBytes: 1 << 10, Task: TaskAlways}},
		{"b", "t", Handling{SaveAs: &on, Cards: &on, CardBytes: 16 << 10, Task: TaskOff}},
	} {
		if diff := cmp.Diff(tt.want, c.Server(tt.server).Handling(tt.tool)); diff != "" {
			t.Errorf("%s %s: -want +got\n%s", tt.server, tt.tool, diff)
		}
	}
	hand := Server{}
	if got := hand.Handling("t").CardBytes; got != 16<<10 {
		t.Errorf("a server made by hand: cards from %d bytes on", got)
	}
}

func TestStoreShapes(t *testing.T) {
	for file, want := range map[string]Store{
		`store: embedded`:                       {Replicas: 1},
		`store: ""`:                             {Replicas: 1},
		`store: nats://a:4222,nats://b:4222`:    {URL: "nats://a:4222,nats://b:4222", Replicas: 1},
		`store: {url: "nats://a", replicas: 3}`: {URL: "nats://a", Replicas: 3},
		`store: {url: "tls://a", credentials: /c, tls: {ca: /ca}}`: {URL: "tls://a", Credentials: "/c", TLS: StoreTLS{CA: "/ca"}, Replicas: 1},
		`store: {url: "nats://a", key: "${CLUSTER}"}`:              {URL: "nats://a", Replicas: 1, Key: secret.New("of-the-cluster")},
		`store: {url: "nats://a", keyFile: /k}`:                    {URL: "nats://a", Replicas: 1, KeyFile: "/k"},
		`store: {url: "nats://a", keyCommand: [pass, "${WHICH}"]}`: {URL: "nats://a", Replicas: 1, KeyCommand: []string{"pass", "show"}},
	} {
		c, _ := must(t, Options{Dir: folder(t, "stoa.yaml", "stoa: 1\n"+file), Env: fixed("CLUSTER", "of-the-cluster", "WHICH", "show")})
		if diff := cmp.Diff(want, c.Store, cmp.Comparer(sameSecret)); diff != "" {
			t.Errorf("%s: -want +got\n%s", file, diff)
		}
	}
	// A later file's plain address replaces all that was said of the store.
	dir := folder(t, "a.yaml", "stoa: 1\nstore: {url: 'nats://a', credentials: /c, replicas: 3, keyFile: /k}", "b.yaml", "stoa: 1\nstore: embedded")
	c, _ := must(t, Options{Dir: dir, Files: []string{"a.yaml", "b.yaml"}})
	if diff := cmp.Diff(Store{Replicas: 1}, c.Store, cmp.Comparer(sameSecret)); diff != "" || c.Origin("/store/replicas") != "default" {
		t.Errorf("-want +got\n%s %s", diff, c.Origin("/store/replicas"))
	}
}

// The environment says the cluster key where no file does, and it is never shown.
func TestStoreKeyOfTheEnvironment(t *testing.T) {
	const key = "known-to-all-hubs-and-nobody-else"
	for file, want := range map[string]string{
		`store: {url: "nats://a"}`:                     key,
		`store: embedded`:                              key,
		`store: {url: "nats://a", key: its-own}`:       "its-own",
		`store: {url: "nats://a", keyFile: /k}`:        "",
		`store: {url: "nats://a", keyCommand: [pass]}`: "",
	} {
		c, _ := must(t, Options{Dir: folder(t, "stoa.yaml", "stoa: 1\n"+file), Env: fixed("STOA_STORE_KEY", key)})
		if got := c.Store.Key.Reveal(); got != want {
			t.Errorf("%s: %q", file, got)
		}
		var shown strings.Builder
		if err := c.Show(&shown, true); err != nil || strings.Contains(shown.String(), key) {
			t.Errorf("%s: shown: %s, %v", file, &shown, err)
		}
	}
}
