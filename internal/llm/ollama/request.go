package ollama

import (
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/exchange"
	"github.com/stoahub/stoa/internal/llm/shape"
)

type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Tools    []tool    `json:"tools,omitempty"`
	Stream   bool      `json:"stream"`
	Truncate bool      `json:"truncate"` // what does not fit is to be refused, not cut
	Options  options   `json:"options"`
}

type options struct {
	NumCtx      int      `json:"num_ctx"`
	NumPredict  int      `json:"num_predict,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
}

type message struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Thinking  string `json:"thinking,omitempty"`
	ToolCalls []call `json:"tool_calls,omitempty"`
	ToolName  string `json:"tool_name,omitempty"`
}

type call struct {
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
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

// newBody makes the request, and deltas for the tools that are not in it. The
// API has no way to demand a call; to forbid one, no tools are told.
func newBody(req llm.Request, names *shape.Names, size int) (*request, []llm.Delta) {
	b := &request{Model: req.Model, Messages: messages(req, names), Stream: true,
		Options: options{NumCtx: size, NumPredict: req.MaxTokens, Temperature: req.Temperature}}
	var missing []llm.Delta
	for _, t := range req.Tools {
		if req.ToolChoice == llm.None || req.ToolChoice == llm.Always && req.ToolName != "" && req.ToolName != t.Name {
			continue
		}
		schema, err := fit(t.Schema)
		if err != nil {
			missing = append(missing, llm.Delta{Kind: llm.LeftOut, Tool: t.Name, Text: err.Error()})
			continue
		}
		b.Tools = append(b.Tools, tool{"function", definition{names.Out(t.Name), t.Description, schema}})
	}
	return b, missing
}

func messages(req llm.Request, names *shape.Names) []message {
	list := []message{}
	if req.System != "" {
		list = append(list, message{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		if m.Role == llm.FromTool {
			for _, p := range m.Parts {
				if p.Result != nil {
					text := p.Result.Content
					if p.Result.IsError {
						text = "Error: " + text
					}
					list = append(list, message{Role: "tool", Content: text, ToolName: names.Out(p.Result.Name)})
				}
			}
			continue
		}
		out := message{Role: string(m.Role)}
		var text strings.Builder
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				out.ToolCalls = append(out.ToolCalls, call{function{names.Out(p.Call.Name), p.Call.Args}})
			case p.Reasoning != "" && p.Opaque.For(provider) != nil:
				out.Thinking += p.Reasoning
			default:
				text.WriteString(p.Text)
			}
		}
		if out.Content = text.String(); out.Content != "" || len(out.ToolCalls) > 0 {
			list = append(list, out)
		}
	}
	return list
}

// fail reads {"error": text}.
func fail(status int, body []byte) *llm.Error {
	words := exchange.Words(body)
	e := exchange.Failed(status, words)
	if strings.Contains(words, "does not support tools") {
		e.Cause = llm.BadRequest
	}
	if status >= 500 && exchange.TooLong(words) {
		e.Cause = llm.ContextTooLong
	}
	return e
}
