package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// OpenAIBody is what the rules of OpenAI speak of.
type OpenAIBody struct {
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
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string `json:"name"`
			Parameters struct {
				Type string `json:"type"`
			} `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// CheckOpenAI holds to the rules of POST /v1/chat/completions.
func CheckOpenAI(body []byte) error { return checkAll(body, OpenAIRules) }

const openAISDK = "github.com/openai/openai-go, "

// OpenAIRules are the rules of chat completions.
var OpenAIRules = []Rule[OpenAIBody]{
	{"there are messages", openAISDK + "ChatCompletionNewParams.Messages: required", func(b OpenAIBody) error {
		if len(b.Messages) == 0 {
			return errors.New("none")
		}
		return nil
	}},
	{"roles are known", openAISDK + "ChatCompletionMessageParamUnion", func(b OpenAIBody) error {
		for i, m := range b.Messages {
			if !slices.Contains([]string{"developer", "system", "user", "assistant", "tool"}, m.Role) {
				return fmt.Errorf("messages.%d: %q", i, m.Role)
			}
		}
		return nil
	}},
	{"a message has content, unless it has calls", openAISDK + "ChatCompletionAssistantMessageParam.Content", func(b OpenAIBody) error {
		for i, m := range b.Messages {
			if m.Content == nil && len(m.ToolCalls) == 0 {
				return fmt.Errorf("messages.%d", i)
			}
		}
		return nil
	}},
	{"only the assistant calls", openAISDK + "ChatCompletionAssistantMessageParam.ToolCalls", func(b OpenAIBody) error {
		for i, m := range b.Messages {
			if m.Role != "assistant" && len(m.ToolCalls) > 0 {
				return fmt.Errorf("messages.%d: %s", i, m.Role)
			}
		}
		return nil
	}},
	{"each call is followed by its result", "microsoft/promptflow#3130, aliasrobotics/cai#111: «must be followed by tool messages responding to each 'tool_call_id'»", openAIAnswered},
	{"each result follows its call", "miurla/morphic#136: «must be a response to a preceeding message with 'tool_calls'»", openAIResults},
	{"ids have 40 characters at most", "agno-agi/agno#5382: «Expected a string with maximum length 40»", func(b OpenAIBody) error {
		for i, m := range b.Messages {
			for _, c := range m.ToolCalls {
				if c.ID == "" || len(c.ID) > 40 {
					return fmt.Errorf("messages.%d: %q", i, c.ID)
				}
			}
		}
		return nil
	}},
	{"names have 64 characters of a-z, A-Z, 0-9, _ and - at most", openAISDK + "shared.FunctionDefinitionParam.Name", func(b OpenAIBody) error {
		for i, m := range b.Messages {
			for _, c := range m.ToolCalls {
				if c.Type != "function" || !plainName.MatchString(c.Function.Name) {
					return fmt.Errorf("messages.%d: %q", i, c.Function.Name)
				}
			}
		}
		for i, t := range b.Tools {
			if t.Type != "function" || !plainName.MatchString(t.Function.Name) {
				return fmt.Errorf("tools.%d: %q", i, t.Function.Name)
			}
		}
		return nil
	}},
	{"arguments are JSON", openAISDK + "ChatCompletionMessageFunctionToolCallFunctionParam.Arguments", func(b OpenAIBody) error {
		for i, m := range b.Messages {
			for _, c := range m.ToolCalls {
				if !json.Valid([]byte(c.Function.Arguments)) {
					return fmt.Errorf("messages.%d: %s", i, c.Function.Arguments)
				}
			}
		}
		return nil
	}},
	{"parameters are an object", openAISDK + "shared.FunctionParameters", func(b OpenAIBody) error {
		for i, t := range b.Tools {
			if t.Function.Parameters.Type != "object" {
				return fmt.Errorf("tools.%d: %q", i, t.Function.Parameters.Type)
			}
		}
		return nil
	}},
}

func openAIAnswered(b OpenAIBody) error {
	var open []string
	for i, m := range b.Messages {
		if m.Role == "tool" {
			open = slices.DeleteFunc(open, func(id string) bool { return id == m.ToolCallID })
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("messages.%d: before the results of %q", i, open)
		}
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no results of %q", open)
	}
	return nil
}

func openAIResults(b OpenAIBody) error {
	open := map[string]bool{}
	for i, m := range b.Messages {
		switch {
		case m.Role != "tool":
			open = map[string]bool{}
			for _, c := range m.ToolCalls {
				if open[c.ID] {
					return fmt.Errorf("messages.%d: %q twice, so that a result cannot be told", i, c.ID)
				}
				open[c.ID] = true
			}
		case !open[m.ToolCallID]:
			return fmt.Errorf("messages.%d: a result of %q", i, m.ToolCallID)
		default:
			delete(open, m.ToolCallID)
		}
	}
	return nil
}
