package attach

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a launched hub says as it ends is told also where its log cannot be
// written, as on a full disk.
func TestLaunchTellsWhatTheHubSaid(t *testing.T) {
	for name, log := range map[string]string{"a log": "launch.log", "no folder for it": "file/launch.log", "a full disk": "full"} {
		t.Run(name, func(t *testing.T) {
			p := newPost(t)
			p.kill()
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/dev/full", filepath.Join(folder, "full")); err != nil {
				t.Fatal(err)
			}
			c := p.client(func(o *Options) {
				o.Folder = folder
				o.Launch = &Launch{Log: filepath.Join(folder, log), Lock: filepath.Join(folder, "hub.lock"),
					Command: func() *exec.Cmd { return exec.Command("sh", "-c", "echo no space left for me >&2; exit 1") }}
			})
			c.say("%s", call(1, "act", `{}`))
			c.hear(`"id":1`, `"kind":"unreachable"`, "it ended at once: exit status 1; it says: no space left for me")
			c.in.Close()
			if err := <-c.over; err == nil || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// A folder that cannot be had keeps nobody from being answered, and is used once
// it can be.
func TestFolderThatCannotBeHad(t *testing.T) {
	p := newPost(t)
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.client(func(o *Options) { o.Folder = folder })
	c.say(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.hear(`"id":"hello"`, "make the data folder", "choose another with --data")
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.say("%s", call(1, "act", `{}`))
	c.hear(`"id":1`, `"kind":"unreachable"`, "not a directory")
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	c.hear(`"method":"notifications/tools/list_changed"`)
	c.say("%s", call(2, "act", `{"k":2}`))
	c.hear(`"id":2`, `"args":{"k":2}`)
	c.end()
}
