package hub_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

const pure = `"annotations":{"readOnlyHint":true,"idempotentHint":true}`

func counting(name, more string) peer.Tool {
	def := `{"name":"` + name + `","inputSchema":{"type":"object"}`
	if more != "" {
		def += "," + more
	}
	return peer.Tool{Name: name, RawDefinition: peer.Raw(def + "}"), Behaviour: peer.Do(peer.Count)}
}

func pureTool(name string, b peer.Behaviour) peer.Tool {
	t := counting(name, pure)
	t.Behaviour = b
	return t
}

// caching is a server with results that are cached for an hour, as far as the
// config goes.
func caching(edit func(*config.Server), tools ...peer.Tool) hubtest.Edit {
	return hubtest.Stdio("up", peer.Spec{Tools: tools}, func(s *config.Server) {
		s.Tools.Override = map[string]config.Override{}
		for _, t := range tools {
			s.Tools.Override[t.Name] = config.Override{Cache: config.Cache{TTL: time.Hour}}
		}
		if edit != nil {
			edit(s)
		}
	})
}

// age is how old a result says that it is; -1 if it does not say that it is an
// old one.
func age(m hubtest.Message) int64 {
	r := hubtest.Decode[struct {
		Meta map[string]struct{ AgeMs, TTLMs *int64 } `json:"_meta"`
	}](m.Result)
	c, ok := r.Meta["stoa/cached"]
	if !ok || c.AgeMs == nil || c.TTLMs == nil || *c.TTLMs <= 0 {
		return -1
	}
	return *c.AgeMs
}

func TestResultsAreReused(t *testing.T) {
	hubtest.Parallel(t)
	var other string
	h := hubtest.New(t, caching(nil, counting("count", pure)), hubtest.Modules(), func(s *hubtest.Setup) { other = token(t, s, "other", "up") })
	waitTools(t, h)
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		for _, face := range []string{"/mcp", "/mcps/up/mcp", "/s/work/mcp"} {
			t.Run(string(era)+face, func(t *testing.T) {
				tool := "up__count"
				if strings.HasPrefix(face, "/mcps") {
					tool = "count"
				}
				c := h.Client(t, hubtest.ClientOptions{Era: era, Face: face})
				id := hubtest.Quote(t.Name())
				first := c.Tool(tool, `{"id":`+id+`,"a":{"x":1,"y":[2]}}`)
				if first.Text() == "" || age(first) >= 0 {
					t.Fatalf("the first: %s", first.Raw)
				}
				again := c.Tool(tool, `{"a": {"y":[2], "x":1}, "id":`+id+`}`)
				if again.Text() != first.Text() || age(again) < 0 {
					t.Errorf("the same arguments, written otherwise: %s after %s", again.Raw, first.Raw)
				}
				for what, m := range map[string]hubtest.Message{
					"other arguments":      c.Tool(tool, `{"id":`+id+`,"a":{"x":1,"y":[2,3]}}`),
					"what another said":    h.Client(t, hubtest.ClientOptions{Era: era, Face: face, Token: other}).Tool(tool, `{"id":`+id+`,"a":{"x":1,"y":[2]}}`),
					"said to the server":   c.Tool(tool, `{"id":`+id+`,"a":{"x":1,"y":[2]}}`, `"tenant":"b"`),
					"a wish for a new one": c.Tool(tool, `{"id":`+id+`,"a":{"x":1,"y":[2]}}`, `"stoa/fresh":true`),
				} {
					if m.Text() == "" || m.Text() == first.Text() || age(m) >= 0 {
						t.Errorf("%s: %s", what, m.Raw)
					}
				}
				if m := c.Tool(tool, `{"id":`+id+`,"a":{"x":1,"y":[2]}}`); m.Text() == first.Text() || age(m) < 0 {
					t.Errorf("the new one is not the one that is reused: %s", m.Raw)
				}
				if m := c.Tool(tool, `{}`, `"stoa/fresh":"yes"`); m.Fault().Data.Kind != "invalid_params" {
					t.Errorf("a wish that is none: %s", m.Raw)
				}
			})
		}
	}
	api := apiClient{t, h, h.Token}
	if raw := string(api.ok("GET", "/api/v1/tools/up__count", "")); !strings.Contains(raw, `"ttlMs":3600000`) || !strings.Contains(raw, `"hits":12`) {
		t.Errorf("of the tool: %s", raw)
	}
	first := api.do("POST", "/api/tools/up__count", `{"by":"API"}`)
	again := api.do("POST", "/api/tools/up__count", `{"by":"API"}`)
	if string(wire.Get(again.Body, "data")) != string(wire.Get(first.Body, "data")) || !strings.Contains(string(again.Body), "This is a cached result, ") || strings.Contains(string(first.Body), "cached result") || again.Header.Get("Stoa-Cached-Ms") == "" || first.Header.Get("Stoa-Cached-Ms") != "" {
		t.Errorf("by the API: %s, then %s", first.Body, again.Body)
	}
	if fresh := api.do("POST", "/api/tools/up__count?fresh=true", `{"by":"API"}`); string(fresh.Body) == string(first.Body) || fresh.Header.Get("Stoa-Cached-Ms") != "" {
		t.Errorf("a new one by the API: %s", fresh.Body)
	}
	_, metrics := h.Get("/metrics")
	if !strings.Contains(string(metrics), `stoa_cache_total{outcome="hit",upstream="up"} 13`) || strings.Contains(string(metrics), "stoa_cache_entries 0\n") {
		t.Errorf("the metrics: %s", metrics)
	}
}

// References are what they stand for, and results are kept as those of calls are.
func TestReusedResultsInSessions(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, caching(nil, counting("count", pure)), hubtest.Modules())
	waitTools(t, h)
	api := apiClient{t, h, h.Token}
	api.put("work", "which", `"a"`)
	c := h.Client(t, hubtest.ClientOptions{Header: http.Header{"Stoa-Session": {"work"}}})
	first := c.Tool("up__count", `{"id":"a"}`)
	if m := c.Tool("up__count", `{"id":"@which"}`, `"stoa/saveAs":"result"`); m.Text() != first.Text() || age(m) < 0 {
		t.Errorf("by reference: %s", m.Raw)
	}
	if got := string(api.ok("GET", "/api/v1/sessions/work/values/result", "")); !strings.Contains(got, first.Text()) || strings.Contains(got, "stoa/cached") {
		t.Errorf("kept: %s", got)
	}
	api.put("work", "which", `"b"`)
	if m := c.Tool("up__count", `{"id":"@which"}`); m.Text() == first.Text() || age(m) >= 0 {
		t.Errorf("what the reference stood for before: %s", m.Raw)
	}
	m := c.Tool("tools_batch", `{"calls":[{"tool":"up__count","arguments":{"id":"b"}}]}`)
	if !strings.Contains(string(m.Raw), "2") {
		t.Errorf("in a batch: %s", m.Raw)
	}
}

// What may not be reused never is, whatever the config says; and the owner is
// told why.
func TestResultsThatAreNotReused(t *testing.T) {
	hubtest.Parallel(t)
	verbatim := func(raw string) peer.Behaviour { return peer.Behaviour{Kind: peer.Verbatim, Raw: peer.Raw(raw)} }
	h := hubtest.New(t, caching(nil,
		counting("plain", ""), counting("read", `"annotations":{"readOnlyHint":true}`), counting("idem", `"annotations":{"idempotentHint":true}`),
		pureTool("wrong", verbatim(`{"content":[{"type":"text","text":"no"}],"isError":true}`)),
		pureTool("error", peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32000,"message":"no"}`}),
		pureTool("short", verbatim(`{"content":[],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`)),
		pureTool("long", verbatim(`{"content":[],"resultType":"complete","ttlMs":600000,"cacheScope":"public"}`)),
		pureTool("elicit", peer.Do(peer.Elicit))))
	waitTools(t, h)
	calls := func(c *hubtest.Client, tool string) (last hubtest.Message) {
		for range 3 {
			x := c.Go("tools/call", hubtest.ToolParams("up__"+tool, `{}`))
			for {
				if last = x.Next(); last.IsResponse() {
					break
				}
				if last.Method == "elicitation/create" {
					c.Answer(last, "result", `{"action":"accept","content":{"name":"Ann"}}`)
				}
			}
			if age(last) >= 0 && tool != "long" {
				t.Errorf("%s: %s", tool, last.Raw)
			}
		}
		return last
	}
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Capabilities: `{"elicitation":{}}`})
		for _, tool := range []string{"plain", "read", "idem", "wrong", "error", "short", "elicit"} {
			calls(c, tool)
		}
		if m := calls(c, "long"); age(m) < 0 || !strings.Contains(string(m.Result), `"ttlMs":599`) || era == hubtest.Modern && !strings.Contains(string(m.Result), `"cacheScope":"public"`) {
			t.Errorf("with a hint of its own: %s", m.Raw)
		}
	}
	st := status(t, h, "up")
	for _, tool := range []string{"plain", "read", "idem"} {
		if !hasHealth(st, "cache "+tool) {
			t.Errorf("nothing is said of %s: %v", tool, st.Health)
		}
	}
	if hasHealth(st, "cache long") || !strings.Contains(h.Log(), "its results are not cached") {
		t.Errorf("the log, or %v", st.Health)
	}
}

func TestAnnotationsThatDoNotCountCacheNothing(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, caching(func(s *config.Server) { s.Trust = false }, counting("count", pure)))
	waitTools(t, h)
	c := h.Client(t, hubtest.ClientOptions{})
	first := c.Tool("up__count", `{}`)
	if m := c.Tool("up__count", `{}`); m.Text() == first.Text() || age(m) >= 0 {
		t.Errorf("reused: %s", m.Raw)
	}
	if st := status(t, h, "up"); !slices.ContainsFunc(st.Health, func(i upstream.Health) bool { return strings.Contains(i.Text, "`trust: false`") }) {
		t.Errorf("nothing is said of it: %v", st.Health)
	}
}

// The decision comes first: a result that is there is no way around it.
func TestReusedResultsAreDecidedAbout(t *testing.T) {
	hubtest.Parallel(t)
	server := caching(nil, counting("count", pure))
	h := hubtest.New(t, server)
	waitTools(t, h)
	c := h.Client(t, hubtest.ClientOptions{})
	first := c.Tool("up__count", `{"id":"a"}`)
	ruled := func(action string) {
		t.Helper()
		rule := config.Rule{Tools: []string{"up:count"}, Action: action, Args: map[string]config.Cond{"id": {Is: json.RawMessage(`"a"`)}}}
		if _, err := h.Reload(setupOf(h, server, hubtest.Config(func(c *config.Config) { c.Policy.Rules.Rules = []config.Rule{rule} }))); err != nil {
			t.Fatal(err)
		}
	}
	ruled("deny")
	if kind, text := refusal(c.Tool("up__count", `{"id":"a"}`)); kind != "denied" {
		t.Errorf("denied: %s", text)
	}
	ruled("ask")
	if kind, text := refusal(c.Tool("up__count", `{"id":"a"}`)); kind != "approval_required" {
		t.Errorf("asked for: %s", text)
	}
	ruled("allow")
	if m := c.Tool("up__count", `{"id":"a"}`); m.Text() != first.Text() || age(m) < 0 {
		t.Errorf("allowed: %s", m.Raw)
	}
}

// What was said under another definition, or with another config, is forgotten.
func TestChangesForgetResults(t *testing.T) {
	hubtest.Parallel(t)
	server := func(ttl time.Duration, more string) hubtest.Edit {
		return caching(func(s *config.Server) {
			s.Tools.Override = map[string]config.Override{"count": {Cache: config.Cache{TTL: ttl}}}
		}, counting("count", pure+more))
	}
	h := hubtest.New(t, server(time.Hour, ""))
	waitTools(t, h)
	c := h.Client(t, hubtest.ClientOptions{})
	c.Tool("up__count", `{}`)
	if m := c.Tool("up__count", `{}`); age(m) < 0 {
		t.Fatalf("not reused: %s", m.Raw)
	}
	if _, err := h.Reload(setupOf(h, server(2*time.Hour, ""))); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is there again", func() bool { return status(t, h, "up").Tools > 0 && offers(c, "up__count") })
	if m := c.Tool("up__count", `{}`); age(m) >= 0 {
		t.Errorf("after a reload: %s", m.Raw)
	}
}

func TestAnotherDefinitionForgetsResults(t *testing.T) {
	hubtest.Parallel(t)
	for _, pin := range []config.Pin{config.PinOff, config.PinAnnounce} {
		t.Run(string(pin), func(t *testing.T) {
			defined := func(text string) string {
				return `{"name":"count","description":"` + text + `","inputSchema":{"type":"object"},` + pure + `}`
			}
			f := newFickle(t, defined("one"))
			h := hubtest.New(t, hubtest.HTTP("up", f.url, func(s *config.Server) {
				s.Pin = pin
				s.Tools.Override = map[string]config.Override{"count": {Cache: config.Cache{TTL: time.Hour}}}
			}))
			c := h.Client(t, hubtest.ClientOptions{})
			described := func(text string) func() bool {
				return func() bool { return strings.Contains(string(c.Call("tools/list", "{}").Result), text) }
			}
			await.Until(t, "it is listed", described("one"))
			c.Tool("up__count", `{}`)
			if m := c.Tool("up__count", `{}`); age(m) < 0 || f.calls() != "count" {
				t.Fatalf("not reused: %s, called %s", m.Raw, f.calls())
			}
			f.offer(defined("two"))
			await.Until(t, "the change is known", described("two"))
			if m := c.Tool("up__count", `{}`); age(m) >= 0 || f.calls() != "count count" {
				t.Errorf("of another definition: %s, called %s", m.Raw, f.calls())
			}
			f.offer(defined("one"))
			await.Until(t, "it is as before", described("one"))
			if m := c.Tool("up__count", `{}`); m.Error != nil {
				t.Errorf("as before: %s", m.Raw)
			}
		})
	}
}

// A token that is made again under the name of one that was revoked starts with
// nothing.
func TestRecreatedTokenReusesNothing(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, caching(nil, counting("count", pure)))
	waitTools(t, h)
	ann := tokenFor(t, h, "ann", "*")
	first := h.Client(t, hubtest.ClientOptions{Token: ann.token}).Tool("up__count", `{}`)
	tokens, err := auth.OpenTokens(hub.TokensFile(h.Data, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Revoke("ann"); err != nil {
		t.Fatal(err)
	}
	again := tokenFor(t, h, "ann", "*")
	if m := h.Client(t, hubtest.ClientOptions{Token: again.token}).Tool("up__count", `{}`); m.Text() == first.Text() || age(m) >= 0 {
		t.Errorf("reused: %s", m.Raw)
	}
}
