package agentclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Tool is a tool of an agent.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
}

// Resource is a resource of an agent.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
}

// Contents are those of a resource: text, or base64 where they are bytes.
type Contents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
	Blob     []byte `json:"blob"`
}

// Prompt is a prompt of an agent.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Arguments   []Argument `json:"arguments"`
}

// Argument is one of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// Message is one of those that a prompt makes.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Result is what a tool said.
type Result struct {
	Content    []json.RawMessage          `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"` // the tool said no
	Meta       map[string]json.RawMessage `json:"_meta"`

	Raw json.RawMessage `json:"-"` // all of it, as it came
}

// Text is the text of the result, its parts on lines of their own.
func (r *Result) Text() string {
	var parts []string
	for _, raw := range r.Content {
		var block struct{ Type, Text string }
		if json.Unmarshal(raw, &block) == nil && block.Type == "text" {
			parts = append(parts, block.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Progress is how far a call is. A call that waits in the agent's queue has a
// negative one: its place.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"` // 0 if it is not known
	Message  string  `json:"message"`
}

// Call is a call of a tool with what may be said about it.
type Call struct {
	Agent, Tool string
	Arguments   any            // encodes to a JSON object; nil means none
	Progress    func(Progress) // told of progress, one after the other; nil means nobody
	Priority    string         // in the agent's queue: high, normal or low; empty leaves it to the hub
	Timeout     time.Duration  // how long the agent may take, in place of what is configured; 0 leaves it so
	Meta        map[string]any // further members of _meta
}

// CallTool calls a tool of an agent.
func (c *Client) CallTool(ctx context.Context, agent, tool string, args any) (*Result, error) {
	return c.Call(ctx, Call{Agent: agent, Tool: tool, Arguments: args})
}

// Call calls a tool as described.
func (c *Client) Call(ctx context.Context, call Call) (*Result, error) {
	meta := map[string]any{}
	for k, v := range call.Meta {
		meta[k] = v
	}
	if call.Priority != "" {
		meta["stoa/priority"] = call.Priority
	}
	if call.Timeout > 0 {
		meta["stoa/timeoutMs"] = call.Timeout.Milliseconds()
	}
	args := call.Arguments
	if args == nil {
		args = struct{}{}
	}
	raw, err := c.request(ctx, ask{
		agent: call.Agent, method: "tools/call", meta: meta, progress: call.Progress,
		params: map[string]any{"name": call.Tool, "arguments": args},
	})
	if err != nil {
		return nil, err
	}
	r := &Result{Raw: raw}
	var kind struct {
		Type string `json:"resultType"`
	}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, lost(call.Agent, "tools/call", 0, err, "the result of %s is not of the protocol's form: %v", call.Tool, err)
	}
	if _ = json.Unmarshal(raw, &kind); kind.Type != "" && kind.Type != "complete" {
		return nil, lost(call.Agent, "tools/call", 0, nil, "%s answered with a result of type %q, which this client cannot go on with", call.Tool, kind.Type)
	}
	return r, nil
}

// ListTools returns all tools of an agent.
func (c *Client) ListTools(ctx context.Context, agent string) ([]Tool, error) {
	return list[Tool](ctx, c, agent, "tools/list", "tools")
}

// ListResources returns all resources of an agent; those of its templates are
// not among them.
func (c *Client) ListResources(ctx context.Context, agent string) ([]Resource, error) {
	return list[Resource](ctx, c, agent, "resources/list", "resources")
}

// ListPrompts returns all prompts of an agent.
func (c *Client) ListPrompts(ctx context.Context, agent string) ([]Prompt, error) {
	return list[Prompt](ctx, c, agent, "prompts/list", "prompts")
}

// ReadResource reads a resource of an agent; a folder may have several parts.
func (c *Client) ReadResource(ctx context.Context, agent, uri string) ([]Contents, error) {
	var r struct {
		Contents []Contents `json:"contents"`
	}
	err := c.get(ctx, agent, "resources/read", map[string]string{"uri": uri}, &r)
	return r.Contents, err
}

// GetPrompt returns the messages that a prompt of an agent makes of args.
func (c *Client) GetPrompt(ctx context.Context, agent, name string, args map[string]string) ([]Message, error) {
	if args == nil {
		args = map[string]string{}
	}
	var r struct {
		Messages []Message `json:"messages"`
	}
	err := c.get(ctx, agent, "prompts/get", map[string]any{"name": name, "arguments": args}, &r)
	return r.Messages, err
}

// get decodes the result of a request.
func (c *Client) get(ctx context.Context, agent, method string, params, into any) error {
	raw, err := c.Request(ctx, agent, method, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return lost(agent, method, 0, err, "the result is not of the protocol's form: %v", err)
	}
	return nil
}

const (
	maxPages    = 1000 // of a list whose cursors do not end
	codeUnknown = -32601
)

// list reads all pages of a list. An agent that has no such list has an empty
// one.
func list[T any](ctx context.Context, c *Client, agent, method, member string) ([]T, error) {
	all := []T{}
	params := map[string]string{}
	for page := range maxPages {
		var r map[string]json.RawMessage
		err := c.get(ctx, agent, method, params, &r)
		if e, ok := errors.AsType[*Error](err); ok && page == 0 && e.Code == codeUnknown && e.none() {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var items []T
		if err := json.Unmarshal(r[member], &items); err != nil {
			return nil, lost(agent, method, 0, err, "the answer has no %s of the protocol's form: %v", member, err)
		}
		all = append(all, items...)
		var cursor *string
		if json.Unmarshal(r["nextCursor"], &cursor); cursor == nil { // an empty one is a cursor too
			return all, nil
		}
		params["cursor"] = *cursor
	}
	return nil, lost(agent, method, 0, nil, "the list does not end within %d pages", maxPages)
}

// none reports whether an unknown method is that, and not an unknown agent,
// which has the same code. In the legacy era only the latter has status 404.
func (e *Error) none() bool {
	return e.Kind != "unknown_agent" && (e.era == modern || e.Status != http.StatusNotFound)
}
