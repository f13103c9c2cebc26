package openai

import (
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/exchange"
	"github.com/stoahub/stoa/internal/llm/shape"
	"github.com/stoahub/stoa/internal/wire"
)

type request struct {
	Model               string         `json:"model"`
	Messages            []message      `json:"messages"`
	Tools               []tool         `json:"tools,omitempty"`
	ToolChoice          any            `json:"tool_choice,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       map[string]any `json:"stream_options"`
}

type message struct {
	Role             string  `json:"role"`
	Content          *string `json:"content"`
	ReasoningContent string  `json:"reasoning_content,omitempty"`
	Reasoning        string  `json:"reasoning,omitempty"`
	ToolCalls        []call  `json:"tool_calls,omitempty"`
	ToolCallID       string  `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string     `json:"type"`
	Function definition `json:"function"`
}

type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// body makes the request, and deltas for the tools that are not in it. Calls
// are not asked to be strict: that would refuse most schemas, and arguments
// are checked before a tool is called anyway.
func (m *Model) body(req llm.Request, names *shape.Names) (*request, []llm.Delta) {
	b := &request{Model: req.Model, Messages: messages(req, names), Temperature: req.Temperature, Stream: true, StreamOptions: map[string]any{"include_usage": true}}
	if m.own {
		b.MaxCompletionTokens = req.MaxTokens
	} else {
		b.MaxTokens = req.MaxTokens // the older name, which other servers know
	}
	var missing []llm.Delta
	for _, t := range req.Tools {
		schema, err := shape.ObjectRoot(t.Schema)
		if err != nil {
			missing = append(missing, llm.Delta{Kind: llm.LeftOut, Tool: t.Name, Text: err.Error()})
			continue
		}
		b.Tools = append(b.Tools, tool{"function", definition{names.Out(t.Name), t.Description, schema}})
	}
	switch {
	case len(b.Tools) == 0:
	case req.ToolChoice == llm.None:
		b.ToolChoice = "none"
	case req.ToolChoice == llm.Always && req.ToolName != "":
		b.ToolChoice = map[string]any{"type": "function", "function": map[string]any{"name": names.Out(req.ToolName)}}
	case req.ToolChoice == llm.Always:
		b.ToolChoice = "required"
	}
	return b, missing
}

const maxID = 40 // bytes of a call's id; more are refused

func messages(req llm.Request, names *shape.Names) []message {
	now := 0
	for i, m := range req.Messages {
		if m.Role == llm.User {
			now = i
		}
	}
	req.Messages = shape.IDs(req.Messages, func(id string) string { return shape.Short(id, maxID) })
	list := []message{}
	if req.System != "" {
		list = append(list, message{Role: "system", Content: &req.System})
	}
	for i, m := range req.Messages {
		if m.Role == llm.FromTool {
			for _, p := range m.Parts {
				if p.Result != nil {
					list = append(list, message{Role: "tool", Content: new(resultText(p.Result)), ToolCallID: p.Result.ID})
				}
			}
			continue
		}
		if out, ok := spoken(m, names, i > now); ok {
			list = append(list, out)
		}
	}
	return list
}

// resultText marks an error in words, as there is no field for it.
func resultText(r *llm.ToolResult) string {
	if r.IsError {
		return "Error: " + r.Content
	}
	return r.Content
}

// spoken turns a message of the user or the model. Reasoning goes back only
// within the current turn, where some servers demand it; later ones refuse it.
func spoken(m llm.Message, names *shape.Names, current bool) (message, bool) {
	out := message{Role: string(m.Role)}
	var text strings.Builder
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			out.ToolCalls = append(out.ToolCalls, call{p.Call.ID, "function", function{names.Out(p.Call.Name), string(p.Call.Args)}})
		case p.Reasoning != "":
			switch field, _ := wire.String(p.Opaque.For(provider)); {
			case !current:
			case field == "reasoning_content":
				out.ReasoningContent += p.Reasoning
			case field == "reasoning":
				out.Reasoning += p.Reasoning
			}
		default:
			text.WriteString(p.Text)
		}
	}
	if s := text.String(); s != "" || len(out.ToolCalls) == 0 {
		out.Content = &s
	}
	return out, text.Len() > 0 || len(out.ToolCalls) > 0
}

type failure struct {
	Error struct {
		Type string `json:"type"`
		Code any    `json:"code"`
	} `json:"error"`
}

// fail reads {"error":{message,type,code}} and its relatives.
func fail(status int, body []byte) *llm.Error {
	var f failure
	_ = json.Unmarshal(body, &f) // other forms are told by Words
	e := exchange.Failed(status, exchange.Words(body))
	switch code, _ := f.Error.Code.(string); {
	case code == "context_length_exceeded":
		e.Cause = llm.ContextTooLong
	case code == "insufficient_quota" || f.Error.Type == "insufficient_quota":
		e.Cause = llm.Quota
	case code == "invalid_api_key":
		e.Cause = llm.Auth
	case code == "content_filter" || code == "content_policy_violation":
		e.Cause = llm.Blocked
	case code == "model_not_found":
		e.Cause = llm.NotFound
	}
	return e
}

// failMid reads an error in the midst of a stream, where there is no status
// but sometimes a number for a code.
func failMid(body []byte) *llm.Error {
	var f failure
	_ = json.Unmarshal(body, &f)
	status := 500
	if n, ok := f.Error.Code.(float64); ok && n >= 400 && n < 600 {
		status = int(n)
	}
	switch f.Error.Type {
	case "invalid_request_error":
		status = 400
	case "rate_limit_error", "rate_limit_exceeded", "tokens", "requests":
		status = 429
	}
	return fail(status, body)
}
