package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// toolResult is the answer to tools/call.
type toolResult struct {
	Type       string                     `json:"resultType"`
	Content    []block                    `json:"content"`
	Structured json.RawMessage            `json:"structuredContent"`
	IsError    bool                       `json:"isError"`
	Meta       map[string]json.RawMessage `json:"_meta"`
}

// block is one part of a result, of any type.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	MIMEType string    `json:"mimeType"`
	Data     string    `json:"data"`
	URI      string    `json:"uri"`
	Name     string    `json:"name"`
	Resource *contents `json:"resource"`
}

// contents are those of a resource.
type contents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
	Blob     string `json:"blob"`
}

// text is a result for a person: its texts, and what else there is by name.
func (r toolResult) text() string {
	var parts []string
	for _, b := range r.Content {
		parts = append(parts, b.text())
	}
	if len(parts) == 0 && len(r.Structured) > 0 {
		var b bytes.Buffer
		if json.Indent(&b, r.Structured, "", "  ") == nil {
			return b.String()
		}
	}
	return strings.Join(parts, "\n")
}

func (b block) text() string {
	switch {
	case b.Type == "text":
		return b.Text
	case b.Type == "resource" && b.Resource != nil && b.Resource.Blob == "":
		return b.Resource.Text
	case b.Type == "resource" && b.Resource != nil:
		return placeholder("resource "+b.Resource.URI, b.Resource.MIMEType, b.Resource.Blob)
	case b.Type == "resource_link":
		return fmt.Sprintf("[resource %s %s; read it with stoa resources read]", b.URI, b.Name)
	case b.Data != "":
		return placeholder(b.Type, b.MIMEType, b.Data)
	}
	return fmt.Sprintf("[%s; use --json to see it]", b.Type)
}

// placeholder stands for bytes that are no text.
func placeholder(what, mime, data string) string {
	bare := strings.TrimRight(data, "=")
	size := base64.RawStdEncoding.DecodedLen(len(bare))
	if mime != "" {
		what += " " + mime
	}
	return fmt.Sprintf("[%s, %d bytes; use --json to see it]", what, size)
}
