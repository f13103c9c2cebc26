package stoa

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// Local is the server that the program's own tools are tools of.
const Local = "local"

// Source says where tools come from. Sources can be combined with |.
type Source uint8

const (
	FromMCP   Source = 1 << iota // of MCP servers
	FromLocal                    // the program's own
)

// ToolInfo is a tool that can be called.
type ToolInfo struct {
	Name        string // mcp:server:tool, or local:tool for the program's own
	Server      string
	Tool        string // as the server calls it
	Exposed     string // as MCP clients of Handler see it at /mcp
	Source      Source
	Description string
	InputSchema json.RawMessage // nil if the server gives none
	Definition  json.RawMessage // the whole definition, as the server sent it
}

func info(it *catalog.Item) ToolInfo {
	t := ToolInfo{Name: "mcp:" + it.Ref(), Server: it.Upstream, Tool: it.Name, Exposed: it.Exposed, Source: FromMCP, Definition: clone(it.Raw)}
	if it.Upstream == Local {
		t.Name, t.Source = it.Ref(), FromLocal
	}
	t.Description, _ = wire.String(wire.Get(it.Raw, "description"))
	if raw := wire.Get(it.Raw, "inputSchema"); raw != nil {
		t.InputSchema = clone(raw)
	}
	return t
}

func clone(b []byte) json.RawMessage { return append(json.RawMessage(nil), b...) }

// Tools returns the tools that are known now, sorted by their exposed name.
// Without AutoDiscover those of a server are known once it was used, or by
// Discover.
func (h *Hub) Tools(from Source) []ToolInfo {
	var out []ToolInfo
	for _, it := range h.hub.Tools() {
		if t := h.info(it); t.Source&from != 0 {
			out = append(out, t)
		}
	}
	return out
}

// info tells the program's own tools from those of a server that is called
// local.
func (h *Hub) info(it *catalog.Item) ToolInfo {
	t := info(it)
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.Source == FromLocal && h.own == nil {
		t.Name, t.Source = "mcp:"+it.Ref(), FromMCP
	}
	return t
}

// RemoveByPrefix takes out the tools whose Name begins with prefix, such as
// "mcp:filesystem:", and returns how many there were. Those of an MCP server
// come back when its list is read again: when it says that the list changed,
// when it is connected anew, or by Discover.
func (h *Hub) RemoveByPrefix(prefix string) int {
	h.mu.Lock()
	own := h.own
	h.mu.Unlock()
	match := func(it *catalog.Item) bool {
		name := "mcp:" + it.Ref()
		if it.Upstream == Local && own != nil {
			name = it.Ref()
		}
		return strings.HasPrefix(name, prefix)
	}
	if own != nil {
		own.remove(func(name string) bool { return strings.HasPrefix(Local+":"+name, prefix) })
	}
	return h.hub.RemoveTools(match)
}

// Tool is a tool of the program's own.
type Tool struct {
	Name        string
	Description string
	// InputSchema is the JSON Schema of the arguments: anything that encodes
	// to an object, or JSON as []byte or json.RawMessage. nil takes any object.
	InputSchema any
	// Handler runs the tool. args is the arguments' object, checked against
	// InputSchema and valid until Handler returns. What it returns becomes the
	// result: a string as text, a *Result as it is, anything else as JSON, in
	// text and, if it is an object, as structured content. An error becomes a
	// result with IsError. ctx ends when the caller goes away, and after 30 s:
	// a Handler that does not heed that is waited for.
	Handler func(ctx context.Context, args json.RawMessage) (any, error)
}

// AddTool adds a tool of the program's own. It can be called when AddTool has
// returned: by CallTool as a tool of the server Local, and by clients of
// Handler, who are told that the list changed.
func (h *Hub) AddTool(t Tool) error {
	def, err := t.definition()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return &Error{Kind: "invalid_request", Message: "add tool " + t.Name + ": the hub is closed"}
	}
	if h.own == nil {
		own := &module{log: h.log}
		if h.listed, err = h.hub.AddModule(Local, own); err != nil {
			return wrap(err)
		}
		h.own = own
	}
	if !h.own.add(t, def) {
		return &Error{Kind: "invalid_request", Message: "add tool " + t.Name + ": there is one of that name", Hint: "Remove it first, by RemoveByPrefix, or choose another name."}
	}
	return wrap(h.listed.Load(context.Background()))
}

// definition is the tool as it is listed.
func (t Tool) definition() ([]byte, error) {
	fail := func(text, hint string) ([]byte, error) {
		return nil, &Error{Kind: "invalid_request", Message: "add tool " + t.Name + ": " + text, Hint: hint}
	}
	switch {
	case t.Name == "" || len(t.Name) > 128 || strings.ContainsAny(t.Name, " \t\r\n:"):
		return fail("the name is empty, too long, or has a space or a colon", "Use letters, digits, _ and -.")
	case t.Handler == nil:
		return fail("it has no Handler", "Give it one.")
	}
	input := []byte(`{"type":"object"}`)
	if t.InputSchema != nil {
		var err error
		if input, err = encode(t.InputSchema); err != nil {
			return fail("the input schema cannot be encoded: "+err.Error(), "Pass a JSON Schema object.")
		}
		if kind, _ := wire.String(wire.Get(input, "type")); kind != "object" {
			return fail(`the input schema does not say "type": "object"`, "The arguments of a tool are always an object.")
		}
		lazy := schema.Lazy{Raw: input}
		if _, err := lazy.Get(); err != nil {
			return fail("the input schema cannot be used: "+err.Error(), "Mend the schema.")
		}
	}
	def := map[string]any{"name": t.Name, "inputSchema": json.RawMessage(input)}
	if t.Description != "" {
		def["description"] = t.Description
	}
	return json.Marshal(def)
}
