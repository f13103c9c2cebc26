package blackbox

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Data folders that an older release has written, with every kind of record that
// it knows. They are made anew with
//
//	STOA_MAKE_FOLDERS=testdata STOA_BIN=/path/to/the/old/stoa go test -run TestMakeOldFolders ./e2e/blackbox
//
// and each is an archive and a list of what must be found in it.

// makeVariable names the folder in which TestMakeOldFolders puts what it makes.
const makeVariable = "STOA_MAKE_FOLDERS"

// oldFolders are the folders that are kept, by how their hub ended.
var oldFolders = []string{"killed", "stopped"}

// inside is what must be found in a data folder.
type inside struct {
	Release      string            `json:"release"`
	Made         time.Time         `json:"made"`
	Values       map[string]string `json:"values"`       // of the session desk
	Lengths      map[string]int    `json:"lengths"`      // of large values there, which are many times the letter that their name begins with
	Removed      []string          `json:"removed"`      // from it
	Ended        []string          `json:"ended"`        // sessions
	Talk         string            `json:"talk"`         // the session of a conversation
	Said         []string          `json:"said"`         // in it
	Runs         map[string]string `json:"runs"`         // ids by their status
	Tasks        map[string]string `json:"tasks"`        // ids by what became of them
	Plans        []string          `json:"plans"`        // published
	Unpublished  []string          `json:"unpublished"`  // and taken back
	Errors       []string          `json:"errors"`       // ids
	Bob          string            `json:"bob"`          // his token, and that of carol, who may not come in any more
	Carol        string            `json:"carol"`        //
	BobsNote     string            `json:"bobsNote"`     // in his own session desk
	Connection   string            `json:"connection"`   // of a legacy client that keeps something
	File         string            `json:"file"`         // uploaded; it is kept for an hour
	FileRemoved  string            `json:"fileRemoved"`  //
	Switched     string            `json:"switched"`     // a session in which the server files is off
	DecisionKept []string          `json:"decisionKept"` // what is remembered, by tool and decision
}

// oldTools are those that the server of old folders has besides.
const oldTools = loadTool + `,{"name":"break","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

// oldSettings are those of hubs over old folders: nothing in them ends by itself.
var oldSettings = object{
	"session": object{"timeout": "87000h", "maxAge": "87000h"},
	"limits":  object{"taskTTL": "87000h"},
	"policy":  object{"rules": list{object{"tools": list{"files__write", "files__load"}, "action": "ask"}}},
}

func TestMakeOldFolders(t *testing.T) {
	into := os.Getenv(makeVariable)
	if into == "" {
		t.Skip("only who wants them made anew sets " + makeVariable)
	}
	for _, name := range oldFolders {
		t.Run(name, func(t *testing.T) {
			files, l := withTools(t, oldTools)
			h := serve(t, object{"files": files}, oldSettings)
			in := h.furnish(t)
			// The engine keeps the note of a deletion for a minute.
			<-time.After(75 * time.Second)
			if name == "killed" {
				h.begins(t, in, l)
				h.kill(t)
			} else {
				h.process.stopped(t)
			}
			pack(t, h.data, filepath.Join(into, "folder-"+name+".tar.gz"))
			text, err := json.MarshalIndent(in, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(into, "folder-"+name+".json"), append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

var runID = regexp.MustCompile(`run_[a-zA-Z0-9]+`)

// furnish leaves something of every kind in a hub, and says what. Paths are
// relative to where the server runs, so that the folder can be moved.
func (h *hub) furnish(t testing.TB) *inside {
	t.Helper()
	version, err := h.run(t, "version")
	if err != nil {
		t.Fatal(err)
	}
	in := &inside{Release: strings.TrimSpace(version), Made: time.Now().UTC().Truncate(time.Second)}
	h.furnishValues(t, in)
	h.furnishPeople(t, in)
	h.furnishTalk(t, in)
	h.furnishDecisions(t, in)
	h.furnishPlans(t, in)
	h.furnishRuns(t, in)
	h.furnishTasks(t, in)
	h.tool(t, "/mcp", h.owner, "files__break", object{})
	for line := range strings.Lines(h.get(t, "/api/v1/errors/export", h.owner).text) {
		var e struct{ ID string }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" {
			t.Fatalf("errors: %v in %s", err, clip(line))
		}
		in.Errors = append(in.Errors, e.ID)
	}
	if len(in.Errors) == 0 {
		t.Fatal("no error was met")
	}
	return in
}

// must is tool for what has to succeed.
func (h *hub) must(t testing.TB, path, token, name string, args any) string {
	t.Helper()
	text := h.tool(t, path, token, name, args).text
	if strings.Contains(text, `"isError":true`) || strings.Contains(text, `"error":{`) {
		t.Fatalf("%s: %s", name, clip(text))
	}
	return text
}

// gone removes something by the API.
func (h *hub) gone(t testing.TB, path string) {
	t.Helper()
	if got := h.send(t, http.MethodDelete, path, h.owner, nil, nil); got.status/100 != 2 {
		t.Fatalf("delete %s: %d %s", path, got.status, got.text)
	}
}

func (h *hub) furnishValues(t testing.TB, in *inside) {
	t.Helper()
	desk := func(name string, data any) {
		t.Helper()
		h.must(t, "/s/desk/mcp", h.owner, "context_add", object{"name": name, "data": data})
	}
	in.Values = map[string]string{"note": "the second version", "other": "another"}
	in.Lengths = map[string]int{"large": 700 << 10, "huge": 2 << 20}
	in.Removed = []string{"removed", "bulky"}
	in.Ended = []string{"ended"}
	desk("note", "the first version")
	for name, text := range in.Values {
		desk(name, text)
	}
	for name, n := range in.Lengths {
		desk(name, strings.Repeat(name[:1], n))
	}
	desk("removed", "to be removed")
	desk("bulky", strings.Repeat("b", 700<<10))
	for _, name := range in.Removed {
		h.must(t, "/s/desk/mcp", h.owner, "context_remove", object{"name": name})
	}
	h.must(t, "/s/ended/mcp", h.owner, "context_add", object{"name": "note", "data": "ended"})
	h.gone(t, "/api/v1/sessions/ended")
	in.Switched = "switched"
	h.must(t, "/s/switched/mcp", h.owner, "module_unload", object{"module": "files"})
	got, err := h.try(http.MethodPost, "/mcp", h.owner, nil, rpc("initialize", greeting))
	if err != nil {
		t.Fatal(err)
	}
	in.Connection = got.header.Get("Mcp-Session-Id")
	h.send(t, http.MethodPost, "/mcp", h.owner, connectedAs(in.Connection), rpc("tools/call", object{"name": "context_add", "arguments": object{"name": "note", "data": "of a connection"}}))
}

func connectedAs(id string) http.Header {
	return http.Header{"Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {"2025-06-18"}}
}

func (h *hub) furnishPeople(t testing.TB, in *inside) {
	t.Helper()
	in.Bob, in.Carol, in.BobsNote = h.token(t, "bob"), h.token(t, "carol"), "bob's own"
	h.must(t, "/s/desk/mcp", in.Bob, "context_add", object{"name": "note", "data": in.BobsNote})
	if _, err := h.run(t, "token", "revoke", "carol", "--data", h.data, "--config", h.config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept.txt", "removed.txt"} {
		got, err := h.try(http.MethodPost, "/api/files?name="+name, h.owner, nil, "text of "+name)
		if err != nil || got.status/100 != 2 {
			t.Fatalf("upload: %d %s, %v", got.status, got.text, err)
		}
	}
	all, err := read[fileList](h.get(t, "/api/files", h.owner), nil)
	if err != nil || len(all.Files) != 2 {
		t.Fatalf("files: %+v, %v", all, err)
	}
	for _, f := range all.Files {
		if f.Name == "kept.txt" {
			in.File = f.ID
		} else {
			in.FileRemoved = f.ID
			h.gone(t, "/api/files/"+f.ID)
		}
	}
}

func (h *hub) furnishTalk(t testing.TB, in *inside) {
	t.Helper()
	in.Talk = "talk"
	in.Said = []string{"good morning", "some text", "and a long one: lllll"}
	at := object{"sessionId": in.Talk}
	h.say(t, h.owner, "good morning", at)
	h.say(t, h.owner, callOf("files__read", object{"path": "x"}), at)
	h.say(t, h.owner, "and a long one: "+strings.Repeat("l", 20<<10), at)
	h.say(t, h.owner, "this is forgotten", object{"sessionId": "hushed"})
	h.must(t, "/s/hushed/mcp", h.owner, "context_add", object{"name": "note", "data": "hushed"})
	h.gone(t, "/api/v1/sessions/hushed")
	in.Ended = append(in.Ended, "hushed")
}

// furnishDecisions has some calls asked about. Of what is remembered an approval
// and a denial stay, and an approval is forgotten.
func (h *hub) furnishDecisions(t testing.TB, in *inside) {
	t.Helper()
	in.DecisionKept = []string{"files__write approve", "files__load deny"}
	decide := func(path, token, tool, decision string) {
		t.Helper()
		h.attend(t, h.owner)
		running := h.background(http.MethodPost, path, token, rpc("tools/call", object{"name": tool, "arguments": object{"path": "written"}}))
		if got := h.decide(t, h.owner, h.asked(t, tool, running).ID, object{"decision": decision, "remember": "tool"}); got.status/100 != 2 {
			t.Fatalf("%s %s: %d %s", decision, tool, got.status, got.text)
		}
		<-running
	}
	decide("/mcp", in.Bob, "files__write", "approve")
	all, err := read[struct{ Remembered []struct{ ID, Ref string } }](h.get(t, "/api/v1/approvals/remembered", h.owner), nil)
	if err != nil || len(all.Remembered) != 1 {
		t.Fatalf("remembered: %+v, %v", all, err)
	}
	h.gone(t, "/api/v1/approvals/remembered/"+all.Remembered[0].ID)
	decide("/mcp", h.owner, "files__write", "approve")
	decide("/mcp", h.owner, "files__load", "deny")
}

func (h *hub) furnishPlans(t testing.TB, in *inside) {
	t.Helper()
	for _, name := range []string{"tidy", "dropped"} {
		h.publish(t, h.owner, name, planOf(object{"id": "a", "tool": "files__read"}))
	}
	h.gone(t, "/api/v1/plans/dropped")
	in.Plans, in.Unpublished = []string{"tidy"}, []string{"dropped"}
}

func (h *hub) furnishRuns(t testing.TB, in *inside) {
	t.Helper()
	in.Runs = map[string]string{}
	begin := func(status, tool string, args object) {
		t.Helper()
		id := runID.FindString(h.tool(t, "/s/runs/mcp", h.owner, tool, args).text)
		if id == "" {
			t.Fatalf("there is no run that is %s", status)
		}
		await.NoError(t, "the run is "+status, func() error {
			if text := h.get(t, "/api/v1/runs/"+id, h.owner).text; !strings.Contains(text, `"status":"`+status+`"`) {
				return errors.New(clip(text))
			}
			return nil
		})
		in.Runs[status] = id
	}
	two := planOf(object{"id": "a", "tool": "files__read"}, object{"id": "b", "tool": "files__read", "args": object{"path": "@a"}})
	begin("done", "plan_execute", object{"plan": two})
	begin("failed", "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__break"})})
	begin("paused", "plan_debug", object{"plan": two, "action": "start", "breakpoints": list{"b"}})
}

func (h *hub) furnishTasks(t testing.TB, in *inside) {
	t.Helper()
	in.Tasks = map[string]string{}
	h.taskIs(t, h.beginTask(t, in, "completed", "files__read"), "completed")
	h.gone(t, "/api/v1/tasks/"+h.beginTask(t, in, "cancelled", "files__wait"))
}

func (h *hub) beginTask(t testing.TB, in *inside, what, tool string) (id string) {
	t.Helper()
	text := h.tool(t, "/mcp", h.owner, "task_start", object{"tool": tool, "arguments": object{"path": "gate"}}).text
	if id = taskID.FindString(text); id == "" {
		t.Fatalf("task_start: %s", clip(text))
	}
	in.Tasks[what] = id
	return id
}

// begins leaves something under way.
func (h *hub) begins(t testing.TB, in *inside, l ledger) {
	t.Helper()
	got := h.post(t, "/api/v1/runs", h.owner, object{"plan": planOf(object{"id": "a", "tool": "files__wait", "args": object{"path": "gate"}}), "session": "runs"})
	if in.Runs["running"] = runID.FindString(got.text); in.Runs["running"] == "" {
		t.Fatalf("begin a run: %d %s", got.status, got.text)
	}
	h.beginTask(t, in, "repeatable", "files__wait")
	h.beginTask(t, in, "once", "files__press")
	// With that of the task that was cancelled the server has three calls that wait.
	await.Until(t, "the server has all calls", func() bool { return l.count(t, "wait") == 3 && l.count(t, "press") == 1 })
}

// taskIs waits until a task is as it should be.
func (h *hub) taskIs(t testing.TB, id, status string) {
	t.Helper()
	await.NoError(t, "the task is "+status, func() error {
		if text := h.get(t, "/api/v1/tasks/"+id, h.owner).text; !strings.Contains(text, `"status":"`+status+`"`) {
			return errors.New(clip(text))
		}
		return nil
	})
}

// pack makes an archive of a folder.
func pack(t testing.TB, folder, archive string) {
	t.Helper()
	out, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(folder, path)
		if err != nil || name == "." || strings.HasPrefix(name, "logs") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		head, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		head.Name, head.Uname, head.Gname, head.Uid, head.Gid = name, "", "", 0, 0
		if err := w.WriteHeader(head); err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
	if err := errors.Join(err, w.Close(), zip.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// unpack makes a folder of an archive.
func unpack(t testing.TB, archive, folder string) {
	t.Helper()
	in, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(zip)
	for {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, head.Name)
		if head.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
		}
		if err != nil {
			t.Fatal(fmt.Errorf("unpack %s: %w", head.Name, err))
		}
	}
}
