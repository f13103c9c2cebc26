package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/llm"
)

// Rule is something that a provider publishes about histories, by its manual,
// the comments of its own SDK, or the words with which its server refuses what
// breaks it: HTTP 400, after which the conversation cannot go on.
type Rule[B any] struct {
	Name   string
	Source string          // where it can be read
	Holds  func(b B) error // nil if the body keeps to it
}

// checkAll reads a body and holds it to rules, in order.
func checkAll[B any](body []byte, rules []Rule[B]) error {
	var b B
	if err := json.Unmarshal(body, &b); err != nil {
		return fmt.Errorf("form: %w", err)
	}
	for _, r := range rules {
		if err := r.Holds(b); err != nil {
			return fmt.Errorf("%s: %w (see %s)", r.Name, err, r.Source)
		}
	}
	return nil
}

// plainName is what OpenAI and Anthropic take for the name of a tool.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Histories holds the bodies that a provider makes of any history, once that is
// repaired, to the provider's rules.
func Histories(t *testing.T, body func(llm.Request) any, check func([]byte) error) {
	rapid.Check(t, func(t *rapid.T) {
		req := llm.Request{Model: "m", MaxTokens: 10, Messages: llm.Repair(History(t), "The call was cancelled.")}
		if !says(req.Messages) {
			return
		}
		b, err := json.Marshal(body(req))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(b); err != nil {
			t.Fatalf("%v\nin %s", err, b)
		}
	})
}

// says reports whether there is anything to send.
func says(messages []llm.Message) bool {
	for _, m := range messages {
		if strings.TrimSpace(m.Text()) != "" || len(m.Calls()) > 0 {
			return true
		}
	}
	return false
}

// History draws a history as bad as they come: of several providers, cut off
// anywhere, with ids that are used again, names that nobody takes, and text
// that says nothing.
func History(t *rapid.T) []llm.Message {
	id := rapid.SampledFrom([]string{"call_0", "call_1", "a:b", "a_b", "", strings.Repeat("long", 20), strings.Repeat("long", 20) + "er"})
	name := rapid.SampledFrom([]string{"fs:read", "fs_read", "7up", "", "ü", strings.Repeat("name", 30)})
	text := rapid.SampledFrom([]string{"hello", "", " ", "\n", "ü"})
	opaque := rapid.SampledFrom([]*llm.Opaque{
		nil, {Provider: "gemini", Data: json.RawMessage(`{"signature":"c2ln"}`)}, {Provider: "gemini", Data: json.RawMessage(`{"id":"g1"}`)}, {Provider: "openai", Data: json.RawMessage(`"reasoning_content"`)},
		{Provider: "anthropic", Data: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"x"}`)}, {Provider: "ollama", Data: json.RawMessage(`true`)},
	})
	part := rapid.Custom(func(t *rapid.T) llm.Part {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return llm.Part{Call: &llm.ToolCall{ID: id.Draw(t, "id"), Name: name.Draw(t, "name"), Args: json.RawMessage(`{}`)}, Opaque: opaque.Draw(t, "opaque")}
		case 1:
			return llm.Part{Result: &llm.ToolResult{ID: id.Draw(t, "id"), Name: name.Draw(t, "name"), Content: text.Draw(t, "text")}}
		case 2:
			return llm.Part{Reasoning: text.Draw(t, "text"), Opaque: opaque.Draw(t, "opaque")}
		}
		return llm.Part{Text: text.Draw(t, "text")}
	})
	var list []llm.Message
	for range rapid.IntRange(1, 10).Draw(t, "messages") {
		role := rapid.SampledFrom([]llm.Role{llm.User, llm.Assistant, llm.Assistant, llm.FromTool, llm.FromTool}).Draw(t, "role")
		list = append(list, llm.Message{Role: role, Parts: rapid.SliceOfN(part, 0, 5).Draw(t, "parts")})
	}
	return list
}
