package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	pathLike = regexp.MustCompile(`^\.?[A-Za-z0-9_*-]+(/[A-Za-z0-9_.*-]+)*(/|\.(go|md|mod|sum|json|jsonc|yaml|yml|txt|sh))?$`)
)

// named returns the paths that a page names in code quotes. What has neither a
// slash nor the end of a file name is a word and not a path.
func named(page string) (paths []string) {
	for _, m := range quoted.FindAllStringSubmatch(page, -1) {
		p := strings.TrimPrefix(strings.TrimSuffix(m[1], "/..."), "./")
		if pathLike.MatchString(p) && (strings.Contains(p, "/") || filepath.Ext(p) != "") {
			paths = append(paths, p)
		}
	}
	return paths
}

func TestNamedPaths(t *testing.T) {
	page := "Read `internal/mcp/doc.go`, `./internal/wire/...`, `docs/` and `go.mod`; run `go test ./...`; `tools/call` is none, see `https://x.example/a`."
	got := strings.Join(named(page), " ")
	if want := "internal/mcp/doc.go internal/wire docs/ go.mod tools/call"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// protocolWords look like paths and are methods of the protocol or the like.
var protocolWords = regexp.MustCompile(`^(tools|prompts|resources|server|subscriptions|notifications|logging|completion|elicitation|sampling|roots|tasks|application|text|stoa)/`)

// A guide that names what does not exist is worse than none.
func TestGuideNamesWhatExists(t *testing.T) {
	const guide = "AGENTS.md"
	b, err := os.ReadFile(filepath.Join(repo, guide))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range named(string(b)) {
		if protocolWords.MatchString(p) {
			continue
		}
		found, err := filepath.Glob(filepath.Join(repo, filepath.FromSlash(p)))
		if err != nil || len(found) == 0 {
			t.Errorf("%s names %s, which does not exist", guide, p)
		}
	}
}

var attack = regexp.MustCompile("(?m)^\\| (\\d+) \\| [WUNTMSA] \\|.*\\| (?:`([a-z0-9/]+)` )?`(Test\\w+)` \\|$")

// Each attack of the threat model has a test, and the test is there.
func TestAttacksHaveTests(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repo, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := attack.FindAllStringSubmatch(string(b), -1)
	if all := strings.Count(string(b), "\n| "); len(rows) < 40 || len(rows) < all-10 { // besides those of who might attack, and headings
		t.Errorf("%d of %d rows name a test", len(rows), all)
	}
	for _, row := range rows {
		folder, name := row[2], row[3]
		if folder == "" {
			folder = "e2e/blackbox"
		}
		files, err := filepath.Glob(filepath.Join(repo, filepath.FromSlash(folder), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+name+"(")
		}
		if !found {
			t.Errorf("attack %s: there is no %s in %s", row[1], name, folder)
		}
	}
}
