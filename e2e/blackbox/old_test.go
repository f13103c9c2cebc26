package blackbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A data folder that the first release has written is copied, and then used with
// all that is in it: what was kept is there, what was deleted stays so, what was
// under way goes on. So it is after further starts and kills.
func TestOldFolders(t *testing.T) {
	t.Parallel()
	for _, name := range oldFolders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, l := withTools(t, oldTools)
			servers := object{"files": files}
			h := prepare(t, servers, oldSettings)
			unpack(t, filepath.Join("testdata", "folder-"+name+".tar.gz"), h.data)
			was := contents(t, h.data)
			in := insideOf(t, name)
			h.launch(t)
			h.awaitTools(t, servers)
			h.isCopied(t, was)
			h.holds(t, "at first", in)
			h.countsDecisions(t, in, l)
			h.goesOn(t, in)
			// What the engine says of its own files is not believed after a crash.
			for _, summaries := range []bool{true, false} {
				h.kill(t)
				if !summaries {
					dropSummaries(t, h.data)
				}
				h.launch(t)
				h.awaitTools(t, servers)
				h.holds(t, fmt.Sprintf("after a kill, with summaries: %v", summaries), in)
			}
			if copies, err := filepath.Glob(filepath.Join(h.data, "copy-of-*")); err != nil || len(copies) != 1 {
				t.Errorf("after further starts there are the copies %v, %v", copies, err)
			}
		})
	}
}

// insideOf reads the list of what is in an old folder.
func insideOf(t testing.TB, name string) *inside {
	t.Helper()
	in := &inside{}
	text, err := os.ReadFile(filepath.Join("testdata", "folder-"+name+".json"))
	if err == nil {
		err = json.Unmarshal(text, in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// contents are the files of a folder by their paths in it; folders have none.
func contents(t testing.TB, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil || d.IsDir() {
			all[name] = ""
			return err
		}
		text, err := os.ReadFile(path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isCopied holds the copy of an older folder to what was there.
func (h *hub) isCopied(t testing.TB, was map[string]string) {
	t.Helper()
	to := filepath.Join(h.data, "copy-of-version-1")
	there := contents(t, to)
	was = maps.Clone(was)
	for _, name := range []string{"hub.lock", "hub.json", "logs"} { // what tells of a hub that runs
		delete(was, name)
	}
	for name, text := range was {
		if got, ok := there[name]; !ok || got != text {
			t.Errorf("the copy has %s: %v, and %d bytes instead of %d", name, ok, len(got), len(text))
		}
	}
	for name := range there {
		if _, ok := was[name]; !ok {
			t.Errorf("the copy has %s, which was not there", name)
		}
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: others can read it: %v, %v", name, info.Mode(), err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(h.data, "VERSION")); err != nil || string(b) != "2\n" {
		t.Errorf("the folder has the version %q, %v", b, err)
	}
	var said string
	logs, err := filepath.Glob(filepath.Join(h.data, "logs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		said += string(b)
	}
	mentions(t, "the log says where the copy is", said, to)
	mentions(t, "the log says how to go back", said, "to go back, stop the hub")
}

// holds looks for all that must be there, and for all that must not.
func (h *hub) holds(t testing.TB, when string, in *inside) {
	t.Helper()
	get := func(path string) reply { t.Helper(); return h.get(t, path, h.owner) }
	want := func(path string, words ...string) {
		t.Helper()
		got := get(path)
		for _, w := range words {
			mentions(t, when+": "+path, got.text, w)
		}
	}
	large := maps.Clone(in.Values)
	for name, n := range in.Lengths {
		large[name] = strings.Repeat(name[:1], n)
	}
	for name, text := range large {
		quoted, err := json.Marshal(text)
		if got := get("/api/v1/sessions/desk/values/" + name); err != nil || got.text != string(quoted) {
			t.Errorf("%s: the value %s is %d %s", when, name, got.status, clip(got.text))
		}
	}
	for _, name := range in.Removed {
		if got := get("/api/v1/sessions/desk/values/" + name); got.status != http.StatusNotFound {
			t.Errorf("%s: the value %s is back: %d %s", when, name, got.status, clip(got.text))
		}
	}
	want("/api/v1/sessions/desk/values/note?version=1", "the first version")
	for _, name := range in.Ended {
		lacks(t, when+": the sessions", get("/api/v1/sessions").text, `"name":"`+name+`"`)
		lacks(t, when+": the conversations", get("/api/chat").text, `"`+name+`"`)
	}
	if names := strings.Join(h.names(t, "/s/"+in.Switched+"/mcp", h.owner), " "); strings.Contains(names, "files__") {
		t.Errorf("%s: a server that was switched off is listed: %s", when, names)
	}
	want("/api/chat/"+in.Talk, in.Said...)
	for status, id := range in.Runs {
		want("/api/v1/runs/"+id, `"status":"`+status+`"`)
	}
	for status, id := range in.Tasks {
		h.taskIs(t, id, map[string]string{"completed": "completed", "cancelled": "cancelled", "repeatable": "working", "once": "failed"}[status])
	}
	for _, name := range in.Plans {
		want("/api/v1/plans", `"name":"`+name+`"`)
	}
	for _, name := range in.Unpublished {
		lacks(t, when+": the plans", get("/api/v1/plans").text, name)
	}
	want("/api/v1/errors/export", in.Errors...)
	h.holdsPeople(t, when, in)
}

func (h *hub) holdsPeople(t testing.TB, when string, in *inside) {
	t.Helper()
	mentions(t, when+": bob's value", h.get(t, "/api/v1/sessions/desk/values/note", in.Bob).text, in.BobsNote)
	if got := h.get(t, "/api/v1/tools", in.Carol); got.status != http.StatusUnauthorized {
		t.Errorf("%s: a revoked token gets %d", when, got.status)
	}
	got := h.send(t, http.MethodPost, "/mcp", h.owner, connectedAs(in.Connection), rpc("tools/call", object{"name": "context_get", "arguments": object{"name": "note"}}))
	mentions(t, when+": the connection", got.text, "of a connection")
	file := h.get(t, "/api/files", h.owner).text
	lacks(t, when+": the files", file, in.FileRemoved)
	switch age := time.Since(in.Made); {
	case age < 55*time.Minute:
		mentions(t, when+": the files", file, in.File)
	case age > time.Hour:
		lacks(t, when+": the files", file, in.File)
	}
	all, err := read[struct {
		Remembered []struct {
			Ref     string
			Approve bool
		}
	}](h.get(t, "/api/v1/approvals/remembered", h.owner), nil)
	if err != nil {
		t.Fatal(err)
	}
	var decisions []string
	for _, d := range all.Remembered {
		decision := "deny"
		if d.Approve {
			decision = "approve"
		}
		decisions = append(decisions, strings.ReplaceAll(d.Ref, ":", "__")+" "+decision)
	}
	if slices.Sort(decisions); !slices.Equal(decisions, slices.Sorted(slices.Values(in.DecisionKept))) {
		t.Errorf("%s: there are the decisions %q, want %q", when, decisions, in.DecisionKept)
	}
}

// countsDecisions shows what remembered decisions of old are worth: a denial
// holds, and an approval, which was given for a definition that nobody wrote
// down, has a person asked.
func (h *hub) countsDecisions(t testing.TB, in *inside, l ledger) {
	t.Helper()
	h.attend(t, h.owner)
	call := func(tool string) object {
		return rpc("tools/call", object{"name": tool, "arguments": object{"path": "written"}})
	}
	if got := h.post(t, "/mcp", h.owner, call("files__load")); !strings.Contains(got.text, "denied") {
		t.Errorf("what was denied is answered by %d %s", got.status, clip(got.text))
	}
	running := h.background(http.MethodPost, "/mcp", h.owner, call("files__write"))
	if got := h.decide(t, h.owner, h.asked(t, "files__write", running).ID, object{"decision": "deny"}); got.status/100 != 2 {
		t.Fatalf("deny: %d %s", got.status, got.text)
	}
	<-running
	l.want(t, "load", 0)
	l.want(t, "write", 0)
	_ = in
}

// goesOn continues what can be, and takes note of what has changed by that.
func (h *hub) goesOn(t testing.TB, in *inside) {
	t.Helper()
	said := h.say(t, h.owner, "and here we are again", object{"sessionId": in.Talk})
	if said.End.Reason != "done" && said.Text == "" {
		t.Errorf("the conversation does not go on: %s", clip(said.raw))
	}
	in.Said = append(in.Said, "and here we are again")
	h.must(t, "/s/desk/mcp", h.owner, "context_add", object{"name": "other", "data": "changed since"})
	in.Values["other"] = "changed since"
	paused := in.Runs["paused"]
	if got := h.post(t, "/api/v1/runs/"+paused+"/continue", h.owner, object{}); got.status/100 != 2 {
		t.Fatalf("continue: %d %s", got.status, got.text)
	}
	mentions(t, "the run that was paused", h.quiet(t, paused), `"status":"done"`)
	delete(in.Runs, "paused")
	in.Runs["done"] = paused
	if err := os.WriteFile(filepath.Join(h.folder, "gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if id, ok := in.Runs["running"]; ok {
		mentions(t, "the run that was under way", h.quiet(t, id), `"status":"done"`)
		delete(in.Runs, "running")
		h.taskIs(t, in.Tasks["repeatable"], "completed")
		mentions(t, "the task of which nobody knows", h.get(t, "/api/v1/tasks/"+in.Tasks["once"], h.owner).text, "outcome_unknown", "OUTCOME_UNKNOWN", "not known")
		in.Tasks["completed"] = in.Tasks["repeatable"]
		delete(in.Tasks, "repeatable")
	}
	// It is no folder of old any more: what is deleted now stays so, too.
	h.gone(t, "/api/v1/plans/"+in.Plans[0])
	in.Plans, in.Unpublished = nil, append(in.Unpublished, in.Plans...)
}

// A folder of the future is refused by whatever would write to it, with both
// versions, and left as it is.
func TestFolderOfTheFuture(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"the data folder": "VERSION", "its store": filepath.Join("js", "VERSION")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := prepare(t, object{})
			unpack(t, filepath.Join("testdata", "folder-stopped.tar.gz"), h.data)
			if err := errors.Join(os.WriteFile(filepath.Join(h.data, file), []byte("3\n"), 0o600), os.Chmod(h.data, 0o755)); err != nil {
				t.Fatal(err)
			}
			before := contents(t, h.data)
			_, err := h.run(t, "serve", "--data", h.data, "--config", h.config, "--listen", "127.0.0.1:0")
			if err == nil {
				t.Fatal("it was used")
			}
			for _, words := range []string{"version 3", "up to 2", "use the release that wrote it"} {
				mentions(t, "the refusal", err.Error(), words)
			}
			if file == "VERSION" {
				if _, err := h.run(t, "token", "create", "dave", "--data", h.data, "--config", h.config); err == nil {
					t.Error("a token was made in it")
				}
			}
			if after := contents(t, h.data); !maps.Equal(before, after) {
				for path, text := range after {
					if was, ok := before[path]; !ok || !bytes.Equal([]byte(was), []byte(text)) {
						t.Errorf("%s was changed", path)
					}
				}
				t.Errorf("there were %d files and folders, and are %d", len(before), len(after))
			}
		})
	}
}
