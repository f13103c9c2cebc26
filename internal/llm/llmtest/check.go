package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/llm"
)

// A checker holds the body of a request to the rules that its provider
// publishes for histories. What breaks one is refused there with HTTP 400, and
// the conversation cannot go on.

// CheckOpenAI holds to the rules of POST /v1/chat/completions.
func CheckOpenAI(body []byte) error {
	var r struct {
		Messages []struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Type     string `json:"type"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
			ToolCallID string `json:"tool_call_id"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if len(r.Messages) == 0 {
		return errors.New("messages: there has to be one")
	}
	open := map[string]bool{}
	for i, m := range r.Messages {
		// "An assistant message with 'tool_calls' must be followed by tool
		// messages responding to each 'tool_call_id'."
		if m.Role != "tool" && len(open) > 0 {
			return fmt.Errorf("messages.%d: calls %v have no result", i, open)
		}
		switch m.Role {
		case "system", "user":
			if m.Content == nil {
				return fmt.Errorf("messages.%d: no content", i)
			}
		case "tool":
			// "messages with role 'tool' must be a response to a preceding
			// message with 'tool_calls'."
			if !open[m.ToolCallID] || m.Content == nil {
				return fmt.Errorf("messages.%d: a result of %q, which is not open", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
		case "assistant":
			// Content is required unless tool_calls is given.
			if m.Content == nil && len(m.ToolCalls) == 0 {
				return fmt.Errorf("messages.%d: neither content nor calls", i)
			}
			for _, c := range m.ToolCalls {
				if c.ID == "" || len(c.ID) > 40 || open[c.ID] || c.Type != "function" || !plainName.MatchString(c.Function.Name) || !json.Valid([]byte(c.Function.Arguments)) {
					return fmt.Errorf("messages.%d: call %+v", i, c)
				}
				open[c.ID] = true
			}
		default:
			return fmt.Errorf("messages.%d: role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("calls %v have no result", open)
	}
	return nil
}

var (
	plainName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)
	plainID    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
}

// CheckAnthropic holds to the rules of POST /v1/messages.
func CheckAnthropic(body []byte) error {
	var r struct {
		MaxTokens int `json:"max_tokens"`
		Messages  []struct {
			Role    string           `json:"role"`
			Content []anthropicBlock `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if r.MaxTokens < 1 || len(r.Messages) == 0 || r.Messages[0].Role != "user" {
		return errors.New("max_tokens, and a first message of the user, are required")
	}
	used := map[string]bool{}
	var open []string
	for i, m := range r.Messages {
		if i > 0 && m.Role == r.Messages[i-1].Role || len(m.Content) == 0 {
			return fmt.Errorf("messages.%d: role %q again, or no content", i, m.Role)
		}
		next, err := anthropicBlocks(m.Role, m.Content, open, used)
		if err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
		open = next
	}
	if len(open) > 0 {
		return fmt.Errorf("calls %v have no result", open)
	}
	return nil
}

// anthropicBlocks checks one message; open are the calls of the one before.
func anthropicBlocks(role string, blocks []anthropicBlock, open []string, used map[string]bool) (calls []string, err error) {
	answered, stage := map[string]bool{}, 0
	// In a message blocks come in this order: "tool result blocks must come
	// first", reasoning before everything else it led to, and nothing after
	// calls, as what follows is their results.
	order := map[string]int{"tool_result": 1, "thinking": 1, "redacted_thinking": 1, "text": 2, "tool_use": 3}
	for _, b := range blocks {
		n := order[b.Type]
		if n == 0 || n < stage {
			return nil, fmt.Errorf("block %q out of order", b.Type)
		}
		stage = n
		switch b.Type {
		case "text": // "text content blocks must be non-empty", and contain more than whitespace
			if strings.TrimSpace(b.Text) == "" {
				return nil, errors.New("empty text")
			}
		case "tool_use": // "tool_use ids must be unique"
			if role != "assistant" || !plainID.MatchString(b.ID) || used[b.ID] || !plainName.MatchString(b.Name) || !strings.HasPrefix(string(b.Input), "{") {
				return nil, fmt.Errorf("call %+v", b)
			}
			used[b.ID] = true
			calls = append(calls, b.ID)
		case "tool_result":
			if role != "user" || answered[b.ToolUseID] {
				return nil, fmt.Errorf("result %+v", b)
			}
			answered[b.ToolUseID] = true
		case "thinking", "redacted_thinking":
			if role != "assistant" {
				return nil, errors.New("reasoning of the user")
			}
		}
	}
	// "The final block in an assistant message cannot be thinking."
	if role == "assistant" && stage < 2 {
		return nil, errors.New("the message ends in reasoning")
	}
	// "Each tool_use block must have a corresponding tool_result block in the
	// next message", and the other way round.
	for _, id := range open {
		if !answered[id] {
			return nil, fmt.Errorf("call %s of the message before has no result", id)
		}
		delete(answered, id)
	}
	if len(answered) > 0 {
		return nil, fmt.Errorf("results of no call: %v", answered)
	}
	return calls, nil
}

// CheckGemini holds to the rules of models.streamGenerateContent.
func CheckGemini(body []byte) error {
	var r struct {
		Contents []struct {
			Role  string                       `json:"role"`
			Parts []map[string]json.RawMessage `json:"parts"`
		} `json:"contents"`
		Tools []struct {
			Declarations []json.RawMessage `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if len(r.Contents) == 0 || r.Contents[0].Role != "user" {
		return errors.New("contents begin with the user")
	}
	for _, t := range r.Tools {
		if len(t.Declarations) == 0 {
			return errors.New("functionDeclarations is empty")
		}
	}
	var open []string
	for i, c := range r.Contents {
		if i > 0 && c.Role == r.Contents[i-1].Role || len(c.Parts) == 0 {
			return fmt.Errorf("contents.%d: role %q again, or no parts", i, c.Role)
		}
		var calls, responses []string
		for _, p := range c.Parts {
			data := 0
			for _, kind := range []string{"text", "functionCall", "functionResponse", "thoughtSignature"} {
				if _, ok := p[kind]; ok {
					data++
				}
			}
			if data == 0 { // "required oneof field 'data' must have one initialized field"
				return fmt.Errorf("contents.%d: a part without data", i)
			}
			for kind, names := range map[string]*[]string{"functionCall": &calls, "functionResponse": &responses} {
				var f struct{ Name string }
				if raw, ok := p[kind]; ok {
					if json.Unmarshal(raw, &f) != nil || !geminiName.MatchString(f.Name) {
						return fmt.Errorf("contents.%d: %s %s", i, kind, raw)
					}
					*names = append(*names, f.Name)
				}
			}
		}
		if len(calls) > 0 && c.Role != "model" || len(responses) > 0 && c.Role != "user" {
			return fmt.Errorf("contents.%d: role %q", i, c.Role)
		}
		// "the number of function response parts is equal to the number of
		// function call parts of the function call turn", right after it, and
		// each has the name of its call.
		if !slices.Equal(responses, open) {
			return fmt.Errorf("contents.%d: responses %q to calls %q", i, responses, open)
		}
		open = calls
	}
	if len(open) > 0 {
		return fmt.Errorf("calls %q have no response", open)
	}
	return nil
}

// CheckOllama holds to the rules of POST /api/chat.
func CheckOllama(body []byte) error {
	var r struct {
		Messages []struct {
			Role      string `json:"role"`
			ToolName  string `json:"tool_name"`
			ToolCalls []struct {
				Function struct {
					Name      string         `json:"name"`
					Arguments map[string]any `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Options struct {
			NumCtx int `json:"num_ctx"`
		} `json:"options"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err // among others, arguments that are no object
	}
	if r.Options.NumCtx <= 0 || len(r.Messages) == 0 {
		return errors.New("no size of the context, or no messages")
	}
	var open []string
	for i, m := range r.Messages {
		switch {
		case m.Role == "tool":
			// Results carry no ids: they are told apart by their order.
			if len(open) == 0 || open[0] != m.ToolName {
				return fmt.Errorf("messages.%d: a result of %q, open are %q", i, m.ToolName, open)
			}
			open = open[1:]
		case len(open) > 0:
			return fmt.Errorf("messages.%d: calls %q have no result", i, open)
		}
		for _, c := range m.ToolCalls {
			if m.Role != "assistant" || c.Function.Name == "" || c.Function.Arguments == nil {
				return fmt.Errorf("messages.%d: call %+v", i, c)
			}
			open = append(open, c.Function.Name)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("calls %q have no result", open)
	}
	return nil
}

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
