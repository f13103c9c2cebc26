package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stoahub/stoa/web"
)

// TestVendored holds the libraries of others to the lock file: each is the one
// that is named there, byte for byte, and there are no others.
func TestVendored(t *testing.T) {
	files := web.ConsoleFiles()
	raw, err := fs.ReadFile(files, "vendor/lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Files []struct{ File, Package, Version, License, SHA256 string }
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"lock.json": true, "LICENSES.txt": true}
	for _, f := range lock.Files {
		named[f.File] = true
		text, err := fs.ReadFile(files, "vendor/"+f.File)
		if err != nil {
			t.Errorf("%s: %v", f.File, err)
			continue
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != f.SHA256 {
			t.Errorf("%s is not that of %s %s", f.File, f.Package, f.Version)
		}
		if f.Package == "" || f.Version == "" || f.License == "" {
			t.Errorf("%s: the lock file does not say what it is", f.File)
		}
	}
	all, err := fs.ReadDir(files, "vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !named[e.Name()] {
			t.Errorf("vendor/%s is not in the lock file", e.Name())
		}
	}
}

var elsewhere = regexp.MustCompile(`(?i)(src|href|from|import|url)\s*[=(]?\s*["'(]\s*(https?:)?//`)

// TestConsoleIsWhole makes sure that the console loads nothing from elsewhere,
// and has no script or style that its policy would not let run.
func TestConsoleIsWhole(t *testing.T) {
	err := fs.WalkDir(web.ConsoleFiles(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(p, "vendor/") {
			return err
		}
		text, err := fs.ReadFile(web.ConsoleFiles(), p)
		if err != nil {
			return err
		}
		if found := elsewhere.Find(text); found != nil {
			t.Errorf("%s loads from elsewhere: %s", p, found)
		}
		for _, bad := range []string{"dangerouslySetInnerHTML", "innerHTML", "eval(", "new Function", "document.write", "style=\""} {
			if path.Ext(p) == ".js" && strings.Contains(string(text), bad) {
				t.Errorf("%s uses %s: foreign text must stay text, and the policy forbids the rest", p, bad)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConsoleServed(t *testing.T) {
	s := httptest.NewServer(web.Console())
	defer s.Close()
	for _, c := range []struct {
		path, typ string
		status    int
	}{
		{"/console/", "text/html; charset=utf-8", 200},
		{"/console/tools/fs__read_file", "text/html; charset=utf-8", 200},
		{"/console/tools/odd.js", "", 404},
		{"/console/app.js", "text/javascript; charset=utf-8", 200},
		{"/console/vendor/preact.mjs", "text/javascript; charset=utf-8", 200},
		{"/console/style.css", "text/css; charset=utf-8", 200},
		{"/console/../web.go", "text/html; charset=utf-8", 200},
	} {
		resp, err := http.Get(s.URL + c.path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status || c.typ != "" && resp.Header.Get("Content-Type") != c.typ {
			t.Errorf("%s: %d %s", c.path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		policy := resp.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "'sha256-") {
			t.Errorf("%s: the policy is %s", c.path, policy)
		}
	}
}
