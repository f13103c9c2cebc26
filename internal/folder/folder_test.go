package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree makes a folder of files by their paths.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// look reads a folder again.
func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// old is a folder of version 1.
func old() map[string]string {
	return map[string]string{"VERSION": "1\n", "token": "secret", "tokens.json": "{}", "js/VERSION": "1\n", "js/jetstream/$G/streams/x/msgs/1.blk": strings.Repeat("b", 10_000)}
}

func quiet(int, uint64) {}

func roomFor(n uint64) func(string) (uint64, error) {
	return func(string) (uint64, error) { return n, nil }
}

func TestUpgrade(t *testing.T) {
	files := old()
	for _, name := range []string{"hub.lock", "hub.json", "launch.lock", "clients.lock", "logs/stoa.log", "console-1.html", "copy-of-version-1.half/token"} {
		files[name] = "is not needed"
	}
	dir := tree(t, files)
	elsewhere := tree(t, map[string]string{"far": "away"})
	if err := os.Symlink(elsewhere, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	told := 0
	up, err := Upgrade(dir, func(version int, bytes uint64) {
		if told++; version != 1 || bytes < 10_000 || bytes > 1<<20 {
			t.Errorf("%d bytes of version %d are said to be copied", bytes, version)
		}
	})
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
	if err != nil || up == nil || up.From != 1 || up.To != Version || up.Copy != filepath.Join(dir, "copy-of-version-1") {
		t.Fatalf("got %+v, %v", up, err)
	}
	want := old()
	want["linked/far"] = "away"
	if diff := cmp.Diff(want, look(t, up.Copy)); diff != "" {
		t.Errorf("the copy: %s", diff)
	}
	err = filepath.WalkDir(up.Copy, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && (info.Mode().Perm()&0o077 != 0 || info.Mode()&fs.ModeSymlink != 0) {
			err = fmt.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	now := look(t, dir)
	if now["VERSION"] != "2\n" || now["token"] != "secret" {
		t.Errorf("the folder has %q", now["VERSION"])
	}
	if _, err := os.Stat(filepath.Join(dir, "copy-of-version-1.half")); err == nil {
		t.Error("a copy that was begun before is still there")
	}
	// It has files of its own.
	if err := os.WriteFile(filepath.Join(dir, "js/jetstream/$G/streams/x/msgs/1.blk"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, look(t, up.Copy)); diff != "" {
		t.Errorf("the copy has changed with the folder: %s", diff)
	}
	if again, err := Upgrade(dir, quiet); again != nil || err != nil {
		t.Errorf("a second start: %+v, %v", again, err)
	}
	// The copy is a folder as it was.
	if v, err := read(up.Copy); v != 1 || err != nil {
		t.Errorf("the copy has version %d, %v", v, err)
	}
}

// A crash after the copy, and who went back and comes again: the copy that is
// there stays, and the next is one of what is there now.
func TestUpgradeAgain(t *testing.T) {
	dir := tree(t, old())
	for i, name := range []string{"copy-of-version-1", "copy-of-version-1-2", "copy-of-version-1-3"} {
		for path, text := range map[string]string{"VERSION": "1\n", "token": fmt.Sprint("secret ", i)} {
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		up, err := Upgrade(dir, quiet)
		if err != nil || up == nil || filepath.Base(up.Copy) != name {
			t.Fatalf("got %+v, %v", up, err)
		}
	}
	for i, name := range []string{"copy-of-version-1", "copy-of-version-1-2", "copy-of-version-1-3"} {
		want := old()
		want["token"] = fmt.Sprint("secret ", i)
		if diff := cmp.Diff(want, look(t, filepath.Join(dir, name))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What cannot be copied is left as it is.
func TestNoCopy(t *testing.T) {
	deep := old()
	deep[strings.Repeat("d/", deepest+2)+"file"] = "text"
	for name, tc := range map[string]struct {
		files map[string]string
		room  func(string) (uint64, error)
		want  []string
	}{
		"no room":           {old(), roomFor(1000), []string{"version 1", "writes version 2", "68 MB", "1 MB", "free some space", "write 2 into"}},
		"room for it alone": {old(), roomFor(reserve), []string{"free some space"}},
		"nobody knows":      {old(), func(string) (uint64, error) { return 0, errors.New("the disk is away") }, []string{"the disk is away"}},
		"too deep":          {deep, roomFor(1 << 40), []string{"more than 32 folders"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, tc.files)
			up, err := upgrade(dir, quiet, tc.room)
			if up != nil || err == nil {
				t.Fatalf("got %+v", up)
			}
			for _, words := range tc.want {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%q is not in: %v", words, err)
				}
			}
			if diff := cmp.Diff(tc.files, look(t, dir)); diff != "" {
				t.Errorf("it was changed: %s", diff)
			}
		})
	}
}

// A copy that fails in the middle leaves nothing, and the next start makes one.
func TestCopyFails(t *testing.T) {
	dir := tree(t, old())
	deep := filepath.Join(dir, "zz", strings.Repeat("d/", deepest+2))
	up, err := upgrade(dir, quiet, func(string) (uint64, error) { return 1 << 40, os.MkdirAll(deep, 0o700) })
	if err == nil || up != nil || !strings.Contains(err.Error(), "more than 32 folders") {
		t.Fatalf("got %+v, %v", up, err)
	}
	if diff := cmp.Diff(old(), look(t, dir)); diff != "" {
		t.Errorf("it was changed: %s", diff)
	}
	if halves, err := filepath.Glob(filepath.Join(dir, copyPrefix+"*")); err != nil || len(halves) > 0 {
		t.Errorf("there is still %v, %v", halves, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "zz")); err != nil {
		t.Fatal(err)
	}
	if up, err := Upgrade(dir, quiet); err != nil || up == nil {
		t.Errorf("got %+v, %v", up, err)
	}
}

func TestVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string // of the error
		then  string // the version
		copy  bool
	}{
		"new":                       {then: "2\n"},
		"with tokens alone":         {files: map[string]string{"tokens.json": "{}"}, then: "2\n"},
		"of this version":           {files: map[string]string{"VERSION": "2\n"}, then: "2\n"},
		"without its version":       {files: map[string]string{"js/VERSION": "1\n"}, then: "2\n", copy: true},
		"of the future":             {files: map[string]string{"VERSION": "3\n"}, want: "has version 3, and this program knows versions up to 2: use the release that wrote it", then: "3\n"},
		"of the far future":         {files: map[string]string{"VERSION": "99"}, want: "version 99", then: "99"},
		"damaged":                   {files: map[string]string{"VERSION": "x"}, want: "is damaged", then: "x"},
		"empty, as after a crash":   {files: map[string]string{"VERSION": ""}, want: "is damaged", then: ""},
		"of a version before the 1": {files: map[string]string{"VERSION": "0"}, want: "is damaged", then: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tc.files
			if files == nil {
				files = map[string]string{}
			}
			dir := tree(t, files)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := Check(dir); (err != nil) != (tc.want != "") {
				t.Errorf("check: %v", err)
			}
			if diff := cmp.Diff(files, look(t, dir)); diff != "" {
				t.Errorf("a check has changed it: %s", diff)
			}
			up, err := Upgrade(dir, quiet)
			if (err != nil) != (tc.want != "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir)) {
				t.Errorf("upgrade: %v", err)
			}
			if (up != nil) != tc.copy {
				t.Errorf("the copy is %+v", up)
			}
			now := look(t, dir)
			if now["VERSION"] != tc.then {
				t.Errorf("the version is %q", now["VERSION"])
			}
			if tc.want != "" && !maps.Equal(now, files) {
				t.Errorf("it was changed: %v", now)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	if n, err := room(t.TempDir()); err != nil || n == 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := Check(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}
