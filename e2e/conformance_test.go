package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// bar is what the fixture reaches without a hub, and hence what it has to reach through one.
var bar = map[string]struct {
	passed int
	clean  bool // no failed check at all, scored or not
}{
	legacy: {passed: 82, clean: true},
	modern: {passed: 165}, // the suite also runs the tasks extension, unscored, which the fixture does not offer
}

func TestConformance(t *testing.T) {
	set := tools(t)
	t.Run("control", func(t *testing.T) {
		for _, version := range []string{legacy, modern} {
			t.Run(version, func(t *testing.T) { conform(t, set, fixtureHTTP(t, set, version), version) })
		}
	})
	t.Run("stdio", func(t *testing.T) {
		h := startHub(t, set, map[string]server{"fixture": {Command: fixtureBinary(t)}})
		for _, version := range []string{legacy, modern} {
			t.Run(version, func(t *testing.T) { conform(t, set, h.agent("fixture"), version) })
		}
	})
	t.Run("http", func(t *testing.T) {
		for _, version := range []string{legacy, modern} {
			t.Run(version, func(t *testing.T) {
				h := startHub(t, set, map[string]server{"fixture": {URL: fixtureHTTP(t, set, version)}})
				conform(t, set, h.agent("fixture"), version)
			})
		}
	})
}

var (
	totalLine    = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed$`)
	failedLine   = regexp.MustCompile(`(?m)^✗ (\S+): \d+ passed, \d+ failed`)
	unscoredLine = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(`)
)

// conform runs one frozen requirement set of the suite against url and holds the result against the bar.
func conform(t *testing.T, set toolset, url, version string) {
	t.Helper()
	out := t.TempDir()
	result := set.run(t, nil, set.bin("conformance"), "server", "--url", url, "--requirements", version, "-o", out)
	total := totalLine.FindStringSubmatch(result.stdout)
	if total == nil {
		t.Fatalf("conformance printed no total: %v", result)
	}
	passed, _ := strconv.Atoi(total[1])
	failed, _ := strconv.Atoi(total[2])
	t.Logf("%s: %d passed, %d failed, exit code %d", version, passed, failed, result.code)

	want := bar[version]
	if result.code == 0 && passed >= want.passed && (failed == 0 || !want.clean) {
		return
	}
	t.Errorf("want exit code 0, at least %d passed%s", want.passed, map[bool]string{true: ", none failed"}[want.clean])
	_, summary, _ := strings.Cut(result.stdout, "=== SUMMARY ===")
	t.Logf("summary:%s", summary)
	unscored := map[string]bool{}
	for _, match := range unscoredLine.FindAllStringSubmatch(summary, -1) {
		unscored[match[1]] = true
	}
	for _, match := range failedLine.FindAllStringSubmatch(summary, -1) {
		if want.clean || !unscored[match[1]] {
			t.Log(failures(out, match[1]))
		}
	}
}

// failures tells, from the suite's own record, which checks of a scenario failed and why.
func failures(out, scenario string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %s:", scenario)
	records, err := filepath.Glob(filepath.Join(out, "server-"+scenario+"-2*", "checks.json"))
	if err != nil {
		fmt.Fprintf(&b, " %v", err)
	}
	for _, record := range records {
		text, err := os.ReadFile(record)
		if err != nil {
			fmt.Fprintf(&b, " %v", err)
			continue
		}
		var checks []struct {
			ID, Status, Description, ErrorMessage string
			Details                               json.RawMessage
		}
		if err := json.Unmarshal(text, &checks); err != nil {
			fmt.Fprintf(&b, " %s: %v", record, err)
		}
		for _, check := range checks {
			if check.Status == "FAILURE" {
				fmt.Fprintf(&b, "\n  %s: %s\n    %s\n    %.2000s", check.ID, check.Description, check.ErrorMessage, check.Details)
			}
		}
	}
	return b.String()
}
