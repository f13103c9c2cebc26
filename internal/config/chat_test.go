package config

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stoahub/stoa/internal/secret"
)

func TestChatSections(t *testing.T) {
	c, notes, err := loadFiles(t, "testdata/chat.good.yaml")
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	if d := cmp.Diff([]string{"fast", "own", "ollama", "show", "gemini", "openai", "anthropic", "script"}, c.Models.Names()); d != "" {
		t.Error(d)
	}
	want := Model{Name: "fast", Provider: Gemini, Model: "gemini-2.5-flash", APIKey: secret.New("sesame"), Temperature: new(0.2), SystemPrompt: "Be brief.", MaxTokens: 1000, MaxTokenCount: 100000,
		Thinking: 512, MaxRetries: new(0), RetryDelay: 250 * time.Millisecond, Timeout: 20 * time.Second, Headers: map[string]secret.String{"X-Team": secret.New("blue")},
		Price: &Price{new(0.3), new(2.5), new(0.03), nil}, FunctionCalling: true}
	if d := cmp.Diff(want, c.Models.Named[0], cmp.Comparer(sameSecret)); d != "" {
		t.Error(d)
	}
	if m := c.Models.Named[2]; m.Provider != Ollama || c.Models.Named[1].RetryDelay != 2*time.Second {
		t.Errorf("got %+v", m)
	}
	rules := Rules{"ask", []Rule{{Tools: []string{"files:delete_*"}, Action: "deny", Reason: "nothing is deleted here"}, {ReadOnly: new(true), Action: "allow"}}}
	chat := Chat{true, "own", "You help.", new(1.0), 50, 2, 100 * time.Millisecond, 8192, new(0.8), 6, 5, 2, 3, []string{"files", "context_*"}, rules, Texts{"Hi.", "a", "b", "c", "d"}}
	if d := cmp.Diff(chat, c.Chat); d != "" {
		t.Error(d)
	}
	agents := []Agent{
		{Name: "ailumina", Title: "AIlumina", Model: "show", Listed: true},
		{Name: "collaborator", Title: "collaborator", Stock: true},
		{Name: "quiet", Title: "quiet"},
		{Name: "writer", Title: "writer", Description: "Writes.", Model: "anthropic", SystemPrompt: "Write.", Tools: []string{"files"}, Approvals: Rules{Default: "allow"}, Temperature: new(0.0), MaxSteps: 3, MaxTokens: 100, Listed: true},
	}
	words := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".Description" || p.Last().String() == ".SystemPrompt"
	},
		cmp.Comparer(func(a, b string) bool { return a == b || a == "" || b == "" }))
	if d := cmp.Diff(agents, c.Agents, words); d != "" {
		t.Error(d)
	}
	if a := c.Agent("AILUMINA"); a == nil || a.SystemPrompt == "" || c.Agent("crud") != nil || c.Agent("news") != nil {
		t.Errorf("AIlumina is %+v", a)
	}
	var shown bytes.Buffer
	if err := c.Show(&shown, true); err != nil || strings.Contains(shown.String(), "sesame") || strings.Contains(shown.String(), "blue") {
		t.Errorf("%v, or a secret is shown in\n%s", err, &shown)
	}
	for _, want := range []string{`"files:delete_*"`, "chat.good.yaml", `"qwen3:8b"`, `"summarizationThreshold": 0.8`} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("no %s in\n%s", want, &shown)
		}
	}
}

// A later file has the last word on a model and an agent as a whole, and
// variables on nothing that a file says.
func TestChatOfSeveralFiles(t *testing.T) {
	dir := folder(t, "a.yaml", "stoa: 1\nmodels: {m: {provider: gemini, temperature: 1}}\nagents: {w: {model: m, maxSteps: 2}}\n",
		"b.yaml", "stoa: 1\nmodels: {m: {provider: anthropic}}\nagents: {w: {description: d}}\n")
	c, notes := must(t, Options{Dir: dir, Files: []string{"a.yaml", "b.yaml"}, Env: fixed("ANTHROPIC_API_KEY", " k ")})
	want := DefaultModel()
	want.Name, want.Provider = "m", Anthropic
	if d := cmp.Diff([]Model{want}, c.Models.Named, cmp.Comparer(sameSecret)); d != "" || c.Models.Given.Anthropic.Reveal() != "k" {
		t.Error(d, c.Models.Given)
	}
	if d := cmp.Diff(&Agent{Name: "w", Title: "w", Description: "d", Listed: true}, c.Agent("w")); d != "" {
		t.Error(d)
	}
	if len(notes) != 2 {
		t.Errorf("notes: %v", notes)
	}
}

func TestChatByHand(t *testing.T) {
	c := Default()
	c.Models.Named = []Model{{Name: "gemini"}, {Name: "x"}}
	c.Agents = append(c.Agents, Agent{Name: "My Writer", Model: "nobody", Approvals: Rules{Default: "perhaps"}})
	err := c.Validate()
	if err == nil {
		t.Fatal("no problems")
	}
	for _, want := range []string{`/models/x: the model "x" does not say`, `/agents/my-writer/model: there is no model "nobody"`, `/agents/my-writer/approvals/default: unknown value "perhaps"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	c = Default()
	c.Servers = []Server{{Name: "crud", Command: "x", Transport: Stdio}}
	if err := c.Validate(); err != nil || c.Agent("crud") != nil {
		t.Errorf("%v, %+v", err, c.Agents)
	}
	d := Default()
	if diff := cmp.Diff([]string{"AIlumina", "collaborator", "crud", "news"}, agentTitles(&d), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestOllamaAddress(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1:9999": "http://127.0.0.1:9999", "0.0.0.0": "http://127.0.0.1:11434", ":1234": "http://127.0.0.1:1234", "box": "http://box:11434",
		"https://o.example.com": "https://o.example.com:443", "http://h:1/": "http://h:1", "[::1]:8": "http://[::1]:8",
	} {
		if got, problem, _ := ollamaAddress(in); got != want || problem != "" {
			t.Errorf("%s: %s %s", in, got, problem)
		}
	}
}
