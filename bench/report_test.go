package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rounds makes one sample per CPU cost: 1,000 calls in half a second.
func rounds(cpuMicros ...int) map[int]sample {
	out := map[int]sample{}
	for i, us := range cpuMicros {
		out[i] = sample{Calls: 1000, Elapsed: time.Second / 2, CPU: time.Duration(us) * time.Millisecond,
			P50: 120 * time.Microsecond, P99: 900 * time.Microsecond, RSS: 15 << 20}
	}
	return out
}

func sampleReport() *report {
	s := scenario{Era: modern, Conns: 16, Size: 100}
	r := &report{
		Machine:  machine{Go: "go1.26", OS: "linux/amd64", CPUs: 2, Kernel: "6"},
		Settings: settings{Rounds: 3, Window: time.Second, SideWindow: time.Second / 5, GOGC: "100", IdleGOGC: "20", GOMEMLIMIT: "2GiB", GOMAXPROCS: 2, Idle: 5000, Took: 61 * time.Second},
		Cells: []*cell{
			{variant: variant{direct, s}, Samples: rounds(20, 20, 20)},
			{variant: variant{proxy, s}, Samples: rounds(100, 200, 80)},
			{variant: variant{oneFace, s}, Samples: rounds(90, 180, 80)},
			{variant: variant{allFace, s}, Samples: rounds(130, 260, 120)},
			{variant: variant{tenK, s}, Samples: map[int]sample{}},
		},
		Idle:     []idleResult{{Kind: idlePost, Count: 5000, Source: "metrics", Bare: 18000, Stoa: 19800}},
		Failures: []string{"round 1, x: no answer"},
	}
	r.summarise()
	return r
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	sampleReport().markdown(&b)
	want := `# Stoa benchmark

go1.26, linux/amd64, kernel 6, 2 CPUs; GOMAXPROCS=2 GOGC=100 GOMEMLIMIT=2GiB for every process; 3 interleaved rounds, windows of 1s (16 connections, 100 B, and Sessions) and 200ms; took 1m1s.
Medians over the rounds, min..max in brackets. CPU and RSS are of the process named by the row; for direct, of the upstream. × proxy is the median of the rounds' own ratios.

## JSON, 100B

| era | conns | target | calls/s | p50 µs | p99 µs | CPU µs/call | × proxy | RSS MiB |
|---|---:|---|---:|---:|---:|---:|---:|---:|
| modern | 16 | direct | 2000 | 120 | 900 | 20.0 [20.0..20.0] | – | 15.0 |
| modern | 16 | proxy | 2000 | 120 | 900 | 100.0 [80.0..200.0] | 1.00 [1.00..1.00] | 15.0 |
| modern | 16 | stoa-mcps | 2000 | 120 | 900 | 90.0 [80.0..180.0] | 0.90 [0.90..1.00] | 15.0 |
| modern | 16 | stoa-mcp | 2000 | 120 | 900 | 130.0 [120.0..260.0] | 1.30 [1.30..1.50] | 15.0 |
| modern | 16 | stoa-mcp-10k | failed | | | | | |

## Memory per idle connection, 5000 of them, GOGC=20

| kind | measured by | bare B | stoa B | × bare |
|---|---|---:|---:|---:|
| keep-alive POST | metrics | 18000 | 19800 | 1.10 |

## Failures

- round 1, x: no answer
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBars(t *testing.T) {
	r := sampleReport()
	var b strings.Builder
	if r.markdownBars(&b) {
		t.Error("/mcp at 1.30 passed its bar of 1.25")
	}
	for _, want := range []string{
		"| CPU per call, /mcps/x/mcp against the proxy, modern, json, 16 connections, 100 B | ≤ 1.00 | 0.90 | PASS |",
		"| CPU per call, /mcp against the proxy, modern, json, 16 connections, 100 B | ≤ 1.25 | 1.30 | FAIL |",
		"| CPU per call, 10,000 tools against 10, modern, json, 16 connections, 100 B | ≤ 1.10 | – | not measured |",
		"| memory per idle connection, keep-alive POST, against bare net/http | ≤ 1.40 | 1.10 | PASS |",
		"| memory per idle connection, legacy GET stream, against bare net/http | ≤ 1.40 | – | not measured |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %s in\n%s", want, &b)
		}
	}
	if got, want := len(r.Bars), 2*2*2+2+3+3; got != want {
		t.Errorf("%d bars, want %d", got, want)
	}
}

func TestReportIsJSON(t *testing.T) {
	b, err := json.Marshal(sampleReport())
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Cells []struct {
			Target, Era string
			Connections int
			Rounds      map[string]struct{ Calls int }
			Summary     struct {
				VsProxy *spread `json:"cpu_vs_proxy"`
			}
		}
	}
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	c := back.Cells[2]
	if c.Target != "stoa-mcps" || c.Era != "modern" || c.Connections != 16 || c.Rounds["1"].Calls != 1000 || c.Summary.VsProxy == nil {
		t.Errorf("cell read back as %+v", c)
	}
}
