package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// AnthropicBody is what the rules of Anthropic speak of.
type AnthropicBody struct {
	MaxTokens int `json:"max_tokens"`
	Thinking  *struct {
		Budget int `json:"budget_tokens"`
	} `json:"thinking"`
	ToolChoice struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Temperature *float64 `json:"temperature"`
	Messages    []struct {
		Role    string           `json:"role"`
		Content []AnthropicBlock `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name   string `json:"name"`
		Schema struct {
			Type  string `json:"type"`
			OneOf any    `json:"oneOf"`
			AnyOf any    `json:"anyOf"`
			AllOf any    `json:"allOf"`
		} `json:"input_schema"`
	} `json:"tools"`
}

// AnthropicBlock is a block of content.
type AnthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
}

func (b AnthropicBlock) thinks() bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

// CheckAnthropic holds to the rules of POST /v1/messages.
func CheckAnthropic(body []byte) error { return checkAll(body, AnthropicRules) }

const anthropicSDK = "github.com/anthropics/anthropic-sdk-go, "

var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// blocks makes a rule of what holds for each block.
func blocks(holds func(role string, b AnthropicBlock) error) func(AnthropicBody) error {
	return func(body AnthropicBody) error {
		for i, m := range body.Messages {
			for k, b := range m.Content {
				if err := holds(m.Role, b); err != nil {
					return fmt.Errorf("messages.%d.content.%d: %w", i, k, err)
				}
			}
		}
		return nil
	}
}

// AnthropicRules are the rules of messages.
var AnthropicRules = []Rule[AnthropicBody]{
	{"max_tokens is said", anthropicSDK + "MessageNewParams.MaxTokens: required", func(b AnthropicBody) error {
		if b.MaxTokens < 1 {
			return errors.New("it is not")
		}
		return nil
	}},
	{"turns alternate, the user's first", anthropicSDK + "MessageNewParams.Messages: «trained to operate on alternating user and assistant turns», combined otherwise", func(b AnthropicBody) error {
		for i, m := range b.Messages {
			if want := []string{"user", "assistant"}[i%2]; m.Role != want {
				return fmt.Errorf("messages.%d: %s", i, m.Role)
			}
		}
		return nil
	}},
	{"the user's turn is last", anthropicSDK + "MessageNewParams.Messages: 400 without prefill; smallmain/vscode-unify-chat-provider#249: «must end with a user message»", func(b AnthropicBody) error {
		if n := len(b.Messages); n == 0 || b.Messages[n-1].Role != "user" {
			return errors.New("it is not")
		}
		return nil
	}},
	{"messages have content", anthropicSDK + "MessageParam.Content: required", func(b AnthropicBody) error {
		for i, m := range b.Messages {
			if len(m.Content) == 0 {
				return fmt.Errorf("messages.%d", i)
			}
		}
		return nil
	}},
	{"text says something", "anthropics/claude-code#59812: «must be non-empty», #23440: «must contain non-whitespace text»", blocks(func(_ string, b AnthropicBlock) error {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			return errors.New("empty")
		}
		return nil
	})},
	{"blocks stand with their role", anthropicSDK + "ToolUseBlockParam, ToolResultBlockParam, ThinkingBlockParam", blocks(func(role string, b AnthropicBlock) error {
		want := map[string]string{"tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant", "tool_result": "user", "text": role}[b.Type]
		if want != role {
			return fmt.Errorf("%q of the %s", b.Type, role)
		}
		return nil
	})},
	{"calls are last", "vercel/ai#16312, anomalyco/opencode#5750: what stands after tool_use parts it from its results", func(b AnthropicBody) error {
		for i, m := range b.Messages {
			called := false
			for _, c := range m.Content {
				if called && c.Type != "tool_use" {
					return fmt.Errorf("messages.%d: %s after a call", i, c.Type)
				}
				called = called || c.Type == "tool_use"
			}
		}
		return nil
	}},
	{"results are first", "platform.claude.com/docs/en/build-with-claude/handling-stop-reasons: text beside tool_result leads to empty answers", func(b AnthropicBody) error {
		for i, m := range b.Messages {
			other := false
			for _, c := range m.Content {
				if other && c.Type == "tool_result" {
					return fmt.Errorf("messages.%d", i)
				}
				other = other || c.Type != "tool_result"
			}
		}
		return nil
	}},
	{"each call has its result in the next message", "anthropics/claude-code#8210: «Each tool_use block must have a corresponding tool_result block in the next message»", anthropicAnswered},
	{"each result has its call in the message before", "anthropics/claude-code#13460: «Each tool_result block must have a corresponding tool_use block in the previous message»", anthropicResults},
	{"ids of calls occur once", "anthropics/claude-code#20901: «tool_use ids must be unique»", func(b AnthropicBody) error {
		used := map[string]bool{}
		return blocks(func(_ string, c AnthropicBlock) error {
			if c.Type == "tool_use" && used[c.ID] {
				return fmt.Errorf("%q again", c.ID)
			}
			used[c.ID] = used[c.ID] || c.Type == "tool_use"
			return nil
		})(b)
	}},
	{"ids are of a-z, A-Z, 0-9, _ and -", "HKUDS/nanobot#4356: «String should match pattern», ^[a-zA-Z0-9_-]+$", blocks(func(_ string, c AnthropicBlock) error {
		if c.Type == "tool_use" && !plainID.MatchString(c.ID) {
			return fmt.Errorf("%q", c.ID)
		}
		return nil
	})},
	{"names have 64 characters of a-z, A-Z, 0-9, _ and - at most", "docs.anthropic.com/en/docs/build-with-claude/tool-use: ^[a-zA-Z0-9_-]{1,64}$; platform.claude.com/docs/agents-and-tools/tool-use/define-tools has 128 since", func(b AnthropicBody) error {
		for i, t := range b.Tools {
			if !plainName.MatchString(t.Name) {
				return fmt.Errorf("tools.%d: %q", i, t.Name)
			}
		}
		return blocks(func(_ string, c AnthropicBlock) error {
			if c.Type == "tool_use" && !plainName.MatchString(c.Name) {
				return fmt.Errorf("%q", c.Name)
			}
			return nil
		})(b)
	}},
	{"input is an object", anthropicSDK + "ToolUseBlockParam.Input: required", blocks(func(_ string, c AnthropicBlock) error {
		if c.Type == "tool_use" && !strings.HasPrefix(string(c.Input), "{") {
			return fmt.Errorf("%s", c.Input)
		}
		return nil
	})},
	{"schemas are objects without combinations at their root", anthropicSDK + "ToolInputSchemaParam.Type", func(b AnthropicBody) error {
		for i, t := range b.Tools {
			if s := t.Schema; s.Type != "object" || s.OneOf != nil || s.AnyOf != nil || s.AllOf != nil {
				return fmt.Errorf("tools.%d", i)
			}
		}
		return nil
	}},
	{"reasoning comes first and is not last", "anthropics/claude-code#20705: «the first block must be thinking», tailcallhq/forgecode#2107: «The final block in an assistant message cannot be thinking»", func(b AnthropicBody) error {
		for i, m := range b.Messages {
			n := len(m.Content)
			if slices.ContainsFunc(m.Content, AnthropicBlock.thinks) && (!m.Content[0].thinks() || m.Content[n-1].thinks()) {
				return fmt.Errorf("messages.%d", i)
			}
		}
		return nil
	}},
	{"asked to reason, the calls that are being answered began with reasoning", "anthropics/claude-code#20705: «a final assistant message must start with a thinking block (preceding the lastmost set of tool_use and tool_result blocks)»", func(b AnthropicBody) error {
		n := len(b.Messages)
		if b.Thinking != nil && n > 1 && b.Messages[n-1].Content[0].Type == "tool_result" && !b.Messages[n-2].Content[0].thinks() {
			return fmt.Errorf("messages.%d", n-2)
		}
		return nil
	}},
	{"reasoning has 1024 tokens at least, and fewer than the answer", anthropicSDK + "ThinkingConfigEnabledParam.BudgetTokens", func(b AnthropicBody) error {
		if b.Thinking != nil && (b.Thinking.Budget < 1024 || b.Thinking.Budget >= b.MaxTokens) {
			return fmt.Errorf("%d of %d", b.Thinking.Budget, b.MaxTokens)
		}
		return nil
	}},
	{"reasoning goes with neither a temperature nor a forced call", "platform.claude.com/docs/en/build-with-claude/thinking-tool-workflows: forced calls are an error; anthropics/claude-code#19414", func(b AnthropicBody) error {
		if b.Thinking != nil && (b.Temperature != nil || b.ToolChoice.Type == "any" || b.ToolChoice.Type == "tool") {
			return errors.New("it does")
		}
		return nil
	}},
}

func anthropicAnswered(b AnthropicBody) error {
	for i, m := range b.Messages {
		for _, c := range m.Content {
			if c.Type != "tool_use" {
				continue
			}
			if i+1 == len(b.Messages) || !slices.ContainsFunc(b.Messages[i+1].Content, func(r AnthropicBlock) bool { return r.Type == "tool_result" && r.ToolUseID == c.ID }) {
				return fmt.Errorf("messages.%d: %s", i, c.ID)
			}
		}
	}
	return nil
}

func anthropicResults(b AnthropicBody) error {
	for i, m := range b.Messages {
		given := map[string]bool{}
		for _, r := range m.Content {
			if r.Type != "tool_result" {
				continue
			}
			if given[r.ToolUseID] || i == 0 || !slices.ContainsFunc(b.Messages[i-1].Content, func(c AnthropicBlock) bool { return c.Type == "tool_use" && r.ToolUseID == c.ID }) {
				return fmt.Errorf("messages.%d: %s", i, r.ToolUseID)
			}
			given[r.ToolUseID] = true
		}
	}
	return nil
}
