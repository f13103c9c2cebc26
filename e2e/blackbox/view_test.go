package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// A12: what somebody may see is decided in one place, so that every list and
// every call says the same.

// sight says where a tool of a server can be seen, as somebody, in a session.
// What cannot be asked for by this somebody is left out.
func (h *hub) sight(t testing.TB, token, session, server, tool string) map[string]bool {
	t.Helper()
	name := server + "__" + tool
	face := "/mcp"
	if session != "" {
		face = "/s/" + session + "/mcp"
	}
	seen := map[string]bool{face: slices.Contains(h.names(t, face, token), name)}
	missing := func(text string) bool {
		for _, word := range []string{"unknown_tool", "UNKNOWN_TOOL", "unknown tool", "no tool"} {
			if strings.Contains(text, word) {
				return true
			}
		}
		return false
	}
	if session == "" { // which these know nothing of
		own := h.post(t, "/mcps/"+server+"/mcp", token, rpc("tools/list", object{}))
		seen["/mcps/"+server+"/mcp"] = strings.Contains(own.text, `"name":"`+tool+`"`)
		seen["a call at /mcps/"+server+"/mcp"] = own.status == http.StatusOK && !missing(h.tool(t, "/mcps/"+server+"/mcp", token, tool, object{"path": "/nonesuch/x"}).text)
	}
	args := object{"path": "/nonesuch/x"}
	for _, spelt := range []string{name, server + ":" + tool} {
		seen["a call of "+spelt] = !missing(h.tool(t, face, token, spelt, args).text)
	}
	seen["a batch"] = !missing(h.tool(t, face, token, "tools_batch", object{"calls": list{object{"tool": name, "arguments": args}}}).text)
	seen["a task"] = !missing(h.tool(t, face, token, "task_start", object{"tool": name, "arguments": args}).text)
	seen["a plan"] = !missing(h.tool(t, face, token, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": name, "args": args}), "dryRun": true}).text)
	found := h.tool(t, face, token, "plan_create", object{"tools": list{name}, "inputs": list{"path"}, "requiredOutputs": list{tool}}).text
	seen["a search for plans"] = strings.Contains(found, `"tool":"`+name+`"`) || strings.Contains(found, `\"tool\":\"`+name+`\"`)
	if token != "" {
		in := ""
		if session != "" {
			in = "?session=" + session
		}
		if session == "" {
			var answer struct {
				Tools []struct {
					Name string
					Off  bool
				}
			}
			got := h.get(t, "/api/v1/tools?limit=500", token)
			if err := json.Unmarshal([]byte(got.text), &answer); err != nil {
				t.Fatalf("%v: %s", err, got.text)
			}
			seen["/api/v1/tools"] = false
			for _, one := range answer.Tools {
				seen["/api/v1/tools"] = seen["/api/v1/tools"] || one.Name == name && !one.Off
			}
		}
		seen["/api/tools"] = !missing(h.post(t, "/api/tools/"+name+in, token, args).text)
		more := object{}
		if session != "" {
			more["sessionId"] = session
		}
		seen["the chat's list"] = strings.Contains(h.say(t, token, "list tools", more).Text, "- "+name+":")
		seen["the chat's call"] = !missing(h.say(t, token, callOf(name, args), more).Text)
	}
	return seen
}

// agree fails the test where one place says otherwise.
func agree(t testing.TB, what string, want bool, seen map[string]bool, but ...string) {
	t.Helper()
	for where, got := range seen {
		if got != want && !slices.Contains(but, where) {
			t.Errorf("%s: %s: the tool is seen: %v, want %v", what, where, got, want)
		}
	}
}

// planless is left out where only what can be called counts: whether a search
// finds a use for a tool depends on more than on rights.
const planless = "a search for plans"

func TestListsAgreeAboutScopes(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	other, _ := upstream(t)
	h := serve(t, object{"files": files, "other": other})
	bob := h.token(t, "bob", "--scope", "other", "--scope", "plan", "--scope", "stoa", "--scope", "task")
	agree(t, "out of scope", false, h.sight(t, bob, "", "files", "write"))
	agree(t, "out of scope, in a session", false, h.sight(t, bob, "work", "files", "write"))
	agree(t, "in scope", true, h.sight(t, bob, "", "other", "read"), planless)
	l.want(t, "write", 0)
	// Lists of servers are lists too.
	for _, path := range []string{"/readyz", "/mcps", "/api/v1/servers", "/api/v1/modules"} {
		lacks(t, path, h.get(t, path, bob).text, `"files"`)
	}
	// Prompts, and what completes their arguments.
	for _, method := range []string{"prompts/list", "resources/list"} {
		lacks(t, method, h.post(t, "/mcp", bob, rpc(method, object{})).text, "files")
	}
	refused(t, "completion out of scope", h.complete(t, "/mcp", bob, "files__greet"))
	mentions(t, "completion in scope", h.complete(t, "/mcp", bob, "other__greet").text, "alice")
	l.want(t, "complete", 0)
}

func (h *hub) complete(t testing.TB, path, token, prompt string) reply {
	t.Helper()
	return h.post(t, path, token, rpc("completion/complete", object{"ref": object{"type": "ref/prompt", "name": prompt}, "argument": object{"name": "who", "value": "a"}}))
}

func TestListsAgreeAboutDenials(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]object{
		"by tool":      {"rules": list{object{"tools": "files__write", "action": "deny"}}},
		"by ref":       {"rules": list{object{"tools": "files:wr*", "action": "deny"}}},
		"by default":   {"default": "deny", "rules": list{object{"tools": list{"files__read", "plan", "task", "stoa", "context", "plan_*"}, "action": "allow"}}},
		"by principal": {"rules": list{object{"tools": "files__write", "principals": list{"bob", "local"}, "action": "deny"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, l := upstream(t)
			h := serveMuted(t, object{"files": files}, object{"policy": policy})
			bob := h.token(t, "bob")
			for who, token := range map[string]string{"bob": bob, "the owner": h.owner, "tokenless": ""} {
				agree(t, who, false, h.sight(t, token, "", "files", "write"))
				agree(t, who, true, h.sight(t, token, "", "files", "read"), planless)
			}
			agree(t, "bob in a session", false, h.sight(t, bob, "work", "files", "write"))
			got := h.tool(t, "/mcp", bob, "files__write", object{"path": "x"}).text
			none := strings.ReplaceAll(h.tool(t, "/mcp", bob, "files__wrote", object{"path": "x"}).text, "files__wrote", "files__write")
			if noHints(got) != noHints(none) {
				t.Errorf("a denied tool is answered %s, a name that is none %s", got, none)
			}
			l.want(t, "write", 0)
		})
	}
}

// noHints leaves out what a hub says of names that are near: they differ from
// name to name.
func noHints(text string) string {
	var answer struct{ Error struct{ Code, Message any } }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return text
	}
	return fmt.Sprint(answer)
}

// serveMuted is serve for servers whose tool write is not listed.
func serveMuted(t testing.TB, servers object, settings ...object) *hub {
	t.Helper()
	h := prepare(t, servers, settings...)
	h.launch(t)
	for name := range servers {
		await.Until(t, "the tools of "+name+" are listed", func() bool {
			return strings.Contains(h.post(t, "/mcps/"+name+"/mcp", "", rpc("tools/list", object{})).text, `"read"`)
		})
	}
	return h
}

func TestDeniedPromptIsNotThere(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{"policy": object{"rules": list{object{"prompts": "files__greet", "action": "deny"}}}})
	for _, face := range []struct{ path, prompt string }{{"/mcp", "files__greet"}, {"/s/x/mcp", "files__greet"}, {"/mcps/files/mcp", "greet"}} {
		lacks(t, "prompts at "+face.path, h.post(t, face.path, "", rpc("prompts/list", object{})).text, "greet")
		refused(t, "the prompt at "+face.path, h.post(t, face.path, "", rpc("prompts/get", object{"name": face.prompt})))
		refused(t, "completion at "+face.path, h.complete(t, face.path, "", face.prompt))
	}
	l.want(t, "complete", 0)
}

// A denial that is about arguments leaves the tool in the list and gives its
// reason.
func TestDenialOfArgumentsIsSaid(t *testing.T) {
	t.Parallel()
	const reason = "nothing goes to etc"
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{"policy": object{"rules": list{object{"tools": "files__write", "args": object{"path": object{"under": "/etc"}}, "action": "deny", "reason": reason}}}})
	bad, good := object{"path": "/etc/x"}, object{"path": filepath.Join(t.TempDir(), "a")}
	agree(t, "the owner", true, h.sight(t, h.owner, "", "files", "write"), planless)
	before := l.count(t, "write")
	ask := func(text string) string { return h.say(t, h.owner, text).raw }
	for what, text := range map[string]string{
		"/mcp":            h.tool(t, "/mcp", "", "files__write", bad).text,
		"/s/x/mcp":        h.tool(t, "/s/x/mcp", "", "files__write", bad).text,
		"/mcps/files/mcp": h.tool(t, "/mcps/files/mcp", "", "write", bad).text,
		"/api/tools":      h.post(t, "/api/tools/files__write", h.owner, bad).text,
		"a batch":         h.tool(t, "/mcp", "", "tools_batch", object{"calls": list{object{"tool": "files__write", "arguments": bad}}}).text,
		"a plan":          h.tool(t, "/mcp", "", "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__write", "args": bad})}).text,
		"chat":            ask(callOf("files__write", bad)),
		"chat by a plan":  ask(callOf("plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__write", "args": bad})})),
	} {
		mentions(t, what, text, reason)
	}
	// A reference hides nothing: what is judged is what the server would get.
	h.tool(t, "/s/x/mcp", "", "context_add", object{"name": "where", "data": "/etc/x"})
	mentions(t, "a reference", h.tool(t, "/s/x/mcp", "", "files__write", object{"path": "@where"}).text, reason)
	l.want(t, "write", before)
	h.tool(t, "/mcp", "", "files__write", good)
	l.want(t, "write", before+1)
}

func TestListsAgreeAboutSwitches(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files})
	bob := h.token(t, "bob")
	// In one session only.
	h.tool(t, "/s/quiet/mcp", bob, "module_unload", object{"module": "files"})
	agree(t, "off in the session", false, h.sight(t, bob, "quiet", "files", "write"))
	agree(t, "another session", true, h.sight(t, bob, "loud", "files", "read"), planless)
	l.want(t, "write", 0)
	refused(t, "completion in the session", h.complete(t, "/s/quiet/mcp", bob, "files__greet"))
	l.want(t, "complete", 0)
	// For everybody.
	if got := h.send(t, http.MethodPut, "/api/v1/modules/files", bob, nil, object{"on": false}); got.status != http.StatusForbidden {
		t.Errorf("bob switches a server off for everybody: %d %s", got.status, got.text)
	}
	if out, err := h.run(t, "modules", "off", "files", "--data", h.data, "--config", h.config); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	// /mcps/NAME is the server itself, whatever the merged faces leave out.
	itself := []string{"/mcps/files/mcp", "a call at /mcps/files/mcp"}
	before := l.count(t, "read")
	for who, token := range map[string]string{"bob": bob, "the owner": h.owner, "tokenless": ""} {
		seen := h.sight(t, token, "", "files", "read")
		agree(t, who, false, seen, itself...)
		if seen[itself[0]] != seen[itself[1]] {
			t.Errorf("%s: the server's own face lists the tool: %v, and calls it: %v", who, seen[itself[0]], seen[itself[1]])
		}
		if seen[itself[1]] {
			before++
		}
	}
	refused(t, "completion", h.complete(t, "/mcp", bob, "files__greet"))
	l.want(t, "read", before)
	l.want(t, "complete", 0)
}
