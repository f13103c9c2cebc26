package hub_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/modules"
)

// modulesFor lists what module_list tells, by name.
func modulesFor(t testing.TB, c *hubtest.Client) map[string]modules.Switchable {
	t.Helper()
	out := map[string]modules.Switchable{}
	for _, m := range hubtest.Decode[struct{ Modules []modules.Switchable }](good(t, c.Tool("module_list", "{}"))).Modules {
		out[m.Name] = m
	}
	return out
}

func has(t testing.TB, c *hubtest.Client, tool string) bool {
	t.Helper()
	return slices.Contains(toolNames(t, c), tool)
}

// A client chooses for its own session what it is offered.
func TestModulesOfASession(t *testing.T) {
	hubtest.Parallel(t)
	h, web := keeping(t, peer.Spec{Tools: echoTool(), Resources: []peer.Resource{{URI: "mem://a"}}})
	for _, era := range bothEras {
		for name, prefix := range map[string]string{"plain": "", "as others write it": "@legion/tools-registry/"} {
			session := in("m-" + string(era) + "-" + strings.ReplaceAll(name, " ", ""))
			c, peer := h.Client(t, hubtest.ClientOptions{Era: era, Header: session}), h.Client(t, hubtest.ClientOptions{Era: era, Header: session})
			other := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("other")})
			x := peer.Listen(`{"toolsListChanged":true,"resourcesListChanged":true}`)
			y := other.Listen(`{"toolsListChanged":true,"resourcesListChanged":true}`)
			good(t, c.Tool("module_unload", `{"module":"`+prefix+`up"}`))
			x.Await("notifications/tools/list_changed")
			if m := modulesFor(t, c)["up"]; m.On || !m.Session || m.Kind != "server" || m.Tools != 1 {
				t.Errorf("%s, %s: switched off: %+v", era, name, m)
			}
			if has(t, peer, "up__echo") || !has(t, other, "up__echo") || len(names(t, c, "resources/list", "resources", "uri")) > 0 {
				t.Errorf("%s, %s: what is offered is not what was chosen", era, name)
			}
			before := len(web.State().Called)
			if m := c.Tool("up__echo", "{}"); m.Error == nil {
				t.Errorf("%s, %s: a tool that is off: %s", era, name, m.Raw)
			}
			if m := c.Call("resources/read", `{"uri":"mem://a"}`); m.Error == nil || len(web.State().Called) != before {
				t.Errorf("%s, %s: a resource that is off: %s", era, name, m.Raw)
			}
			good(t, c.Tool("module_load", `{"module":"`+prefix+`up"}`))
			x.Await("notifications/tools/list_changed")
			if m := c.Tool("up__echo", `{"a":1}`); m.Text() != `{"a":1}` {
				t.Errorf("%s, %s: on again: %s", era, name, m.Raw)
			}
			// The others hear of what is theirs.
			good(t, other.Tool("module_unload", `{"module":"debug"}`))
			if y.Await("notifications/tools/list_changed"); has(t, other, "read_logs") || !has(t, c, "read_logs") {
				t.Errorf("%s, %s: debug is off for the wrong one", era, name)
			}
			good(t, other.Tool("module_load", `{"module":"debug"}`))
		}
	}
}

func TestModulesThatCannotBeSwitched(t *testing.T) {
	hubtest.Parallel(t)
	var scoped string
	h, _ := keeping(t, peer.Spec{Tools: echoTool()}, func(s *hubtest.Setup) { scoped = token(t, s, "scoped", "up", "stoa") })
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("work")})
		for module, want := range map[string]string{
			"contxt": "Did you mean context?", "@legion/tools-registry/nope": "no module or server", "stoa": "nothing could switch it on again", "": "no module or server",
		} {
			m := c.Tool("module_unload", `{"module":`+hubtest.Quote(module)+`}`)
			if code := bad(t, m); code != "INVALID_ARGUMENTS" || !strings.Contains(m.Text(), want) {
				t.Errorf("%s, %q: %s", era, module, m.Raw)
			}
		}
		unbound := h.Client(t, hubtest.ClientOptions{Era: era, Sessionless: true})
		if code := bad(t, unbound.Tool("module_unload", `{"module":"up"}`)); code != "SESSION_REQUIRED" {
			t.Errorf("%s: without a session: %s", era, code)
		}
		good(t, unbound.Tool("module_unload", `{"module":"up","session":"by-argument-`+string(era)+`"}`))
		if has(t, h.Client(t, hubtest.ClientOptions{Era: era, Header: in("by-argument-" + string(era))}), "up__echo") {
			t.Errorf("%s: by the argument: nothing was switched", era)
		}
		// A token reaches the modules that it names, and hears of no others.
		narrow := h.Client(t, hubtest.ClientOptions{Era: era, Token: scoped, Header: in("work")})
		if got := modulesFor(t, narrow); len(got) != 2 || got["up"].Name == "" || got["stoa"].Name == "" {
			t.Errorf("%s: a narrow token is offered %+v", era, got)
		}
		if has(t, narrow, "context_add") || has(t, narrow, "read_logs") {
			t.Errorf("%s: a narrow token is offered the tools of other modules", era)
		}
		if m := narrow.Tool("context_add", `{"name":"x","data":1}`); m.Error == nil && !strings.Contains(string(m.Result), "denied") {
			t.Errorf("%s: a tool out of scope: %s", era, m.Raw)
		}
		if m := narrow.Tool("module_load", `{"module":"context"}`); bad(t, m) != "INVALID_ARGUMENTS" || has(t, narrow, "context_add") {
			t.Errorf("%s: a module out of scope was switched on: %s", era, m.Raw)
		}
		if got := names(t, narrow, "resources/templates/list", "resourceTemplates", "uriTemplate"); len(got) > 0 {
			t.Errorf("%s: a narrow token is offered %v", era, got)
		}
		if m := narrow.Call("resources/read", `{"uri":"stoa://context/x"}`); m.Error == nil {
			t.Errorf("%s: a value out of scope: %s", era, m.Raw)
		}
	}
}

// A module that cannot be had is told of, and the others work.
func TestModulesThatFail(t *testing.T) {
	hubtest.Parallel(t)
	missing := filepath.Join(t.TempDir(), "missing")
	files := func(root string) func(*config.Config) {
		return func(c *config.Config) {
			c.Modules = config.Default().Modules
			c.Modules.File = config.FileModule{Enabled: true, Roots: []string{root}}
			c.Modules.Failed = []config.ModuleFailure{{Name: "weather", From: "env AIUR_MODULES", Text: `there is neither a module nor a server called "weather"`}}
		}
	}
	h := hubtest.New(t, hubtest.Config(files(missing)))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	put(t, c, "doc", "1")
	got := modulesFor(t, c)
	if m := got["file"]; m.On || !strings.Contains(m.Failed, missing) {
		t.Errorf("the module file: %+v", m)
	}
	if m := got["weather"]; m.On || !strings.Contains(m.Failed, "AIUR_MODULES") {
		t.Errorf("an unknown module: %+v", m)
	}
	if !strings.Contains(h.Log(), "a module cannot be had") || !strings.Contains(h.Log(), missing) {
		t.Error("the log says nothing of it")
	}
	if m := c.Tool("module_load", `{"module":"file"}`); bad(t, m) == "" || !strings.Contains(m.Text(), missing) {
		t.Errorf("loading it: %s", m.Raw)
	}
	// The folder is there now: reading the config again is enough.
	if err := os.Mkdir(missing, 0o700); err != nil {
		t.Fatal(err)
	}
	x := c.Listen("")
	next := *setupOf(h, hubtest.Config(files(missing)))
	next.Modules.Debug.Enabled = false
	changes, err := h.Reload(&next)
	if err != nil || described(changes) != "modules changed" {
		t.Fatalf("reload: %v, %v", changes, err)
	}
	x.Await("notifications/tools/list_changed")
	await.Until(t, "the module is offered", func() bool { return has(t, c, "file_list") && !has(t, c, "read_logs") })
	if got := modulesFor(t, c); !got["file"].On || got["debug"].On || got["weather"].Failed == "" {
		t.Errorf("after the reload: %+v", got)
	}
	if got := good(t, c.Tool("context_get", `{"name":"doc"}`)); string(got) != "1" {
		t.Errorf("what was stored: %s", got)
	}
}

// Without the module nothing of a session is shown, and cards, which nobody
// could read, are not made.
func TestWithoutTheContextModule(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, longSpec(), hubtest.Config(func(c *config.Config) { c.Modules.Context.Enabled = false }))
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/work/mcp"})
		if m := c.Tool("up__rows", `{"saveAs":"rows"}`); isCard(m) || !strings.Contains(string(m.Result), `"stoa/saved"`) {
			t.Errorf("%s: %.300s", era, m.Raw)
		}
		if m := c.Tool("up__rows", ``); isCard(m) {
			t.Errorf("%s: %.300s", era, m.Raw)
		}
		if got := names(t, c, "resources/list", "resources", "uri"); len(got) > 0 {
			t.Errorf("%s: shown %v", era, got)
		}
	}
}

// Every built-in tool answers in the same form, also when nothing is right.
func TestBuiltInToolsAnswerAlike(t *testing.T) {
	hubtest.Parallel(t)
	root := t.TempDir()
	h := hubtest.New(t, hubtest.Modules(), hubtest.Config(func(c *config.Config) {
		c.Modules.File = config.FileModule{Enabled: true, Roots: []string{root}}
		c.Limits.ArgumentBytes = 4 << 10
	}))
	for _, era := range bothEras {
		for _, face := range []string{"/mcp", "/s/form/mcp"} {
			c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face, Header: in("form")})
			all := toolNames(t, c)
			if len(all) < 15 {
				t.Fatalf("%s: only %v are offered", era, all)
			}
			for _, tool := range all {
				for args, want := range map[string]string{
					`{"nonsense":1}`:  "INVALID_ARGUMENTS",
					`{"name":"@nix"}`: "", // a reference to nothing, or an argument that is none
					`{"x":"` + strings.Repeat("x", 5<<10) + `"}`: "LIMIT",
				} {
					if code := bad(t, c.Tool(tool, args)); want != "" && code != want {
						t.Errorf("%s, %s, %s with %.40s: %s", era, face, tool, args, code)
					}
				}
			}
			if m := c.Tool("context_get", `{"name":"@nix"}`); bad(t, m) != "BAD_REFERENCE" || !strings.Contains(string(m.Result), `"stoa/error"`) {
				t.Errorf("%s: %s", era, m.Raw)
			}
		}
	}
}
