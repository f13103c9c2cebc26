package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inShell runs a program of the shell, which finds the completion script as
// stoa.<shell> beside it, and returns what it printed.
func inShell(t *testing.T, shell, program string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed", shell)
	}
	dir := t.TempDir()
	script, err := exec.Command("stoa", "completion", shell).Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"stoa." + shell: string(script), "ask": program, "one.jsonc": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own := map[string][]string{"zsh": {"-f"}, "fish": {"--no-config"}}[shell]
	cmd := exec.CommandContext(ctx, path, append(append(own, "./ask"), args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "TERM=dumb")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || said.Len() > 0 {
		t.Fatalf("%s: %v\n%s%s", shell, err, out, said.String())
	}
	return string(out)
}

// In zsh keys are typed at a terminal, and what stoa would get is read.
func TestCompletionInZsh(t *testing.T) {
	const program = `zmodload zsh/zpty
print -r -- 'autoload -Uz compinit && compinit -u -d ./dump
source ./stoa.zsh
stoa() { print -r -- "got <${(j:|:)@}>" }
print up and ready' > setup
zpty z zsh -f -i
zpty -w z 'source ./setup'
zpty -r z out '*up and ready*'
for keys in "$@"; do
  zpty -w z "$keys"
  zpty -r z out '*got <*>*'
  print -r -- "${${out##*got <}%%>*}"
done
zpty -d z
`
	typed := []string{
		"stoa comp\tf\t", "stoa tok\tcr\t", "stoa tools --js\t", "stoa tools --config one.j\t", "stoa tools --agent t\t", "stoa ser\t", "stoa serve --li\t", "stoa token \t",
	}
	want := []string{"completion|fish", "token|create", "tools|--json", "tools|--config|one.jsonc", "tools|--agent|t", "serve", "serve|--listen", "token"}
	got := strings.Split(strings.TrimSpace(inShell(t, "zsh", program, typed...)), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// fish says itself what it would offer.
func TestCompletionInFish(t *testing.T) {
	const program = "source ./stoa.fish\nfor line in $argv\n  echo \"= $line\"\n  complete -C\"$line\"\nend\n"
	lines := []string{"stoa comp", "stoa completion ", "stoa token ", "stoa tools --js", "stoa tools --config one.j", "stoa tools --agent t", "stoa tools "}
	out := inShell(t, "fish", program, lines...)
	got := map[string][]string{}
	line := ""
	for one := range strings.Lines(out) {
		one = strings.TrimSuffix(one, "\n")
		if next, ok := strings.CutPrefix(one, "= "); ok {
			line = next
			continue
		}
		word, _, _ := strings.Cut(one, "\t")
		got[line] = append(got[line], word)
	}
	want := map[string][]string{
		"stoa comp": {"completion"}, "stoa completion ": {"bash", "fish", "zsh"}, "stoa token ": {"create", "list", "revoke"},
		"stoa tools --js": {"--json"}, "stoa tools --config one.j": {"one.jsonc"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
