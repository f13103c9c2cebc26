package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWatched(t *testing.T) {
	real, dir, user := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("stoa: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(real, "shared.yaml"))
	if err := os.Symlink(filepath.Join(real, "shared.yaml"), filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	o := Options{Files: []string{"link.yaml"}, EnvFiles: []string{"sub/vars"}, Dir: dir, UserDir: user, Env: func(string) (string, bool) { return "", false }}
	server := DefaultServer()
	server.EnvFile = filepath.Join(user, "server.env")
	folders, matters := Watched(o, &Config{Servers: []Server{server}})
	for _, want := range []string{dir, real, user, filepath.Join(dir, "sub")} {
		if !slices.Contains(folders, want) {
			t.Errorf("%s is not watched: %v", want, folders)
		}
	}
	for path, want := range map[string]bool{
		filepath.Join(dir, "link.yaml"): true, filepath.Join(real, "shared.yaml"): true, filepath.Join(dir, ".env"): true,
		filepath.Join(dir, "sub", "vars"): true, server.EnvFile: true, filepath.Join(dir, "..data"): true,
		filepath.Join(dir, "hub.json"): false, filepath.Join(dir, "stoa.yaml"): false,
	} {
		if matters(path) != want {
			t.Errorf("%s matters: %v, want %v", path, !want, want)
		}
	}

	// With no file yet, the first to appear matters.
	o.Files, o.EnvFiles = nil, nil
	if folders, matters = Watched(o, nil); !slices.Contains(folders, dir) || !matters(filepath.Join(dir, "stoa.yaml")) {
		t.Errorf("a file that may appear is not watched for: %v", folders)
	}
	write(filepath.Join(user, "stoa.jsonc"))
	if folders, matters = Watched(o, nil); !slices.Contains(folders, user) || !matters(filepath.Join(user, "stoa.jsonc")) || !matters(filepath.Join(dir, "mcp.json")) {
		t.Errorf("the user's file is not watched: %v", folders)
	}
}
