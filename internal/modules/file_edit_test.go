package modules

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEdit(t *testing.T) {
	text := "package a\n\nfunc one() {}\nfunc two() {}\n\n// end"
	dir := tree(t, map[string]string{"a.go": text, "crlf": "a\r\nb\r\n", "bin": "\xffa"})
	m := in(t, dir)
	args := o{"path": "a.go", "dryRun": true, "edits": []o{{"find": "one() {}", "replace": "first() {\n}"}, {"find": "func", "replace": "fn", "all": true}}}
	want := edited{
		Path: "a.go", Size: 50, Replacements: 3, DryRun: true,
		Diff: "--- a.go\n+++ a.go\n@@ -1,6 +1,7 @@\n package a\n \n-func one() {}\n-func two() {}\n+fn first() {\n+}\n+fn two() {}\n \n // end\n\\ No newline at end of file\n",
	}
	got := good[edited](t, m, "file_edit", args)
	want.Hash, want.Size = got.Hash, got.Size
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if content(t, dir, "a.go") != text {
		t.Fatal("a dry run changed the file")
	}
	args["dryRun"] = false
	args["expectHash"] = hashOf([]byte(text))
	got = good[edited](t, m, "file_edit", args)
	now := content(t, dir, "a.go")
	if now != "package a\n\nfn first() {\n}\nfn two() {}\n\n// end" || got.Hash != hashOf([]byte(now)) || got.Size != len(now) {
		t.Errorf("%+v\n%s", got, now)
	}
	for name, tc := range map[string]struct {
		path  string
		edits []o
		want  string // in error and hint
	}{
		"missing":           {"a.go", []o{{"find": "two", "replace": "2"}, {"find": "three", "replace": "3"}}, `edit 2: the text "three" is not there; nothing was changed`},
		"twice":             {"a.go", []o{{"find": "fn", "replace": "func"}}, "there 2 times, in lines 3, 5"},
		"other line ends":   {"crlf", []o{{"find": "a\nb", "replace": "c"}}, `end with \r\n`},
		"not text":          {"bin", []o{{"find": "a", "replace": "b"}}, "not UTF-8"},
		"found by the last": {"a.go", []o{{"find": "first", "replace": "x"}, {"find": "first", "replace": "y"}}, "edit 2"},
	} {
		e := bad(t, m, "file_edit", o{"path": tc.path, "edits": tc.edits}, "INVALID_ARGUMENTS")
		if !strings.Contains(e.Error+e.Message, tc.want) {
			t.Errorf("%s: %s / %s", name, e.Error, e.Message)
		}
	}
	bad(t, m, "file_edit", o{"path": "a.go", "edits": []o{{"find": "two", "replace": "2"}}, "expectHash": hashOf([]byte(text))}, "INVALID_ARGUMENTS")
	bad(t, m, "file_edit", o{"path": "a.go", "edits": []o{{"find": "", "replace": "2"}}}, "INVALID_ARGUMENTS")
	if content(t, dir, "a.go") != now {
		t.Error("a refused edit changed the file")
	}
}

// A small text that is everywhere must not become a huge file.
func TestEditBound(t *testing.T) {
	dir := tree(t, map[string]string{"f": strings.Repeat("a", 1000)})
	m := openFile(t, FileOptions{Roots: []string{dir}, MaxBytes: 5000})
	bad(t, m, "file_edit", o{"path": "f", "edits": []o{{"find": "a", "replace": "123456", "all": true}}}, "LIMIT")
	good[edited](t, m, "file_edit", o{"path": "f", "edits": []o{{"find": "a", "replace": "12345", "all": true}}})
	bad(t, m, "file_write", o{"path": "f", "mode": "append", "content": "1"}, "LIMIT")
	bad(t, m, "file_write", o{"path": "g", "content": strings.Repeat("1", 5001)}, "LIMIT")
	if got := len(content(t, dir, "f")); got != 5000 {
		t.Errorf("%d bytes", got)
	}
}

// A diff tells both texts, and has no line that it need not have.
func TestDiffTellsBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n"}), 0, 30)
		var a, b [][]byte
		for _, l := range lines.Draw(t, "a") {
			a = append(a, []byte(l))
		}
		for _, l := range lines.Draw(t, "b") {
			b = append(b, []byte(l))
		}
		var before, after [][]byte
		changes := 0
		for _, o := range diffLines(a, b) {
			if o.kind != '+' {
				before = append(before, o.line)
			}
			if o.kind != '-' {
				after = append(after, o.line)
			}
			if o.kind != ' ' {
				changes++
			}
		}
		if diff := cmp.Diff(bytes.Join(a, nil), bytes.Join(before, nil)); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(bytes.Join(b, nil), bytes.Join(after, nil)); diff != "" {
			t.Fatal(diff)
		}
		if least := len(a) + len(b) - 2*common(a, b); changes != least {
			t.Fatalf("%d changes where %d are enough", changes, least)
		}
	})
}

// common is the length of the longest common subsequence, the plain way.
func common(a, b [][]byte) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			up := row[j+1]
			if bytes.Equal(a[i], b[j]) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(up, row[j])
			}
			diagonal = up
		}
	}
	return row[len(b)]
}

func TestDiffForms(t *testing.T) {
	long := strings.Repeat("same\n", 10)
	for name, tc := range map[string]struct{ before, after, want string }{
		"nothing":   {"a\n", "a\n", ""},
		"from none": {"", "a\n", "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n"},
		"to none":   {"a\n", "", "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n"},
		"two hunks": {"x\n" + long + "y\n", "X\n" + long + "Y\n", "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-x\n+X\n same\n same\n same\n@@ -9,4 +9,4 @@\n same\n same\n same\n-y\n+Y\n"},
		"newline":   {"a", "a\n", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
	} {
		if diff := cmp.Diff(tc.want, unifiedDiff("f", []byte(tc.before), []byte(tc.after), false)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// What differs everywhere is shown as one block, and no more than fits.
	a, b := strings.Repeat("a\n", 30_000), strings.Repeat("b\n", 30_000)
	if d := unifiedDiff("f", []byte(a), []byte(b), false); len(d) > diffBytes+100 || !strings.Contains(d, "@@ -1,30000 +1,30000 @@") || !strings.Contains(d, "longer than is shown") {
		t.Errorf("%d bytes: %.80s", len(d), d)
	}
}

func TestSearch(t *testing.T) {
	dir := tree(t, map[string]string{
		"a.go": "one\ntwo Three\nfour\r\nfive\n", "d/b.go": "a three b\n", "d/c.txt": "three\n", ".git/x": "three\n",
		"bin": "three\x00", "latin": "caf\xe9 three\n", "long": strings.Repeat("x", 1000) + "three" + strings.Repeat("y", 1000) + "\n",
	})
	m := in(t, dir)
	where := func(f found) []string {
		out := []string{}
		for _, m := range f.Matches {
			out = append(out, m.Path)
		}
		return out
	}
	for name, tc := range map[string]struct {
		args o
		want []string
	}{
		"text":     {o{"pattern": "three"}, []string{"d/b.go", "d/c.txt", "latin", "long"}},
		"any case": {o{"pattern": "three", "ignoreCase": true, "glob": "*.go"}, []string{"a.go", "d/b.go"}},
		"regexp":   {o{"pattern": `^\w+ [Tt]h`, "regexp": true}, []string{"a.go", "d/b.go"}},
		"not one":  {o{"pattern": `[Tt]hree`}, []string{}},
		"a file":   {o{"pattern": "three", "path": "d/c.txt"}, []string{"d/c.txt"}},
		"a folder": {o{"pattern": "three", "path": "d", "glob": "b.*"}, []string{"d/b.go"}},
		"by path":  {o{"pattern": "three", "glob": "d/*"}, []string{"d/b.go", "d/c.txt"}},
		"hidden":   {o{"pattern": "three", "hidden": true}, []string{".git/x", "d/b.go", "d/c.txt", "latin", "long"}},
		"end":      {o{"pattern": "r$", "regexp": true}, []string{"a.go"}},
	} {
		if diff := cmp.Diff(tc.want, where(good[found](t, m, "file_search", tc.args))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	got := good[found](t, m, "file_search", o{"pattern": "Three", "context": 1})
	if diff := cmp.Diff([]match{{Path: "a.go", Line: 2, Column: 5, Text: "two Three", Before: []string{"one"}, After: []string{"four"}}}, got.Matches); diff != "" {
		t.Error(diff)
	}
	if got.Skipped.Binary != 1 || got.Files != 5 {
		t.Errorf("%+v", got)
	}
	got = good[found](t, m, "file_search", o{"pattern": "three", "path": "long"})
	if text := got.Matches[0].Text; len(text) > 500 || !strings.Contains(text, "xthreey") || got.Matches[0].Column != 1001 {
		t.Errorf("a long line: %+v", got.Matches[0])
	}
	if got = good[found](t, m, "file_search", o{"pattern": "three", "limit": 2}); len(got.Matches) != 2 || got.Truncated == "" {
		t.Errorf("limit: %+v", got)
	}
	bad(t, m, "file_search", o{"pattern": "(", "regexp": true}, "INVALID_ARGUMENTS")
	bad(t, m, "file_search", o{"pattern": "a\nb"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_search", o{"pattern": "((((a{30}){30})|b){30})", "regexp": true}, "INVALID_ARGUMENTS")
	bad(t, m, "file_search", o{"pattern": strings.Repeat(`\pL{400}`, 20), "regexp": true}, "LIMIT")
}

func TestSearchBounds(t *testing.T) {
	dir := tree(t, map[string]string{"line": strings.Repeat("x", searchLine) + "needle\n", "large": strings.Repeat("needle\n", 20_000), "many": strings.Repeat("needle"+strings.Repeat("z", 390)+"\n", 1000)})
	m := openFile(t, FileOptions{Roots: []string{dir}, MaxBytes: 1 << 20})
	got := good[found](t, m, "file_search", o{"pattern": "needle", "path": "line"})
	if len(got.Matches) != 0 || got.Skipped.LongLines != 1 {
		t.Errorf("a line that is too long: %+v", got)
	}
	got = good[found](t, m, "file_search", o{"pattern": "needle", "path": "many", "limit": 1000, "context": 10})
	if len(got.Matches) == 0 || len(got.Matches) > 100 || !strings.Contains(got.Truncated, "too long") {
		t.Errorf("%d matches, %q", len(got.Matches), got.Truncated)
	}
	m = openFile(t, FileOptions{Roots: []string{dir}, MaxBytes: 100})
	if got = good[found](t, m, "file_search", o{"pattern": "needle"}); got.Skipped.Large != 3 {
		t.Errorf("%+v", got)
	}
}
