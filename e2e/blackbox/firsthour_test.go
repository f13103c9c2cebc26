package blackbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// server is what the hub says of a server.
func (h *hub) server(t testing.TB, name string) string {
	t.Helper()
	got := h.get(t, "/api/v1/servers", h.owner)
	var all struct{ Servers []json.RawMessage }
	if err := json.Unmarshal([]byte(got.text), &all); err != nil {
		t.Fatalf("servers: %v %s", err, clip(got.text))
	}
	for _, s := range all.Servers {
		if strings.Contains(string(s), `"name":"`+name+`"`) {
			return string(s)
		}
	}
	return ""
}

// unset is a server that needs a variable which nobody has set.
var unset = object{"url": "http://127.0.0.1:1/mcp", "headers": object{"Authorization": "Bearer ${TICKETS_TOKEN}"}}

// C1: one bad server stops nobody, and says what is wrong with it.
func TestOneBadServerStopsNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bad  object
		says string
	}{
		"a variable that is not set":   {unset, "TICKETS_TOKEN"},
		"a variable of its command":    {object{"command": "node", "args": list{"${TICKETS_SCRIPT}"}}, "TICKETS_SCRIPT"},
		"a folder that does not exist": {object{"command": "sh", "args": list{"-c", "echo 'Error: cannot access directory /none/notes' >&2; exit 1"}}, "cannot access directory /none/notes"},
		"a mistyped key":               {object{"comand": "npx"}, "comand"},
		"a program that is not there":  {object{"command": "no-such-program-anywhere"}, "no-such-program-anywhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, _ := upstream(t)
			h := prepare(t, object{"files": files, "bad": c.bad})
			h.launch(t)
			h.awaitTools(t, object{"files": nil})
			mentions(t, "a call of the other", h.tool(t, "/mcp", h.owner, "files__read", object{}).text, "some text")
			await.NoError(t, "the hub says what is wrong", func() error {
				if got := h.server(t, "bad"); !strings.Contains(got, c.says) {
					return fmt.Errorf("%s", clip(got))
				}
				return nil
			})
		})
	}
}

// C2: a client by stdio is answered whatever is wrong, and told what it is.
func TestStdioAnswersWhateverIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config  string
		running bool   // a hub runs already
		says    string // a call
	}{
		"a variable that is not set":             {`{"stoa":1,"servers":{"tickets":{"url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer ${TICKETS_TOKEN}"}}}}`, false, "TICKETS_TOKEN"},
		"a variable that is not set, with a hub": {`{"stoa":1,"servers":{"tickets":{"url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer ${TICKETS_TOKEN}"}}}}`, true, "tickets"},
		"a file that cannot be read":             {`{"stoa":1,"servers":`, false, "client.jsonc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := prepare(t, object{})
			if c.running {
				h.launch(t)
			} else {
				h.env = append(h.env, "AIUR_SERVER_PORT=0")
				t.Cleanup(func() { _, _ = h.run(t, "stop", "--data", h.data) }) // that it has started, if it has
			}
			path := filepath.Join(h.folder, "client.jsonc")
			if err := os.WriteFile(path, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			ask := h.stdio(t, "--data", h.data, "--config", path)
			mentions(t, "initialize", ask("initialize", greeting), `"result"`)
			mentions(t, "tools/list", ask("tools/list", object{}), `"result"`)
			call := ask("tools/call", object{"name": "tickets__search", "arguments": object{}})
			mentions(t, "a call", call, c.says)
		})
	}
}

// C2, C4: a client of one's own, and its model, learn why a server does not start
// from what it wrote; a token for others learns nothing of that.
func TestStdioSaysWhyAServerEnded(t *testing.T) {
	t.Parallel()
	h := prepare(t, object{"files": object{"command": "sh", "args": list{"-c", "echo 'Error accessing directory /none/notes' >&2; exit 1"}}})
	h.launch(t)
	guest := h.token(t, "guest")
	await.Until(t, "the hub has tried to start the server", func() bool { return strings.Contains(h.server(t, "files"), "the program ended") })
	ask := h.stdio(t, "--data", h.data, "--config", h.config)
	mentions(t, "the instructions", ask("initialize", greeting), "Error accessing directory /none/notes")
	mentions(t, "a call", ask("tools/call", object{"name": "files__read", "arguments": object{}}), "Error accessing directory /none/notes")
	lacks(t, "a call with a token", h.tool(t, "/mcp", guest, "files__read", object{}).text, "/none/notes")
}

// C3: what ends or shows a hub works when the config at hand is wrong.
func TestStopAndConsoleNeedNoConfig(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a variable that is not set": "stoa: 1\nservers:\n  tickets: {url: \"http://127.0.0.1:1/mcp\", headers: {Authorization: \"Bearer ${TICKETS_TOKEN}\"}}\n",
		"a file that is no YAML":     "stoa: 1\nservers: [\n",
		"an unknown key":             "stoa: 1\nsevers: {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, _ := upstream(t)
			h := serve(t, object{"files": files})
			if err := os.WriteFile(filepath.Join(h.folder, "stoa.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := h.run(t, "console", "--no-open")
			if err != nil {
				t.Errorf("%v", err)
			}
			mentions(t, "stoa console", out, h.address)
			if out, err = h.run(t, "stop"); err != nil {
				t.Fatalf("%v", err)
			}
			select {
			case <-h.process.done:
			case <-time.After(await.Patience):
				t.Errorf("the hub goes on: %s", out)
			}
		})
	}
}

// C4: nothing is started by a hub that cannot run, and its reason comes first.
func TestHubThatCannotRunStartsNothing(t *testing.T) {
	t.Parallel()
	h := serve(t, object{})
	for name, data := range map[string]string{"its address is taken": filepath.Join(h.folder, "other"), "its folder is in use": h.data} {
		t.Run(name, func(t *testing.T) {
			started := filepath.Join(t.TempDir(), "started")
			second := prepare(t, object{"late": object{"command": "sh", "args": list{"-c", "echo x > " + started + "; exec cat"}}})
			out, err := second.run(t, "serve", "--data", data, "--config", second.config, "--listen", h.address)
			if err == nil {
				t.Fatalf("it runs: %s", out)
			}
			if exists(started) {
				t.Error("its server was started")
			}
			if n := strings.Count(strings.TrimSpace(err.Error()), "\n"); n > 2 {
				t.Errorf("%d lines are said: %s", n+1, err)
			}
			mentions(t, "the reason", err.Error(), h.address)
		})
	}
}

// What npm says last is where its log is; what it says before is the cause.
func TestCauseOfALauncherIsShown(t *testing.T) {
	t.Parallel()
	const says = `npm error code E404
npm error 404 Not Found - GET https://registry.example/@acme%2ffiles - Not found
npm error 404
npm error 404  '@acme/files@*' is not in this registry.
npm error 404
npm error A complete log of this run can be found in: /tmp/debug-0.log`
	h := prepare(t, object{"files": object{"command": "sh", "args": list{"-c", "printf '%s\\n' \"$0\" >&2; exit 1", says}}})
	h.launch(t)
	var text string
	await.Until(t, "the hub says why the server cannot be started", func() bool {
		var s struct{ Error string }
		if err := json.Unmarshal([]byte(h.server(t, "files")), &s); err != nil {
			return false
		}
		text = s.Error
		return text != ""
	})
	out, err := h.run(t, "servers", "--data", h.data, "--config", h.config)
	if err != nil {
		t.Fatal(err)
	}
	shown, _, _ := strings.Cut(out[strings.Index(out, "files"):], "stderr")
	mentions(t, "what `stoa servers` says", shown, "@acme/files")
	lacks(t, "the error", text, "A complete log of this run")
}
