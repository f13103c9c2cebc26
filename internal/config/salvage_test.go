package config

import (
	"os"
	"path/filepath"
	"testing"
)

// The data folder is found in files that cannot be read.
func TestDataFolderOfABrokenFile(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for name, tc := range map[string]struct{ file, text, want string }{
		"YAML":             {"stoa.yaml", "stoa: 1\ndata: " + other + "\nservers: [\n", other},
		"quoted":           {"stoa.yaml", "stoa: 1\n\"data\": '" + other + "' # here\nservers: {{\n", other},
		"a relative path":  {"stoa.yaml", "data: kept\nstoa: 1\nservers:\n\t- x\n", filepath.Join(dir, "kept")},
		"a variable":       {"stoa.yaml", "stoa: 1\ndata: ${KEPT}\nservers: [\n", other},
		"below a key":      {"stoa.yaml", "stoa: 1\nmodels:\n  data: /nowhere\nservers: [\n", filepath.Join(dir, "state")},
		"JSON":             {"stoa.jsonc", "{\n  // ours\n  \"stoa\": 1,\n  \"servers\": {\"a\": {\"env\": {\n    \"data\": \"/nowhere\"}}}\n  \"data\": \"" + other + "\"\n}", other},
		"JSON in one line": {"stoa.json", `{"stoa": 1, "data": "` + other + `", "servers": `, other},
		"another host's":   {"mcp.json", "{\n\"mcpServers\": {},\n\"data\": \"" + other + "\",", filepath.Join(dir, "state")},
	} {
		file := filepath.Join(dir, tc.file)
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{"KEPT": other, "STOA_DATA": filepath.Join(dir, "state")}
		o := Options{Files: []string{file}, Dir: dir, Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
		if _, _, err := Load(o); err == nil && tc.file != "mcp.json" {
			t.Errorf("%s: the file can be read", name)
		}
		if got := DataFolder(o); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
