package stoa_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/pkg/stoa"
)

func TestMain(m *testing.M) {
	peer.Main()
	goleak.VerifyTestMain(m)
}

// stdio is a server of this test binary.
func stdio(id string, spec peer.Spec) stoa.Server {
	command, args, env := peer.Command(spec)
	s := stoa.Server{ID: id, Command: command, Args: args}
	for name, value := range env {
		s.Env = append(s.Env, name+"="+value)
	}
	return s
}

func exampleServer(id string) stoa.Server {
	const text = `{"content":[{"type":"text","text":"the text of the file"}]}`
	return stdio(id, peer.Spec{Name: id, Era: peer.EraLegacy, Tools: []peer.Tool{
		{Name: "read_file", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: text}},
		{Name: "write_file"},
	}})
}

func open(t *testing.T, c stoa.Config) *stoa.Hub {
	t.Helper()
	h, err := stoa.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func kind(err error) string {
	if e, ok := errors.AsType[*stoa.Error](err); ok {
		return e.Kind
	}
	return fmt.Sprint(err)
}

func TestCallTool(t *testing.T) {
	strict := peer.Tool{Name: "strict", RawDefinition: `{"name":"strict","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`}
	tools := []peer.Tool{
		strict, {Name: "echo"},
		{Name: "no", Behaviour: peer.Behaviour{Kind: peer.Verbatim, Raw: `{"content":[{"type":"text","text":"closed"}],"isError":true,"resultType":"complete"}`}},
		{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-32099,"message":"not today","data":{"until":12345678901234567890}}`}},
		{Name: "hang", Behaviour: peer.Do(peer.Hang)},
	}
	for _, era := range []peer.Era{peer.EraLegacy, peer.EraModern, peer.EraBoth} {
		t.Run(string(era), func(t *testing.T) {
			slow := stdio("slow", peer.Spec{Era: era, Tools: tools})
			slow.Timeout = 50 * time.Millisecond
			h := open(t, stoa.Config{Servers: []stoa.Server{stdio("Up Stream", peer.Spec{Era: era, Tools: tools}), slow}, AutoDiscover: true})
			for name, args := range map[string]any{
				"map": map[string]any{"n": 1}, "struct": struct{ N int }{1}, "bytes": []byte(` {"n":1}`), "raw": json.RawMessage(`{"n":12345678901234567890}`),
				"nil": nil, "nil map": map[string]any(nil),
			} {
				if r, err := h.CallTool(t.Context(), "Up Stream", "echo", args); err != nil || r.IsError {
					t.Errorf("%s: %v", name, err)
				} else if name == "raw" && !strings.Contains(string(r.Structured), "12345678901234567890") {
					t.Errorf("a large number became %s", r.Structured)
				}
			}
			ctx := t.Context()
			r, err := h.CallTool(ctx, "up-stream", "no", nil)
			if err != nil || !r.IsError || r.Text() != "closed" || !strings.Contains(string(r.Raw), "isError") {
				t.Errorf("a tool that says no: %+v, %v", r, err)
			}
			_, err = h.CallTool(ctx, "up-stream", "rude", nil)
			if e, _ := errors.AsType[*stoa.Error](err); e == nil || e.Kind != stoa.KindServer || e.Code != -32099 || string(e.Data) != `{"until":12345678901234567890}` {
				t.Errorf("an error of the server: %#v", err)
			}
			for call, want := range map[[2]string]string{
				{"up-stream", "none"}: "unknown_tool", {"none", "echo"}: "unknown_agent", {"up-stream", "strict"}: "invalid_arguments", {"slow", "hang"}: "timeout",
			} {
				if _, err := h.CallTool(ctx, call[0], call[1], nil); kind(err) != want {
					t.Errorf("%v: %v, want %s", call, err, want)
				}
			}
			for _, args := range []any{[]int{1}, "text", func() {}, []byte(`{"a":1,"a":2}`), []byte("{")} {
				if _, err := h.CallTool(ctx, "up-stream", "echo", args); kind(err) != "invalid_arguments" {
					t.Errorf("%T: %v", args, err)
				}
			}
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := h.CallTool(cancelled, "up-stream", "echo", nil); !errors.Is(err, context.Canceled) || kind(err) != "cancelled" {
				t.Errorf("a cancelled call: %v", err)
			}
		})
	}
}

func TestStates(t *testing.T) {
	h := open(t, stoa.Config{AutoDiscover: true, Servers: []stoa.Server{
		exampleServer("good"), {ID: "bad", Command: filepath.Join(t.TempDir(), "missing")},
	}})
	if g, b := h.State("good"), h.State("bad"); g != stoa.StateConnected || b != stoa.StateError && b != stoa.StateConnecting {
		t.Errorf("states: good %s, bad %s", g, b)
	}
	if err := h.Ping(t.Context(), "good"); err != nil {
		t.Errorf("ping: %v", err)
	}
	if err := h.Ping(t.Context(), "bad"); kind(err) != "misconfigured" {
		t.Errorf("ping of one that cannot be started: %v", err)
	}
	if err := h.Ping(t.Context(), "none"); kind(err) != "unknown_agent" {
		t.Errorf("ping of one that is not there: %v", err)
	}
	await.Until(t, "the error is told", func() bool {
		for _, s := range h.Servers() {
			if s.Server == "bad" && s.State == stoa.StateError && s.Error != "" {
				return true
			}
		}
		return false
	})
}

func TestLazy(t *testing.T) {
	h := open(t, stoa.Config{Servers: []stoa.Server{exampleServer("one"), exampleServer("two")}})
	if h.State("one") != stoa.StateDisconnected || len(h.Tools(stoa.FromMCP)) != 0 || h.Stats().Created != 0 {
		t.Fatalf("something was dialled unasked: %+v", h.Servers())
	}
	if _, err := h.CallTool(t.Context(), "one", "read_file", nil); err != nil {
		t.Fatal(err)
	}
	if h.State("one") != stoa.StateConnected || h.State("two") != stoa.StateDisconnected {
		t.Errorf("states: %+v", h.Servers())
	}
	if err := h.Discover(t.Context(), "two"); err != nil || len(h.Tools(stoa.FromMCP)) != 4 {
		t.Errorf("discover: %v, %v", h.Tools(stoa.FromMCP), err)
	}
}

func TestPool(t *testing.T) {
	h := open(t, stoa.Config{AutoDiscover: true, Servers: []stoa.Server{exampleServer("up")}, Pool: stoa.Pool{MaxIdle: time.Millisecond, Sweep: 10 * time.Millisecond}})
	call := func() {
		if _, err := h.CallTool(t.Context(), "up", "read_file", nil); err != nil {
			t.Error(err)
		}
	}
	call()
	await.Until(t, "the idle connection is closed", func() bool { return h.Stats().Reaped > 0 && h.State("up") == stoa.StateDisconnected })
	call()
	if s := h.Stats(); s.Created < 2 || s.Reused < 1 {
		t.Errorf("figures: %+v", s)
	}
}

func TestHandlerGuards(t *testing.T) {
	post := func(h *stoa.Hub, host, token string) int {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, r)
		_, _ = io.Copy(io.Discard, w.Body)
		return w.Code
	}
	plain := open(t, stoa.Config{})
	guarded := open(t, stoa.Config{Token: "a-token-of-some-length"})
	for _, c := range []struct {
		hub         *stoa.Hub
		host, token string
		want        int
	}{
		{plain, "127.0.0.1:9", "", 200}, {plain, "evil.example", "", 403},
		{guarded, "app.example", "", 401}, {guarded, "app.example", "wrong", 401}, {guarded, "app.example", "a-token-of-some-length", 200},
	} {
		if got := post(c.hub, c.host, c.token); got != c.want {
			t.Errorf("host %s, token %q: status %d, want %d", c.host, c.token, got, c.want)
		}
	}
}

func TestLoadConfig(t *testing.T) {
	command, args, env := peer.Command(peer.Spec{Tools: []peer.Tool{{Name: "env", Behaviour: peer.Do(peer.Env)}, {Name: "secret_tool"}}})
	for name, value := range env {
		t.Setenv(name, value)
	}
	t.Setenv("THE_TOKEN", "it is a secret")
	var b strings.Builder
	fmt.Fprintf(&b, "mcp:\n  servers:\n    - id: app\n      command: %q\n      args: [", command)
	for _, a := range args {
		fmt.Fprintf(&b, "%q, ", a)
	}
	b.WriteString("]\n      tools: {deny: [secret_*]}\n      env:\n        - TOKEN=${THE_TOKEN}\n")
	for name := range env {
		fmt.Fprintf(&b, "        - %s=${%s}\n", name, name)
	}
	b.WriteString("  auto_discover: true\n  pool:\n    max_idle_time: 2m\n    cleanup_interval: 30s\n")
	path := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := stoa.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Pool != (stoa.Pool{MaxIdle: 2 * time.Minute, Sweep: 30 * time.Second}) || !c.AutoDiscover {
		t.Errorf("config: %+v", c)
	}
	if s := fmt.Sprintf("%v %+v %#v", c.Servers, c.Servers, c.Servers); strings.Contains(s, "secret") {
		t.Errorf("a secret is printed: %s", s)
	}
	h := open(t, c)
	r, err := h.CallTool(t.Context(), "app", "env", nil)
	if err != nil || !strings.Contains(r.Text(), "it is a secret") {
		t.Errorf("environment: %v, %v", r, err)
	}
	if got := h.Tools(stoa.FromMCP); len(got) != 1 {
		t.Errorf("tools: %v", got)
	}
	if err := os.WriteFile(path, []byte("mcp: {servers: [{id: x, command: y, args: ['${UNSET_VARIABLE}']}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := stoa.LoadConfig(path); kind(err) != stoa.KindConfig || !strings.Contains(err.Error(), "UNSET_VARIABLE") {
		t.Errorf("an unset variable: %v", err)
	}
}

func TestReload(t *testing.T) {
	keep, other := exampleServer("keep"), exampleServer("other")
	h := open(t, stoa.Config{AutoDiscover: true, Servers: []stoa.Server{keep}})
	if err := h.AddTool(stoa.Tool{Name: "x", Handler: func(context.Context, json.RawMessage) (any, error) { return "x", nil }}); err != nil {
		t.Fatal(err)
	}
	changes, err := h.Reload(stoa.Config{AutoDiscover: true, Servers: []stoa.Server{keep, other}})
	if diff := cmp.Diff([]string{"server other added"}, changes); diff != "" || err != nil {
		t.Errorf("changes: %s, %v", diff, err)
	}
	if _, err := h.CallTool(t.Context(), "other", "read_file", nil); err != nil {
		t.Error(err)
	}
	if r, err := h.CallTool(t.Context(), stoa.Local, "x", nil); err != nil || r.Text() != "x" {
		t.Errorf("the program's own tool after a reload: %v", err)
	}
	if _, err := h.Reload(stoa.Config{}); err == nil || !strings.Contains(err.Error(), "autoDiscover cannot change") {
		t.Errorf("what cannot change: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]stoa.Config{
		"neither command nor url": {Servers: []stoa.Server{{ID: "x"}}},
		"both":                    {Servers: []stoa.Server{{ID: "x", Command: "a", URL: "http://b"}}},
		"a reserved name":         {Servers: []stoa.Server{{ID: "plan", Command: "a"}}},
		"two of one name":         {Servers: []stoa.Server{{ID: "x", Command: "a"}, {ID: "X", Command: "a"}}},
		"no pair":                 {Servers: []stoa.Server{{ID: "x", Command: "a", Env: []string{"b"}}}},
		"every origin":            {Origins: []string{"*"}},
	} {
		if _, err := stoa.Open(t.Context(), c); kind(err) != stoa.KindConfig {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stoa.Open(ctx, stoa.Config{AutoDiscover: true, Servers: []stoa.Server{exampleServer("up")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
}
