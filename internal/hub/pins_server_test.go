package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// fickle is a server whose definitions change when a test says so, and may be
// others for clients of other capabilities.
type fickle struct {
	url string

	mu      sync.Mutex
	lists   map[string][]string // method → definitions
	extra   func(capabilities string) []string
	caps    map[string]string // by session
	called  []string
	streams map[chan struct{}]bool
	gate    chan struct{} // calls wait until it is closed; nil: they do not
}

func newFickle(t *testing.T, tools ...string) *fickle {
	t.Helper()
	f := &fickle{lists: map[string][]string{"tools/list": tools}, caps: map[string]string{}, streams: map[chan struct{}]bool{}}
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	f.url = s.URL
	return f
}

// defines is a tool's definition that calls itself read-only.
func defines(name, text string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"n":{"type":"number"}}},"annotations":{"readOnlyHint":true}}`, name, text)
}

// offer makes these the tools from now on, and says so.
func (f *fickle) offer(tools ...string) { f.offers("tools", tools...) }

func (f *fickle) offers(what string, defs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists[what+"/list"] = defs
	for c := range f.streams {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (f *fickle) calls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.called, " ")
}

func (f *fickle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		f.stream(w, r)
		return
	case http.MethodDelete:
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name         string
			Capabilities json.RawMessage
		}
	}
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := f.answer(w, r, m.Method, m.Params.Name, string(m.Params.Capabilities))
	w.Header().Set("Content-Type", "application/json")
	if result == "" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (f *fickle) answer(w http.ResponseWriter, r *http.Request, method, name, capabilities string) string {
	f.mu.Lock()
	session, gate := r.Header.Get("Mcp-Session-Id"), f.gate
	defer f.mu.Unlock()
	switch method {
	case "initialize":
		session = fmt.Sprintf("s%d", len(f.caps)+1)
		f.caps[session] = capabilities
		w.Header().Set("Mcp-Session-Id", session)
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}},"serverInfo":{"name":"fickle","version":"1"}}`
	case "tools/list":
		all := f.lists[method]
		if f.extra != nil {
			all = append(all[:len(all):len(all)], f.extra(f.caps[session])...)
		}
		return `{"tools":[` + strings.Join(all, ",") + `]}`
	case "prompts/list":
		return `{"prompts":[` + strings.Join(f.lists[method], ",") + `]}`
	case "resources/templates/list":
		return `{"resourceTemplates":[` + strings.Join(f.lists[method], ",") + `]}`
	case "resources/list":
		return `{"resources":[]}`
	case "tools/call", "prompts/get", "resources/read":
		f.called = append(f.called, name)
		if gate != nil {
			f.mu.Unlock()
			select {
			case <-gate:
			case <-r.Context().Done():
			}
			f.mu.Lock()
		}
		return map[string]string{"tools/call": `{"content":[{"type":"text","text":"done"}]}`, "prompts/get": `{"messages":[]}`, "resources/read": `{"contents":[]}`}[method]
	}
	return ""
}

// stream tells of changes.
func (f *fickle) stream(w http.ResponseWriter, r *http.Request) {
	changed := make(chan struct{}, 16)
	f.mu.Lock()
	f.streams[changed] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.streams, changed)
		f.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			for _, what := range []string{"tools", "prompts", "resources"} {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/%s/list_changed\"}\n\n", what)
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// pinned is a hub over a fickle server.
func pinned(t *testing.T, f *fickle, mode config.Pin, edits ...hubtest.Edit) apiClient {
	t.Helper()
	h := hubtest.New(t, append([]hubtest.Edit{hubtest.HTTP("up", f.url, func(s *config.Server) { s.Pin = mode }), hubtest.Modules()}, edits...)...)
	c := apiClient{t, h, h.Token}
	await.Until(t, "the tools are read, and changes are heard of", func() bool {
		f.mu.Lock()
		hears := len(f.streams) > 0
		f.mu.Unlock()
		return hears && len(c.tools("?upstream=up").Tools) == len(f.lists["tools/list"])
	})
	return c
}

// pins are how the definitions of the server stand that somebody should look at.
func (c apiClient) pins() string {
	c.t.Helper()
	var out []string
	for _, d := range hubtest.Decode[struct {
		Definitions []struct{ Name, State, Hold string }
	}](c.ok("GET", "/api/v1/definitions", "")).Definitions {
		text := d.Name + " " + d.State
		if d.Hold != "" {
			text += " held"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// pinsAre waits until the definitions that somebody should look at are these.
func (c apiClient) pinsAre(want string) {
	c.t.Helper()
	got := ""
	await.NoError(c.t, "the definitions are judged", func() error {
		if got = c.pins(); got != want {
			return fmt.Errorf("%q, want %q", got, want)
		}
		for _, row := range hubtest.Decode[struct {
			Tools []struct {
				Name string
				Pin  struct{ Open bool }
			}
		}](c.ok("GET", "/api/v1/tools?upstream=up", "")).Tools {
			if row.Pin.Open != strings.Contains(want, row.Name+" ") {
				return fmt.Errorf("%s is not in the catalogue yet as it is judged", row.Name)
			}
		}
		return nil
	})
}

// Whoever cannot see a tool, a prompt or a template cannot read in what changed
// what it says.
func TestHiddenDefinitionsAreNotRead(t *testing.T) {
	hubtest.Parallel(t)
	f := newFickle(t, defines("look", "Looks."))
	f.offers("prompts", `{"name":"greet","description":"Greets."}`)
	f.offers("resources/templates", `{"name":"note","uriTemplate":"note://{x}"}`)
	api := pinned(t, f, config.PinAnnounce, hubtest.Config(func(c *config.Config) {
		c.Policy.Rules.Rules = []config.Rule{
			{Principals: []string{"guest"}, Prompts: []string{"up"}, Action: "deny"},
			{Principals: []string{"guest"}, Resources: []string{"note://*"}, Action: "deny"},
		}
	}))
	guest, friend := tokenFor(t, api.hub, "guest", "*"), tokenFor(t, api.hub, "friend", "*")
	await.Until(t, "the definitions are pinned", func() bool {
		m := api.hub.Client(t, hubtest.ClientOptions{})
		return strings.Contains(string(m.Call("prompts/list", "{}").Raw), "Greets.") && strings.Contains(string(m.Call("resources/templates/list", "{}").Raw), "note://")
	})
	f.offer(defines("look", "Looks twice."))
	f.offers("prompts", `{"name":"greet","description":"The secret word is plum."}`)
	f.offers("resources/templates", `{"name":"note","uriTemplate":"note://{x}","description":"The secret word is pear."}`)
	await.Until(t, "the changes are known", func() bool { return strings.Count(api.pins(), "changed") == 3 })
	if got := friend.pins(); got != api.pins() {
		t.Errorf("who sees all of them reads %s", got)
	}
	if got := string(guest.ok("GET", "/api/v1/definitions", "")); strings.Contains(got, "secret") || strings.Contains(got, "greet") || !strings.Contains(got, "Looks twice.") {
		t.Errorf("a guest reads %s", got)
	}
}
