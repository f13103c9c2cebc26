package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OllamaBody is what the rules of Ollama speak of.
type OllamaBody struct {
	Model    string `json:"model"`
	Messages []struct {
		Role      string `json:"role"`
		Content   string `json:"content"`
		ToolName  string `json:"tool_name"`
		ToolCalls []struct {
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Options struct {
		NumCtx int `json:"num_ctx"`
	} `json:"options"`
	Truncate *bool `json:"truncate"`
}

// CheckOllama holds to the rules of POST /api/chat. The server itself refuses
// little: what it cannot use it leaves out, and says nothing.
func CheckOllama(body []byte) error { return checkAll(body, OllamaRules) }

const ollamaAPI = "github.com/ollama/ollama/api, "

// OllamaRules are the rules of /api/chat.
var OllamaRules = []Rule[OllamaBody]{
	{"there are a model and messages", ollamaAPI + "ChatRequest", func(b OllamaBody) error {
		if b.Model == "" || len(b.Messages) == 0 {
			return errors.New("there are not")
		}
		return nil
	}},
	{"the size of the context is said", "haoxiang-xu/PuPu#129, ollama/ollama#17889: without num_ctx most of a prompt is dropped with HTTP 200", func(b OllamaBody) error {
		if b.Options.NumCtx <= 0 {
			return errors.New("it is not")
		}
		return nil
	}},
	{"what does not fit is refused, not cut", ollamaAPI + "ChatRequest.Truncate; ollama/ollama#17427: half of the context is used otherwise", func(b OllamaBody) error {
		if b.Truncate == nil || *b.Truncate {
			return errors.New("it is cut")
		}
		return nil
	}},
	{"roles are known", ollamaAPI + "Message.Role", func(b OllamaBody) error {
		for i, m := range b.Messages {
			if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
				return fmt.Errorf("messages.%d: %q", i, m.Role)
			}
		}
		return nil
	}},
	{"messages say something", "ollama/ollama#18107: a template that finds no words of the user fails", func(b OllamaBody) error {
		for i, m := range b.Messages {
			if m.Content == "" && len(m.ToolCalls) == 0 && m.Role != "tool" {
				return fmt.Errorf("messages.%d", i)
			}
		}
		return nil
	}},
	{"calls are the assistant's, have a name, and arguments that are an object", ollamaAPI + "ToolCallFunction, ToolCallFunctionArguments", func(b OllamaBody) error {
		for i, m := range b.Messages {
			for _, c := range m.ToolCalls {
				if m.Role != "assistant" || c.Function.Name == "" || !strings.HasPrefix(string(c.Function.Arguments), "{") {
					return fmt.Errorf("messages.%d: %s %s", i, c.Function.Name, c.Function.Arguments)
				}
			}
		}
		return nil
	}},
	{"results follow their calls in order, by name", "ollama docs/api.md, chat request with history and tools: results are told by tool_name", func(b OllamaBody) error {
		var open []string
		for i, m := range b.Messages {
			switch {
			case m.Role == "tool" && (len(open) == 0 || open[0] != m.ToolName):
				return fmt.Errorf("messages.%d: a result of %q, open are %q", i, m.ToolName, open)
			case m.Role == "tool":
				open = open[1:]
			case len(open) > 0:
				return fmt.Errorf("messages.%d: before the results of %q", i, open)
			}
			for _, c := range m.ToolCalls {
				open = append(open, c.Function.Name)
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("no results of %q", open)
		}
		return nil
	}},
}
