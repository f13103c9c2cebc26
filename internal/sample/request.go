package sample

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
)

// params are those of sampling/createMessage, as far as a model can be told
// them. includeContext and metadata are left aside, as the protocol allows.
type params struct {
	Messages      []message `json:"messages"`
	SystemPrompt  string    `json:"systemPrompt"`
	MaxTokens     int       `json:"maxTokens"`
	Temperature   *float64  `json:"temperature"`
	StopSequences []string  `json:"stopSequences"`
	Preferences   struct {
		Hints []struct {
			Name string `json:"name"`
		} `json:"hints"`
	} `json:"modelPreferences"`
	Tools      []tool `json:"tools"`
	ToolChoice struct {
		Mode string `json:"mode"`
	} `json:"toolChoice"`
}

type message struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// blocks are a content: one block, or since 2025-11-25 several.
type blocks []block

func (b *blocks) UnmarshalJSON(data []byte) error {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]block)(b))
	}
	*b = make(blocks, 1)
	return json.Unmarshal(data, &(*b)[0])
}

// block is any content that may stand in a request or in the result of a tool.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`

	ID    string          `json:"id"` // tool_use
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`

	ToolUseID  string          `json:"toolUseId"` // tool_result
	Content    blocks          `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`

	URI      string `json:"uri"` // resource_link
	Resource struct {
		URI  string  `json:"uri"`
		Text *string `json:"text"`
	} `json:"resource"`

	Meta struct {
		Opaque *llm.Opaque `json:"stoa/opaque"`
	} `json:"_meta"`
}

const (
	maxStops     = 16
	maxStopBytes = 1 << 10
	maxTools     = 128
)

func invalid(format string, args ...any) *fault.Error {
	return &fault.Error{Kind: fault.InvalidParams, Subject: mcp.MethodSample, Msg: fault.New(fault.InvalidParams, "", format, args...).Msg}
}

// read makes of raw params what a model is asked. The answer may have most
// tokens.
func read(raw []byte, most int) (*params, llm.Request, error) {
	p := &params{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, llm.Request{}, invalid("the params are not as the protocol has them: %v", err)
	}
	if err := p.check(); err != nil {
		return nil, llm.Request{}, err
	}
	req := llm.Request{System: p.SystemPrompt, Temperature: p.Temperature, MaxTokens: most}
	if p.MaxTokens > 0 {
		req.MaxTokens = min(p.MaxTokens, most)
	}
	if req.System == "" {
		// Else it would be what the model is told in chats, which is not
		// meant for servers.
		req.System = "You answer the request of a program."
	}
	for i, m := range p.Messages {
		msg, err := m.read(i)
		if err != nil {
			return nil, llm.Request{}, err
		}
		req.Messages = append(req.Messages, msg)
	}
	if err := paired(req.Messages); err != nil {
		return nil, llm.Request{}, err
	}
	// Each is answered; this puts results in the order of their calls.
	req.Messages = llm.Repair(req.Messages, "no result")
	for _, t := range p.Tools {
		req.Tools = append(req.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	if len(p.Tools) > 0 {
		req.ToolChoice = map[string]llm.Choice{"none": llm.None, "required": llm.Always}[p.ToolChoice.Mode]
	}
	return p, req, nil
}

func (p *params) check() error {
	if len(p.Messages) == 0 {
		return invalid("there are no messages")
	}
	if len(p.StopSequences) > maxStops {
		return invalid("there are more than %d stop sequences", maxStops)
	}
	for _, s := range p.StopSequences {
		if s == "" || len(s) > maxStopBytes {
			return invalid("a stop sequence is empty or longer than %d bytes", maxStopBytes)
		}
	}
	if len(p.Tools) > maxTools {
		return invalid("there are more than %d tools", maxTools)
	}
	for i, t := range p.Tools {
		if t.Name == "" {
			return invalid("tool %d has no name", i+1)
		}
	}
	switch p.ToolChoice.Mode {
	case "", "auto", "none", "required":
		return nil
	}
	return invalid("toolChoice has the mode %q: use auto, required or none", p.ToolChoice.Mode)
}

// read makes of message i what a model is told.
func (m message) read(i int) (llm.Message, error) {
	out := llm.Message{Role: llm.User}
	switch m.Role {
	case "user":
	case "assistant":
		out.Role = llm.Assistant
	default:
		return out, invalid("message %d has the role %q: use user or assistant", i+1, m.Role)
	}
	results := 0
	for _, b := range m.Content {
		switch {
		case b.Type == "text":
			out.Parts = append(out.Parts, llm.Part{Text: b.Text})
		case b.Type == "tool_use" && out.Role == llm.Assistant:
			if len(b.Input) == 0 || b.Input[0] != '{' || b.ID == "" || b.Name == "" {
				return out, invalid("a tool_use of message %d lacks its id, name or input", i+1)
			}
			out.Parts = append(out.Parts, llm.Part{Call: &llm.ToolCall{ID: b.ID, Name: b.Name, Args: b.Input}, Opaque: b.Meta.Opaque})
		case b.Type == "tool_result" && out.Role == llm.User:
			text, err := b.result(i)
			if err != nil {
				return out, err
			}
			results++
			out.Parts = append(out.Parts, llm.Part{Result: &llm.ToolResult{ID: b.ToolUseID, Content: text, IsError: b.IsError}})
		case b.Type == "tool_use" || b.Type == "tool_result":
			return out, invalid("message %d of the %s has a %s", i+1, m.Role, b.Type)
		default:
			return out, invalid("message %d has content of the type %q, and the hub's models are given text only", i+1, b.Type)
		}
	}
	switch {
	case results > 0 && results < len(m.Content):
		return out, invalid("Tool results mixed with other content (message %d)", i+1)
	case results > 0:
		out.Role = llm.FromTool
	}
	return out, nil
}

// result is the text of a tool's result.
func (b block) result(i int) (string, error) {
	var text []string
	for _, c := range b.Content {
		switch {
		case c.Type == "text":
			text = append(text, c.Text)
		case c.Type == "resource_link":
			text = append(text, c.Name+" "+c.URI)
		case c.Type == "resource" && c.Resource.Text != nil:
			text = append(text, *c.Resource.Text)
		default:
			return "", invalid("a tool_result of message %d has content of the type %q, and the hub's models are given text only", i+1, c.Type)
		}
	}
	if text == nil && b.Structured != nil {
		return string(b.Structured), nil
	}
	return strings.Join(text, "\n"), nil
}

// paired holds the messages to the protocol's rule for tools: each use is
// answered in the next message, and nothing else is.
func paired(messages []llm.Message) error {
	open := map[string]bool{}
	for i, m := range messages {
		for _, p := range m.Parts {
			if p.Result == nil {
				continue
			}
			if !open[p.Result.ID] {
				return invalid("message %d has a tool_result for %q, which the message before does not use", i+1, p.Result.ID)
			}
			delete(open, p.Result.ID)
		}
		if len(open) > 0 {
			return invalid("Tool result missing in request (before message %d)", i+1)
		}
		for _, c := range m.Calls() {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return invalid("Tool result missing in request")
	}
	return nil
}
