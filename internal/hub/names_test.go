package hub_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// names lists what a list method offers, by the member that names it.
func names(t testing.TB, c *hubtest.Client, method, member, key string) []string {
	t.Helper()
	var out []string
	params := "{}"
	for {
		m := c.Call(method, params)
		r := hubtest.Decode[map[string]json.RawMessage](m.Result)
		for _, raw := range hubtest.Decode[[]map[string]json.RawMessage](r[member]) {
			out = append(out, hubtest.Decode[string](raw[key]))
		}
		if r["nextCursor"] == nil || m.Error != nil {
			return out
		}
		params = `{"cursor":` + string(r["nextCursor"]) + `}`
	}
}

func toolNames(t testing.TB, c *hubtest.Client) []string {
	t.Helper()
	return names(t, c, "tools/list", "tools", "name")
}

func settled(t testing.TB, h *hubtest.Hub, ups ...string) {
	t.Helper()
	for _, up := range ups {
		await.Until(t, up+" is listed", func() bool {
			s := status(t, h, up)
			return s.Tools+s.Prompts+s.Resources > 0
		})
	}
}

func TestNamesOfTools(t *testing.T) {
	hubtest.Parallel(t)
	who := func(up string) []peer.Tool {
		return []peer.Tool{{Name: "both", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(`{"content":[{"type":"text","text":"` + up + `"}],"resultType":"complete"}`)}},
			{Name: "only_" + up}}
	}
	one, two := peer.Serve(t, peer.Spec{Tools: who("one")}), peer.Serve(t, peer.Spec{Tools: who("two")})
	h := hubtest.New(t, hubtest.HTTP("one", one.URL), hubtest.HTTP("two", two.URL))
	settled(t, h, "one", "two")
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		if got := fmt.Sprint(toolNames(t, c)); got != "[one__both one__only_one two__both two__only_two]" {
			t.Errorf("%s: the list: %s", era, got)
		}
		for _, up := range []string{"one", "two"} {
			for _, form := range []string{up + "__both", up + ":both", "mcp:" + up + ":both"} {
				if m := c.Tool(form, ""); m.Text() != up {
					t.Errorf("%s: %s: %s", era, form, m.Raw)
				}
			}
		}
		if m := c.Tool("only_two", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("%s: a bare unique name: %s", era, m.Raw)
		}
		m := c.Tool("both", "")
		if f := m.Fault(); f.Code != -32602 || f.Data.Kind != "unknown_tool" || fmt.Sprint(f.Data.Candidates) != "[one__both two__both]" {
			t.Errorf("%s: a bare ambiguous name: %s", era, m.Raw)
		}
		m = c.Tool("one__bohT", "")
		if f := m.Fault(); f.Code != -32602 || !slices.Contains(f.Data.Close, "one__both") || !strings.Contains(f.Data.Hint, "one__both") {
			t.Errorf("%s: a misspelt name: %s", era, m.Raw)
		}
	}
	// On an agent's own face names are the agent's.
	a := h.Client(t, hubtest.ClientOptions{Face: "/mcps/two/mcp"})
	if got := fmt.Sprint(toolNames(t, a)); got != "[both only_two]" {
		t.Errorf("the agent's list: %s", got)
	}
	if m := a.Tool("both", ""); m.Text() != "two" {
		t.Errorf("the agent's call: %s", m.Raw)
	}
}

func TestPromptsResourcesTemplatesCompletion(t *testing.T) {
	hubtest.Parallel(t)
	spec := func(up string) peer.Spec {
		return peer.Spec{
			Prompts:   []peer.Prompt{{Name: "hello"}},
			Resources: []peer.Resource{{URI: "mem://same", Text: up}, {URI: up + "://own", Text: up + " own"}},
			Templates: []peer.Template{{URITemplate: up + "://item/{id}"}},
		}
	}
	one, two := peer.Serve(t, spec("one")), peer.Serve(t, spec("two"))
	h := hubtest.New(t, hubtest.HTTP("one", one.URL), hubtest.HTTP("two", two.URL))
	settled(t, h, "one", "two")
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era})
		if got := fmt.Sprint(names(t, c, "prompts/list", "prompts", "name")); got != "[one__hello two__hello]" {
			t.Errorf("%s: prompts: %s", era, got)
		}
		if m := c.Call("prompts/get", `{"name":"two__hello","arguments":{"a":"b"}}`); !strings.Contains(string(m.Result), `{\"a\":\"b\"}`) {
			t.Errorf("%s: prompt: %s", era, m.Raw)
		}
		got := names(t, c, "resources/list", "resources", "uri")
		slices.Sort(got)
		if fmt.Sprint(got) != "[one+mem://same one://own two+mem://same two://own]" {
			t.Errorf("%s: resources: %s", era, got)
		}
		for uri, want := range map[string]string{"one+mem://same": `"one"`, "two+mem://same": `"two"`, "two://own": `"two own"`, "one://item/7": `"one://item/7"`} {
			if m := c.Call("resources/read", `{"uri":"`+uri+`"}`); !strings.Contains(string(m.Result), `"text":`+want) {
				t.Errorf("%s: read %s: %s", era, uri, m.Raw)
			}
		}
		code := map[hubtest.Era]int{hubtest.Legacy: -32002, hubtest.Modern: -32602}[era]
		if m := c.Call("resources/read", `{"uri":"nobody://x"}`); m.Fault().Code != code || m.Fault().Data.Kind != "resource_not_found" {
			t.Errorf("%s: read of nothing: %s", era, m.Raw)
		}
		if got := fmt.Sprint(names(t, c, "resources/templates/list", "resourceTemplates", "uriTemplate")); got != "[one://item/{id} two://item/{id}]" {
			t.Errorf("%s: templates: %s", era, got)
		}
		for _, ref := range []string{`{"type":"ref/prompt","name":"two__hello"}`, `{"type":"ref/resource","uri":"two://item/{id}"}`} {
			if m := c.Call("completion/complete", `{"ref":`+ref+`,"argument":{"name":"id","value":"v"}}`); !strings.Contains(string(m.Result), `"v-1"`) {
				t.Errorf("%s: completion of %s: %s", era, ref, m.Raw)
			}
		}
	}
}

func tool(name, rest string) peer.Tool {
	return peer.Tool{Name: name, RawDefinition: peer.Raw(`{"name":` + hubtest.Quote(name) + rest + `}`)}
}

// Definitions that are bad in themselves still give tools that work.
func TestOddDefinitions(t *testing.T) {
	hubtest.Parallel(t)
	long := strings.Repeat("long_", 30)
	spec := peer.Spec{Tools: []peer.Tool{
		tool("bad-schema", `,"inputSchema":{"type":"object","properties":{"a":{"type":"nonsense","pattern":"("}}}`),
		tool("no-schema", ``),
		tool("null-schema", `,"inputSchema":null`),
		tool("untyped", `,"inputSchema":{"properties":{"a":{"type":"string"}}}`),
		tool("bad name/with:colons é", `,"inputSchema":{"type":"object"}`),
		tool(long, `,"inputSchema":{"type":"object"}`),
		tool("large", `,"description":"`+strings.Repeat("x", 1<<18)+`","inputSchema":{"type":"object"}`),
		{Name: "nameless", RawDefinition: `{"inputSchema":{"type":"object"}}`},
		tool("twice", `,"inputSchema":{"type":"object"}`), tool("twice", `,"inputSchema":{"type":"object"}`),
	}}
	portable := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,47}$`)
	for _, transport := range []string{"stdio", "sse"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, cell{hubtest.Legacy, transport, true}, spec, worldOptions{})
			settled(t, w.Hub, "up")
			list := toolNames(t, w.client)
			if len(list) != 8 {
				t.Errorf("%d tools are listed: %.500q", len(list), list)
			}
			for _, name := range list {
				if !portable.MatchString(name) {
					t.Errorf("the name %q is not portable", name)
				}
				if m := w.client.Tool(name, `{"a":"b"}`); m.Text() != `{"a":"b"}` {
					t.Errorf("%s: %.300s", name, m.Raw)
				}
			}
			for _, own := range []string{"up:bad name/with:colons é", "up:" + long} {
				if m := w.client.Tool(own, `{"a":"b"}`); m.Text() != `{"a":"b"}` {
					t.Errorf("%s: %.300s", own, m.Raw)
				}
			}
			if s := status(t, w.Hub, "up"); !hasHealth(s, "definition no-schema") || !hasHealth(s, "definition") {
				t.Errorf("health: %+v", s.Health)
			}
		})
	}
}

// A long list in pages, the second of which has the empty string as its cursor.
func TestLongListInPages(t *testing.T) {
	hubtest.Parallel(t)
	spec := func(long int) peer.Spec {
		spec := peer.Spec{List: peer.List{PageSize: 50}}
		for i := range 188 {
			spec.Tools = append(spec.Tools, tool(fmt.Sprintf("t%03d", i), `,"description":"`+strings.Repeat("d", long)+`","inputSchema":{"type":"object"}`))
		}
		return spec
	}
	check := func(t *testing.T, w *world) {
		settled(t, w.Hub, "up")
		list := toolNames(t, w.client)
		if len(list) != 188 || list[0] != w.name("up", "t000") || list[187] != w.name("up", "t187") {
			t.Errorf("%d tools are listed", len(list))
		}
		if m := w.client.Call("tools/list", `{"cursor":"nonsense"}`); m.Fault().Code != -32602 {
			t.Errorf("a cursor of nobody: %.300s", m.Raw)
		}
		if m := w.call("t187", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("call: %.300s", m.Raw)
		}
	}
	eachCell(t, spec(55), worldOptions{}, check)
	t.Run("a list of a megabyte", func(t *testing.T) {
		check(t, newWorld(t, cell{hubtest.Modern, "stdio", true}, spec(5500), worldOptions{}))
	})
}

func TestAllowAndDeny(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{{Name: "read_a"}, {Name: "read_b"}, {Name: "write_a"}, {Name: "read_secret"}}}
	o := worldOptions{server: func(s *config.Server) { s.Tools.Allow, s.Tools.Deny = []string{"read_*"}, []string{"*secret"} }}
	eachCell(t, spec, o, func(t *testing.T, w *world) {
		want := []string{w.name("up", "read_a"), w.name("up", "read_b")}
		if got := toolNames(t, w.client); !slices.Equal(got, want) {
			t.Errorf("listed: %v", got)
		}
		for _, hidden := range []string{"write_a", "read_secret"} {
			for _, form := range []string{w.name("up", hidden), hidden} {
				if m := w.client.Tool(form, ""); m.Fault().Data.Kind != "unknown_tool" {
					t.Errorf("%s: %s", form, m.Raw)
				}
			}
		}
		if m := w.call("read_b", `{"a":1}`); m.Text() != `{"a":1}` {
			t.Errorf("an allowed one: %s", m.Raw)
		}
		if slices.Contains(w.peerState(t).Called, "write_a") {
			t.Error("a hidden tool was called")
		}
	})
}

// Every fault of the arguments is told, in a result that a model can read.
func TestArgumentsAreChecked(t *testing.T) {
	hubtest.Parallel(t)
	spec := peer.Spec{Tools: []peer.Tool{tool("strict", `,"inputSchema":{"type":"object","required":["a","b"],"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"enum":["x","y"]}},"additionalProperties":false}`)}}
	oneHub(t, spec, worldOptions{}, func(t *testing.T, w *world) {
		m := w.call("strict", `{"a":"1","c":"z","d":1}`)
		if !w.merged { // there the agent itself decides
			if !strings.Contains(m.Text(), `"d":1`) {
				t.Errorf("the agent's own face: %s", m.Raw)
			}
			return
		}
		r := hubtest.Decode[struct {
			IsError    bool
			ResultType string
			Meta       map[string]json.RawMessage `json:"_meta"`
		}](m.Result)
		f := hubtest.Decode[hubtest.Fault](r.Meta["stoa/error"])
		if !r.IsError || f.Data.Kind != "invalid_arguments" || len(f.Data.Faults) < 4 {
			t.Errorf("got %s", m.Raw)
		}
		for _, at := range []string{"/a", "b", "/c", "d"} {
			if !strings.Contains(m.Text(), at) {
				t.Errorf("the text does not name %s: %s", at, m.Text())
			}
		}
		if (r.ResultType == "complete") != (w.era == hubtest.Modern) {
			t.Errorf("resultType: %s", m.Raw)
		}
		if len(w.peerState(t).Called) > 0 {
			t.Error("bad arguments reached the server")
		}
		if m := w.call("strict", `{"a":1,"b":"x"}`); m.Text() != `{"a":1,"b":"x"}` {
			t.Errorf("good arguments: %s", m.Raw)
		}
	})
}
