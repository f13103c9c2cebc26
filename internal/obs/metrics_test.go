package obs

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB) *Metrics {
	t.Helper()
	m, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// scrape returns the samples whose line matches.
func scrape(t testing.TB, m *Metrics, match string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	re := regexp.MustCompile(match)
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if re.MatchString(line) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}

func TestCalls(t *testing.T) {
	m := open(t)
	m.Call("github", "list", "", 3*time.Millisecond)
	m.Call("github", "list", "", 3*time.Millisecond)
	m.Call("github", "list", "timeout", 30*time.Second)
	m.Call("files", "read", ToolError, time.Millisecond)
	want := []string{
		`stoa_calls_total{outcome="fault",tool="list",upstream="github"} 1`,
		`stoa_calls_total{outcome="ok",tool="list",upstream="github"} 2`,
		`stoa_calls_total{outcome="tool_error",tool="read",upstream="files"} 1`,
		`stoa_errors_total{kind="timeout"} 1`,
	}
	if d := cmp.Diff(want, scrape(t, m, `^stoa_(calls|errors)`)); d != "" {
		t.Fatal(d)
	}
	want = []string{
		`stoa_call_seconds_bucket{upstream="github",le="0.0025"} 0`,
		`stoa_call_seconds_bucket{upstream="github",le="0.005"} 2`,
		`stoa_call_seconds_count{upstream="github"} 3`,
	}
	if d := cmp.Diff(want, scrape(t, m, `^stoa_call_seconds_(bucket.*github.*("0.0025"|"0.005")|count.*github)`)); d != "" {
		t.Fatal(d)
	}
	if len(scrape(t, m, `^go_goroutines `)) != 1 {
		t.Fatal("the runtime is not measured")
	}
}

func TestTwoInstancesDoNotMix(t *testing.T) {
	a, b := open(t), open(t)
	a.Call("u", "t", "", 0)
	if got := scrape(t, b, `^stoa_`); got != nil {
		t.Fatal(got)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	m := open(t)
	const many = 10_000
	for i := range many {
		m.Call("u", fmt.Sprintf("tool%d", i), "", 0)
	}
	if got := scrape(t, m, `tool="other"`); !slices.Equal(got, []string{`stoa_calls_total{outcome="ok",tool="other",upstream="u"} 8000`}) {
		t.Fatal(got)
	}
	if n := len(scrape(t, m, `^stoa_calls_total`)); n != maxTools+1 {
		t.Fatalf("%d series", n)
	}
	m.Call("u", "tool1", "", 0)
	if got := scrape(t, m, `tool="tool1"`); !slices.Equal(got, []string{`stoa_calls_total{outcome="ok",tool="tool1",upstream="u"} 2`}) {
		t.Fatal(got)
	}
	for i := range maxUpstreams + 10 {
		m.Call(fmt.Sprintf("u%d", i), "t", fmt.Sprintf("kind%d", i), 0)
	}
	if n := len(scrape(t, m, `^stoa_call_seconds_count`)); n != maxUpstreams+1 {
		t.Fatalf("%d upstreams", n)
	}
	if n := len(scrape(t, m, `^stoa_errors_total`)); n != maxKinds+1 {
		t.Fatalf("%d kinds", n)
	}
	if n := len(scrape(t, m, `^stoa_(calls|call_seconds)`)); n > (maxTools+maxUpstreams+1)*3+(maxUpstreams+1)*(len(seconds)+3) {
		t.Fatalf("%d series of calls", n)
	}
	if got := scrape(t, m, `overflow`); got != nil {
		t.Fatal(got)
	}
}

func TestGauge(t *testing.T) {
	m := open(t)
	n := 1.0
	m.Gauge("stoa_connections", "Open connections.", func(observe func(float64, ...string)) {
		observe(n, "era", "modern")
		observe(2*n, "era", "legacy")
	})
	n = 4
	want := []string{`stoa_connections{era="legacy"} 8`, `stoa_connections{era="modern"} 4`}
	if d := cmp.Diff(want, scrape(t, m, `^stoa_connections`)); d != "" {
		t.Fatal(d)
	}
	if got := scrape(t, m, `HELP stoa_connections`); len(got) != 1 || !strings.HasSuffix(got[0], "Open connections.") {
		t.Fatal(got)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("a bad name was accepted")
		}
	}()
	m.Gauge("", "", nil)
}

func TestCallsFromManyGoroutines(t *testing.T) {
	m := open(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				m.Call("u", fmt.Sprintf("t%d", i%50), []string{"", "timeout"}[g%2], time.Microsecond)
			}
		})
	}
	wg.Wait()
	if got := scrape(t, m, `^stoa_call_seconds_count`); !slices.Equal(got, []string{`stoa_call_seconds_count{upstream="u"} 4000`}) {
		t.Fatal(got)
	}
	if got := scrape(t, m, `^stoa_errors_total`); !slices.Equal(got, []string{`stoa_errors_total{kind="timeout"} 2000`}) {
		t.Fatal(got)
	}
}

func BenchmarkCall(b *testing.B) {
	m := open(b)
	b.ReportAllocs()
	for b.Loop() {
		m.Call("github", "list_issues", "", 3*time.Millisecond)
	}
}

func BenchmarkCallFault(b *testing.B) {
	m := open(b)
	b.ReportAllocs()
	for b.Loop() {
		m.Call("github", "list_issues", "timeout", 3*time.Millisecond)
	}
}

func BenchmarkCallParallel(b *testing.B) {
	m := open(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Call("github", "list_issues", "", 3*time.Millisecond)
		}
	})
}

func TestCounter(t *testing.T) {
	m := open(t)
	count := m.Counter("stoa_things_total", "Things by kind.")
	for i := range maxCounted + 50 {
		count(2, "kind", fmt.Sprint(i))
	}
	count(1, "kind", "0")
	if n := len(scrape(t, m, `^stoa_things_total`)); n != maxCounted+1 {
		t.Errorf("%d series", n)
	}
	want := []string{`stoa_things_total{kind="0"} 3`, `stoa_things_total{kind="other"} 100`}
	if d := cmp.Diff(want, scrape(t, m, `^stoa_things_total.*"(0|other)"`)); d != "" {
		t.Error(d)
	}
	l := m.List()
	if got := l[len(l)-1]; got != (Listed{"stoa_things_total", "counter", "Things by kind."}) {
		t.Errorf("listed as %+v", got)
	}
}

func TestGaugesAreBounded(t *testing.T) {
	m := open(t)
	m.Gauge("stoa_many", "Many.", func(observe func(float64, ...string)) {
		for i := range 2 * maxSeries {
			observe(1, "n", fmt.Sprint(i))
		}
	})
	if n := len(scrape(t, m, `^stoa_many`)); n != maxSeries {
		t.Errorf("%d series", n)
	}
}
