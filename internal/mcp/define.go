package mcp

import (
	"bytes"
	"slices"

	"github.com/stoahub/stoa/internal/wire"
)

// Define returns the definition of a tool as clients of the era can read it,
// whatever the era of the server that gave it. Strict clients refuse a whole
// list for one definition: those of the legacy era know output schemas of
// objects only, and the modern era has no execution. A definition that is fine
// is returned as it is.
func Define(to Era, tool []byte) []byte {
	fields := wire.Members(tool)
	for _, f := range fields {
		name := string(f.Name)
		odd := to == Legacy && name == "outputSchema" && string(wire.Get(f.Value, "type")) != `"object"`
		if odd || to == Modern && name == "execution" {
			return wire.EditFields(nil, fields, wire.Change{Name: name})
		}
	}
	return tool
}

// defineAll is Define for the tools of a result.
func defineAll(to Era, result []byte) []byte {
	tools, ok := wire.Elements(wire.Get(result, "tools"))
	if !ok {
		return result
	}
	if !replaceEach(tools, func(tool []byte) []byte { return Define(to, tool) }) {
		return result
	}
	return wire.Edit(nil, result, wire.Change{Name: "tools", Value: array(tools)})
}

// linksVersion is the first version whose clients know links to resources.
const linksVersion = "2025-06-18"

// Plain returns the answer with links to resources as text where the client
// has agreed on a version that has no links: old clients refuse a whole result
// for one block that they do not know. A client that has agreed on nothing is
// taken to know them.
func Plain(method string, resp Response, c *Client) Response {
	if c == nil || c.Era != Legacy || c.Connection == "" || c.Version >= linksVersion || !bytes.Contains(resp.Result, []byte(`"resource_link"`)) {
		return resp
	}
	member, each := "content", plainBlock
	switch method {
	case "tools/call":
	case "prompts/get":
		member, each = "messages", func(message []byte) []byte {
			block := wire.Get(message, "content")
			if plain := plainBlock(block); !bytes.Equal(plain, block) {
				return wire.Edit(nil, message, wire.Change{Name: "content", Value: plain})
			}
			return message
		}
	default:
		return resp
	}
	blocks, ok := wire.Elements(wire.Get(resp.Result, member))
	if !ok || !replaceEach(blocks, each) {
		return resp
	}
	return Response{Result: wire.Edit(nil, resp.Result, wire.Change{Name: member, Value: array(blocks)})}
}

// plainBlock is a block of content, as text if it is a link.
func plainBlock(block []byte) []byte {
	if kind, _ := wire.String(wire.Get(block, "type")); kind != "resource_link" {
		return block
	}
	said := func(name string) string {
		s, _ := wire.String(wire.Get(block, name))
		return s
	}
	text := said("uri")
	if name := said("name"); name != "" && name != text {
		text = name + ": " + text
	}
	if what := said("description"); what != "" {
		text += "\n" + what
	}
	changes := []wire.Change{{Name: "type", Value: []byte(`"text"`)}, {Name: "text", Value: wire.Quote(text)}}
	for _, name := range []string{"uri", "name", "title", "description", "mimeType", "size", "icons"} {
		changes = append(changes, wire.Change{Name: name})
	}
	return wire.Edit(nil, block, changes...)
}

// replaceEach puts what f returns in the place of each value, and reports
// whether any is another one.
func replaceEach(values [][]byte, f func([]byte) []byte) (changed bool) {
	for i, v := range values {
		if n := f(v); !bytes.Equal(n, v) {
			values[i], changed = n, true
		}
	}
	return changed
}

func array(values [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(values, []byte{','}), []byte{']'})
}
