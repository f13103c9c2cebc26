package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/exchange"
	"github.com/stoahub/stoa/internal/llm/shape"
)

type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	System      string    `json:"system,omitempty"`
	Messages    []message `json:"messages"`
	Tools       []tool    `json:"tools,omitempty"`
	ToolChoice  *choice   `json:"tool_choice,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`
	Thinking    *budget   `json:"thinking,omitempty"`
	Stream      bool      `json:"stream"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // blocks
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type useBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type resultBlock struct {
	Type      string      `json:"type"`
	ToolUseID string      `json:"tool_use_id"`
	Content   []textBlock `json:"content,omitempty"`
	IsError   bool        `json:"is_error,omitempty"`
}

// thinkingBlock goes back as it came.
type thinkingBlock struct {
	Type      string  `json:"type"`
	Thinking  *string `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type choice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type budget struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens"`
}

const leastThinking = 1024 // less is refused

// body makes the request, and deltas for the tools that are not in it.
func (m *Model) body(req llm.Request, names *shape.Names) (*request, []llm.Delta) {
	b := &request{Model: req.Model, MaxTokens: req.MaxTokens, System: req.System, Messages: messages(shape.IDs(req.Messages, id), names), Temperature: req.Temperature, Stream: true}
	if m.o.Thinking > 0 && req.ToolChoice != llm.Always && mayThink(b.Messages) {
		// A temperature, and a call by force, cannot be had with it.
		b.Thinking, b.Temperature = &budget{"enabled", max(leastThinking, m.o.Thinking)}, nil
		b.MaxTokens = max(b.MaxTokens, b.Thinking.BudgetTokens+leastThinking)
	}
	var missing []llm.Delta
	for _, t := range req.Tools {
		schema, err := shape.ObjectRoot(t.Schema)
		if err != nil {
			missing = append(missing, llm.Delta{Kind: llm.LeftOut, Tool: t.Name, Text: err.Error()})
			continue
		}
		b.Tools = append(b.Tools, tool{names.Out(t.Name), t.Description, schema})
	}
	switch {
	case len(b.Tools) == 0:
	case req.ToolChoice == llm.None:
		b.ToolChoice = &choice{Type: "none"}
	case req.ToolChoice == llm.Always && req.ToolName != "":
		b.ToolChoice = &choice{Type: "tool", Name: names.Out(req.ToolName)}
	case req.ToolChoice == llm.Always:
		b.ToolChoice = &choice{Type: "any"}
	}
	return b, missing
}

// mayThink reports whether reasoning can be asked for: not in the midst of a
// turn whose last calls came without it, from another model or none that
// reasoned, which the API refuses.
func mayThink(list []message) bool {
	n := len(list)
	if n < 2 {
		return true
	}
	if _, isResult := list[n-1].Content[0].(resultBlock); !isResult {
		return true
	}
	_, isThought := list[n-2].Content[0].(json.RawMessage)
	return isThought
}

// messages turns the history into messages whose roles alternate, the user's
// first and last: newer models do not go on with words of their own. Neighbours of one role become one before their parts are ordered, and
// messages with nothing to send do not stand between them.
func messages(history []llm.Message, names *shape.Names) []message {
	list := []message{}
	var parts []llm.Part
	for _, m := range history {
		blocks := blocksOf(m.Parts, names)
		if len(blocks) == 0 {
			continue
		}
		role := roleOf(m)
		if n := len(list); n > 0 && list[n-1].Role == role {
			parts = append(parts, m.Parts...)
			list[n-1].Content = blocksOf(parts, names)
			continue
		}
		if len(list) == 0 && role == "assistant" {
			list = append(list, message{"user", []any{textBlock{"text", "(continued)"}}})
		}
		list = append(list, message{role, blocks})
		parts = slices.Clone(m.Parts)
	}
	if n := len(list); n > 0 && list[n-1].Role == "assistant" {
		list = append(list, message{"user", []any{textBlock{"text", "(continue)"}}})
	}
	return list
}

func roleOf(m llm.Message) string {
	if m.Role == llm.Assistant {
		return "assistant"
	}
	return "user"
}

// blocksOf orders the parts of a message: reasoning, results, text, calls. What
// Claude said stays in its order if calls are last in it, as reasoning must not
// be moved. Text without a visible character is refused by the API, and left
// out. Reasoning that led to nothing is left out as well.
func blocksOf(parts []llm.Part, names *shape.Names) []any {
	var thoughts, results, texts, calls, given []any
	inOrder := true
	for _, p := range parts {
		switch {
		case p.Call != nil:
			calls = append(calls, useBlock{"tool_use", p.Call.ID, names.Out(p.Call.Name), p.Call.Args})
			given = append(given, calls[len(calls)-1])
		case p.Result != nil:
			r := resultBlock{Type: "tool_result", ToolUseID: p.Result.ID, IsError: p.Result.IsError}
			if strings.TrimSpace(p.Result.Content) != "" {
				r.Content = []textBlock{{"text", p.Result.Content}}
			}
			results = append(results, r)
		case p.Opaque.For(provider) != nil:
			inOrder = inOrder && len(calls) == 0 && (len(given) == 0 || len(thoughts) > 0)
			thoughts = append(thoughts, p.Opaque.For(provider))
			given = append(given, thoughts[len(thoughts)-1])
		case strings.TrimSpace(p.Text) != "":
			inOrder = inOrder && len(calls) == 0
			texts = append(texts, textBlock{"text", p.Text})
			given = append(given, texts[len(texts)-1])
		}
	}
	if len(texts)+len(calls) == 0 {
		thoughts = nil
	}
	if n := len(given); inOrder && len(results) == 0 && len(thoughts) > 0 {
		if _, thought := given[n-1].(json.RawMessage); !thought {
			return given
		}
	}
	return slices.Concat(thoughts, results, texts, calls)
}

// id makes an id of another provider one that is taken here.
func id(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// statuses gives the HTTP status of an error that comes in a stream.
var statuses = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}

// fail reads {"type":"error","error":{type,message}}; status is 0 in a stream.
func fail(status int, body []byte) *llm.Error {
	var f struct {
		Error struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &f) // other forms are told by Words
	if status == 0 {
		if status = statuses[f.Error.Type]; status == 0 {
			status = 500
		}
	}
	words := exchange.Words(body)
	e := exchange.Failed(status, words)
	switch {
	case strings.Contains(words, "credit balance is too low"):
		e.Cause = llm.Quota
	case status == 504:
		e.Cause = llm.TimedOut
	}
	return e
}
