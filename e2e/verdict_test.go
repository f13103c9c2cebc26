package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	totalLine     = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed`)
	extensionLine = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(extension\)`)
	recordFolder  = regexp.MustCompile(`^(?:server-)?(.+)-\d{4}-\d\d-\d\dT[^/]*$`)
)

// check is one question of the conformance suite.
type check struct{ scenario, id string }

func (c check) String() string { return c.scenario + "/" + c.id }

// verdict is what the suite says about one peer.
type verdict struct {
	code, passed, failed int
	output, summary      string
	passes               map[string]int   // checks that passed, by scenario
	extension            map[string]bool  // scenarios that the requirement set runs without asking for them
	failures             map[check]string // with the reason that the suite gives
}

// judge runs the conformance suite and reads its records.
func judge(t *testing.T, set toolset, env []string, args ...string) verdict {
	t.Helper()
	out := t.TempDir()
	result := set.run(t, env, set.bin("conformance"), append(args, "-o", out)...)
	total := totalLine.FindStringSubmatch(result.stdout)
	if total == nil {
		t.Fatalf("conformance printed no total: %v", result)
	}
	if strings.Contains(result.String(), "WARNING: DATA RACE") {
		t.Errorf("the race detector found a data race in a hub that the suite ran:\n%v", result)
	}
	v := verdict{code: result.code, output: result.String(), passes: map[string]int{}, extension: map[string]bool{}, failures: map[check]string{}}
	v.passed, _ = strconv.Atoi(total[1])
	v.failed, _ = strconv.Atoi(total[2])
	_, v.summary, _ = strings.Cut(result.stdout, "SUMMARY ===")
	for _, match := range extensionLine.FindAllStringSubmatch(v.summary, -1) {
		v.extension[match[1]] = true
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
		switch c.Status {
		case "SUCCESS":
			v.passes[name[1]]++
		case "FAILURE":
			v.failures[check{name[1], c.ID}] = fmt.Sprintf("%s\n    %s\n    %.2000s", c.Description, c.ErrorMessage, c.Details)
		}
	}
	return nil
}

// without leaves out the scenarios whose names begin so. What passed is counted anew, without extensions.
func (v verdict) without(prefix string) verdict {
	v.passed = 0
	for scenario, n := range v.passes {
		if !strings.HasPrefix(scenario, prefix) && !v.extension[scenario] {
			v.passed += n
		}
	}
	v.failures = maps.Clone(v.failures)
	maps.DeleteFunc(v.failures, func(c check, _ string) bool { return strings.HasPrefix(c.scenario, prefix) })
	return v
}

// baseline is what a pair of peers cannot reach, and why.
type baseline struct {
	passed int // at least so many checks pass; a scenario that ends early asks fewer
	known  map[check]reason
}

// reason says why checks fail. Where chance decides whether one does, sometimes is set, and passing is no news.
type reason struct {
	why       string
	sometimes bool
}

// hold fails the test on a failure that is not known, and on a known one that is gone.
func (b baseline) hold(t *testing.T, got verdict) {
	t.Helper()
	t.Logf("%d passed that count, at least %d have to", got.passed, b.passed)
	if got.passed < b.passed {
		t.Errorf("%d checks passed, want at least %d", got.passed, b.passed)
	}
	for c, said := range got.failures {
		if _, known := b.known[c]; !known && !got.extension[c.scenario] {
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
		t.Log(got.output)
	}
}
