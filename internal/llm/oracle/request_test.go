package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	claude "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"
	"github.com/ollama/ollama/api"
	gpt "github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// sent returns the body that ask sends.
func sent(t *testing.T, provider llmtest.API, ask func(fake *llmtest.Fake) error) []byte {
	t.Helper()
	fake := llmtest.NewFake(t, provider, llmtest.InTurn(provider.Answer(llmtest.Said{Text: []string{"Fine."}, Input: 1, Output: 1})))
	if err := ask(fake); err != nil {
		t.Fatal(err)
	}
	asked := fake.Asked()
	if len(asked) != 1 {
		t.Fatalf("%d requests", len(asked))
	}
	return asked[0].Body
}

func sentByOurs(t *testing.T, provider llmtest.API, o llm.Options, req llm.Request) []byte {
	t.Helper()
	return sent(t, provider, func(fake *llmtest.Fake) error {
		client, end := fake.InMemory()
		defer end()
		o.HTTP, o.BaseURL = client, base(provider)
		m, err := ours(provider.Name, o)
		if err != nil {
			return err
		}
		_, err = byOurs(t.Context(), m, req)
		return err
	})
}

// TestSent compares what we send with what the SDK sends for the same
// conversation, but for what plain says to mean the same.
func TestSent(t *testing.T) {
	for _, provider := range llmtest.APIs() {
		t.Run(provider.Name, func(t *testing.T) {
			theirs := sent(t, provider, func(fake *llmtest.Fake) error {
				client, end := fake.InMemory()
				defer end()
				_, err := sdks[provider.Name](t.Context(), base(provider), client)
				return err
			})
			own := sentByOurs(t, provider, llm.Options{}, talk())
			if d := cmp.Diff(plain(t, provider.Name, theirs), plain(t, provider.Name, own)); d != "" {
				t.Errorf("(-SDK +ours):\n%s", d)
			}
		})
	}
}

// plain decodes a body and takes out what is a default, or the longer way to
// say the same.
func plain(t *testing.T, provider string, body []byte) any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	switch provider {
	case "openai":
		each(v["messages"], "", func(m map[string]any) {
			if m["content"] == nil { // optional beside calls
				delete(m, "content")
			}
		})
	case "anthropic":
		if s, ok := v["system"].(string); ok { // a string is short for one block of text
			v["system"] = []any{map[string]any{"type": "text", "text": s}}
		}
		each(v["messages"], "content", func(block map[string]any) {
			if block["is_error"] == false {
				delete(block, "is_error")
			}
		})
	case "gemini":
		if s, ok := v["systemInstruction"].(map[string]any); ok && s["role"] == "user" {
			delete(s, "role") // the default
		}
		each(v["contents"], "parts", func(part map[string]any) {
			call, _ := part["functionCall"].(map[string]any)
			if args, _ := call["args"].(map[string]any); len(args) == 0 {
				delete(call, "args") // optional
			}
		})
	case "ollama":
		each(v["tools"], "", func(tool map[string]any) { // of a schema the server keeps what its types have
			dropKey(tool, "minimum")
		})
		each(v["messages"], "tool_calls", func(call map[string]any) {
			delete(call["function"].(map[string]any), "index") // the SDK's zero, which it always writes
		})
	}
	return v
}

// dropKey removes a member wherever it is.
func dropKey(v any, key string) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, key)
		for _, m := range v {
			dropKey(m, key)
		}
	case []any:
		for _, e := range v {
			dropKey(e, key)
		}
	}
}

// each calls f for every object of a list or, with a key, in the lists under it.
func each(list any, key string, f func(map[string]any)) {
	objects, _ := list.([]any)
	for _, o := range objects {
		if key == "" {
			f(o.(map[string]any))
			continue
		}
		members, _ := o.(map[string]any)[key].([]any)
		for _, m := range members {
			f(m.(map[string]any))
		}
	}
}

// kinds are the types in which each SDK keeps a request. Decoding is strict, or
// loses what the type does not have, which shows when it is written again.
var kinds = map[string]func() any{
	"openai":    func() any { return &gpt.ChatCompletionNewParams{} },
	"anthropic": func() any { return &claude.MessageNewParams{} },
	"ollama":    func() any { return &api.ChatRequest{} },
	"gemini": func() any {
		return &struct {
			Contents          []*genai.Content        `json:"contents"`
			SystemInstruction *genai.Content          `json:"systemInstruction,omitempty"`
			Tools             []*genai.Tool           `json:"tools,omitempty"`
			ToolConfig        *genai.ToolConfig       `json:"toolConfig,omitempty"`
			GenerationConfig  *genai.GenerationConfig `json:"generationConfig,omitempty"`
		}{}
	},
}

// TestKnown has each SDK read every kind of request that we make, and write it
// again: nothing that we send is unknown to it.
func TestKnown(t *testing.T) {
	odd := talk()
	odd.Tools = append(odd.Tools, llm.Tool{Name: "a/b", Schema: []byte(`{"type":"object","properties":{"n":{"type":["integer","null"],"minimum":1},"list":{"type":"array","items":{"type":"string","enum":["x","y"]}},"o":{"type":"object","properties":{"p":{"type":"boolean"}}}}}`)}, llm.Tool{Name: "none"})
	forced, named, never := odd, odd, odd
	forced.ToolChoice, named.ToolChoice, named.ToolName, never.ToolChoice = llm.Always, llm.Always, "a/b", llm.None
	thought := talk()
	thought.Messages = append(thought.Messages,
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{
			{Reasoning: "Hm.", Opaque: &llm.Opaque{Provider: "anthropic", Data: []byte(`{"type":"thinking","thinking":"Hm.","signature":"c2ln"}`)}},
			{Call: &llm.ToolCall{ID: "c3", Name: "fs_read", Args: []byte(`{}`)}, Opaque: &llm.Opaque{Provider: "gemini", Data: []byte(`{"id":"g3","signature":"c2ln"}`)}},
		}},
		llm.Message{Role: llm.FromTool, Parts: []llm.Part{{Result: &llm.ToolResult{ID: "c3", Name: "fs_read"}}}})
	for name, tc := range map[string]struct {
		req llm.Request
		o   llm.Options
	}{
		"talk": {req: talk()}, "tools": {req: odd}, "forced": {req: forced}, "named": {req: named}, "never": {req: never},
		"thinking": {req: talk(), o: llm.Options{Thinking: 2000}}, "thought": {req: thought, o: llm.Options{Thinking: 2000}}, "small": {req: llm.Request{Messages: []llm.Message{llm.Say(llm.User, "q")}}},
	} {
		for _, provider := range llmtest.APIs() {
			t.Run(name+"/"+provider.Name, func(t *testing.T) {
				body := sentByOurs(t, provider, tc.o, tc.req)
				if err := roundTrip(t, provider.Name, body, kinds[provider.Name]()); err != nil {
					t.Errorf("%v\n%s", err, body)
				}
			})
		}
	}
}

func roundTrip(t *testing.T, provider string, body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the SDK cannot read this: %w", err)
	}
	again, err := json.Marshal(into)
	if err != nil {
		return fmt.Errorf("the SDK cannot write what it read: %w", err)
	}
	if p, ok := into.(*gpt.ChatCompletionNewParams); ok && bytes.Contains(body, []byte(`"tool_choice":{`)) {
		// The SDK cannot tell by the bytes which of its three kinds of choice this
		// is, and writes only what they share; so it is made anew, by its own means.
		p.ToolChoice = gpt.ToolChoiceOptionFunctionToolChoice(gpt.ChatCompletionNamedToolChoiceFunctionParam{Name: "a_b"})
		if again, err = json.Marshal(p); err != nil {
			return err
		}
	}
	var streamed map[string]any
	if err := json.Unmarshal(again, &streamed); err != nil {
		return err
	}
	if provider == "openai" || provider == "anthropic" { // the method says so, not the parameters
		streamed["stream"] = true
	}
	if again, err = json.Marshal(streamed); err != nil {
		return err
	}
	if diff := cmp.Diff(plain(t, provider, body), plain(t, provider, again)); diff != "" {
		return fmt.Errorf("what the SDK does not know is lost (-ours +SDK):\n%s", diff)
	}
	return nil
}
