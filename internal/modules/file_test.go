package modules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/fault"
)

// tree makes a folder with files; a name that ends with a slash is a folder.
func tree(t testing.TB, content map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range content {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openFile(t testing.TB, opts FileOptions) *Module {
	t.Helper()
	m, err := File(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// in returns a module with one root.
func in(t testing.TB, dir string) *Module { return openFile(t, FileOptions{Roots: []string{dir}}) }

func content(t testing.TB, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func paths(l listing) []string {
	out := []string{}
	for _, e := range l.Entries {
		out = append(out, e.Path)
	}
	return out
}

func TestList(t *testing.T) {
	dir := tree(t, map[string]string{"b.txt": "12345", "a/x.go": "", "a/deep/y.go": "", "a.md": "", "empty/": ""})
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	m := in(t, dir)
	for name, tc := range map[string]struct {
		args o
		want []string
	}{
		"root":      {o{}, []string{"a", "a.md", "b.txt", "empty", "link"}},
		"folder":    {o{"path": "a"}, []string{"a/deep", "a/x.go"}},
		"absolute":  {o{"path": dir + "/a"}, []string{"a/deep", "a/x.go"}},
		"by a link": {o{"path": "link"}, []string{"a/deep", "a/x.go"}},
		"recursive": {o{"recursive": true}, []string{"a", "a/deep", "a/deep/y.go", "a/x.go", "a.md", "b.txt", "empty", "link"}},
		"depth":     {o{"recursive": true, "depth": 2}, []string{"a", "a/deep", "a/x.go", "a.md", "b.txt", "empty", "link"}},
		"by name":   {o{"recursive": true, "glob": "*.{go,md}"}, []string{"a/deep/y.go", "a/x.go", "a.md"}},
		"by path":   {o{"recursive": true, "glob": "a/*.go"}, []string{"a/x.go"}},
		"none":      {o{"path": "empty"}, []string{}},
	} {
		if diff := cmp.Diff(tc.want, paths(good[listing](t, m, "file_list", tc.args))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	cut := good[listing](t, m, "file_list", o{"limit": 2})
	if cut.Truncated == "" || len(cut.Entries) != 2 || cut.Next != 2 {
		t.Errorf("limit: %+v", cut)
	}
	if rest := good[listing](t, m, "file_list", o{"offset": cut.Next}); rest.Truncated != "" || rest.Next != 0 || len(rest.Entries) != 3 || rest.Entries[0].Path == cut.Entries[1].Path {
		t.Errorf("the rest: %+v", rest)
	}
	if all := good[listing](t, m, "file_list", o{"limit": 5}); all.Truncated != "" {
		t.Errorf("a limit that is just enough: %+v", all)
	}
	entries := good[listing](t, m, "file_list", o{}).Entries
	if e := entries[2]; e.Type != "file" || e.Size != 5 {
		t.Errorf("%+v", e)
	}
	if when, err := time.Parse(time.RFC3339Nano, entries[2].Modified); err != nil || time.Since(when) > time.Hour {
		t.Errorf("modified %q: %v", entries[2].Modified, err)
	}
	if entries[0].Type != "folder" || entries[4].Type != "link" {
		t.Errorf("types: %+v", entries)
	}
	bad(t, m, "file_list", o{"path": "nothing"}, "RESOURCE_NOT_FOUND")
	bad(t, m, "file_list", o{"path": "b.txt"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_list", o{"glob": "{a"}, "INVALID_ARGUMENTS")
}

func TestListBound(t *testing.T) {
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 15)
	content := map[string]string{}
	for i := range 200 {
		content[fmt.Sprintf("%sf%d", deep, i)] = ""
	}
	got := good[listing](t, in(t, tree(t, content)), "file_list", o{"recursive": true})
	if n := len(got.Entries); n < 100 || n > 200 || !strings.Contains(got.Truncated, "too long") {
		t.Errorf("%d entries, %q", n, got.Truncated)
	}
}

func TestRead(t *testing.T) {
	dir := tree(t, map[string]string{"t": "one\ntwo\nthree\n", "u": "aé", "nul": "a\x00b", "bin": "\xff\xfe", "empty": "", "open": "one\ntwo"})
	m := in(t, dir)
	for name, tc := range map[string]struct {
		args o
		want part
	}{
		"whole":        {o{"path": "t"}, part{Size: 14, Content: "one\ntwo\nthree\n", Length: 14}},
		"bytes":        {o{"path": "t", "offset": 4, "length": 3}, part{Size: 14, Content: "two", Offset: 4, Length: 3, More: true, NextOffset: 7}},
		"to the end":   {o{"path": "t", "offset": 8, "length": 6}, part{Size: 14, Content: "three\n", Offset: 8, Length: 6}},
		"behind it":    {o{"path": "t", "offset": 99}, part{Size: 14, Offset: 99}},
		"half a rune":  {o{"path": "u", "length": 2}, part{Size: 3, Content: "a", Length: 1, More: true, NextOffset: 1}},
		"lines":        {o{"path": "t", "line": 2, "lines": 1}, part{Size: 14, Content: "two\n", Offset: 4, Length: 4, Line: 2, Lines: 1, More: true, NextOffset: 8, NextLine: 3}},
		"last lines":   {o{"path": "t", "line": 3}, part{Size: 14, Content: "three\n", Offset: 8, Length: 6, Line: 3, Lines: 1}},
		"exact lines":  {o{"path": "t", "lines": 3}, part{Size: 14, Content: "one\ntwo\nthree\n", Length: 14, Line: 1, Lines: 3}},
		"open line":    {o{"path": "open", "line": 2}, part{Size: 7, Content: "two", Offset: 4, Length: 3, Line: 2, Lines: 1}},
		"no such line": {o{"path": "t", "line": 9}, part{Size: 14, Offset: 14, Line: 9}},
		"empty":        {o{"path": "empty"}, part{}},
		"NUL":          {o{"path": "nul"}, part{Size: 3, Encoding: "base64", Content: "YQBi", Length: 3}},
		"NUL as text":  {o{"path": "nul", "encoding": "text"}, part{Size: 3, Content: "a\x00b", Length: 3}},
		"binary":       {o{"path": "bin"}, part{Size: 2, Encoding: "base64", Content: "//4=", Length: 2}},
		"as base64":    {o{"path": "u", "encoding": "base64", "length": 2}, part{Size: 3, Encoding: "base64", Content: "YcM=", Length: 2, More: true, NextOffset: 2}},
	} {
		got := good[part](t, m, "file_read", tc.args)
		tc.want.Path = tc.args["path"].(string)
		tc.want.Hash = hashOf([]byte(content(t, dir, tc.want.Path)))
		if tc.want.Encoding == "" {
			tc.want.Encoding = "text"
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	bad(t, m, "file_read", o{"path": "t", "offset": 0, "line": 1}, "INVALID_ARGUMENTS")
	bad(t, m, "file_read", o{"path": "bin", "encoding": "text"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_read", o{"path": "none"}, "RESOURCE_NOT_FOUND")
	bad(t, m, "file_read", o{"path": "."}, "INVALID_ARGUMENTS")
	bad(t, m, "file_read", o{"path": "t/x"}, "INVALID_ARGUMENTS")
}

// A file of 4 GiB, nearly all of it a hole, is read in parts.
func TestReadHuge(t *testing.T) {
	dir := tree(t, map[string]string{"lines": strings.Repeat(strings.Repeat("x", 99)+"\n", 300)})
	const far = 4 << 30
	file, err := os.Create(filepath.Join(dir, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte("the end"), far)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Skipf("no large files here: %v", err)
	}
	m := openFile(t, FileOptions{Roots: []string{dir}, MessageBytes: 16_000})
	got := good[part](t, m, "file_read", o{"path": "huge", "offset": far})
	if got.Content != "the end" || got.Size != far+7 || got.Hash != "" || got.More {
		t.Errorf("%+v", got)
	}
	got = good[part](t, m, "file_read", o{"path": "huge"})
	if got.Length != 1000 || !got.More || got.NextOffset != 1000 {
		t.Errorf("more than is allowed: %+v", got)
	}
	got = good[part](t, m, "file_read", o{"path": "lines", "line": 2})
	if got.Length != 1000 || got.Lines != 10 || got.NextLine != 12 {
		t.Errorf("lines beyond the bound: %+v", got)
	}
	got = good[part](t, m, "file_read", o{"path": "lines", "line": got.NextLine, "lines": 1})
	if got.Offset != 1100 || got.Lines != 1 {
		t.Errorf("going on: %+v", got)
	}
	bad(t, m, "file_edit", o{"path": "huge", "edits": []o{{"find": "a", "replace": "b"}}}, "LIMIT")
	bad(t, m, "file_write", o{"path": "huge", "mode": "append", "content": "x"}, "LIMIT")
	bad(t, m, "file_info", o{"path": "huge", "hash": true}, "LIMIT")
}

func TestWrite(t *testing.T) {
	dir := tree(t, map[string]string{"old": "before", "d/": ""})
	m := in(t, dir)
	got := good[written](t, m, "file_write", o{"path": "new", "content": "héllo"})
	if diff := cmp.Diff(written{Path: "new", Size: 6, Hash: hashOf([]byte("héllo")), Created: true}, got); diff != "" {
		t.Error(diff)
	}
	bad(t, m, "file_write", o{"path": "old", "content": "x"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_write", o{"path": "d", "content": "x", "mode": "overwrite"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_write", o{"path": "no/such/file", "content": "x"}, "RESOURCE_NOT_FOUND")
	bad(t, m, "file_write", o{"path": "b64", "content": "not base64!", "encoding": "base64"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_write", o{"path": "old", "content": "x", "mode": "overwrite", "expectHash": hashOf([]byte("other"))}, "INVALID_ARGUMENTS")
	bad(t, m, "file_write", o{"path": "gone", "content": "x", "mode": "overwrite", "expectHash": hashOf(nil)}, "INVALID_ARGUMENTS")
	if got := content(t, dir, "old"); got != "before" {
		t.Fatalf("a refused write changed it to %q", got)
	}
	good[written](t, m, "file_write", o{"path": "old", "content": "after", "mode": "overwrite", "expectHash": strings.ToUpper(hashOf([]byte("before")))})
	good[written](t, m, "file_write", o{"path": "old", "content": "//4=", "encoding": "base64", "mode": "append"})
	good[written](t, m, "file_write", o{"path": "made/on/the/way", "content": "", "mode": "append", "parents": true})
	if got := content(t, dir, "old"); got != "after\xff\xfe" {
		t.Errorf("%q", got)
	}
	want := []string{"d", "made", "made/on", "made/on/the", "made/on/the/way", "new", "old"}
	if diff := cmp.Diff(want, paths(good[listing](t, m, "file_list", o{"recursive": true}))); diff != "" {
		t.Errorf("what is left: %s", diff)
	}
}

func TestWriteKeepsPermissions(t *testing.T) {
	dir := tree(t, map[string]string{"script": "#!/bin/sh\n", "ro": "x"})
	m := in(t, dir)
	if err := os.Chmod(filepath.Join(dir, "script"), 0o750); err != nil {
		t.Fatal(err)
	}
	good[written](t, m, "file_write", o{"path": "script", "content": "#!/bin/sh\ntrue\n", "mode": "overwrite"})
	good[edited](t, m, "file_edit", o{"path": "script", "edits": []o{{"find": "true", "replace": "false"}}})
	if got := good[described](t, m, "file_info", o{"path": "script"}); got.Mode != "-rwxr-x---" {
		t.Errorf("permissions %s", got.Mode)
	}
	if os.Getuid() == 0 {
		t.Skip("the superuser may write to everything")
	}
	if err := os.Chmod(filepath.Join(dir, "ro"), 0o444); err != nil {
		t.Fatal(err)
	}
	bad(t, m, "file_write", o{"path": "ro", "content": "y", "mode": "overwrite"}, "DENIED")
}

// Whoever appends at the same time loses nothing.
func TestAppendsAtOnce(t *testing.T) {
	dir := tree(t, nil)
	m := in(t, dir)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if e := do(t, m, "file_write", o{"path": "log", "mode": "append", "content": fmt.Sprintf("%02d\n", i)}); !e.Success {
				t.Errorf("%s: %s", e.Code, e.Error)
			}
		})
	}
	wg.Wait()
	if got := content(t, dir, "log"); len(got) != 60 {
		t.Errorf("%d of 60 bytes:\n%s", len(got), got)
	}
}

func TestMoveAndRemove(t *testing.T) {
	dir := tree(t, map[string]string{"a": "A", "b": "B", "d/x": "X", "d/e/y": "Y", "empty/": ""})
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	m := in(t, dir)
	bad(t, m, "file_move", o{"from": "a", "to": "b"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_move", o{"from": "a", "to": "empty", "overwrite": true}, "INVALID_ARGUMENTS")
	bad(t, m, "file_move", o{"from": "d", "to": "d/e/d"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_move", o{"from": "a", "to": "a"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_move", o{"from": "none", "to": "c"}, "RESOURCE_NOT_FOUND")
	bad(t, m, "file_move", o{"from": "a", "to": "no/c"}, "RESOURCE_NOT_FOUND")
	good[o](t, m, "file_move", o{"from": "a", "to": "far/away/c", "parents": true})
	good[o](t, m, "file_move", o{"from": "far/away/c", "to": "b", "overwrite": true})
	good[o](t, m, "file_move", o{"from": "d", "to": "moved"})
	good[o](t, m, "file_move", o{"from": "link", "to": "link2"})
	if got := content(t, dir, "b"); got != "A" {
		t.Errorf("b has %q", got)
	}
	if got := content(t, dir, "moved/e/y"); got != "Y" {
		t.Errorf("%q", got)
	}
	if target, err := os.Readlink(filepath.Join(dir, "link2")); err != nil || target != "a" {
		t.Errorf("the link: %q %v", target, err)
	}
	bad(t, m, "file_remove", o{"path": "moved"}, "INVALID_ARGUMENTS")
	bad(t, m, "file_remove", o{"path": "none"}, "RESOURCE_NOT_FOUND")
	if got := good[o](t, m, "file_remove", o{"path": "moved", "recursive": true}); got["removed"] != 4.0 {
		t.Errorf("%v", got)
	}
	for _, path := range []string{"b", "link2", "empty"} {
		good[o](t, m, "file_remove", o{"path": path})
	}
	if diff := cmp.Diff([]string{"far", "far/away"}, paths(good[listing](t, m, "file_list", o{"recursive": true}))); diff != "" {
		t.Error(diff)
	}
	for _, root := range []string{".", "", dir, "far/.."} {
		bad(t, m, "file_remove", o{"path": root, "recursive": true}, "DENIED")
		bad(t, m, "file_move", o{"from": root, "to": "x"}, "DENIED")
	}
}

func TestInfo(t *testing.T) {
	dir := tree(t, map[string]string{"f": "text"})
	if err := os.Symlink("f", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	m := in(t, dir)
	got := good[described](t, m, "file_info", o{"path": "f", "hash": true})
	if got.Type != "file" || got.Size != 4 || got.Hash != hashOf([]byte("text")) || got.Mode != "-rw-r--r--" {
		t.Errorf("%+v", got)
	}
	if got = good[described](t, m, "file_info", o{"path": "link", "hash": true}); got.Type != "link" || got.Target != "f" || got.Hash != hashOf([]byte("text")) {
		t.Errorf("%+v", got)
	}
	bad(t, m, "file_info", o{"path": ".", "hash": true}, "INVALID_ARGUMENTS")
}

func TestReadOnly(t *testing.T) {
	m := openFile(t, FileOptions{Roots: []string{tree(t, nil)}, ReadOnly: true})
	for _, name := range []string{"file_write", "file_edit", "file_move", "file_remove"} {
		req, err := request(name, o{"path": "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Handle(t.Context(), req); !fault.Is(err, fault.UnknownTool) {
			t.Errorf("%s: %v", name, err)
		}
		if bytes.Contains(m.offer.Load().listed, []byte(`"name":"`+name+`"`)) {
			t.Errorf("%s is listed", name)
		}
	}
	if got := paths(good[listing](t, m, "file_list", o{})); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestEndOfTime(t *testing.T) {
	m := openFile(t, FileOptions{Roots: []string{tree(t, map[string]string{"a/b": "x", "old": "y"})}, Timeout: time.Nanosecond})
	if got := good[listing](t, m, "file_list", o{"recursive": true}); !strings.Contains(got.Truncated, "longer than 1ns") {
		t.Errorf("%+v", got)
	}
	if got := good[found](t, m, "file_search", o{"pattern": "x"}); !strings.Contains(got.Truncated, "longer than 1ns") {
		t.Errorf("%+v", got)
	}
	bad(t, m, "file_read", o{"path": "old"}, "TIMEOUT")
	bad(t, m, "file_write", o{"path": "new", "content": "x"}, "TIMEOUT")
	bad(t, m, "file_remove", o{"path": "a", "recursive": true}, "TIMEOUT")
}

func TestCancelled(t *testing.T) {
	dir := tree(t, map[string]string{"a/b": "x"})
	m := in(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for tool, args := range map[string]o{
		"file_list": {}, "file_search": {"pattern": "x"}, "file_read": {"path": "a/b"}, "file_write": {"path": "n", "content": ""},
		"file_remove": {"path": "a", "recursive": true}, "file_edit": {"path": "a/b", "edits": []o{{"find": "x", "replace": "y"}}},
	} {
		req, err := request(tool, args)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Handle(ctx, req); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "n")); !errors.Is(err, fs.ErrNotExist) || content(t, dir, "a/b") != "x" {
		t.Error("a cancelled call changed something")
	}
}
