package stoa

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// Result is what a tool answered.
type Result struct {
	IsError    bool            // the tool says that it failed
	Content    json.RawMessage // the array of content blocks; nil if there is none
	Structured json.RawMessage // structuredContent; nil if there is none
	Raw        json.RawMessage // the whole result, as the server sent it
}

// newResult makes a Result of an answer and gives its memory back.
func newResult(resp mcp.Response) (*Result, error) {
	defer resp.Release()
	if resp.Error != nil {
		return nil, said(resp.Error)
	}
	r := &Result{Raw: append(json.RawMessage(nil), resp.Result...)}
	for _, f := range wire.Members(r.Raw) {
		switch string(f.Name) {
		case "isError":
			r.IsError = string(f.Value) == "true"
		case "content":
			r.Content = json.RawMessage(f.Value)
		case "structuredContent":
			r.Structured = json.RawMessage(f.Value)
		case "resultType":
			if kind, _ := wire.String(f.Value); kind != "complete" {
				return nil, &Error{Kind: KindServer, Message: "the tool wants input (" + kind + "), which a call by this package cannot give", Hint: "Call it through the hub's Handler, by a client that can."}
			}
		}
	}
	return r, nil
}

// Text is the text of the text blocks, one after the other on lines of their
// own.
func (r *Result) Text() string {
	var parts []string
	blocks, _ := wire.Elements(r.Content)
	for _, b := range blocks {
		if kind, _ := wire.String(wire.Get(b, "type")); kind == "text" {
			text, _ := wire.String(wire.Get(b, "text"))
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// Decode decodes the structured content into v, or the text as JSON where
// there is none.
func (r *Result) Decode(v any) error {
	from := []byte(r.Structured)
	if from == nil {
		from = []byte(r.Text())
	}
	if len(from) == 0 {
		return errors.New("decode the result of a tool: it has neither structured content nor text")
	}
	return json.Unmarshal(from, v)
}
