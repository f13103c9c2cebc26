package modules

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
)

const secret = "the secret of the house"

// guarded is a root beside a folder with a secret, and links that lead out.
func guarded(t testing.TB) (dir, outside string) {
	t.Helper()
	base := tree(t, map[string]string{"root/in/f": "inside", "root/g": "inside", "out/secret": secret, "rootling/f": secret})
	dir, outside = filepath.Join(base, "root"), filepath.Join(base, "out")
	for name, target := range map[string]string{
		"abs": outside + "/secret", "rel": "../out/secret", "folder": "../out", "chain": "in/chain", "in/chain": "../rel",
		"nothing": "../out/no such file", "loop": "loop",
		"fine": "in/f", "fineabs": dir + "/in/f", "finedir": dir + "/in", "in/up": "../g", "dangling": "in/new",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, outside
}

func TestNothingOutside(t *testing.T) {
	dir, outside := guarded(t)
	m := in(t, dir)
	before := content(t, outside, "secret")
	for _, path := range []string{
		"..", "../out/secret", "in/../../out/secret", "/etc/passwd", outside + "/secret", outside + "/no such file", dir + "/../out/secret",
		dir + "ling/f", "/", "abs", "rel", "folder/secret", "folder/new", "chain", "nothing", "in/chain",
	} {
		for tool, args := range map[string]o{
			"file_read": {}, "file_list": {}, "file_search": {"pattern": "secret"}, "file_info": {"hash": true},
			"file_write": {"content": "x", "mode": "overwrite", "parents": true}, "file_edit": {"edits": []o{{"find": "secret", "replace": "x"}}},
		} {
			args["path"] = path
			e := bad(t, m, tool, args, "DENIED")
			if strings.Contains(e.Error+e.Message, outside) && !strings.Contains(path, outside) || strings.Contains(string(e.JSON()), secret) {
				t.Errorf("%s %s tells what is outside: %s", tool, path, e.JSON())
			}
			if !strings.Contains(e.Error+e.Message, "root") {
				t.Errorf("%s %s does not name the root: %s", tool, path, e.JSON())
			}
		}
	}
	for _, path := range []string{"../out/secret", "folder/secret", outside + "/secret"} {
		bad(t, m, "file_remove", o{"path": path, "recursive": true}, "DENIED")
		bad(t, m, "file_move", o{"from": path, "to": "mine"}, "DENIED")
		bad(t, m, "file_move", o{"from": "g", "to": path, "overwrite": true}, "DENIED")
	}
	if content(t, outside, "secret") != before {
		t.Error("it was changed")
	}
	// What is there and what is not cannot be told apart.
	one := bad(t, m, "file_read", o{"path": "rel"}, "DENIED")
	two := bad(t, m, "file_read", o{"path": "nothing"}, "DENIED")
	if diff := cmp.Diff(strings.ReplaceAll(one.Error, "rel:", ""), strings.ReplaceAll(two.Error, "nothing:", "")); diff != "" {
		t.Error(diff)
	}
	good[o](t, m, "file_remove", o{"path": "folder", "recursive": true})
	if content(t, outside, "secret") != before {
		t.Error("a link was removed with what it leads to")
	}
}

func TestLinksInside(t *testing.T) {
	dir, _ := guarded(t)
	m := in(t, dir)
	for path, want := range map[string]string{"fine": "in/f", "fineabs": "in/f", "finedir/f": "in/f", "finedir/up": "g", dir + "/finedir/../g": "g"} {
		if got := good[part](t, m, "file_read", o{"path": path}); got.Path != want || got.Content != "inside" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	bad(t, m, "file_read", o{"path": "loop"}, "INVALID_ARGUMENTS")
	// What is written through a link is what it leads to; the link stays.
	good[written](t, m, "file_write", o{"path": "fineabs", "content": "changed", "mode": "overwrite"})
	good[written](t, m, "file_write", o{"path": "dangling", "content": "new"})
	if content(t, dir, "in/f") != "changed" || content(t, dir, "in/new") != "new" {
		t.Error("not written where the links lead")
	}
	if info, err := os.Lstat(filepath.Join(dir, "fineabs")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
}

// os.Root refuses what resolve did not see, and its error is known to us.
func TestLinksAreHeldByTheSystem(t *testing.T) {
	dir, _ := guarded(t)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"rel", "abs", "folder/secret", "../out/secret"} {
		if _, err := root.Open(name); err == nil || !escapes(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// While somebody swaps a folder and a file with links that lead out, nothing
// outside is read or changed.
func TestLinksThatChange(t *testing.T) {
	base := tree(t, map[string]string{"root/d/f": "inside", "root/spare/f": "inside", "out/f": secret})
	dir := filepath.Join(base, "root")
	m := in(t, dir)
	swap := filepath.Join(dir, "swap")
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
			for _, target := range []string{"d", "../out", base + "/out", "spare"} {
				_ = os.Symlink(target, swap+".new")
				_ = os.Rename(swap+".new", swap)
			}
			_ = os.Remove(swap)
			_ = os.Rename(filepath.Join(dir, "spare"), swap)
			_ = os.Rename(swap, filepath.Join(dir, "spare"))
			rounds.Add(1)
		}
	}()
	reached := 0
	deadline := time.Now().Add(20 * time.Second)
	for i := 0; (i < 200 || reached < 100 || rounds.Load() < 10) && time.Now().Before(deadline); i++ {
		for tool, args := range map[string]o{
			"file_read": {"path": "swap/f"}, "file_search": {"pattern": "secret", "path": "swap"}, "file_list": {"path": "swap"},
			"file_write": {"path": "swap/f", "content": "inside", "mode": "overwrite"}, "file_remove": {"path": "swap/made", "recursive": true},
		} {
			e := do(t, m, tool, args)
			if strings.Contains(string(e.Data), secret) {
				t.Fatalf("%s: %s", tool, e.JSON())
			}
			if e.Success {
				reached++
			}
		}
	}
	close(stop)
	<-stopped
	if reached == 0 {
		t.Error("no call came through: nothing was tested")
	}
	if content(t, base, "out/f") != secret {
		t.Error("what is outside was changed")
	}
	if names, err := os.ReadDir(filepath.Join(base, "out")); err != nil || len(names) != 1 {
		t.Errorf("outside there are %v %v", names, err)
	}
}

func TestOddPaths(t *testing.T) {
	dir := tree(t, map[string]string{"f": "x"})
	m := in(t, dir)
	bad(t, m, "file_read", o{"path": "f\x00"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_read", o{"path": strings.Repeat("a/", maxPath)}, "INVALID_ARGUMENTS")
	bad(t, m, "file_read", o{"path": strings.Repeat("a", 300)}, "INVALID_ARGUMENTS")
	bad(t, m, "file_write", o{"path": strings.Repeat("a", 300), "content": ""}, "INVALID_ARGUMENTS")
	for _, path := range []string{"./f", "f/", "x/../f", "//" + dir + "//f", dir + "/./f"} {
		if got := good[part](t, m, "file_read", o{"path": path}); got.Path != "f" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	odd := filepath.Join(dir, "d", "\xff")
	if err := os.MkdirAll(odd, 0o755); err != nil {
		t.Skipf("names are UTF-8 here: %v", err)
	}
	if err := os.WriteFile(filepath.Join(odd, "f"), []byte("needle"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := good[listing](t, m, "file_list", o{"path": "d"})
	if len(got.Entries) != 1 || got.Entries[0].Path != "d/�" || !got.Entries[0].Unnamed {
		t.Errorf("%+v", got)
	}
	if got := good[found](t, m, "file_search", o{"pattern": "needle"}); len(got.Matches) != 0 || got.Skipped.Unreadable != 1 {
		t.Errorf("%+v", got)
	}
	bad(t, m, "file_read", o{"path": "d/�/f"}, "RESOURCE_NOT_FOUND")
	good[o](t, m, "file_remove", o{"path": "d", "recursive": true})
}

// A pipe that nobody writes to and a device must not hold anybody up.
func TestNoFiles(t *testing.T) {
	dir := tree(t, map[string]string{"f": "x"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	m := in(t, dir)
	names := []string{"pipe"}
	if err := syscall.Mknod(filepath.Join(dir, "zero"), syscall.S_IFCHR|0o600, 1<<8|5); err == nil {
		names = append(names, "zero")
	}
	for _, name := range names {
		bad(t, m, "file_read", o{"path": name}, "INVALID_ARGUMENTS")
		bad(t, m, "file_info", o{"path": name, "hash": true}, "INVALID_ARGUMENTS")
		bad(t, m, "file_edit", o{"path": name, "edits": []o{{"find": "a", "replace": "b"}}}, "INVALID_ARGUMENTS")
		for _, mode := range []string{"create", "overwrite", "append"} {
			bad(t, m, "file_write", o{"path": name, "content": "x", "mode": mode}, "INVALID_ARGUMENTS")
		}
		bad(t, m, "file_list", o{"path": name}, "INVALID_ARGUMENTS")
		bad(t, m, "file_search", o{"path": name, "pattern": "x"}, "INVALID_ARGUMENTS")
	}
	if got := good[found](t, m, "file_search", o{"pattern": "x"}); len(got.Matches) != 1 {
		t.Errorf("%+v", got)
	}
}

// A file that becomes a pipe after it was looked at holds nobody up either.
func TestFilesThatBecomePipes(t *testing.T) {
	dir := tree(t, map[string]string{"file": "x"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	m := in(t, dir)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"file", "pipe"} {
				_ = os.Link(filepath.Join(dir, name), filepath.Join(dir, "new"))
				_ = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "swap"))
			}
		}
	}()
	for range 300 {
		do(t, m, "file_read", o{"path": "swap"})
		do(t, m, "file_list", o{"path": "swap"})
		do(t, m, "file_write", o{"path": "swap", "content": "x", "mode": "append"})
	}
	close(stop)
	<-stopped
}

func TestRoots(t *testing.T) {
	base := tree(t, map[string]string{"a/work/f": "one", "b/work/f": "two", "a/work/inner/g": "deep", "file": ""})
	m := openFile(t, FileOptions{Roots: []string{base + "/a/work", base + "/b/work", base + "/a/work/inner", base + "/a/work/"}})
	if diff := cmp.Diff([]string{"work", "work-2", "inner"}, paths(good[listing](t, m, "file_list", o{}))); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{
		"work/f": "work/f", "work-2/f": "work-2/f", base + "/b/work/f": "work-2/f", "work/inner/g": "work/inner/g", "inner/g": "inner/g",
		base + "/a/work/inner/g": "inner/g", "work/../work-2/f": "work-2/f",
	} {
		if got := good[part](t, m, "file_read", o{"path": path}); got.Path != want {
			t.Errorf("%s is %s", path, got.Path)
		}
	}
	e := bad(t, m, "file_read", o{"path": "f"}, "DENIED")
	if !strings.Contains(e.Error, "work, work-2, inner") {
		t.Errorf("the roots are not named: %s", e.Error)
	}
	if got := good[found](t, m, "file_search", o{"pattern": "t", "glob": "f"}); len(got.Matches) != 1 || got.Matches[0].Path != "work-2/f" {
		t.Errorf("%+v", got)
	}
	bad(t, m, "file_read", o{"path": "."}, "INVALID_ARGUMENTS")
	for _, path := range []string{"work", "work/inner", "inner"} { // roots, or with one inside
		bad(t, m, "file_remove", o{"path": path, "recursive": true}, "DENIED")
	}
	good[o](t, m, "file_move", o{"from": "work/f", "to": "work-2/one"})
	if content(t, base, "b/work/one") != "one" {
		t.Error("it did not arrive")
	}
	bad(t, m, "file_read", o{"path": "work/f"}, "RESOURCE_NOT_FOUND")
	bad(t, m, "file_move", o{"from": "work-2/one", "to": "inner/g"}, "INVALID_ARGUMENTS")
	if err := os.Mkdir(base+"/b/work/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	bad(t, m, "file_move", o{"from": "work-2/folder", "to": "work/folder"}, "INVALID_ARGUMENTS")
}

// A folder that is made again is used again; one inside of another root is not,
// since its name could have been made to lead elsewhere.
func TestRootMadeAgain(t *testing.T) {
	base := tree(t, map[string]string{"r/f": "old", "outer/inner/f": "old"})
	m := openFile(t, FileOptions{Roots: []string{base + "/r", base + "/outer", base + "/outer/inner"}})
	for _, dir := range []string{base + "/r", base + "/outer/inner"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		bad(t, m, "file_read", o{"path": filepath.Base(dir) + "/f"}, "UNREACHABLE")
	}
	if err := os.Symlink("/", base+"/outer/inner"); err != nil {
		t.Fatal(err)
	}
	bad(t, m, "file_list", o{"path": "inner"}, "UNREACHABLE")
	if err := errors.Join(os.Remove(base+"/outer/inner"), os.Mkdir(base+"/outer/inner", 0o755)); err != nil {
		t.Fatal(err)
	}
	bad(t, m, "file_list", o{"path": "inner"}, "UNREACHABLE")
	if err := os.Mkdir(base+"/r", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base+"/r/f", []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := good[part](t, m, "file_read", o{"path": "r/f"}); got.Content != "new" {
		t.Errorf("%+v", got)
	}
}

// What is excluded is as good as outside, by any name.
func TestExclude(t *testing.T) {
	dir := tree(t, map[string]string{"state/hub/key": secret, "state/other": "x", "conf": secret, "f": "x"})
	for name, target := range map[string]string{"link": "state/hub", "keylink": "state/hub/key"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	m := openFile(t, FileOptions{Roots: []string{dir}, Exclude: []string{dir + "/state/hub", dir + "/conf", dir + "/not there"}})
	for _, path := range []string{"state/hub", "state/hub/key", "state/hub/new", "state/../state/hub/key", dir + "/state/hub/key", "link/key", "keylink", "conf"} {
		for tool, args := range map[string]o{"file_read": {}, "file_list": {}, "file_info": {"hash": true}, "file_search": {"pattern": "x"}, "file_write": {"content": "x", "mode": "overwrite"}} {
			args["path"] = path
			bad(t, m, tool, args, "DENIED")
		}
	}
	for _, path := range []string{"state/hub", "state", "conf", "state/hub/key"} {
		bad(t, m, "file_remove", o{"path": path, "recursive": true}, "DENIED")
		bad(t, m, "file_move", o{"from": path, "to": "mine"}, "DENIED")
	}
	bad(t, m, "file_move", o{"from": "f", "to": "conf", "overwrite": true}, "DENIED")
	want := []string{"f", "keylink", "link", "state", "state/other"}
	if diff := cmp.Diff(want, paths(good[listing](t, m, "file_list", o{"recursive": true}))); diff != "" {
		t.Error(diff)
	}
	if got := good[found](t, m, "file_search", o{"pattern": "secret", "hidden": true}); len(got.Matches) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRootsThatCannotBeUsed(t *testing.T) {
	base := tree(t, map[string]string{"file": "", "fine/": ""})
	_, err := File(FileOptions{Roots: []string{base + "/fine", base + "/missing", base + "/file", ""}})
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"module file", base + "/missing: it does not exist", base + "/file: it is not a folder", `root ""`} {
		if !strings.Contains(f.Text(), want) {
			t.Errorf("%q is not in %s", want, f.Text())
		}
	}
	if strings.Contains(f.Text(), "fine") || !strings.Contains(f.Hint, "modules.file.roots") {
		t.Errorf("%s / %s", f.Text(), f.Hint)
	}
	if _, err := File(FileOptions{}); err == nil {
		t.Error("no roots, no error")
	}
}
