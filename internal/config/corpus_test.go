package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fixed is an environment that does not depend on the machine.
func fixed(pairs ...string) func(string) (string, bool) {
	vars := map[string]string{"HOME": "/home/me", "API_KEY": "sesame", "GITHUB_TOKEN": "ghp_sesame"}
	for i := 0; i+1 < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func loadFiles(t *testing.T, files ...string) (*Config, []Note, error) {
	t.Helper()
	return Load(Options{Files: files, Env: fixed(), UserDir: t.TempDir()})
}

func TestGoodCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/*.good.*")
	if err != nil || len(files) < 8 {
		t.Fatal("the corpus is not there", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			c, _, err := loadFiles(t, f)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(); err != nil {
				t.Errorf("Load takes what Validate refuses: %v", err)
			}
		})
	}
}

var wantLine = regexp.MustCompile(`^(?://|#) want: (.+)\n`)

func TestBadCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.*")
	if err != nil || len(files) < 50 {
		t.Fatal("the corpus is not there", err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			m := wantLine.FindStringSubmatch(string(data))
			if m == nil {
				t.Fatal("the first line does not say what is wanted")
			}
			_, _, err = loadFiles(t, f)
			var p Problems
			if !errors.As(err, &p) {
				t.Fatalf("no problems, want %q", m[1])
			}
			if !strings.Contains(p.Error(), m[1]) {
				t.Errorf("got\n%v\nwant %q", p, m[1])
			}
			if len(p) > 1 {
				t.Errorf("one mistake gave %d problems:\n%v", len(p), p)
			}
			for _, one := range p {
				if one.File != f || one.Line < 1 || one.Column < 1 || one.Hint == "" {
					t.Errorf("no place or no advice: %+v", one)
				}
			}
		})
	}
}
