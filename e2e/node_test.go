package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// peerDeadline bounds one run of a peer. It only ends runs that hang: nothing is measured against it.
const peerDeadline = 3 * time.Minute

// toolset is the installed Node peers.
type toolset struct {
	node    string // a Node of version 22 or newer
	modules string // node_modules
	scripts string // this package's client scripts, where they can import from node_modules
}

// tools returns the installed peers. Without them it skips the test, or fails it when they are required.
func tools(t *testing.T) toolset {
	t.Helper()
	required := false
	switch mode := os.Getenv("STOA_E2E"); mode {
	case "":
	case "require":
		required = true
	default:
		t.Fatalf("STOA_E2E=%q: the only value known is \"require\"", mode)
	}
	set, err := installed()
	switch {
	case err == nil:
		return set
	case required:
		t.Fatalf("%v", err)
	default:
		t.Skipf("%v", err)
	}
	return toolset{}
}

var installed = sync.OnceValues(func() (toolset, error) {
	root, err := filepath.Abs(filepath.Join(repository, ".tools", "npm"))
	if err != nil {
		return toolset{}, err
	}
	want, err := os.ReadFile(filepath.Join("npm", "package-lock.json"))
	if err != nil {
		return toolset{}, err
	}
	have, err := os.ReadFile(filepath.Join(root, ".installed"))
	if errors.Is(err, os.ErrNotExist) {
		return toolset{}, errors.New("the Node peers are not installed; run `make tools`")
	}
	if err != nil {
		return toolset{}, err
	}
	if !bytes.Equal(want, have) {
		return toolset{}, errors.New("the installed Node peers are not those of e2e/npm/package-lock.json; run `make tools`")
	}
	set := toolset{modules: filepath.Join(root, "node_modules")}
	if set.node, err = findNode(set.modules); err != nil {
		return toolset{}, err
	}
	set.scripts, err = placeScripts(set.modules)
	return set, err
})

// findNode prefers the pinned Node; platforms that it is not published for fall back to the system's.
func findNode(modules string) (string, error) {
	pinned, err := filepath.Glob(filepath.Join(modules, "node-*-*", "bin", "node*"))
	if err != nil {
		return "", err
	}
	system, _ := exec.LookPath("node")
	for _, path := range append(pinned, system) {
		if path == "" {
			continue
		}
		out, err := exec.Command(path, "-p", "process.versions.node").Output()
		if err != nil {
			continue
		}
		major, _, _ := strings.Cut(string(out), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= 22 {
			return path, nil
		}
	}
	return "", errors.New("no Node of version 22 or newer: npm has none for this platform and the system has none; install one")
}

// placeScripts copies the client scripts beside a link to node_modules, since ES modules are looked up from the
// folder of the file that imports them.
func placeScripts(modules string) (string, error) {
	dir, err := artefacts()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "scripts")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join("npm", "*.mjs"))
	if err != nil {
		return "", err
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(source)), text, 0o644); err != nil {
			return "", err
		}
	}
	return dir, os.Symlink(modules, filepath.Join(dir, "node_modules"))
}

// bin is the program that an npm package installs under name; it is run by Node.
func (s toolset) bin(name string) string { return filepath.Join(s.modules, ".bin", name) }

// ran is what one run of a Node program left.
type ran struct {
	code           int
	stdout, stderr string
}

func (r ran) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s\n--- stderr\n%s", r.code, r.stdout, r.stderr)
}

// run runs a Node program with a clean environment plus env and waits for it.
func (s toolset) run(t *testing.T, env []string, program string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, append([]string{program}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(environment(t, s), env...)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	result := ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	var exit *exec.ExitError
	if ctx.Err() != nil || (err != nil && !errors.As(err, &exit)) {
		t.Fatalf("run %s: %v\n%v", filepath.Base(program), err, result)
	}
	return result
}

// script runs one of this package's scripts and decodes the JSON that it prints.
func (s toolset) script(t *testing.T, env []string, name string, job, report any) {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	result := s.run(t, env, filepath.Join(s.scripts, name), string(text))
	if result.code != 0 {
		t.Fatalf("%s: %v", name, result)
	}
	if err := json.Unmarshal([]byte(result.stdout), report); err != nil {
		t.Fatalf("%s: decode its report: %v\n%v", name, err, result)
	}
}

// environment keeps the machine's own settings and configuration files away from peers and hub.
func environment(t *testing.T, s toolset) []string {
	t.Helper()
	home := t.TempDir()
	return []string{
		"PATH=" + filepath.Dir(s.node) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + home,
		"TMPDIR=" + os.TempDir(),
		"LANG=C.UTF-8",
	}
}
