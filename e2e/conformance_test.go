package e2e

import (
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
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
	hubtest.Parallel(t)
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

// TestConformanceAcrossEras has the suite of one era judge the fixture in the other one, with the hub as translator.
// What the pair cannot do is in the baseline, and nothing else may fail.
func TestConformanceAcrossEras(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	for _, c := range []struct{ name, suite, protocol string }{
		{"modern-over-legacy", modern, "legacy"},
		{"legacy-over-modern", legacy, "modern"},
	} {
		for transport, baseline := range acrossEras[c.name] {
			t.Run(c.name+"/"+transport, func(t *testing.T) {
				upstream := server{Protocol: c.protocol}
				if transport == "stdio" {
					upstream.Command = fixtureBinary(t)
				} else {
					upstream.URL = fixtureHTTP(t, set, map[string]string{"legacy": legacy, "modern": modern}[c.protocol])
				}
				h := startHub(t, set, map[string]server{"fixture": upstream})
				baseline.hold(t, judge(t, set, nil, "server", "--url", h.agent("fixture"), "--requirements", c.suite))
			})
		}
	}
}

// conform runs one frozen requirement set of the suite against url and holds the result against the bar.
func conform(t *testing.T, set toolset, url, version string) {
	t.Helper()
	got := judge(t, set, nil, "server", "--url", url, "--requirements", version)
	want := bar[version]
	if got.code == 0 && got.passed >= want.passed && (got.failed == 0 || !want.clean) {
		return
	}
	t.Errorf("want exit code 0, at least %d passed%s", want.passed, map[bool]string{true: ", none failed"}[want.clean])
	t.Logf("summary:%s", got.summary)
	for check, why := range got.failures {
		if want.clean || !got.extension[check.scenario] {
			t.Logf("%v: %s", check, why)
		}
	}
}
