package blackbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A2: the tools of the hub itself are judged as all others are, and what
// configures the hub is out of their reach.

// guarded are files of a root that nobody may touch by file tools: the hub's
// own, and files that become a hub's or an agent's where they are.
var guarded = []string{
	"hub.jsonc", ".env", "agent.yaml", "stoa.yaml", "mcp.json", "data/token", "data/hub.json",
	"sub/stoa.yaml", "sub/mcp.json", "sub/.env", "sub/.env.local", "sub/agent.json", "sub/STOA.YAML", "sub/.mcp.json",
}

// mark is in each of them.
const mark = "do-not-tell"

// rooted is a hub whose file tools have the folder of its config as their root.
func rooted(t testing.TB, servers object, settings ...object) *hub {
	t.Helper()
	h := &hub{folder: t.TempDir()}
	h.config, h.data = filepath.Join(h.folder, "hub.jsonc"), filepath.Join(h.folder, "data")
	all := append(settings, object{"modules": object{"file": object{"roots": list{"."}}}, "chat": object{"systemPrompt": mark}})
	h.configure(t, servers, all...)
	h.launch(t)
	h.awaitTools(t, servers)
	for _, name := range guarded {
		path := filepath.Join(h.folder, name)
		if exists(path) {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("# "+mark+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(h.folder, "plain.txt"), []byte("plain text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// snapshot is what is in the guarded files.
func (h *hub) snapshot(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range guarded {
		text, err := os.ReadFile(filepath.Join(h.folder, name))
		if err != nil {
			t.Fatalf("%s is gone: %v", name, err)
		}
		all[name] = string(text)
	}
	return all
}

// refused fails the test unless a call of a tool did not do what it was asked.
func refused(t testing.TB, what string, got reply) {
	t.Helper()
	var answer struct {
		Result struct {
			IsError           bool
			StructuredContent struct{ Success *bool }
		}
		Error json.RawMessage
	}
	if err := json.Unmarshal([]byte(got.text), &answer); err != nil {
		t.Fatalf("%s: %v: %s", what, err, got.text)
	}
	said := answer.Result.StructuredContent.Success
	if answer.Error == nil && !answer.Result.IsError && (said == nil || *said) {
		t.Errorf("%s was done: %s", what, clip(got.text))
	}
}

func TestFileToolsKeepOffTheConfig(t *testing.T) {
	t.Parallel()
	h := rooted(t, object{})
	before := h.snapshot(t)
	call := func(what, tool string, args object) {
		t.Helper()
		got := h.tool(t, "/mcp", "", tool, args)
		refused(t, what, got)
		lacks(t, what, got.text, mark, h.owner)
	}
	for _, name := range guarded {
		// A path may be written in many ways.
		for _, path := range []string{name, "./" + name, "sub/../" + name, filepath.Join(h.folder, name)} {
			call("reading "+path, "file_read", object{"path": path})
		}
		call("looking at "+name, "file_info", object{"path": name, "hash": true})
		call("overwriting "+name, "file_write", object{"path": name, "content": "{}", "mode": "overwrite"})
		call("appending to "+name, "file_write", object{"path": name, "content": "{}", "mode": "append"})
		call("editing "+name, "file_edit", object{"path": name, "edits": list{object{"find": mark, "replace": "x"}}})
		call("moving "+name+" away", "file_move", object{"from": name, "to": "taken"})
		call("moving onto "+name, "file_move", object{"from": "plain.txt", "to": name, "overwrite": true})
		call("removing "+name, "file_remove", object{"path": name})
	}
	for _, name := range []string{"new/stoa.yaml", "new/mcp.json", "new/.env", "new/agent.yaml", "stoa.jsonc", "new/claude_desktop_config.json", "data/new"} {
		call("creating "+name, "file_write", object{"path": name, "content": "{}", "parents": true})
		call("moving to "+name, "file_move", object{"from": "plain.txt", "to": name, "parents": true})
		if exists(filepath.Join(h.folder, name)) {
			t.Errorf("%s was created", name)
		}
	}
	for _, folder := range []string{"sub", "data"} {
		call("removing the folder "+folder, "file_remove", object{"path": folder, "recursive": true})
		call("moving the folder "+folder, "file_move", object{"from": folder, "to": "elsewhere"})
	}
	links := map[string]error{
		"symbolic": os.Symlink(filepath.Join(h.folder, "sub/agent.json"), filepath.Join(h.folder, "symbolic.txt")),
		"hard":     os.Link(h.config, filepath.Join(h.folder, "hard.txt")),
	}
	for link, err := range links {
		if err != nil {
			t.Fatal(err)
		}
		call("reading by a link", "file_read", object{"path": link + ".txt"})
		call("writing by a link", "file_write", object{"path": link + ".txt", "content": "{}", "mode": "overwrite"})
	}
	for what, got := range map[string]reply{
		"file_list":           h.tool(t, "/mcp", "", "file_list", object{"recursive": true}),
		"file_list of sub":    h.tool(t, "/mcp", "", "file_list", object{"path": "sub"}),
		"file_search":         h.tool(t, "/mcp", "", "file_search", object{"pattern": mark, "hidden": true}),
		"file_search of keys": h.tool(t, "/mcp", "", "file_search", object{"pattern": ".*", "regexp": true, "hidden": true, "limit": 1000}),
	} {
		lacks(t, what, strings.ReplaceAll(got.text, `"`+mark+`"`, ""), mark+"\\", "stoa.yaml", "STOA.YAML", "mcp.json", ".env", "agent.yaml", "hub.jsonc", "hub.json", h.owner)
	}
	for name, text := range h.snapshot(t) {
		if text != before[name] && name != "data/hub.json" { // which the hub itself writes
			t.Errorf("%s is now %q", name, text)
		}
	}
	// A folder that is none of the hub's business is not closed.
	if got := h.tool(t, "/mcp", "", "file_read", object{"path": "plain.txt"}); !strings.Contains(got.text, "plain text") {
		t.Errorf("an ordinary file: %s", got.text)
	}
}

// An MCP client asks its own user, so its call runs. A model of the hub has
// nobody but the hub to ask.
func TestModelNeedsAnApprovalForFiles(t *testing.T) {
	t.Parallel()
	h := rooted(t, object{})
	path := func(name string) string { return filepath.Join(h.folder, name) }
	for name, words := range map[string]string{
		"writing":             callOf("file_write", object{"path": "new.txt", "content": "x"}),
		"overwriting":         callOf("file_write", object{"path": "plain.txt", "content": "x", "mode": "overwrite"}),
		"editing":             callOf("file_edit", object{"path": "plain.txt", "edits": list{object{"find": "plain", "replace": "x"}}}),
		"moving":              callOf("file_move", object{"from": "plain.txt", "to": "new.txt"}),
		"removing":            callOf("file_remove", object{"path": "plain.txt"}),
		"removing by a plan":  callOf("plan_execute", object{"plan": planOf(object{"id": "a", "tool": "file_remove", "args": object{"path": "plain.txt"}})}),
		"removing by a batch": callOf("tools_batch", object{"calls": list{object{"tool": "file_remove", "arguments": object{"path": "plain.txt"}}}}),
	} {
		mentions(t, name, h.say(t, h.owner, words).raw, "approval_required", "APPROVAL_REQUIRED", "a person has to allow it")
		text, err := os.ReadFile(path("plain.txt"))
		if err != nil || string(text) != "plain text\n" || exists(path("new.txt")) {
			t.Fatalf("%s happened though nobody approved: %q, %v", name, text, err)
		}
	}
	mentions(t, "reading needs nobody", h.say(t, h.owner, callOf("file_read", object{"path": "plain.txt"})).raw, "plain text")

	h.attend(t, h.owner)
	running := h.saying(h.owner, callOf("file_write", object{"path": "new.txt", "content": "approved"}))
	question := h.asked(t, "file_write", running)
	if exists(path("new.txt")) {
		t.Error("the file was there before the answer")
	}
	h.approve(t, question.ID)
	readTurn(t, <-running)
	if text, err := os.ReadFile(path("new.txt")); err != nil || string(text) != "approved" {
		t.Errorf("an approved write: %q, %v", text, err)
	}

	h.tool(t, "/mcp", "", "file_write", object{"path": "client.txt", "content": "x"})
	if !exists(path("client.txt")) {
		t.Error("a client's own call did not run")
	}
	if n := len(h.waiting(t, h.owner)); n != 0 {
		t.Errorf("somebody was asked about a client's own call: %d", n)
	}
}

// The whole attack: a model adds a server to the config, and hot reload runs it.
func TestModelCannotAddAServer(t *testing.T) {
	t.Parallel()
	h := rooted(t, object{})
	struck := filepath.Join(t.TempDir(), "struck")
	evil := `{"stoa":1,"servers":{"evil":{"command":"sh","args":["-c","touch ` + struck + `"]}}}`
	for _, name := range []string{"hub.jsonc", filepath.Join(h.folder, "hub.jsonc"), "sub/../hub.jsonc", "stoa.yaml"} {
		args := object{"path": name, "content": evil, "mode": "overwrite"}
		refused(t, "a client's writing of "+name, h.tool(t, "/mcp", "", "file_write", args))
		// A person who says yes to everything does not open the file either.
		h.attend(t, h.owner)
		running := h.saying(h.owner, callOf("file_write", args))
		h.approve(t, h.asked(t, "file_write", running).ID)
		mentions(t, "a model's writing of "+name, readTurn(t, <-running).Text, "file_write failed")
	}
	// A change that the hub does take up comes after what was tried, so that
	// what was tried would have come before.
	files, _ := upstream(t)
	h.configure(t, object{"good": files}, object{"modules": object{"file": object{"roots": list{"."}}}})
	await.Until(t, "the new server is there", func() bool {
		return strings.Contains(h.get(t, "/api/v1/servers", h.owner).text, `"good"`)
	})
	lacks(t, "the servers", h.get(t, "/api/v1/servers", h.owner).text, "evil")
	if exists(struck) {
		t.Error("the command of the model ran")
	}
}

// The same by the agents that the hub starts: a manifest is read again when it
// changes, and a script is run as it is now, so both are out of reach.
func TestModelCannotChangeWhatServersRun(t *testing.T) {
	t.Parallel()
	struck := filepath.Join(t.TempDir(), "struck")
	manifest := "agent: 1\ntools: {write: {command: [sh, scripts/say.sh]}}\n"
	h := prepare(t, object{"t": object{"command": stoa(t), "args": list{"agent", "--stdio", "tools.yaml"}, "cwd": "."}},
		object{"modules": object{"file": object{"roots": list{"."}}}})
	for name, text := range map[string]string{"tools.yaml": manifest, "scripts/say.sh": "echo said\n", "plain.txt": "plain\n"} {
		path := filepath.Join(h.folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	h.launch(t)
	h.awaitTools(t, object{"t": nil})
	for name, evil := range map[string]string{"tools.yaml": "agent: 1\ntools: {write: {command: [touch, " + struck + "]}}\n", "scripts/say.sh": "touch " + struck + "\n"} {
		refused(t, "writing "+name, h.tool(t, "/mcp", "", "file_write", object{"path": name, "content": evil, "mode": "overwrite"}))
		refused(t, "editing "+name, h.tool(t, "/mcp", "", "file_edit", object{"path": name, "edits": list{object{"find": "say", "replace": "pay"}}}))
		refused(t, "moving onto "+name, h.tool(t, "/mcp", "", "file_move", object{"from": "plain.txt", "to": name, "overwrite": true}))
		refused(t, "removing "+name, h.tool(t, "/mcp", "", "file_remove", object{"path": name}))
	}
	refused(t, "moving the scripts away", h.tool(t, "/mcp", "", "file_move", object{"from": "scripts", "to": "gone"}))
	refused(t, "reading the manifest", h.tool(t, "/mcp", "", "file_read", object{"path": "tools.yaml"}))
	mentions(t, "reading a script", h.tool(t, "/mcp", "", "file_read", object{"path": "scripts/say.sh"}).text, "echo said")
	mentions(t, "the tool", h.tool(t, "/mcp", "", "t__write", object{}).text, "said")
	if exists(struck) {
		t.Error("the command of the model ran")
	}
}
