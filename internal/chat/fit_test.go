package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/schema"
)

// A schema that was made brief has the same arguments and accepts what the whole
// one does.
func TestBriefSchema(t *testing.T) {
	whole := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"required":["path","title"],"properties":{
		"path":{"type":"string","description":"Where it is. It has to be inside one of the folders that are allowed, which another tool lists."},
		"title":{"type":"string","title":"Title","description":"A property that is called like a keyword"},
		"default":{"anyOf":[{"type":"integer","minimum":9007199254740993,"description":"` + strings.Repeat("many words ", 20) + `"},{"type":"null"}],"default":null},
		"edits":{"type":"array","items":{"type":"object","properties":{"old":{"type":"string","examples":["a"]}},"additionalProperties":{"type":"string","description":"kept. Not this."}}}}}`
	got := string(briefSchema(json.RawMessage(whole)))
	want := `{"properties":{` +
		`"default":{"anyOf":[{"description":"` + strings.Repeat("many words ", 20)[:briefArg] + `…","minimum":9007199254740993,"type":"integer"},{"type":"null"}]},` +
		`"edits":{"items":{"additionalProperties":{"description":"kept.","type":"string"},"properties":{"old":{"type":"string"}},"type":"object"},"type":"array"},` +
		`"path":{"description":"Where it is.","type":"string"},` +
		`"title":{"description":"A property that is called like a keyword","type":"string"}},"required":["path","title"],"type":"object"}`
	if got != want {
		t.Errorf("it is\n%s\nnot\n%s", got, want)
	}
	if _, err := schema.Compile([]byte(got)); err != nil {
		t.Error(err)
	}
	for _, raw := range []string{``, `true`, `[1`, `{"type":"object"}`} {
		if got := string(briefSchema(json.RawMessage(raw))); got != raw {
			t.Errorf("of %s: %s", raw, got)
		}
	}
}

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{
		"Reads a file. Use it often.":     "Reads a file.",
		"  Reads v1.2 of it\nand more":    "Reads v1.2 of it",
		strings.Repeat("a", 200):          strings.Repeat("a", 20) + "…",
		"":                                "",
		"Äußerst lange Wörter überall da": "Äußerst lange Wör…",
	} {
		if got := sentence(text, 20); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// What was used or found comes first, the newest before; then what the user
// spoke of; then each server gets its turn.
func TestRelevant(t *testing.T) {
	var tools []llm.Tool
	for _, name := range []string{"a__one", "a__two", "a__three", "b__one", "b__write", "c__send"} {
		tools = append(tools, llm.Tool{Name: name, Description: "Does " + strings.TrimLeft(name, "abc_") + "."})
	}
	order := func(history ...llm.Message) string {
		var out []string
		for _, i := range relevant(history, tools) {
			out = append(out, tools[i].Name)
		}
		return strings.Join(out, " ")
	}
	call := func(name string) llm.Message {
		return llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.ToolCall{Name: name}}}}
	}
	found := llm.Message{Role: llm.FromTool, Parts: []llm.Part{{Result: &llm.ToolResult{Name: searchTool, Content: `{"tools":[{"name":"a__three"}]}`}}}}
	for want, history := range map[string][]llm.Message{
		"a__one b__one c__send a__two b__write a__three": {llm.Say(llm.User, "hello")},
		"c__send a__one b__one a__two b__write a__three": {llm.Say(llm.User, "hello"), llm.Say(llm.Assistant, "write"), llm.Say(llm.User, "send it")},
		"a__three b__write a__two c__send a__one b__one": {llm.Say(llm.User, "send"), call("a__two"), call("nobody__s"), call("b__write"), found},
		"b__write a__one b__one c__send a__two a__three": {llm.Say(llm.User, "write"), llm.Say(llm.User, "x"), llm.Say(llm.User, "y")},
	} {
		if got := order(history...); got != want {
			t.Errorf("%d messages: %s\nnot %s", len(history), got, want)
		}
	}
	if got := relevant(nil, nil); len(got) != 0 {
		t.Error(got)
	}
}

// Whatever comes at once, a request leaves room for the answer, the user's words
// are in it, and the turn is answered.
func TestMuchAtOnce(t *testing.T) {
	const window = 2048
	long := strings.Repeat("word ", 2000)
	for name, tc := range map[string]struct {
		words  string
		before int // turns with long results
		answer answer
	}{
		"five results":           {"go", 0, says("", `srv__long {"n":1}`, `srv__long {"n":2}`, `srv__long {"n":3}`, `srv__long {"n":4}`, `srv__long {"n":5}`)},
		"five results, later":    {"go", 3, says("", `srv__long {"n":1}`, `srv__long {"n":2}`, `srv__long {"n":3}`, `srv__long {"n":4}`, `srv__long {"n":5}`)},
		"long words":             {"go " + long[:6000], 0, says("", "srv__echo")},
		"long words, and result": {"go " + long[:4000], 2, says("", `srv__long {"n":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			var answers []answer
			for range tc.before {
				answers = append(answers, says("", `srv__long {"n":0}`), says("so"))
			}
			m := &spoken{answers: append(answers, tc.answer, says("done"))}
			s := newStage(t, staged{model: m, window: window})
			s.shop.add("srv__long", `{"readOnlyHint":true}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) { return long, nil })
			for i := range 40 {
				s.shop.add(fmt.Sprintf("many__tool_with_a_long_name_%d", i), `{"readOnlyHint":true}`, nil)
			}
			c := s.open("one")
			for i := range tc.before {
				s.send(c, fmt.Sprintf("before %d", i))
				s.turns(c, i+1)
			}
			s.send(c, tc.words)
			s.turns(c, tc.before+1)
			if st := s.state(c); st.Last.Reason != ReasonDone {
				t.Fatalf("%+v", st.Last)
			}
			for i, req := range m.requests() {
				if n := takes(req); n > window-window/8 {
					t.Errorf("request %d takes %d tokens", i, n)
				}
				if err := paired(req.Messages); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
			reqs := m.requests()
			last := reqs[len(reqs)-1]
			if !slices.ContainsFunc(last.Messages, func(m llm.Message) bool { return m.Text() == tc.words }) {
				t.Error("what the user said is not in the last request")
			}
		})
	}
}

// What servers say of their tools cannot fill the window, and what is cut is told.
func TestLongGuidance(t *testing.T) {
	const window = 4096
	m := &spoken{answers: []answer{says("ok")}}
	s := newStage(t, staged{model: m, window: window})
	s.shop.add("other__look", `{"readOnlyHint":true}`, nil)
	s.shop.prompts = map[string]string{}
	for _, server := range []string{"srv", "other"} {
		said, _ := json.Marshal("First words of " + server + ". " + strings.Repeat("many words ", 2000) + "Last words of " + server + ".")
		s.shop.prompts[server+"__tool-descriptions"] = fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":%s}}]}`, said)
	}
	c := s.open("one")
	for i := range 2 {
		s.send(c, "hello")
		s.turns(c, i+1)
	}
	if st := s.state(c); st.Last.Reason != ReasonDone {
		t.Fatalf("%+v", st.Last)
	}
	req := m.requests()[0]
	if n := takes(req); n > window/2 {
		t.Errorf("it takes %d tokens", n)
	}
	for _, want := range []string{"First words of srv.", "Last words of srv.", "First words of other.", "Last words of other.", rules} {
		if !strings.Contains(req.System, want) {
			t.Errorf("%q is not in\n%s", want, req.System)
		}
	}
	log := describe(s.log(c))
	if got := strings.Count(log, "note left_out"); got != 1 || !strings.Contains(log, " bytes, of which a model that may have 4096 tokens (models.script.maxTokenCount) is told 2048") {
		t.Errorf("told %d times: %s", got, log)
	}
}

// The limit that counts is the one that is named.
func TestLimitKey(t *testing.T) {
	for _, tc := range []struct {
		model, chat, limit int
		key                string
	}{{0, 8192, 8192, "chat.maxTokenCount, MAX_TOKEN_COUNT"}, {4096, 8192, 4096, "models.m.maxTokenCount"}, {8192, 4096, 4096, "chat.maxTokenCount, MAX_TOKEN_COUNT"}, {4096, 0, 4096, "models.m.maxTokenCount"}} {
		tn := &turn{s: &Settings{MaxTokenCount: tc.chat}, model: Model{Name: "m", MaxTokenCount: tc.model}}
		if got := fmt.Sprint(tn.limit(), tn.limitKey(), tn.room()); got != fmt.Sprint(tc.limit, tc.key, tc.limit-tc.limit/8) {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}
