package blackbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// B9: what looks like a reference is one, or is refused; it never reaches a
// server as text.
func TestReferenceIsNeverText(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files})
	h.tool(t, "/s/refs/mcp", h.owner, "context_add", object{"name": "server", "data": object{
		"odd key": "a", "ünï": "b", "list": list{"c", "d"}, "name": "e", "deep": object{"and deeper": list{object{"日本": "f"}}},
		"text": `{"inside":["g"]}`,
	}})
	folder := t.TempDir()
	for _, c := range []struct {
		ref, want string // no want: it may be refused
	}{
		{`@server["odd key"]`, "a"},
		{`@server.ünï`, "b"},
		{`@server.list[-1]`, "d"},
		{`@server.list[-2]`, "c"},
		{`@server.deep["and deeper"][0].日本`, "f"},
		{`@server.text.inside[0]`, "g"},
		{`@server.name `, ""},
		{`@server.list[-3]`, ""},
		{`@server["odd key`, ""},
		{`@server.list[x]`, ""},
		{`@server.name.`, ""},
		{` @server.name`, ""},
		{"\t@server.name", ""},
		{`@server.odd key`, ""},
		{`@server.x:y`, ""},
		{`@server.a/b`, ""},
		{`@server.100%`, ""},
		{`@server.👩‍🚀`, ""},
		{`@server .ünï`, ""},
		{"@server\u200b.name", ""},
	} {
		for how, call := range map[string]func(path string) reply{
			"call": func(path string) reply {
				return h.tool(t, "/s/refs/mcp", h.owner, "files__write", object{"path": path, "text": c.ref})
			},
			"batch": func(path string) reply {
				return h.tool(t, "/s/refs/mcp", h.owner, "tools_batch", object{"calls": list{object{"tool": "files__write", "arguments": object{"path": path, "text": c.ref}}}})
			},
			"plan": func(path string) reply {
				return h.tool(t, "/s/refs/mcp", h.owner, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__write", "args": object{"path": path, "text": c.ref}})})
			},
		} {
			path := filepath.Join(folder, "target")
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			answer := call(path)
			got, err := os.ReadFile(path)
			switch {
			case errors.Is(err, fs.ErrNotExist) && c.want == "": // refused
				lacks(t, c.ref+" in a "+how, answer.text, "that are listed")
			case err != nil:
				t.Errorf("%s in a %s: %s", c.ref, how, clip(answer.text))
			case string(got) == c.ref || c.want != "" && string(got) != c.want:
				t.Errorf("%s in a %s: the server was sent %q", c.ref, how, got)
			}
		}
	}
	mentions(t, "a name that is not there", h.tool(t, "/s/refs/mcp", h.owner, "files__write", object{"path": filepath.Join(folder, "x"), "text": "@server.odd"}).text, "odd key")
	text := h.tool(t, "/s/refs/mcp", h.owner, "files__write", object{"path": filepath.Join(folder, "x"), "text": "@nosuchthing"}).text
	mentions(t, "a value that is not there", text, "it holds server")
	lacks(t, "a value that is not there", text, "that are listed")
}
