package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// Fenced gives tools to a model without function calling: they are described
// in its system prompt, and it calls them by blocks in its text (see Fence).
func Fenced(m Model) Model { return fenced{m} }

type fenced struct{ model Model }

// FenceRules tells a model how to call a tool.
const FenceRules = "When you need to use a tool, respond ONLY with the tool call JSON object enclosed in triple backticks like this:\n" +
	"```tool\n{ \"tool\": \"qualifiedToolName\", \"arguments\": { } }\n```\n" +
	"Do not add any other text before the opening ```tool or after the closing ```."

func (f fenced) Stream(ctx context.Context, req Request) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		ids := NewIDs(req.Messages)
		var fence Fence
		calls := 0
		send := func(pieces []Piece) bool {
			for _, p := range pieces {
				if p.Call == nil {
					if !yield(Delta{Kind: Text, Text: p.Text}, nil) {
						return false
					}
					continue
				}
				call := *p.Call
				call.ID = ids.Next()
				if !yield(Delta{Kind: CallStart, Index: calls, Call: ToolCall{ID: call.ID, Name: call.Name}}, nil) ||
					!yield(Delta{Kind: CallEnd, Index: calls, Call: call}, nil) {
					return false
				}
				calls++
			}
			return true
		}
		for d, err := range f.model.Stream(ctx, plainRequest(req)) {
			switch {
			case err != nil:
				yield(Delta{}, err)
				return
			case d.Kind == Text && d.Opaque == nil:
				if !send(fence.Write(d.Text)) {
					return
				}
				continue
			case d.Kind == Stopped:
				if !send(fence.Close()) {
					return
				}
				if calls > 0 && d.Stop == Done {
					d.Stop = Calls
				}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// plainRequest says with text alone what req says with tools, calls and results.
func plainRequest(req Request) Request {
	if len(req.Tools) > 0 && req.ToolChoice != None {
		req.System = strings.TrimLeft(req.System+"\n\n"+describeTools(req), "\n")
	}
	messages := make([]Message, 0, len(req.Messages))
	for _, m := range req.Messages {
		role := m.Role
		if role == FromTool {
			role = User
		}
		plain := Message{Role: role}
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				p = Part{Text: fenceText(*p.Call)}
			case p.Result != nil:
				word := "Result"
				if p.Result.IsError {
					word = "Error"
				}
				p = Part{Text: fmt.Sprintf("%s of tool %s:\n%s\n", word, p.Result.Name, p.Result.Content)}
			}
			plain.Parts = append(plain.Parts, p)
		}
		messages = append(messages, plain)
	}
	req.Messages, req.Tools, req.ToolChoice, req.ToolName = messages, nil, Auto, ""
	return req
}

func describeTools(req Request) string {
	var b strings.Builder
	b.WriteString(FenceRules + "\n\nTools:\n")
	for _, t := range req.Tools {
		fmt.Fprintf(&b, "- %s", t.Name)
		if t.Description != "" {
			b.WriteString(": " + t.Description)
		}
		if len(t.Schema) > 0 {
			fmt.Fprintf(&b, "\n  arguments: %s", t.Schema)
		}
		b.WriteByte('\n')
	}
	switch {
	case req.ToolChoice == Always && req.ToolName != "":
		fmt.Fprintf(&b, "You must call %s now.\n", req.ToolName)
	case req.ToolChoice == Always:
		b.WriteString("You must call one of them now.\n")
	}
	return b.String()
}

func fenceText(c ToolCall) string {
	body := c.Malformed
	if body == "" {
		name, _ := json.Marshal(c.Name)
		body = fmt.Sprintf(`{"tool": %s, "arguments": %s}`, name, c.Args)
	}
	return "\n" + opening + "\n" + strings.Trim(body, "\n") + "\n" + ticks + "\n"
}

// IDs makes ids for calls that come without one, unlike any in the history.
type IDs struct {
	used map[string]bool
	n    int
}

// NewIDs begins after the calls of the messages.
func NewIDs(messages []Message) *IDs {
	ids := &IDs{used: map[string]bool{}}
	for _, m := range messages {
		for _, c := range m.Calls() {
			ids.used[c.ID] = true
		}
	}
	ids.n = len(ids.used)
	return ids
}

// Next returns a new id.
func (i *IDs) Next() string {
	for {
		i.n++
		if id := fmt.Sprintf("call_%d", i.n); !i.used[id] {
			i.used[id] = true
			return id
		}
	}
}

var _ Model = fenced{}
