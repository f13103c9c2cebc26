package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/secret"
)

// recorded is a server that offers what a real one did, and echoes. Its results
// are as long as those of real ones.
func recorded(t testing.TB, file string) peer.Spec {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	spec := peer.Spec{Name: strings.TrimSuffix(file, ".json")}
	for _, raw := range hubtest.Decode[struct{ Tools []json.RawMessage }](b).Tools {
		name := hubtest.Decode[struct{ Name string }](raw).Name
		spec.Tools = append(spec.Tools, peer.Tool{Name: name, RawDefinition: peer.Raw(raw)})
	}
	return spec
}

// hostFiles are the two files of the example configuration, as its manual has
// them, but for where the servers and the model are.
func hostFiles(t *testing.T, tokens int, model string, ups ...hubtest.Edit) hubtest.Edit {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mcp.json": `{"servers": {
  "filesystem": {"id": "filesystem", "type": "local", "transport": "stdio", "command": "npx", "args": ["@modelcontextprotocol/server-filesystem"], "timeoutMs": 10000},
  "github": {"id": "github", "type": "remote", "transport": "http", "url": "http://github-mcp.example.com", "timeoutMs": 15000}}}`,
		".env": fmt.Sprintf("GEMINI_API_KEY=your_api_key_here\nMCP_JSON_PATH=./mcp.json\nLOG_LEVEL=info\nPORT=3000\nMAX_TOKEN_COUNT=%d\nDEFAULT_TOOL_TIMEOUT_MS=5000\n", tokens),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, _, err := config.Load(config.Options{Dir: dir, UserDir: dir, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return func(s *hubtest.Setup) {
		cfg.Listen, cfg.Data, cfg.Servers = s.Config.Listen, s.Config.Data, nil
		fake := config.DefaultModel()
		fake.Name, fake.Provider, fake.BaseURL, fake.APIKey = "fake", config.Gemini, model, secret.New("k")
		cfg.Models.Named, cfg.Chat.Model = append(cfg.Models.Named, fake), "fake"
		s.Config = *cfg
		for _, up := range ups {
			up(s)
		}
	}
}

// counted is a request that the model got.
type counted struct {
	tokens int    // four characters each
	text   string // all of it
	tools  []string
	first  string // how the history begins
}

func count(t testing.TB, body []byte) counted {
	t.Helper()
	req := hubtest.Decode[struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct{ Text string }
		}
	}](body)
	c := counted{tokens: len([]rune(string(body))) / 4, text: string(body)}
	for _, one := range req.Tools {
		for _, f := range one.FunctionDeclarations {
			c.tools = append(c.tools, f.Name)
		}
	}
	if len(req.Contents) > 0 && len(req.Contents[0].Parts) > 0 {
		c.first = req.Contents[0].Parts[0].Text
	}
	return c
}

// note reads on to the next note of a kind, and returns what it says.
func (c *talk) note(kind string) string {
	c.t.Helper()
	for {
		f, _ := c.until("note")
		note := hubtest.Decode[struct {
			Payload struct{ Note struct{ Kind, Text string } }
		}]([]byte(f.raw)).Payload.Note
		if note.Kind == kind {
			return note.Text
		}
	}
}

// sizing is a model that calls a tool in each turn before it answers, and
// counts what it is sent.
type sizing struct {
	*llmtest.Fake
	t   *testing.T
	url string
}

func newCounting(t *testing.T, tool, args string) *sizing {
	t.Helper()
	c := &sizing{t: t}
	c.Fake = llmtest.NewFake(t, llmtest.Gemini, func(n int, a llmtest.Asked) llmtest.Reply {
		said := llmtest.Said{Input: len(a.Body) / 4, Output: 50}
		if n%2 == 0 {
			said.Calls = []llmtest.Called{{Name: tool, Args: []string{strings.ReplaceAll(args, "N", fmt.Sprint(n))}}}
		} else {
			said.Text = []string{fmt.Sprintf("Answer %d: ", n/2) + strings.Repeat("so it is. ", 20)}
		}
		return c.Answer(said)
	})
	srv := httptest.NewServer(c.Fake)
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

func (c *sizing) requests() (all []counted) {
	for _, a := range c.Asked() {
		all = append(all, count(c.t, a.Body))
	}
	return all
}

const window = 8192

// The example configuration of a chat host, with real catalogues, holds a
// conversation of 20 turns with tools in 8,192 tokens. No request takes more than
// that and the answer have room in; what the user said last is always there; what
// goes is what is oldest; and no description is sent twice.
func TestTwentyTurnsInASmallWindow(t *testing.T) {
	hubtest.Parallel(t)
	files := hubtest.Stdio("filesystem", recorded(t, "filesystem.json"))
	memory := func(name string) hubtest.Edit {
		return hubtest.HTTP(name, peer.Serve(t, recorded(t, "memory.json")).URL)
	}
	t.Run("two servers", func(t *testing.T) { twentyTurns(t, 23, files, memory("github")) })
	many := []hubtest.Edit{files}
	for i := range 8 {
		many = append(many, memory(fmt.Sprintf("kb%d", i)))
	}
	t.Run("nine servers", func(t *testing.T) { twentyTurns(t, 15, many...) })
}

// twentyTurns has a conversation in which the model is told of at least so many
// tools each time.
func twentyTurns(t *testing.T, tools int, ups ...hubtest.Edit) {
	model := newCounting(t, "filesystem__write_file", `{"path":"/notes/N.md","content":"`+strings.Repeat("some words of a file. ", 60)+`"}`)
	h := hubtest.New(t, hostFiles(t, window, model.url, ups...))
	for _, s := range h.Upstreams() {
		settled(t, h, s.Name)
	}
	c := dial(t, h, "/ws?sessionId=work")
	const turns, kept = 20, 2
	first := 0 // the oldest turn that the model was shown
	for turn := range turns {
		if turn%8 == 7 { // a socket may not say too much at once
			c = dial(t, h, "/ws?sessionId=work")
		}
		if got := c.say(fmt.Sprintf("Please write file number-%d for me.", turn)); !strings.HasPrefix(got, fmt.Sprintf("Answer %d", turn)) {
			t.Fatalf("turn %d: %s", turn, got)
		}
		_, b := h.Get("/api/chat/work")
		used := hubtest.Decode[struct {
			Context struct{ Used, Limit, System, Tools, History int }
		}](b).Context
		if used.Used > window-window/8 || used.Limit != window || used.Used == 0 {
			t.Errorf("turn %d: by the hub's own sizing: %+v", turn, used)
		}
		if turn == 0 {
			t.Logf("at the end of the first turn: %+v", used)
		}
		reqs := model.requests()
		last := reqs[len(reqs)-1]
		for back := range min(turn+1, kept+1) {
			if words := fmt.Sprintf("number-%d for", turn-back); !strings.Contains(last.text, words) {
				t.Errorf("turn %d: what the user said %d turns ago is lost", turn, back)
			}
		}
		oldest := turn
		for oldest > 0 && strings.Contains(last.text, fmt.Sprintf("number-%d for", oldest-1)) {
			oldest--
		}
		for i := range oldest {
			if strings.Contains(last.text, fmt.Sprintf("number-%d for", i)) {
				t.Errorf("turn %d: turn %d is shown, though a later one is not", turn, i)
			}
		}
		if oldest < first {
			t.Errorf("turn %d: turn %d is back", turn, oldest)
		}
		first = oldest
	}
	if first == 0 {
		t.Error("nothing was ever left out: the test says nothing")
	}
	reqs := model.requests()
	t.Logf("the first request takes %d tokens and names %d tools; the model is shown turns %d to %d at the end", reqs[0].tokens, len(reqs[0].tools), first, turns-1)
	for i, r := range reqs {
		if r.tokens > window-window/8 {
			t.Errorf("request %d takes %d tokens", i, r.tokens)
		}
		if n := strings.Count(r.text, "Create a new file or completely overwrite"); n != 1 {
			t.Errorf("request %d: the description of a tool is there %d times", i, n)
		}
		if len(r.tools) < tools || strings.Contains(r.text, "plan_create") {
			t.Errorf("request %d: the tools are %v", i, r.tools)
		}
	}
}

// With more tools than a window can hold, the model is told of those that
// matter, can find others, and the user is told so.
func TestMoreToolsThanFit(t *testing.T) {
	hubtest.Parallel(t)
	model := newCounting(t, "tools_search", `{"query":"open several nodes"}`)
	var ups []hubtest.Edit
	for i := range 8 {
		name := fmt.Sprintf("kb%d", i)
		ups = append(ups, hubtest.HTTP(name, peer.Serve(t, recorded(t, "memory.json")).URL))
	}
	ups = append(ups, hubtest.HTTP("filesystem", peer.Serve(t, recorded(t, "filesystem.json")).URL))
	h := hubtest.New(t, hostFiles(t, window, model.url, ups...))
	settled(t, h, "filesystem", "kb0", "kb7")
	c := dial(t, h, "/ws")
	c.next()
	c.send(`{"type":"message","payload":{"text":"hello"}}`)
	note := c.note("left_out")
	for _, want := range []string{"86 tools", "8192", "MAX_TOKEN_COUNT"} {
		if !strings.Contains(note, want) {
			t.Errorf("the user is told %q", note)
		}
	}
	c.until("turn.ended")
	c.say("Please rename the file a.txt to b.txt by moving it.")
	reqs := model.requests()
	for i, r := range reqs {
		if r.tokens > window-window/8 || !strings.Contains(r.text, `"tools_search"`) || len(r.tools) < 10 || len(r.tools) > 60 {
			t.Errorf("request %d: %d tokens, %v", i, r.tokens, r.tools)
		}
	}
	if last := reqs[len(reqs)-1]; !strings.Contains(strings.Join(last.tools, " "), "filesystem__move_file") {
		t.Errorf("the tool that matters is not among %v", last.tools)
	}
}

// A window in which nothing fits is told by figures and by the setting.
func TestAWindowInWhichNothingFits(t *testing.T) {
	hubtest.Parallel(t)
	model := newCounting(t, "x", "{}")
	h := hubtest.New(t, hostFiles(t, 256, model.url, hubtest.HTTP("filesystem", peer.Serve(t, recorded(t, "filesystem.json")).URL)))
	settled(t, h, "filesystem")
	c := dial(t, h, "/ws")
	c.next()
	got := c.say(strings.Repeat("a long text ", 200))
	for _, want := range []string{"too long", "256", "chat.maxTokenCount", "MAX_TOKEN_COUNT"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if n := len(model.Asked()); n > 0 {
		t.Errorf("the model was asked %d times", n)
	}
}
