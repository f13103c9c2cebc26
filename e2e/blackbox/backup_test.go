package blackbox

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// chapter returns the commands that docs/backup.md gives under a heading.
func chapter(t testing.TB, heading string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", "backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n## "+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	_, rest, block := strings.Cut(rest, "\n```sh\n")
	script, _, ended := strings.Cut(rest, "\n```")
	if !ok || !block || !ended {
		t.Fatalf("docs/backup.md: there are no commands under %s", heading)
	}
	return script
}

// follows does what the page says under a heading.
func (h *hub) follows(t testing.TB, heading string, env ...string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(stoa(t), filepath.Join(bin, "stoa")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-euc", chapter(t, heading))
	cmd.Dir = h.folder
	cmd.Env = append(command(t, h, "version").Env, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", heading, err, said)
	}
	<-h.process.done
}

// Who follows the manual gets back what was there when the backup was made, and
// nothing of what came after it, on a folder that is then used as any other.
func TestBackUpAndRestore(t *testing.T) {
	t.Parallel()
	files, l := withTools(t, oldTools)
	servers := object{"files": files}
	h := prepare(t, servers, oldSettings)
	unpack(t, filepath.Join("testdata", "folder-stopped.tar.gz"), h.data)
	in := insideOf(t, "stopped")
	h.launch(t)
	h.awaitTools(t, servers)
	backup := filepath.Join(t.TempDir(), "backup")
	h.follows(t, "Back up", "BACKUP="+backup)

	was := *in
	was.Values, was.Runs, was.Tasks = maps.Clone(in.Values), maps.Clone(in.Runs), maps.Clone(in.Tasks)
	h.launch(t)
	h.awaitTools(t, servers)
	h.goesOn(t, in)
	dave := h.token(t, "dave")
	h.must(t, "/s/desk/mcp", h.owner, "context_add", object{"name": "since", "data": "then"})
	h.must(t, "/s/desk/mcp", h.owner, "context_remove", object{"name": "note"})
	h.follows(t, "Restore", "BACKUP="+backup)
	for _, when := range []string{"restored", "restored and started again"} {
		h.launch(t)
		h.awaitTools(t, servers)
		h.holds(t, when, &was)
		if got := h.get(t, "/api/v1/sessions/desk/values/since", h.owner); got.status != http.StatusNotFound {
			t.Errorf("%s: a value that was stored since is there: %d %s", when, got.status, clip(got.text))
		}
		if got := h.get(t, "/api/v1/tools", dave); got.status != http.StatusUnauthorized {
			t.Errorf("%s: a token that was made since gets %d", when, got.status)
		}
		h.kill(t)
	}
	h.launch(t)
	h.awaitTools(t, servers)
	h.countsDecisions(t, &was, l)
	h.goesOn(t, &was)

	// What the older release gets is what it has left. That it can use it is seen
	// by this release, which makes another copy.
	old := contents(t, filepath.Join(h.data, "copy-of-version-1"))
	h.follows(t, "Go back to the older release")
	if now := contents(t, h.data); !maps.Equal(now, old) {
		t.Errorf("the folder is not what it was before the upgrade: %d files and folders instead of %d", len(now), len(old))
	}
	h.launch(t)
	h.awaitTools(t, servers)
	h.holds(t, "upgraded again", insideOf(t, "stopped"))
}
