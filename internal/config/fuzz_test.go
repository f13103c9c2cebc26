package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Whatever a file holds, reading it ends, nothing panics, every problem has a
// place in the file, and what is accepted can be shown, hashed and rendered.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.good.*", "testdata/*.bad.*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			ext := filepath.Ext(path)
			f.Add(data, ext == ".yaml")
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, yaml bool) {
		name := "stoa.json"
		if yaml {
			name = "stoa.yaml"
		}
		var r report
		env := environ{env: fixed()}
		c := Default()
		c.trace = &trace{places: map[string]place{}, env: env}
		src := &source{name: name, workspace: dir, rank: 1, env: env}
		n := parse(src, data, &r)
		if n != nil {
			if out := n.json(); !json.Valid(out) {
				t.Fatalf("the tree is no JSON: %s", out)
			}
			d := decoder{report: &r, src: src, trace: c.trace}
			d.decode(n, &c)
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, p := range r.problems {
			if p.rank == 1 && (p.File != name || p.Line < 1 || p.Column < 1 || !yaml && p.Line > lines) {
				t.Fatalf("no place: %+v", p)
			}
		}
		if len(r.problems) == 0 {
			c.Hash()
			if err := c.Show(&bytes.Buffer{}, true); err != nil {
				t.Fatal(err)
			}
		}
	})
}
