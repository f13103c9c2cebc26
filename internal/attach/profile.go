package attach

import (
	"slices"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// profile is what a hub has been told of the client, or has told it, that the
// next hub has to be told again.
type profile struct {
	hello       []byte // params of initialize, once it was answered well; nil in the modern era
	version     string // that was agreed on
	lists       []string
	ready       bool // notifications/initialized has come
	initialized []byte
	level       []byte   // params of the last logging/setLevel
	uris        [][]byte // params of resources/subscribe

	safe map[string]bool // tools that were listed: may a call of them be repeated?
}

// maxTools bounds what is remembered of lists.
const maxTools = 50_000

// learn takes in what the answer to a request changes.
func (c *profile) learn(a *asked, result []byte) {
	switch a.method {
	case "initialize":
		if a.modern {
			return
		}
		c.hello = a.params
		c.version, _ = wire.String(wire.Get(result, "protocolVersion"))
		c.lists = nil
		caps := wire.Get(result, "capabilities")
		for _, l := range []struct{ name, note string }{
			{"tools", mcp.NoteToolsChanged}, {"prompts", mcp.NotePromptsChanged}, {"resources", mcp.NoteResourcesChanged},
		} {
			if string(wire.Get(wire.Get(caps, l.name), "listChanged")) == "true" {
				c.lists = append(c.lists, l.note)
			}
		}
	case "logging/setLevel":
		c.level = a.params
	case "resources/subscribe", "resources/unsubscribe":
		uri := string(wire.Get(a.params, "uri"))
		c.uris = slices.DeleteFunc(c.uris, func(params []byte) bool { return string(wire.Get(params, "uri")) == uri })
		if a.method == "resources/subscribe" {
			c.uris = append(c.uris, a.params)
		}
	case "tools/list":
		c.listed(result)
	}
}

// listed takes in which tools may be called again.
func (c *profile) listed(result []byte) {
	tools, _ := wire.Elements(wire.Get(result, "tools"))
	if c.safe == nil {
		c.safe = map[string]bool{}
	}
	for _, tool := range tools {
		name, ok := wire.String(wire.Get(tool, "name"))
		if !ok || len(c.safe) >= maxTools {
			continue
		}
		hints := wire.Get(tool, "annotations")
		c.safe[name] = string(wire.Get(hints, "readOnlyHint")) == "true" || string(wire.Get(hints, "idempotentHint")) == "true"
	}
}

// repeatable says whether a request that a hub may have seen can be sent again,
// and whether that is known.
func (c *profile) repeatable(a *asked) (yes, known bool) {
	yes, known = true, true
	for _, tool := range a.calls {
		safe, listed := c.safe[tool]
		if listed && !safe {
			return false, true
		}
		yes, known = yes && safe, known && listed
	}
	return yes, known
}
