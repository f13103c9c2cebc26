package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
)

// What a plan's step, a name or a card keeps of a built-in tool's result is all of
// it, though less would be shown.
func TestFilesAreKeptWhole(t *testing.T) {
	hubtest.Parallel(t)
	dir := t.TempDir()
	text := strings.Repeat("0123456789\n", 30_000)
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := hubtest.New(t, hubtest.Modules(), hubtest.Config(func(c *config.Config) {
		c.Modules.File = config.FileModule{Enabled: true, Roots: []string{dir}}
	}))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/s/whole/mcp"})
	same := func(name string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s: of %d bytes %d are written, %v", name, len(text), len(got), err)
		}
	}
	good(t, c.Tool("plan_execute", `{"plan":{"id":"copy","steps":[
		{"id":"read","tool":"file_read","args":{"path":"a.txt"},"outputs":["a"]},
		{"id":"write","tool":"file_write","args":{"path":"step.txt","content":"@a.content"}}]}}`))
	same("step.txt")
	good(t, c.Tool("plan_execute", `{"plan":{"id":"copy","steps":[
		{"id":"read","tool":"tools_batch","args":{"calls":[{"tool":"file_read","arguments":{"path":"a.txt"}}]},"outputs":["a"]},
		{"id":"write","tool":"file_write","args":{"path":"batch.txt","content":"@a.results[0].data.content"}}]}}`))
	same("batch.txt")
	c.Tool("file_read", `{"path":"a.txt","saveAs":"named"}`)
	good(t, c.Tool("file_write", `{"path":"named.txt","content":"@named.content"}`))
	same("named.txt")
	card := c.Tool("file_read", `{"path":"a.txt"}`)
	if !isCard(card) {
		t.Fatalf("a long file is no card: %.300s", card.Raw)
	}
	good(t, c.Tool("file_write", `{"path":"card.txt","content":"@`+cardName(t, card)+`.content"}`))
	same("card.txt")
}

func cardName(t *testing.T, m hubtest.Message) string {
	t.Helper()
	name := hubtest.Decode[struct {
		Meta map[string]struct{ Name string } `json:"_meta"`
	}](m.Result).Meta["stoa/card"].Name
	if name == "" {
		t.Fatalf("it is no card: %.300s", m.Raw)
	}
	return name
}

// What is looked up of a run says what it leaves out where it is shown, and
// leaves nothing out where it is kept.
func TestRunsAreKeptWhole(t *testing.T) {
	hubtest.Parallel(t)
	h, _ := keeping(t, longSpec())
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Face: "/s/runs/mcp"})
	ran := c.Tool("plan_execute", `{"plan":{"id":"p","steps":[{"id":"a","tool":"up__rows","outputs":["rows"]},{"id":"b","tool":"up__lines","outputs":["lines"]}]}}`)
	if strings.Contains(string(ran.Result), "isError") {
		t.Fatalf("%.600s", ran.Raw)
	}
	kept := func(name string) {
		t.Helper()
		got := string(good(t, c.Tool("context_get", `{"name":"`+name+`","whole":true}`)))
		if strings.Count(got, "a row") < 999 || !strings.Contains(got, "the needle 42") || strings.Contains(got, `"cut"`) {
			t.Errorf("%s has %d bytes, and not all: %.600s", name, len(got), got)
		}
	}
	for name, call := range map[string][2]string{
		"status": {"plan_status", `"includeResults":true,"includeContext":true`},
		"debug":  {"plan_debug", `"action":"inspect","step":"a","inspectVariables":true`},
	} {
		c.Tool(call[0], `{`+call[1]+`,"saveAs":"`+name+`"}`)
		kept(name)
		if m := c.Tool(call[0], `{`+call[1]+`}`); isCard(m) {
			kept(cardName(t, m))
		}
	}
	bare := h.Client(t, hubtest.ClientOptions{Era: hubtest.Modern, Header: in("runs")})
	if got := bare.Tool("plan_debug", `{"action":"inspect","step":"a"}`); len(got.Raw) > 64<<10 || !strings.Contains(string(got.Raw), "whole: true") {
		t.Errorf("what is shown: %d bytes, %.300s", len(got.Raw), got.Raw)
	}
}
