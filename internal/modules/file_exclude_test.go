package modules

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// configured is a root with all kinds of things that must not be touched, and
// the module of it.
func configured(t *testing.T) (*Module, string) {
	t.Helper()
	dir := tree(t, map[string]string{
		"hub.yaml": secret, "real/custom.yaml": secret, "real/other": "x", "state/key": secret, "stoa.yaml": secret, "target.json": secret,
		"sub/.env": secret, "sub/.env.local": secret, "sub/.env.example": "x", "sub/agent.yaml": secret, "sub/.vscode/mcp.json": secret, "sub/notes": "x",
		"free/plain": "x", "free/inner/plain": "x", "plain": "x", "café/": "",
	})
	for name, target := range map[string]string{
		"conf": "mid", "mid": "real", "alias": "hub.yaml", "absolute": dir + "/hub.yaml", "sub/soft": ".env", "into": "sub/.vscode", "store": "state", "mcp.json": "target.json",
		"loose": "free",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, old := range map[string]string{"free/hard": "hub.yaml", "sub/twin": "sub/.env", "free/far": "stoa.yaml"} {
		if err := os.Link(filepath.Join(dir, old), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var exclude []string
	for _, name := range []string{"hub.yaml", "conf/custom.yaml", "state", "later/deep/new.yaml", "free/new.yaml", "café/new.yaml"} {
		exclude = append(exclude, filepath.Join(dir, name))
	}
	return openFile(t, FileOptions{Roots: []string{dir}, Exclude: exclude, ExcludeNames: []string{
		".env", ".env.*", "!.env.example", "stoa.yaml", "mcp.json", ".mcp.json", "agent.yaml"}}), dir
}

// snapshot is every name in a folder, with its content, kind or target.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		out[path] = d.Type().String()
		switch {
		case d.Type().IsRegular():
			out[path] = content(t, path)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			out[path] = target
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// uses are all that the tools can do with a path.
func uses(path string) map[string][]o {
	return map[string][]o{
		"file_read": {{"path": path}, {"path": path, "line": 1}, {"path": path, "encoding": "base64"}},
		"file_list": {{"path": path}, {"path": path, "recursive": true, "glob": "**"}},
		"file_info": {{"path": path, "hash": true}}, "file_search": {{"path": path, "pattern": "s", "hidden": true}},
		"file_write": {{"path": path, "content": "x"}, {"path": path, "content": "x", "mode": "overwrite", "parents": true}, {"path": path, "content": "x", "mode": "append"}},
		"file_edit":  {{"path": path, "edits": []o{{"find": "s", "replace": "x"}}}, {"path": path, "edits": []o{{"find": "s", "replace": "x"}}, "dryRun": true}},
	}
}

// changes are what the tools can do with a name itself, whatever it leads to.
func changes(path string) map[string][]o {
	return map[string][]o{
		"file_remove": {{"path": path}, {"path": path, "recursive": true}},
		"file_move": {{"from": path, "to": "mine"}, {"from": path, "to": "new/mine", "parents": true}, {"from": "plain", "to": path, "overwrite": true},
			{"from": "plain", "to": path, "parents": true}, {"from": "free/inner", "to": path}, {"from": "loose", "to": path, "overwrite": true}},
	}
}

func mustRefuse(t *testing.T, m *Module, calls map[string][]o) {
	t.Helper()
	for tool, all := range calls {
		for _, args := range all {
			e := do(t, m, tool, args)
			if e.Success || e.Code != "DENIED" || strings.Contains(e.Error, secret) {
				t.Errorf("%s %v: %s %s%s", tool, args, e.Code, e.Error, e.Data)
			}
		}
	}
}

// Nothing of the configuration is read or changed, by whatever tool and name.
func TestConfigurationIsNeverTouched(t *testing.T) {
	m, dir := configured(t)
	before := snapshot(t, dir)
	named := []string{ // the thing itself, or where it would be
		"hub.yaml", "real/custom.yaml", "conf/custom.yaml", "mid/custom.yaml", "state", "state/key", "store/key", "state/new", dir + "/hub.yaml", "sub/../hub.yaml",
		"later/deep/new.yaml", "later/deep/new.yaml/below", "free/new.yaml", "loose/new.yaml",
		"stoa.yaml", "mcp.json", "free/stoa.yaml", "free/inner/mcp.json", ".mcp.json", "agent.yaml", ".env", "free/.env", "free/.env.production", "new/.env", "stoa.yaml/below",
		"sub/.env", "sub/.env.local", "sub/agent.yaml", "sub/.vscode/mcp.json", "into/mcp.json",
		// what some disk takes for one of these
		"HUB.yaml", "STATE/key", "free/NEW.YAML", "free/new.yaml.", "free/new.yaml. .", "Later/deep/new.yaml", "later/DEEP/new.yaml", "caf\u00e9/ne\u200bw.yaml", "café/new.yaml ",
		"free/Stoa.YAML", "free/stoa.yaml.", "free/stoa.yaml ", "free/.ENV", "free/.env.", "free/sto\u200ba.yaml", "free/ſtoa.yaml", "free/ｓtoa.yaml", "free/mcp.json::$DATA", "free/agent.yaml\u00a0",
		// other names of one file
		"free/hard", "sub/twin", "free/far", "target.json",
	}
	for _, path := range named {
		mustRefuse(t, m, uses(path))
		mustRefuse(t, m, changes(path))
	}
	for _, path := range []string{"alias", "absolute", "sub/soft"} { // links lead there, and are no part of it themselves
		mustRefuse(t, m, uses(path))
	}
	for _, path := range []string{".", "sub", "sub/.vscode", "real", "conf", "mid", "free"} { // they hold one, or lead there
		mustRefuse(t, m, map[string][]o{"file_remove": {{"path": path}, {"path": path, "recursive": true}}, "file_move": {{"from": path, "to": "mine"}}})
		for _, from := range []string{"plain", "free/inner", "loose"} {
			if e := do(t, m, "file_move", o{"from": from, "to": path, "overwrite": true}); e.Success {
				t.Errorf("%s took the place of %s", from, path)
			}
		}
	}
	for _, path := range []string{"later", "later/deep", "LATER", "later/Deep."} { // one would be in them
		mustRefuse(t, m, map[string][]o{"file_move": {{"from": "free/inner", "to": path, "parents": true}, {"from": "loose", "to": path, "parents": true}, {"from": "plain", "to": path, "parents": true}}})
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// The refusal says what to do, and is the same whether or not there is something.
func TestRefusalOfConfiguration(t *testing.T) {
	m, _ := configured(t)
	for _, path := range []string{"hub.yaml", "free/new.yaml", "stoa.yaml", "free/stoa.yaml"} {
		e := bad(t, m, "file_write", o{"path": path, "content": "x"}, "DENIED")
		if !strings.Contains(e.Error, "configuration") || !strings.Contains(e.Message, "the person") {
			t.Errorf("%s: %s %s", path, e.Error, e.Message)
		}
	}
}

// Lists and searches leave out what is excluded, and all else can be used.
func TestBesideConfiguration(t *testing.T) {
	m, dir := configured(t)
	want := []string{"absolute", "alias", "café", "conf", "free", "free/inner", "free/inner/plain", "free/plain", "into", "loose", "mid", "plain", "real", "real/other",
		"store", "sub", "sub/.env.example", "sub/.vscode", "sub/notes", "sub/soft"}
	if diff := cmp.Diff(want, paths(good[listing](t, m, "file_list", o{"recursive": true}))); diff != "" {
		t.Error(diff)
	}
	for _, glob := range []string{"*.yaml", ".env*", "**/mcp.json"} {
		for _, path := range paths(good[listing](t, m, "file_list", o{"recursive": true, "glob": glob})) {
			if path != "sub/.env.example" {
				t.Errorf("%s lists %s", glob, path)
			}
		}
	}
	if got := good[found](t, m, "file_search", o{"pattern": secret, "hidden": true}); len(got.Matches) != 0 {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"sub/.env.example", "real/other", "conf/other", "free/plain", "sub/notes"} {
		good[part](t, m, "file_read", o{"path": path})
		good[written](t, m, "file_write", o{"path": path, "content": "y", "mode": "overwrite"})
	}
	good[written](t, m, "file_write", o{"path": "later/deep/fine.yaml", "content": "y", "parents": true})
	good[o](t, m, "file_move", o{"from": "free/inner", "to": "later/inner"})
	good[o](t, m, "file_move", o{"from": "sub/notes", "to": "sub/notes.txt"})
	good[o](t, m, "file_remove", o{"path": "alias"})
	good[o](t, m, "file_remove", o{"path": "later/inner", "recursive": true})
	if _, err := os.Stat(filepath.Join(dir, "hub.yaml")); err != nil {
		t.Error(err)
	}
}

// A file that comes to be after the module was opened is known too.
func TestConfigurationThatAppears(t *testing.T) {
	m, dir := configured(t)
	good[written](t, m, "file_write", o{"path": "free/harmless", "content": "x"})
	for _, name := range []string{"free/new.yaml", "free/inner/agent.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, m, uses(name))
		mustRefuse(t, m, changes(name))
	}
	if err := os.Link(filepath.Join(dir, "free/new.yaml"), filepath.Join(dir, "free/inner/link")); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, m, uses("free/inner/link"))
	mustRefuse(t, m, map[string][]o{"file_remove": {{"path": "free/inner", "recursive": true}}, "file_move": {{"from": "free/inner", "to": "inner"}}})
	if got := content(t, dir, "free/inner/agent.yaml"); got != secret {
		t.Error(got)
	}
}

// A root at or in what is excluded offers nothing.
func TestRootsInsideOfWhatIsExcluded(t *testing.T) {
	dir := tree(t, map[string]string{"data/files/x": "x", "other/": ""})
	if err := os.Symlink("data", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"data", "data/files", "link/files"} {
		if m, err := File(FileOptions{Roots: []string{dir + "/other", filepath.Join(dir, root)}, Exclude: []string{dir + "/link"}}); err == nil {
			m.Close()
			t.Errorf("%s is a root", root)
		}
	}
	openFile(t, FileOptions{Roots: []string{dir}, Exclude: []string{dir + "/link"}})
}

// While somebody swaps a folder with a link to the folder of the configuration,
// no other call gets there by the name that was harmless when it was checked.
func TestFoldersSwappedMeanwhile(t *testing.T) {
	dir := tree(t, map[string]string{"real/custom.yaml": secret, "data/custom.yaml": secret, "a/custom.yaml": "x", "b/": ""})
	m := openFile(t, FileOptions{Roots: []string{dir}, Exclude: []string{dir + "/real/custom.yaml", dir + "/data"}})
	stop, stopped := make(chan struct{}), make(chan struct{})
	var rounds atomic.Int64
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, target := range []string{"real", "data"} {
				_ = os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b/away"))
				_ = os.Symlink(target, filepath.Join(dir, "a"))
				_ = os.Remove(filepath.Join(dir, "a"))
				_ = os.Rename(filepath.Join(dir, "b/away"), filepath.Join(dir, "a"))
			}
			rounds.Add(1)
		}
	}()
	reached := 0
	for i := 0; i < 20_000 && (i < 200 || reached < 50 || rounds.Load() < 50); i++ {
		for tool, args := range map[string]o{
			"file_read": {"path": "a/custom.yaml"}, "file_search": {"pattern": "s", "path": "a"}, "file_list": {"path": "a"},
			"file_write": {"path": "a/custom.yaml", "content": "x", "mode": "overwrite"}, "file_edit": {"path": "a/custom.yaml", "edits": []o{{"find": "x", "replace": "x"}}},
		} {
			e := do(t, m, tool, args)
			if strings.Contains(string(e.Data), secret) {
				t.Errorf("%s: %s", tool, e.JSON())
			}
			if e.Success {
				reached++
			}
		}
	}
	close(stop)
	<-stopped
	if reached == 0 || rounds.Load() == 0 {
		t.Error("nothing was tested")
	}
	for _, name := range []string{"real/custom.yaml", "data/custom.yaml"} {
		if got := content(t, dir, name); got != secret {
			t.Errorf("%s was changed to %q", name, got)
		}
	}
}

// Whoever decides by annotations is told the truth of every tool.
func TestFileAnnotations(t *testing.T) {
	type hints struct{ ReadOnly, Destructive, Idempotent, OpenWorld *bool }
	var listed struct {
		Tools []struct {
			Name        string
			Annotations struct{ ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool }
		}
	}
	if err := json.Unmarshal(in(t, t.TempDir()).offer.Load().listed, &listed); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	reads, changes := hints{&yes, &no, &yes, &no}, hints{&no, &yes, &no, &no}
	want := map[string]hints{"file_list": reads, "file_read": reads, "file_search": reads, "file_info": reads,
		"file_write": changes, "file_edit": changes, "file_move": changes, "file_remove": changes}
	got := map[string]hints{}
	for _, tool := range listed.Tools {
		a := tool.Annotations
		got[tool.Name] = hints{a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint, a.OpenWorldHint}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What servers run can be read. Whoever could change it would decide what runs.
func TestProgramsAreNotChanged(t *testing.T) {
	dir := tree(t, map[string]string{"app/server.py": "print(1)", "app/notes": "x", "plain": "x", "free/inner/plain": "x"})
	for link, target := range map[string]string{"app/start": "server.py", "alias": "app/start"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "app/server.py"), filepath.Join(dir, "free/hard.py")); err != nil {
		t.Fatal(err)
	}
	named := []string{filepath.Join(dir, "app/start"), filepath.Join(dir, "app/later.py")}
	m := openFile(t, FileOptions{Roots: []string{dir}, Programs: func() []string { return named }})
	before := snapshot(t, dir)
	for _, path := range []string{"app/server.py", "app/start", "app/../app/server.py", "app/SERVER.py", "app/later.py", "free/hard.py"} {
		all := uses(path)
		mustRefuse(t, m, map[string][]o{"file_write": all["file_write"], "file_edit": all["file_edit"][:1]})
		mustRefuse(t, m, changes(path))
	}
	mustRefuse(t, m, map[string][]o{"file_write": uses("alias")["file_write"]})
	for _, folder := range []string{".", "app"} {
		mustRefuse(t, m, map[string][]o{"file_remove": {{"path": folder, "recursive": true}}, "file_move": {{"from": folder, "to": "mine"}}})
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"app/server.py", "alias", "free/hard.py"} {
		if e := do(t, m, "file_read", o{"path": path}); !e.Success || !strings.Contains(string(e.Data), "print(1)") {
			t.Errorf("reading %s: %s", path, e.JSON())
		}
	}
	if e := bad(t, m, "file_write", o{"path": "app/server.py", "content": "x", "mode": "overwrite"}, "DENIED"); !strings.Contains(e.Error, "a server of the hub runs it") {
		t.Error(e.Error)
	}
	good[written](t, m, "file_write", o{"path": "app/notes", "content": "y", "mode": "overwrite"})
	named = nil // the config has changed
	good[written](t, m, "file_write", o{"path": "app/later.py", "content": "x"})
}

// A hard link leads past the folder that is excluded.
func TestHardLinksIntoExcludedFolders(t *testing.T) {
	dir := tree(t, map[string]string{"data/token": secret, "data/chat/uploads/a": secret, "work/own": "x", "work/sub/": ""})
	for link, old := range map[string]string{"work/token.txt": "data/token", "work/sub/deep": "data/chat/uploads/a", "work/twin": "work/own"} {
		if err := os.Link(filepath.Join(dir, old), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	m := openFile(t, FileOptions{Roots: []string{dir + "/work"}, Exclude: []string{dir + "/data"}})
	for _, path := range []string{"token.txt", "sub/deep"} {
		mustRefuse(t, m, uses(path))
		mustRefuse(t, m, map[string][]o{"file_remove": {{"path": path}}, "file_move": {{"from": path, "to": "mine"}}})
	}
	for tool, args := range map[string]o{"file_list": {"recursive": true}, "file_search": {"pattern": "s", "hidden": true}} {
		if e := do(t, m, tool, args); !e.Success || strings.Contains(string(e.Data), secret) || strings.Contains(string(e.Data), "token.txt") || strings.Contains(string(e.Data), "deep") {
			t.Errorf("%s: %s", tool, e.JSON())
		}
	}
	if e := do(t, m, "file_read", o{"path": "twin"}); !e.Success {
		t.Errorf("a file with two names that is nobody's secret: %s", e.JSON())
	}
}
