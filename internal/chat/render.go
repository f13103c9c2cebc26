package chat

import (
	"fmt"
	"strings"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// render makes of an answer to tools/call what the model sees.
func render(resp *mcp.Response) *Result {
	r := &Result{Bytes: len(resp.Result), Status: OK}
	if resp.Error != nil {
		text, _ := wire.String(wire.Get(resp.Error, "message"))
		if hint, _ := wire.String(wire.Get(wire.Get(resp.Error, "data"), "hint")); hint != "" {
			text += ". " + hint
		}
		r.Content, r.IsError, r.Status, r.Bytes = text, true, Failed, len(resp.Error)
		return r
	}
	var content, structured, meta []byte
	for _, f := range wire.Members(resp.Result) {
		switch string(f.Name) {
		case "content":
			content = f.Value
		case "structuredContent":
			structured = f.Value
		case "isError":
			r.IsError = string(f.Value) == "true"
		case "_meta":
			meta = f.Value
		case "resultType":
			if kind, _ := wire.String(f.Value); kind == "input_required" {
				return &Result{Content: "The tool asks for input that only a person at a client can give.", IsError: true, Status: Failed, Bytes: r.Bytes}
			}
		}
	}
	if r.IsError {
		r.Status = Failed
	}
	var parts []string
	blocks, _ := wire.Elements(content)
	for _, b := range blocks {
		if text := renderBlock(b); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 && structured != nil {
		parts = []string{string(structured)}
	}
	r.Content = strings.Join(parts, "\n")
	if r.Content == "" {
		r.Content = "(The tool said nothing.)"
	}
	for _, f := range wire.Members(meta) {
		if name := string(f.Name); name == "stoa/saved" || name == "stoa/card" {
			r.Saved, _ = wire.String(wire.Get(f.Value, "name"))
		}
	}
	return r
}

// renderBlock is one block of content as text.
func renderBlock(b []byte) string {
	said := func(obj []byte, name string) string {
		s, _ := wire.String(wire.Get(obj, name))
		return s
	}
	switch kind := said(b, "type"); kind {
	case "text":
		return said(b, "text")
	case "image", "audio":
		return fmt.Sprintf("[%s, %s, %d bytes, which cannot be shown as text]", kind, said(b, "mimeType"), len(wire.Get(b, "data"))*3/4)
	case "resource_link":
		return strings.TrimSuffix(fmt.Sprintf("[resource %s: %s %s]", said(b, "name"), said(b, "uri"), said(b, "description")), " ")
	case "resource":
		res := wire.Get(b, "resource")
		if text := said(res, "text"); text != "" {
			return text
		}
		return fmt.Sprintf("[resource %s, %s, %d bytes, which cannot be shown as text]", said(res, "uri"), said(res, "mimeType"), len(wire.Get(res, "blob"))*3/4)
	default:
		return string(b)
	}
}
