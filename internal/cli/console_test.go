package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/auth"
)

// The file that signs a browser in is private whatever the umask, never one that
// was there before, and is removed by the next command if its own was killed.
func TestSignInFile(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	folder := t.TempDir()
	e := &signInCode{URL: "https://hub.example:8443/a&b/console/", Code: "ABCD-EFGH-JKMN"}
	first, err := e.write(folder)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.write(folder)
	if err != nil || second == first {
		t.Fatalf("%s, then %s, %v", first, second, err)
	}
	info, err := os.Stat(first)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(first)
	if want := regexp.MustCompile(`url=https://hub\.example:8443/a&amp;b/console/#code=ABCD-EFGH-JKMN"`); err != nil || !want.Match(text) {
		t.Errorf("%s, %v", text, err)
	}
	long := time.Now().Add(-auth.CodeLife - time.Second)
	if err := os.Chtimes(first, long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "console.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(folder, "console.html"), long, long); err != nil {
		t.Fatal(err)
	}
	third, err := e.write(folder)
	if err != nil {
		t.Fatal(err)
	}
	for path, there := range map[string]bool{first: false, second: true, third: true, filepath.Join(folder, "console.html"): true} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s is there: %v", filepath.Base(path), err == nil)
		}
	}
}
