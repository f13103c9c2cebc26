package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// fourteen are as many tools as a server of files has.
func fourteen() peer.Spec {
	var spec peer.Spec
	for i := range 14 {
		spec.Tools = append(spec.Tools, peer.Tool{Name: fmt.Sprintf("tool_%d", i)})
	}
	return spec
}

// named makes modules the choice of a config.
func named(listed bool, names ...string) hubtest.Edit {
	return hubtest.Config(func(c *config.Config) {
		c.Modules = config.Default().Modules
		c.Modules.Named, c.Modules.Listed = names, listed
	})
}

// builtins are the modules whose tools are among those of a list. It fails if a
// module is there in part only, or the server's own tools are not all there.
func builtins(t testing.TB, tools []string) string {
	t.Helper()
	of := map[string][]string{
		"context": {"context_add", "context_get", "context_history", "context_list", "context_remove"},
		"plan":    {"plan_create", "plan_debug", "plan_execute", "plan_status"},
		"task":    {"task_cancel", "task_result", "task_start", "task_status"},
		"debug":   {"read_logs", "web_debug_start", "web_debug_status"},
		"stoa":    {"module_list", "module_load", "module_unload", "tools_batch", "tools_search"},
	}
	var found []string
	counted := 0
	for _, name := range []string{"context", "debug", "plan", "stoa", "task"} {
		n := 0
		for _, tool := range of[name] {
			if slices.Contains(tools, tool) {
				n++
			}
		}
		if counted += n; n > 0 {
			found = append(found, name)
		}
		if n > 0 && n < len(of[name]) {
			t.Errorf("of %s only some tools are listed: %v", name, tools)
		}
	}
	if len(tools) != 14+counted {
		t.Errorf("%d tools, of which %d are built in: %v", len(tools), counted, tools)
	}
	return strings.Join(found, " ")
}

// What the config says of modules is what clients are offered, in both eras, and
// also once the config changes. Everything can be called by name all the same.
func TestModulesAreOfferedByChoice(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, fourteen())
	up := hubtest.HTTP("up", web.URL)
	h := hubtest.New(t, up, hubtest.Modules())
	settled(t, h, "up")
	for _, step := range []struct {
		name           string
		edit           hubtest.Edit
		merged, within string // what is listed at /mcp, and where a session is named
	}{
		{"nothing said", hubtest.Modules(), "", "context debug plan"},
		{"one by name", named(false, "context"), "context", "context debug plan"},
		{"a list", named(true, "plan", "stoa"), "plan stoa", "plan stoa"},
		{"an empty list", named(true), "", ""},
		{"all of them", named(true, "context", "plan", "task", "debug", "stoa"), "context debug plan stoa task", "context debug plan stoa task"},
		{"nothing said again", hubtest.Modules(), "", "context debug plan"},
	} {
		listens := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
		told := listens.Listen("")
		changes, err := h.Reload(setupOf(h, up, step.edit))
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if len(changes) > 0 {
			told.Await("notifications/tools/list_changed")
		}
		told.Close()
		for _, era := range bothEras {
			for face, want := range map[string]string{"/mcp": step.merged, "/s/work/mcp": step.within} {
				c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face})
				if got := builtins(t, toolNames(t, c)); got != want {
					t.Errorf("%s, %s, %s: %q is listed, not %q", step.name, era, face, got, want)
				}
				good(t, c.Tool("context_list", `{}`, inMeta))
				good(t, c.Tool("module_list", `{}`))
			}
			c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("by-header")})
			if got := builtins(t, toolNames(t, c)); got != step.within {
				t.Errorf("%s, %s, by the header: %q is listed, not %q", step.name, era, got, step.within)
			}
			says := strings.Contains(string(c.Hello.Result), "## plan")
			if want := strings.Contains(step.within, "plan"); era == hubtest.Legacy && says != want {
				t.Errorf("%s: the instructions tell of plans: %v", step.name, says)
			}
		}
	}
}

// A module is offered to whoever asks for it: a session, the owner for all, a
// token by its scopes.
func TestModulesAreOfferedToWhoAsks(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, fourteen())
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), hubtest.Modules())
	settled(t, h, "up")
	scoped := tokenFor(t, h, "scoped", "up", "task")
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Header: in("s-" + string(era))})
		good(t, c.Tool("module_load", `{"module":"task"}`))
		if got := builtins(t, toolNames(t, c)); got != "context debug plan task" {
			t.Errorf("%s: after module_load: %q", era, got)
		}
		good(t, c.Tool("module_unload", `{"module":"plan"}`))
		if got := builtins(t, toolNames(t, c)); got != "context debug task" {
			t.Errorf("%s: after module_unload: %q", era, got)
		}
		narrow := h.Client(t, hubtest.ClientOptions{Era: era, Token: scoped.token})
		if got := builtins(t, toolNames(t, narrow)); got != "task" {
			t.Errorf("%s: a token that names it: %q", era, got)
		}
	}
	owner := apiClient{t, h, h.Token}
	plain := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	owner.ok("PUT", "/api/v1/modules/debug", `{"on":true}`)
	if got := builtins(t, toolNames(t, plain)); got != "debug" {
		t.Errorf("switched on for all: %q", got)
	}
	owner.ok("PUT", "/api/v1/modules/debug", `{"on":false}`)
	if got := builtins(t, toolNames(t, h.Client(t, hubtest.ClientOptions{Header: in("other")}))); got != "context plan" {
		t.Errorf("switched off for all: %q", got)
	}
}

// The tools that read values are listed once there is one, to those who listen
// too, and not after the last one is gone.
func TestValuesBringTheirTools(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, fourteen())
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), hubtest.Modules())
	settled(t, h, "up")
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	told := c.Listen("")
	defer told.Close()
	put(t, c, "v", "1")
	told.Await("notifications/tools/list_changed")
	if got := builtins(t, toolNames(t, c)); got != "context" {
		t.Errorf("with a value: %q", got)
	}
	good(t, c.Tool("context_remove", `{"name":"v"}`))
	told.Await("notifications/tools/list_changed")
	if got := builtins(t, toolNames(t, c)); got != "" {
		t.Errorf("without: %q", got)
	}
}

// A hub without servers offers what it has itself.
func TestModulesOfABareHub(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	c := h.Client(t, hubtest.ClientOptions{})
	if got := toolNames(t, c); !slices.Contains(got, "context_add") || !slices.Contains(got, "plan_create") || slices.Contains(got, "task_start") {
		t.Errorf("listed: %v", got)
	}
	web := peer.Serve(t, fourteen())
	if _, err := h.Reload(setupOf(h, hubtest.HTTP("up", web.URL), hubtest.Modules())); err != nil {
		t.Fatal(err)
	}
	settled(t, h, "up")
	if got := builtins(t, toolNames(t, c)); got != "" {
		t.Errorf("with a server: %q", got)
	}
}

// A model is offered what its agent names, and what the session has a use for;
// it can call the rest by name.
func TestModulesAreOfferedToModels(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, fourteen())
	h := hubtest.New(t, hubtest.HTTP("up", web.URL), hubtest.Modules(),
		agentOf("planner", func(a *config.Agent) { a.Tools = []string{"up__*", "plan_*"} }), agentOf("any", func(a *config.Agent) { a.Tools = []string{"*"} }))
	settled(t, h, "up")
	c := dial(t, h, "/ws?sessionId=work")
	tools := func(agent string) string {
		t.Helper()
		c.send(`{"type":"message","payload":{"text":"list tools","agent":"` + agent + `"}}`)
		_, text := c.until("turn.ended")
		var found []string
		for _, tool := range []string{"up__tool_13", "context_get", "plan_create", "task_start"} {
			if strings.Contains(text, tool) {
				found = append(found, tool)
			}
		}
		return strings.Join(found, " ")
	}
	for agent, want := range map[string]string{"": "up__tool_13", "any": "up__tool_13", "planner": "up__tool_13 plan_create"} {
		if got := tools(agent); got != want {
			t.Errorf("%q is offered %s", agent, got)
		}
	}
	if got := c.say(`call context_add {"name":"v","data":1}`); !strings.Contains(got, "context_add answered") {
		t.Errorf("by its name alone: %s", got)
	}
	if got := tools(""); got != "up__tool_13 context_get" {
		t.Errorf("once there is a value: %s", got)
	}
	if _, err := h.Reload(setupOf(h, hubtest.HTTP("up", web.URL), named(true, "task"))); err != nil {
		t.Fatal(err)
	}
	if got := tools(""); got != "up__tool_13 task_start" {
		t.Errorf("by the config: %s", got)
	}
}

// tools_search finds what the client can see, and nothing else.
func TestToolsSearch(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{
		{Name: "move", RawDefinition: `{"name":"move","description":"Move or rename a file.","inputSchema":{"type":"object","required":["from"],"properties":{"from":{"type":"string"},"to":{"type":["string","null"]},"how":{"enum":["a","b"]},"all":{"type":"array","items":{"type":"integer"}}}}}`},
		{Name: "count", RawDefinition: `{"name":"count","description":"Count words.","inputSchema":{"type":"object"}}`},
	}}
	h, _ := keeping(t, spec)
	blind := tokenFor(t, h, "blind", "stoa")
	for _, era := range bothEras {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		got := string(good(t, c.Tool("tools_search", `{"query":"renaming files"}`)))
		if want := `{"tools":[{"name":"up__move","description":"Move or rename a file.","arguments":"from: string, to?: any, how?: [\"a\",\"b\"], all?: [integer]"}]}`; got != want {
			t.Errorf("%s: found %s", era, got)
		}
		if got := string(good(t, c.Tool("tools_search", `{"query":"rename count","limit":1}`))); strings.Count(got, `"name"`) != 1 {
			t.Errorf("%s: found %s", era, got)
		}
		if got := string(good(t, c.Tool("tools_search", `{"query":"dance"}`))); got != `{"tools":[]}` {
			t.Errorf("%s: found %s", era, got)
		}
		other := h.Client(t, hubtest.ClientOptions{Era: era, Token: blind.token})
		if got := string(good(t, other.Tool("tools_search", `{"query":"rename"}`))); got != `{"tools":[]}` {
			t.Errorf("%s: a token without the server found %s", era, got)
		}
	}
}
