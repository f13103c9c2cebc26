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

var (
	totalLine    = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed`)
	unscoredLine = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(`)
	recordFolder = regexp.MustCompile(`^(?:server-)?(.+)-\d{4}-\d\d-\d\dT[^/]*$`)
)

// check is one question of the conformance suite.
type check struct{ scenario, id string }

func (c check) String() string { return c.scenario + "/" + c.id }

// verdict is what the suite says about one peer.
type verdict struct {
	code, passed, failed int
	summary              string
	unscored             map[string]bool  // scenarios that the requirement set runs but does not count
	failures             map[check]string // with the reason that the suite gives
}

// judge runs the conformance suite and reads its records.
func judge(t *testing.T, set toolset, args ...string) verdict {
	t.Helper()
	out := t.TempDir()
	result := set.run(t, nil, set.bin("conformance"), append(args, "-o", out)...)
	total := totalLine.FindStringSubmatch(result.stdout)
	if total == nil {
		t.Fatalf("conformance printed no total: %v", result)
	}
	v := verdict{code: result.code, unscored: map[string]bool{}, failures: map[check]string{}}
	v.passed, _ = strconv.Atoi(total[1])
	v.failed, _ = strconv.Atoi(total[2])
	_, v.summary, _ = strings.Cut(result.stdout, "=== SUMMARY ===")
	for _, match := range unscoredLine.FindAllStringSubmatch(v.summary, -1) {
		v.unscored[match[1]] = true
	}
	err := filepath.WalkDir(out, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.json" {
			return err
		}
		folder, err := filepath.Rel(out, filepath.Dir(path))
		if err != nil {
			return err
		}
		return v.read(path, filepath.ToSlash(folder))
	})
	if err != nil {
		t.Fatalf("read the records of conformance: %v", err)
	}
	t.Logf("%d passed, %d failed, exit code %d", v.passed, v.failed, v.code)
	return v
}

// read adds the failed checks of one scenario's record, whose folder is named after the scenario and the time.
func (v verdict) read(path, folder string) error {
	name := recordFolder.FindStringSubmatch(folder)
	if name == nil {
		return fmt.Errorf("record %s: its folder names no scenario", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var checks []struct {
		ID, Status, Description, ErrorMessage string
		Details                               json.RawMessage
	}
	if err := json.Unmarshal(text, &checks); err != nil {
		return fmt.Errorf("record %s: %w", path, err)
	}
	for _, c := range checks {
		if c.Status == "FAILURE" {
			v.failures[check{name[1], c.ID}] = fmt.Sprintf("%s\n    %s\n    %.2000s", c.Description, c.ErrorMessage, c.Details)
		}
	}
	return nil
}

// baseline is what a pair of peers cannot reach, and why.
type baseline struct {
	passed int // at least so many checks pass; a scenario that ends early asks fewer
	known  map[check]reason
}

// reason says why a check fails. Where chance decides whether it does, sometimes is set, and passing is no news.
type reason struct {
	why       string
	sometimes bool
}

// hold fails the test on a failure that is not known, and on a known one that is gone.
func (b baseline) hold(t *testing.T, got verdict) {
	t.Helper()
	if got.passed < b.passed {
		t.Errorf("%d checks passed, want at least %d", got.passed, b.passed)
	}
	for c, said := range got.failures {
		if _, known := b.known[c]; !known && !got.unscored[c.scenario] {
			t.Errorf("%v fails and is not in the baseline: %s", c, said)
		}
	}
	for c, r := range b.known {
		if r.why == "" {
			t.Errorf("%v is in the baseline without a reason", c)
		}
		if _, fails := got.failures[c]; !fails && !r.sometimes {
			t.Errorf("%v passes now; take it out of the baseline (it was there because %s)", c, r.why)
		}
	}
	if t.Failed() {
		t.Logf("summary:%s", got.summary)
	}
}
