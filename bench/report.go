package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

// report is the whole outcome of a run; -o writes it as JSON.
type report struct {
	Machine  machine      `json:"machine"`
	Settings settings     `json:"settings"`
	Cells    []*cell      `json:"cells"`
	Idle     []idleResult `json:"idle"`
	Viewers  []*viewerRow `json:"viewers,omitempty"`
	Bars     []bar        `json:"bars"`
	Failures []string     `json:"failures"`
}

type machine struct {
	Go     string `json:"go"`
	OS     string `json:"os"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
}

type settings struct {
	Rounds       int           `json:"rounds"`
	ViewerRounds int           `json:"viewer_rounds"`
	Window       time.Duration `json:"window_ns"`
	SideWindow   time.Duration `json:"side_window_ns"`
	GOGC         string        `json:"gogc"`
	IdleGOGC     string        `json:"idle_gogc"`
	GOMEMLIMIT   string        `json:"gomemlimit"`
	GOMAXPROCS   int           `json:"gomaxprocs"`
	Idle         int           `json:"idle_connections"`
	Took         time.Duration `json:"took_ns"`
}

// cell is one variant with what each round measured.
type cell struct {
	variant
	Samples map[int]sample `json:"rounds"`
	Summary summary        `json:"summary"`
}

type summary struct {
	PerSecond spread  `json:"calls_per_second"`
	P50       spread  `json:"p50_us"`
	P99       spread  `json:"p99_us"`
	CPU       spread  `json:"cpu_us_per_call"`
	RSS       spread  `json:"rss_mib"`
	VsProxy   *spread `json:"cpu_vs_proxy,omitempty"` // absent without the proxy, and for direct
}

func over(samples map[int]sample, of func(sample) float64) spread {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, of(s))
	}
	return summarise(values)
}

// summarise fills the cells' summaries and the bars from the samples.
func (r *report) summarise() {
	for _, c := range r.Cells {
		c.Summary = summary{
			PerSecond: over(c.Samples, sample.perSecond),
			P50:       over(c.Samples, func(s sample) float64 { return float64(s.P50) / 1e3 }),
			P99:       over(c.Samples, func(s sample) float64 { return float64(s.P99) / 1e3 }),
			CPU:       over(c.Samples, sample.cpuPerCall),
			RSS:       over(c.Samples, func(s sample) float64 { return float64(s.RSS) / (1 << 20) }),
		}
		if c.Target == direct {
			continue
		}
		c.Summary.VsProxy = r.against(c, proxy)
	}
	r.Bars = r.bars()
}

func (r *report) find(t target, s scenario) *cell {
	for _, c := range r.Cells {
		if c.Target == t && c.scenario == s {
			return c
		}
	}
	return nil
}

// against is the CPU per call of c over that of another target in the same
// scenario; nil when no round has both.
func (r *report) against(c *cell, other target) *spread {
	base := r.find(other, c.scenario)
	if base == nil {
		return nil
	}
	values := ratios(c.Samples, base.Samples, sample.cpuPerCall)
	if len(values) == 0 {
		return nil
	}
	s := summarise(values)
	return &s
}

// bar is a limit on a ratio. Without a ratio it was not measured.
type bar struct {
	Name  string   `json:"name"`
	Limit float64  `json:"limit"`
	Ratio *float64 `json:"ratio,omitempty"`
}

func (b bar) verdict() string {
	switch {
	case b.Ratio == nil:
		return "not measured"
	case *b.Ratio <= b.Limit:
		return "PASS"
	}
	return "FAIL"
}

const (
	limitOneFace   = 1.0
	limitAllFace   = 1.25
	limitIdle      = 1.4
	limitCatalogue = 1.1
	limitViewers   = 1.1
	limitCrowd     = 1.25
)

// callBar is a limit on the CPU per call of a target, over that of another in the
// same scenario.
type callBar struct {
	name         string
	limit        float64
	target, base target
	scenario     scenario
}

func callBars() (out []callBar) {
	add := func(name string, limit float64, t, base target, s scenario) {
		out = append(out, callBar{name, limit, t, base, s})
	}
	for _, progress := range []bool{false, true} {
		for _, e := range []era{legacy, modern} {
			s := scenario{Era: e, Conns: 16, Size: 100, Progress: progress}
			where := fmt.Sprintf("%s, %s, 16 connections, 100 B", e, s.mode())
			add("CPU per call, /mcps/x/mcp against the proxy, "+where, limitOneFace, oneFace, proxy, s)
			add("CPU per call, /mcp against the proxy, "+where, limitAllFace, allFace, proxy, s)
			if !progress {
				add("CPU per call, 10,000 tools against 10, "+where, limitCatalogue, tenK, allFace, s)
			}
		}
	}
	return out
}

// open are the variants of the bars of which it cannot be told yet whether they
// hold.
func (r *report) open() map[variant]bool {
	out := map[variant]bool{}
	for _, b := range callBars() {
		c, base := r.find(b.target, b.scenario), r.find(b.base, b.scenario)
		if c != nil && base != nil && undecided(ratios(c.Samples, base.Samples, sample.cpuPerCall), b.limit) {
			out[c.variant], out[base.variant] = true, true
		}
	}
	return out
}

func (r *report) bars() []bar {
	var out []bar
	for _, cb := range callBars() {
		b := bar{Name: cb.name, Limit: cb.limit}
		if c := r.find(cb.target, cb.scenario); c != nil {
			if ratio := r.against(c, cb.base); ratio != nil {
				b.Ratio = &ratio.Median
			}
		}
		out = append(out, b)
	}
	for _, kind := range idleKinds {
		b := bar{Name: "memory per idle connection, " + string(kind) + ", against bare net/http", Limit: limitIdle}
		for _, i := range r.Idle {
			if ratio := i.ratio(); i.Kind == kind && ratio > 0 {
				b.Ratio = &ratio
			}
		}
		out = append(out, b)
	}
	return append(out, r.viewerBars()...)
}

// markdown prints the report for people.
func (r *report) markdown(w io.Writer) {
	s := r.Settings
	fmt.Fprintf(w, "# Stoa benchmark\n\n%s, %s, kernel %s, %d CPUs; GOMAXPROCS=%d GOGC=%s GOMEMLIMIT=%s for every process; ", r.Machine.Go, r.Machine.OS, r.Machine.Kernel, r.Machine.CPUs, s.GOMAXPROCS, cmp.Or(s.GOGC, "its own"), s.GOMEMLIMIT)
	fmt.Fprintf(w, "%d interleaved rounds, windows of %v (16 connections, 100 B, and Sessions) and %v; took %v.\n", s.Rounds, s.Window, s.SideWindow, s.Took.Round(time.Second))
	fmt.Fprint(w, "Medians over the rounds, min..max in brackets. CPU and RSS are of the process named by the row; for direct, of the upstream. × proxy is the median of the rounds' own ratios.\n")
	var title string
	for _, c := range r.Cells {
		if t := tableTitle(c.scenario); t != title {
			title = t
			fmt.Fprintf(w, "\n## %s\n\n| era | conns | target | calls/s | p50 µs | p99 µs | CPU µs/call | × proxy | RSS MiB |\n|---|---:|---|---:|---:|---:|---:|---:|---:|\n", title)
		}
		m := c.Summary
		if len(c.Samples) == 0 {
			fmt.Fprintf(w, "| %s | %d | %s | failed | | | | | |\n", c.Era, c.Conns, c.Target)
			continue
		}
		fmt.Fprintf(w, "| %s | %d | %s | %.0f | %.0f | %.0f | %s | %s | %.1f |\n", c.Era, c.Conns, c.Target,
			m.PerSecond.Median, m.P50.Median, m.P99.Median, m.CPU.format(1), ratioText(m.VsProxy), m.RSS.Median)
	}
	r.markdownIdle(w)
	r.markdownViewers(w)
	if len(r.Failures) > 0 {
		fmt.Fprintf(w, "\n## Failures\n\n- %s\n", strings.Join(r.Failures, "\n- "))
	}
}

func tableTitle(s scenario) string {
	switch s.Handle {
	case references:
		return "Three references to values of " + sizeName(s.Size) + " (elsewhere the values themselves)"
	case saveAs:
		return "saveAs of a result of " + sizeName(s.Size) + " (elsewhere the plain call)"
	}
	if s.Progress {
		return "SSE with progress, " + sizeName(s.Size)
	}
	return "JSON, " + sizeName(s.Size)
}

func (s spread) format(digits int) string {
	return fmt.Sprintf("%.*f [%.*f..%.*f]", digits, s.Median, digits, s.Min, digits, s.Max)
}

func ratioText(s *spread) string {
	if s == nil {
		return "–"
	}
	return s.format(2)
}

func (r *report) markdownIdle(w io.Writer) {
	if len(r.Idle) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Memory per idle connection, %d of them, GOGC=%s\n\n| kind | measured by | bare B | stoa B | × bare |\n|---|---|---:|---:|---:|\n", r.Settings.Idle, r.Settings.IdleGOGC)
	for _, i := range r.Idle {
		fmt.Fprintf(w, "| %s | %s | %.0f | %.0f | %.2f |\n", i.Kind, i.Source, i.Bare, i.Stoa, i.ratio())
	}
}

// markdownBars prints the verdicts and says whether none failed.
func (r *report) markdownBars(w io.Writer) bool {
	passed := true
	fmt.Fprint(w, "\n## Bars\n\n| bar | limit | measured | verdict |\n|---|---:|---:|---|\n")
	for _, b := range r.Bars {
		measured := "–"
		if b.Ratio != nil {
			measured = fmt.Sprintf("%.2f", *b.Ratio)
		}
		passed = passed && b.verdict() != "FAIL"
		fmt.Fprintf(w, "| %s | ≤ %.2f | %s | %s |\n", b.Name, b.Limit, measured, b.verdict())
	}
	return passed
}
