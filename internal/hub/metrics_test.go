package hub_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

var update = flag.Bool("update", false, "write the golden files")

// docs/metrics.md lists what is measured.
func TestMetricsManual(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	const path = "../../docs/metrics.md"
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := bytes.Cut(have, []byte("| name |"))
	if !ok {
		t.Fatalf("%s has no table", path)
	}
	out := bytes.NewBuffer(bytes.Clone(head))
	out.WriteString("| name | kind | what it says |\n|---|---|---|\n")
	known := map[string]bool{}
	for _, m := range h.Metrics().List() {
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", m.Name, m.Kind, m.Help)
		known[m.Name] = true
	}
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(string(have), out.String()); d != "" {
		t.Errorf("%s is out of date; run the test with -update (-file +now):\n%s", path, d)
	}
	_, page := h.Get("/metrics")
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (stoa_\S+)`).FindAllStringSubmatch(string(page), -1) {
		if !known[m[1]] {
			t.Errorf("%s is measured and not listed", m[1])
		}
	}
}

// What happens is seen in the figures.
func TestMetrics(t *testing.T) {
	hubtest.Parallel(t)
	web := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "echo"}, {Name: "slow", Behaviour: peer.Do(peer.Hang)}}})
	h := hubtest.New(t, hubtest.Modules(), hubtest.HTTP("up", web.URL, func(s *config.Server) {
		s.Queue = &config.Queue{Concurrency: 1, Capacity: 7}
	}))
	settled(t, h, "up")
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/s/work/mcp"})
	c.Tool("context_add", `{"name":"v","data":1}`)
	c.Tool("up__echo", `{}`)
	stop := h.Events().Watch()
	defer stop()
	_, page := h.Get("/metrics")
	for _, want := range []string{
		`stoa_calls_total{outcome="ok",tool="echo",upstream="up"} 1`,
		`stoa_call_seconds_count{upstream="up"} 1`,
		`stoa_queue_waiting{upstream="up"} 0`,
		`stoa_queue_capacity{upstream="up"} 7`,
		`stoa_breaker_open{upstream="up"} 0`,
		`stoa_upstream_up{upstream="up"} 1`,
		`stoa_kept_sessions 1`,
		`stoa_store_up 1`,
		`stoa_approvals_pending 0`,
		`stoa_viewers 0`,
		`stoa_plan_runs{status="running"} 0`,
	} {
		if !strings.Contains(string(page), want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if !regexp.MustCompile(`stoa_store_entries\{log="session"\} [1-9]`).Match(page) || !regexp.MustCompile(`stoa_store_bytes\{log="session"\} [1-9]`).Match(page) {
		t.Errorf("the store:\n%s", regexp.MustCompile(`(?m)^stoa_store.*$`).FindAll(page, -1))
	}
}
