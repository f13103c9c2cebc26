package stoa_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/pkg/stoa"
)

func TestOwnTools(t *testing.T) {
	h := open(t, stoa.Config{})
	type answer = func(ctx context.Context, args json.RawMessage) (any, error)
	add := func(name string, f answer) {
		t.Helper()
		if err := h.AddTool(stoa.Tool{Name: name, Description: "Does " + name + ".", Handler: f}); err != nil {
			t.Fatal(err)
		}
	}
	add("text", func(context.Context, json.RawMessage) (any, error) { return "plain", nil })
	add("args", func(_ context.Context, args json.RawMessage) (any, error) { return args, nil })
	add("list", func(context.Context, json.RawMessage) (any, error) { return []int{1, 2}, nil })
	add("none", func(context.Context, json.RawMessage) (any, error) { return nil, nil })
	add("fail", func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("no luck") })
	add("panic", func(context.Context, json.RawMessage) (any, error) { panic("oh") })
	add("own", func(context.Context, json.RawMessage) (any, error) {
		return &stoa.Result{Content: json.RawMessage(`[{"type":"image","data":"AA==","mimeType":"image/png"}]`), IsError: true}, nil
	})
	add("bad", func(context.Context, json.RawMessage) (any, error) { return make(chan int), nil })
	for tool, want := range map[string]string{
		"text":  `{"content":[{"type":"text","text":"plain"}]}`,
		"args":  `{"content":[{"type":"text","text":"{\"n\":12345678901234567890}"}],"structuredContent":{"n":12345678901234567890}}`,
		"list":  `{"content":[{"type":"text","text":"[1,2]"}]}`,
		"none":  `{"content":[]}`,
		"fail":  `{"content":[{"type":"text","text":"no luck"}],"isError":true}`,
		"panic": `{"content":[{"type":"text","text":"the tool panicked: oh"}],"isError":true}`,
		"own":   `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":true}`,
	} {
		r, err := h.CallTool(t.Context(), stoa.Local, tool, []byte(`{"n":12345678901234567890}`))
		if err != nil {
			t.Errorf("%s: %v", tool, err)
		} else if diff := cmp.Diff(strings.TrimSuffix(want, "}")+`,"resultType":"complete"}`, string(r.Raw)); diff != "" {
			t.Errorf("%s: %s", tool, diff)
		}
	}
	// A client of the older generation gets the same, without what is new.
	post := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"local__text"}}`))
	post.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, post)
	if got := strings.TrimSpace(w.Body.String()); got != `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"plain"}]}}` {
		t.Errorf("by a legacy client: %s", got)
	}
	if _, err := h.CallTool(t.Context(), stoa.Local, "bad", nil); kind(err) != stoa.KindServer {
		t.Errorf("a value that cannot be encoded: %v", err)
	}
	if err := h.AddTool(stoa.Tool{Name: "text", Handler: func(context.Context, json.RawMessage) (any, error) { return nil, nil }}); kind(err) != "invalid_request" {
		t.Errorf("a second tool of one name: %v", err)
	}
	if n := h.RemoveByPrefix("mcp:"); n != 0 {
		t.Errorf("%d own tools were taken for those of servers", n)
	}
	if n := h.RemoveByPrefix("local:te"); n != 1 {
		t.Errorf("%d removed, want 1", n)
	}
	if _, err := h.CallTool(t.Context(), stoa.Local, "text", nil); kind(err) != "unknown_tool" {
		t.Errorf("a removed tool: %v", err)
	}
	if err := h.Discover(t.Context(), stoa.Local); err != nil || len(h.Tools(stoa.FromLocal)) != 7 || len(h.Tools(stoa.FromMCP)) != 0 {
		t.Errorf("own tools after a removal: %v, %v", h.Tools(stoa.FromLocal), err)
	}
}

func TestOwnToolsRefused(t *testing.T) {
	f := func(context.Context, json.RawMessage) (any, error) { return nil, nil }
	h := open(t, stoa.Config{Servers: []stoa.Server{exampleServer("local")}, AutoDiscover: true})
	if err := h.AddTool(stoa.Tool{Name: "x", Handler: f}); err == nil || !strings.Contains(err.Error(), "a server has this name") {
		t.Errorf("own tools beside a server called local: %v", err)
	}
	if got := h.Tools(stoa.FromMCP); len(got) != 2 || got[0].Name != "mcp:local:read_file" {
		t.Errorf("tools of a server called local: %v", got)
	}
	other := open(t, stoa.Config{})
	for _, bad := range []stoa.Tool{
		{Name: "", Handler: f}, {Name: "a b", Handler: f}, {Name: "x"}, {Name: "x", Handler: f, InputSchema: "text"},
		{Name: "x", Handler: f, InputSchema: map[string]any{"type": "array"}}, {Name: "x", Handler: f, InputSchema: []byte(`{"type":"object","required":5}`)},
	} {
		if err := other.AddTool(bad); kind(err) != "invalid_request" {
			t.Errorf("%q with %v: %v", bad.Name, bad.InputSchema, err)
		}
	}
	if err := other.AddTool(stoa.Tool{Name: "x", Handler: f}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Reload(stoa.Config{Servers: []stoa.Server{exampleServer("local")}}); err == nil {
		t.Error("a reload took the name of the program's own tools")
	}
	other.Close()
	if err := other.AddTool(stoa.Tool{Name: "y", Handler: f}); kind(err) != "invalid_request" {
		t.Errorf("a tool for a closed hub: %v", err)
	}
}

// Tools that are added at once are all there when AddTool has returned.
func TestOwnToolsAtOnce(t *testing.T) {
	h := open(t, stoa.Config{})
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			name := fmt.Sprintf("tool%d", i)
			err := h.AddTool(stoa.Tool{Name: name, Handler: func(context.Context, json.RawMessage) (any, error) { return name, nil }})
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := h.CallTool(t.Context(), stoa.Local, name, nil); err != nil || r.Text() != name {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if n := len(h.Tools(stoa.FromLocal)); n != 30 {
		t.Errorf("%d tools, want 30", n)
	}
}
