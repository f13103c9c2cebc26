package oracle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

const anywhere = "http://provider.test"

// talk is the conversation that sdks ask, in our words.
func talk() llm.Request {
	call := func(id, path, signature string) llm.Part {
		p := llm.Part{Call: &llm.ToolCall{ID: id, Name: "fs_read", Args: []byte(`{"path":"` + path + `"}`)}}
		if signature != "" {
			p.Opaque = &llm.Opaque{Provider: "gemini", Data: []byte(`{"signature":"` + signature + `"}`)}
		}
		return p
	}
	result := func(id, text string, failed bool) llm.Part {
		return llm.Part{Result: &llm.ToolResult{ID: id, Name: "fs_read", Content: text, IsError: failed}}
	}
	return llm.Request{
		System: "Be brief.", Temperature: new(0.5), MaxTokens: 100,
		Messages: []llm.Message{
			llm.Say(llm.User, "Read both."),
			{Role: llm.Assistant, Parts: []llm.Part{{Text: "I will."}, call("c1", "a", "c2lnbmVk"), call("c2", "b", "")}},
			{Role: llm.FromTool, Parts: []llm.Part{result("c1", "AAA", false), result("c2", "no such file", true)}},
			llm.Say(llm.User, "And now?"),
		},
		Tools: []llm.Tool{{Name: "fs_read", Description: "Read a file.", Schema: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"Which."}},"required":["path"]}`)}},
	}
}

// TestRead has SDK and codec read the same bytes. That they agree says both of
// our reader and of the fakes that all other tests rely on.
func TestRead(t *testing.T) {
	calls := []llmtest.Called{{ID: "call_a", Name: "fs_read", Args: []string{`{"path":`, `"ä b"}`}}, {ID: "call_b", Name: "fs_read", Args: []string{`{"path":"x"}`}}}
	for name, said := range map[string]llmtest.Said{
		"text":      {Text: []string{"Grü", "ße, ", "🙂\n\"quoted\"", "."}, Input: 12, Output: 5},
		"reasoning": {Reasoning: []string{"Hm, ", "so."}, Text: []string{"Yes."}, Input: 12, Output: 9},
		"calls":     {Calls: calls, Input: 30, Output: 20},
		"both":      {Text: []string{"I ", "look."}, Calls: calls, Input: 30, Output: 22},
		"cut off":   {Text: []string{"An answer that"}, CutOff: true, Input: 3, Output: 100},
	} {
		for _, api := range llmtest.APIs() {
			t.Run(name+"/"+api.Name, func(t *testing.T) {
				fake := llmtest.NewFake(t, api, llmtest.InTurn(api.Answer(said)))
				client, end := fake.InMemory()
				defer end()
				theirs, err := sdks[api.Name](t.Context(), base(api), client)
				if err != nil {
					t.Fatalf("the SDK: %v", err)
				}
				m, err := ours(api.Name, llm.Options{HTTP: client, BaseURL: base(api)})
				if err != nil {
					t.Fatal(err)
				}
				own, err := byOurs(t.Context(), m, talk())
				if err != nil {
					t.Fatal(err)
				}
				if api.Name == "gemini" { // there are no ids on this wire; ours are made up
					for i, c := range own.Calls {
						_, rest, _ := strings.Cut(c, " ")
						own.Calls[i] = " " + rest
					}
				}
				if d := cmp.Diff(theirs, own); d != "" {
					t.Errorf("(-SDK +ours):\n%s", d)
				}
				if own.Text != strings.Join(said.Text, "") || own.Reasoning != strings.Join(said.Reasoning, "") || len(own.Calls) != len(said.Calls) || own.Input != said.Input || own.Output != said.Output || own.Cut != said.CutOff {
					t.Errorf("said %+v, read %+v", said, own)
				}
			})
		}
	}
}

// base is the address as each provider's users write it.
func base(api llmtest.API) string {
	if api.Name == "openai" {
		return anywhere + "/v1"
	}
	return anywhere
}
