package modules

import (
	"path/filepath"
	"strings"
	"testing"
)

// Whatever the path, what is located is inside of a root, and resolving it
// gives a name that the system takes as one inside.
func FuzzPaths(f *testing.F) {
	dir, _ := guarded(f)
	other := filepath.Join(dir, "in")
	roots, err := openRoots([]string{dir, other})
	if err != nil {
		f.Fatal(err)
	}
	m := &files{roots: roots}
	f.Cleanup(func() { m.close() })
	for _, seed := range []string{"", ".", "/", "root/in/f", "in/f", "root/../in/f", "root/../../x", "root/folder/secret", "root/finedir/../g", dir + "/rel", dir + "/../out/secret",
		"root/chain", "root/loop", "a\x00b", "\xff", "root/" + strings.Repeat("../", 20), "root//./in/./f", "~/x", `root\..\x`, "root/new/../../out"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		r, name, err := m.locate(given)
		if err != nil {
			return
		}
		if r == nil {
			if name != "." {
				t.Fatalf("%q: %q in no root", given, name)
			}
			return
		}
		if !filepath.IsLocal(name) {
			t.Fatalf("%q: %q is not inside", given, name)
		}
		for _, follow := range []bool{true, false} {
			p, err := m.find(given, follow)
			if err != nil {
				continue
			}
			if !filepath.IsLocal(p.name) {
				t.Fatalf("%q leads to %q", given, p.name)
			}
			if b, err := p.fs.ReadFile(p.name); err == nil && strings.Contains(string(b), secret) {
				t.Fatalf("%q leads out", given)
			}
			// What callers are told leads to the same again.
			if again, err := m.find(p.short, false); err != nil || again.name != p.name || again.root != p.root {
				t.Fatalf("%q is told as %q, which is %q: %v", given, p.short, again.name, err)
			}
		}
	})
}
