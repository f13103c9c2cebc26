package models

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked is what a provider was sent.
type asked struct {
	url, key string
	body     []byte
}

// tape answers every request with a refusal and keeps it.
type tape struct{ requests []asked }

func (t *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	a := asked{url: r.URL.String(), key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Goog-Api-Key") + r.Header.Get("X-Api-Key")}
	if r.Body != nil {
		a.body, _ = io.ReadAll(r.Body)
	}
	t.requests = append(t.requests, a)
	return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// load reads a config as the hub does.
func load(t *testing.T, file string, env ...string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stoa.yaml"), []byte("stoa: 1\n"+file), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"HOME": dir}
	for i := 0; i+1 < len(env); i += 2 {
		vars[env[i]] = env[i+1]
	}
	cfg, _, err := config.Load(config.Options{Dir: dir, UserDir: dir, Env: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func open(t *testing.T, cfg *config.Config, rt http.RoundTripper) *Set {
	t.Helper()
	s, err := New(cfg, Options{HTTP: &http.Client{Transport: rt}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(m *Model) error {
	_, err := llm.Collect(m.Stream(context.Background(), llm.Request{Messages: []llm.Message{llm.Say(llm.User, "hi")}}))
	return err
}

// What the file and the environment say decides the model, its address and its
// key.
func TestWhichModel(t *testing.T) {
	keys := []string{"GEMINI_API_KEY", "g", "OPENAI_API_KEY", "o", "ANTHROPIC_API_KEY", "a", "OLLAMA_HOST", "box"}
	for name, tt := range map[string]struct {
		file     string
		env      []string
		tell     string // of the default model
		url, key string // what is asked; "" for nothing
	}{
		"nothing":          {"", nil, "script: no key is set", "", ""},
		"all keys":         {"", keys, "gemini-2.5-flash (gemini)", "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:", "g"},
		"from openai on":   {"", keys[2:], "gpt-4.1-mini (openai)", "https://api.openai.com/v1/chat/completions", "o"},
		"anthropic":        {"", keys[4:], "claude-sonnet-4-5 (anthropic)", "https://api.anthropic.com/v1/messages", "a"},
		"ollama":           {"", keys[6:], "ollama (ollama)", "http://box:11434/api/tags", ""},
		"base alone":       {"", []string{"OPENAI_BASE_URL", "http://llm:1/v1"}, "openai (openai)", "http://llm:1/v1/models", ""},
		"base and key":     {"", []string{"OPENAI_BASE_URL", "http://llm:1/v1", "OPENAI_API_KEY", "o"}, "openai (openai)", "http://llm:1/v1/models", "o"},
		"first of file":    {"models: {b: {provider: anthropic, model: m}, a: {provider: gemini}}", keys, "b (anthropic m)", "https://api.anthropic.com/v1/messages", "a"},
		"default":          {"models: {default: a, b: {provider: anthropic}, a: {provider: gemini, apiKey: own}}", keys, "a (gemini gemini-2.5-flash)", "https://generativelanguage.googleapis.com/", "own"},
		"a provider":       {"models: {default: openai}", keys, "gpt-4.1-mini (openai)", "https://api.openai.com/", "o"},
		"script by choice": {"models: {default: script}", keys, "script", "", ""},
		"no key":           {"models: {a: {provider: gemini}}", nil, "a (gemini gemini-2.5-flash): no key is set: set GEMINI_API_KEY in the environment or in .env, or models.a.apiKey in the config", "", ""},
		// The address is the file's, so the key of the environment stays here.
		"foreign address": {"models: {a: {provider: openai, model: m, baseUrl: 'http://llm:1/v1'}}", keys, "a (openai m)", "http://llm:1/v1/chat/completions", ""},
		"foreign, key":    {"models: {a: {provider: gemini, baseUrl: 'http://llm:1'}}", keys, "a (gemini gemini-2.5-flash): no key is set: write models.a.apiKey into the config", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rt := &tape{}
			s := open(t, load(t, tt.file, tt.env...), rt)
			if got := s.Tell(""); got != tt.tell {
				t.Errorf("it tells %q, want %q", got, tt.tell)
			}
			m, err := s.Get("")
			if err != nil {
				t.Fatal(err)
			}
			err = ask(m)
			if tt.url == "" {
				if len(rt.requests) > 0 {
					t.Errorf("asked %+v", rt.requests)
				}
				if e := (*llm.Error)(nil); m.Missing != "" && (!errors.As(err, &e) || e.Cause != llm.Unset || !strings.Contains(err.Error(), m.Missing) || e.Retryable()) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if len(rt.requests) != 1 || !strings.HasPrefix(rt.requests[0].url, tt.url) || rt.requests[0].key != tt.key {
				t.Errorf("asked %+v, want %s with key %q", rt.requests, tt.url, tt.key)
			}
		})
	}
}

// What a model is called is what its provider is asked for: the defaults are
// known in two places.
func TestNamesAreThoseAsked(t *testing.T) {
	rt := &tape{}
	s := open(t, load(t, "", "GEMINI_API_KEY", "g", "OPENAI_API_KEY", "o", "ANTHROPIC_API_KEY", "a"), rt)
	for _, name := range []string{"gemini", "openai", "anthropic"} {
		m, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if ask(m) == nil || len(rt.requests) == 0 {
			t.Fatalf("%s was not asked", name)
		}
		last := rt.requests[len(rt.requests)-1]
		if !strings.Contains(last.url+string(last.body), m.ID) || !m.Priced || m.Price.Output <= m.Price.Input {
			t.Errorf("%s, called %s, costs %+v and was asked as %s %s", name, m.ID, m.Price, last.url, last.body)
		}
	}
}

func TestSettingsOfAModel(t *testing.T) {
	cfg := load(t, `models:
  full: {provider: openai, model: gpt-4o-2024-08-06, temperature: 0.5, maxTokens: 77, maxTokenCount: 5000, systemPrompt: Be kind., maxRetries: 0, headers: {X-Team: blue}}
  own: {provider: openai, model: gpt-4o, baseUrl: "http://llm:1/v1"}
  paid: {provider: openai, model: x, baseUrl: "http://llm:1/v1", price: {input: 1, output: 2, cacheRead: 0.5}}
  tool: {provider: anthropic, apiKey: k, functionCalling: false}
chat: {maxTokenCount: 9000}
`, "OPENAI_API_KEY", "o")
	rt := &tape{}
	s := open(t, cfg, rt)
	get := func(name string) *Model {
		m, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	full := get("full")
	if full.MaxTokenCount != 5000 || get("own").MaxTokenCount != 9000 || full.SystemPrompt != "Be kind." {
		t.Errorf("got %+v", full)
	}
	for name, want := range map[string]llm.Price{"full": {Input: 2.5, Output: 10, CacheRead: 1.25}, "own": {}, "paid": {Input: 1, Output: 2, CacheRead: 0.5}} {
		if m := get(name); m.Price != want || m.Priced != (want != llm.Price{}) {
			t.Errorf("%s costs %+v", name, m.Price)
		}
	}
	if ask(full) == nil {
		t.Error("a refusal is no answer")
	}
	var body map[string]any
	if err := json.Unmarshal(rt.requests[0].body, &body); err != nil || len(rt.requests) != 1 {
		t.Fatal(err, rt.requests)
	}
	if body["temperature"] != 0.5 || !strings.Contains(string(rt.requests[0].body), "Be kind.") || !strings.Contains(string(rt.requests[0].body), "77") {
		t.Errorf("asked with %s", rt.requests[0].body)
	}
	for range get("tool").Stream(context.Background(), llm.Request{Messages: []llm.Message{llm.Say(llm.User, "hi")}, Tools: []llm.Tool{{Name: "look"}}}) {
	}
	if last := string(rt.requests[len(rt.requests)-1].body); !strings.Contains(last, "```tool") || strings.Contains(last, `"tools"`) {
		t.Errorf("a model without functions was sent %s", last)
	}
	if _, err := s.Get("ful"); err == nil || err.Error() != `there is no model "ful": did you mean "full"?` {
		t.Errorf("got %v", err)
	}
	names := []string{}
	for _, m := range s.All() {
		names = append(names, m.Name)
	}
	if d := cmp.Diff([]string{"full", "own", "paid", "tool", "gemini", "openai", "anthropic", "ollama", "script"}, names); d != "" {
		t.Error(d)
	}
}

// A server that is named by its address alone is asked which models it has.
func TestFirstModelOfAServer(t *testing.T) {
	var asked []string
	empty := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.URL.Path+" "+string(body))
		switch {
		case r.URL.Path != "/v1/models":
			io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		case empty:
			io.WriteString(w, `{"data":[]}`)
		default:
			io.WriteString(w, `{"object":"list","data":[{"id":"tiny"},{"id":"big"}]}`)
		}
	}))
	defer srv.Close()
	s, err := New(load(t, "", "OPENAI_BASE_URL", srv.URL+"/v1"), Options{HTTP: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Get("")
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(m); err == nil || !strings.Contains(err.Error(), "models.openai.model") {
		t.Errorf("a server without models: %v", err)
	}
	empty = false
	for range 2 {
		a, err := llm.Collect(m.Stream(context.Background(), llm.Request{Messages: []llm.Message{llm.Say(llm.User, "hi")}}))
		if err != nil || a.Message.Text() != "hello" {
			t.Fatal(err, a)
		}
	}
	if len(asked) != 4 || !strings.Contains(asked[2], `"tiny"`) || !strings.HasPrefix(asked[3], "/v1/chat/completions") {
		t.Errorf("asked %q", asked)
	}
}

func TestScriptOfAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.txt")
	cfg := config.Default()
	m := config.DefaultModel()
	m.Name, m.Provider, m.Script, m.Pace = "play", config.Script, path, time.Microsecond
	cfg.Models.Named = []config.Model{m}
	if _, err := New(&cfg, Options{}); err == nil {
		t.Error("a script that is not there is taken")
	}
	if err := os.WriteFile(path, []byte("-- one --\nHello.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(&cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get("play")
	if err != nil {
		t.Fatal(err)
	}
	a, err := llm.Collect(got.Stream(context.Background(), llm.Request{Messages: []llm.Message{llm.Say(llm.User, "hi")}}))
	if err != nil || strings.TrimSpace(a.Message.Text()) != "Hello." || s.Tell("") != "play (script script)" {
		t.Errorf("%v %+v %s", err, a, s.Tell(""))
	}
}

// No key is in what a model tells of itself.
func TestKeysAreNotTold(t *testing.T) {
	cfg := config.Default()
	cfg.Models.Given.Gemini = secret.New("hidden")
	rt := &tape{}
	s := open(t, &cfg, rt)
	m, err := s.Get("")
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(m); err == nil || strings.Contains(err.Error(), "hidden") || rt.requests[0].key != "hidden" {
		t.Errorf("%v %+v", err, rt.requests)
	}
}

// limited refuses the first request for its rate, and keeps when each came.
type limited struct {
	mu   sync.Mutex
	came map[string]time.Duration
	from time.Time
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	var asked struct{ Model string }
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first := len(l.came) == 0
	l.came[asked.Model] = time.Since(l.from)
	if first {
		return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"30"}}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}
	return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// A pause that a provider asks for is kept by all models that ask with the same
// key, and by no other.
func TestPausesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := load(t, `models:
  one: {provider: openai, model: one, apiKey: k, maxRetries: 1}
  two: {provider: openai, model: two, apiKey: k}
  other: {provider: openai, model: other, apiKey: j}
`)
		rt := &limited{came: map[string]time.Duration{}, from: time.Now()}
		s := open(t, cfg, rt)
		var wg sync.WaitGroup
		for _, name := range []string{"one", "two", "other"} {
			m, err := s.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if ask(m) == nil {
					t.Error("a refusal is no answer")
				}
			})
			synctest.Wait() // the first has been refused
		}
		wg.Wait()
		if rt.came["two"] < 30*time.Second || rt.came["other"] > time.Second {
			t.Errorf("asked after %v", rt.came)
		}
	})
}
