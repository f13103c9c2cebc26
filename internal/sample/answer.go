package sample

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
)

// ask has the model answer. If one of stops comes up in its text, the answer
// ends before it, and so does the model's stream.
func ask(ctx context.Context, m llm.Model, req llm.Request, stops []string) (a llm.Answer, stopped bool, err error) {
	longest := 0
	for _, s := range stops {
		longest = max(longest, len(s))
	}
	for d, err := range m.Stream(ctx, req) {
		if err != nil {
			return a, false, err
		}
		a.Add(d)
		if d.Kind != llm.Text || d.Text == "" || longest == 0 {
			continue
		}
		p := &a.Message.Parts[len(a.Message.Parts)-1]
		from := max(0, len(p.Text)-len(d.Text)-longest+1)
		if i := first(p.Text[from:], stops); i >= 0 {
			p.Text = p.Text[:from+i]
			return a, true, nil
		}
	}
	return a, false, nil
}

// first is where the first of stops begins in text, or -1.
func first(text string, stops []string) int {
	at := -1
	for _, s := range stops {
		if i := strings.Index(text, s); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return at
}

// reasons are what the protocol calls the ends of an answer.
var reasons = map[llm.Stop]string{llm.Done: "endTurn", llm.Calls: "toolUse", llm.CutOff: "maxTokens"}

// result is an answer as the protocol has it. What the model thought is kept
// from the server.
func result(a llm.Answer, model string, stopped bool) ([]byte, error) {
	type content = map[string]any
	calls := a.Message.Calls()
	out := map[string]any{"role": "assistant", "model": model, "stopReason": reasons[a.Stop]}
	if stopped {
		out["stopReason"] = "stopSequence"
	}
	if len(calls) == 0 {
		// One block: versions before 2025-11-25 know nothing else.
		out["content"] = content{"type": "text", "text": a.Message.Text()}
		return json.Marshal(out)
	}
	var all []content
	for _, p := range a.Message.Parts {
		switch {
		case p.Text != "":
			all = append(all, content{"type": "text", "text": p.Text})
		case p.Call == nil:
		case p.Call.Malformed != "":
			return nil, fault.New(fault.Unreachable, mcp.MethodSample, "the model wanted to use a tool in a way that makes no sense")
		default:
			c := content{"type": "tool_use", "id": p.Call.ID, "name": p.Call.Name, "input": p.Call.Args}
			if p.Opaque != nil { // it comes back with the use: the protocol asks servers to keep _meta
				c["_meta"] = map[string]any{"stoa/opaque": p.Opaque}
			}
			all = append(all, c)
		}
	}
	out["content"] = all
	if a.Stop == llm.Done && !stopped {
		out["stopReason"] = reasons[llm.Calls]
	}
	return json.Marshal(out)
}
