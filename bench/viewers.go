package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// viewerCount is how many watch at once in the part about viewers.
const viewerCount = 50

// viewerRounds is how many rounds the part about viewers has, unless -rounds is given: p99 of a shared machine is restless.
const viewerRounds = 10

// name is what -only matches.
func (k watchKind) name() string { return "viewers/" + string(k) }

// viewerScenario is the load that viewers must not change.
var viewerScenario = scenario{Era: modern, Conns: 16, Size: 100}

// viewerRow is what each round measured on one hub.
type viewerRow struct {
	Kind    watchKind      `json:"kind"`
	Samples map[int]sample `json:"rounds"`
}

func p99Of(s sample) float64 { return float64(s.P99) / 1e3 }
func rssOf(s sample) float64 { return float64(s.RSS) / (1 << 20) }

// selectedViewers are the kinds to measure. The hub that nobody watches is
// what the others are compared with, so that it is always among them.
func (o options) selectedViewers() []watchKind {
	if o.quick && o.only == nil {
		return nil
	}
	out := []watchKind{watchNone}
	for _, kind := range watchKinds[1:] {
		if o.only == nil || o.only.MatchString(kind.name()) {
			out = append(out, kind)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// measureViewers runs rounds in which each kind is measured once, in an order
// rotated by the round. Each kind has a hub of its own, since a hub that was
// watched counts as watched for a while; those that are not measured rest.
func (o options) measureViewers(ctx context.Context, s *stage, kinds []watchKind, r *report) (err error) {
	up, err := s.role(ctx, "upstream")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.stop()) }()
	hubs := map[watchKind]*child{}
	for _, kind := range kinds {
		hub, err := s.hub(ctx, up, smallCatalogue)
		if err != nil {
			return err
		}
		defer hub.stop()
		hubs[kind] = hub
		r.Viewers = append(r.Viewers, &viewerRow{Kind: kind, Samples: map[int]sample{}})
	}
	for round := 0; round < o.ViewerRounds || o.bars && round < mostRounds*o.ViewerRounds && r.viewersOpen(); round++ {
		r.Settings.ViewerRounds = round + 1
		began := time.Now()
		for i := range r.Viewers {
			row := r.Viewers[(i+round)%len(r.Viewers)]
			got, err := o.watched(ctx, s, hubs[row.Kind], row.Kind)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				r.Failures = append(r.Failures, fmt.Sprintf("viewers, round %d, %s: %v", round+1, row.Kind, err))
				continue
			}
			row.Samples[round] = got
		}
		fmt.Fprintf(os.Stderr, "viewers: round %d of %d took %v\n", round+1, max(o.ViewerRounds, round+1), time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// watched measures calls on a hub while it is watched.
func (o options) watched(ctx context.Context, s *stage, hub *child, kind watchKind) (sample, error) {
	if kind != watchNone {
		token, err := hub.token, error(nil)
		if kind == watchCrowd && hub.crowd == "" {
			hub.crowd, err = s.crowdToken(ctx, hub)
		}
		if kind == watchCrowd {
			token = hub.crowd
		}
		if err != nil {
			return sample{}, err
		}
		watcher, err := s.watcher(ctx, watch{Address: hub.address, Token: token, Kind: kind, Count: viewerCount})
		if err != nil {
			return sample{}, err
		}
		defer watcher.stop()
	}
	return s.measure(ctx, load{
		endpoint: endpoint{hub.address, allFace.path()}, scenario: viewerScenario, Tools: smallCatalogue, Prefix: allFace.prefix(),
		Warm: o.Window / 2, Window: 2 * o.Window, PID: hub.pid,
	})
}

// watcher starts a process that watches, and waits until all its viewers are
// let in.
func (s *stage) watcher(ctx context.Context, w watch) (*child, error) {
	c, err := s.start(ctx, "watcher", s.self, []string{"role", "watcher"})
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(w)
	if err == nil {
		_, err = c.stdin.Write(append(line, '\n'))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tell the watcher: %w", err), c.stop())
	}
	if _, err := bufio.NewReader(c.stdout).ReadBytes('\n'); err != nil {
		stopped := c.stop()
		return nil, errors.Join(fmt.Errorf("watcher: %s", c.complaint()), stopped)
	}
	return c, nil
}

// viewersOf finds a kind's row.
func (r *report) viewersOf(kind watchKind) *viewerRow {
	for _, v := range r.Viewers {
		if v.Kind == kind {
			return v
		}
	}
	return nil
}

// viewerRatio is the median of the rounds' own ratios to the hub that nobody
// watched; nil when no round has both.
func (r *report) viewerRatio(kind watchKind, of func(sample) float64) *spread {
	row, base := r.viewersOf(kind), r.viewersOf(watchNone)
	if row == nil || base == nil {
		return nil
	}
	values := ratios(row.Samples, base.Samples, of)
	if len(values) == 0 {
		return nil
	}
	s := summarise(values)
	return &s
}

// viewersOpen reports whether it cannot be told yet of some bar whether it holds.
func (r *report) viewersOpen() bool {
	base := r.viewersOf(watchNone)
	for kind, limit := range map[watchKind]float64{watchStalled: limitViewers, watchHostile: limitViewers, watchCrowd: limitCrowd} {
		if row := r.viewersOf(kind); row != nil && base != nil && undecided(ratios(row.Samples, base.Samples, p99Of), limit) {
			return true
		}
	}
	return false
}

// viewerBars leaves out those who flood: they take 500 connections a second of
// the cores that the hub is measured on, which no viewer of a hub could hide.
func (r *report) viewerBars() []bar {
	var out []bar
	for _, kind := range []watchKind{watchStalled, watchHostile} {
		b := bar{Name: fmt.Sprintf("p99 of calls, %d %s viewers against none", viewerCount, kind), Limit: limitViewers}
		if ratio := r.viewerRatio(kind, p99Of); ratio != nil {
			b.Ratio = &ratio.Median
		}
		out = append(out, b)
	}
	b := bar{Name: "p99 of calls while another caller floods the hub, against nobody", Limit: limitCrowd}
	if ratio := r.viewerRatio(watchCrowd, p99Of); ratio != nil {
		b.Ratio = &ratio.Median
	}
	return append(out, b)
}

// markdownViewers prints the part about viewers, with its verdicts.
func (r *report) markdownViewers(w io.Writer) {
	if len(r.Viewers) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## %d viewers, %s, %d connections, %s, /mcp, %d interleaved rounds, windows of %v\n\n", viewerCount, viewerScenario.Era, viewerScenario.Conns,
		sizeName(viewerScenario.Size), r.Settings.ViewerRounds, 2*r.Settings.Window)
	fmt.Fprint(w, "| viewers | calls/s | p50 µs | p99 µs | × nobody | CPU µs/call | × nobody | RSS MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, v := range r.Viewers {
		if len(v.Samples) == 0 {
			fmt.Fprintf(w, "| %s | failed | | | | | | |\n", v.Kind)
			continue
		}
		var p99, cpu *spread
		if v.Kind != watchNone {
			p99, cpu = r.viewerRatio(v.Kind, p99Of), r.viewerRatio(v.Kind, sample.cpuPerCall)
		}
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %s | %s | %s | %s | %s |\n", v.Kind, over(v.Samples, sample.perSecond).Median,
			over(v.Samples, func(s sample) float64 { return float64(s.P50) / 1e3 }).Median, over(v.Samples, p99Of).format(0), ratioText(p99),
			over(v.Samples, sample.cpuPerCall).format(1), ratioText(cpu), over(v.Samples, rssOf).format(1))
	}
	r.markdownViewerRounds(w)
	for _, b := range r.viewerBars() {
		if b.Ratio != nil {
			fmt.Fprintf(w, "\n%s: median of the rounds' ratios %.2f, at most %.2f: %s\n", b.Name, *b.Ratio, b.Limit, b.verdict())
		}
	}
}

// markdownViewerRounds prints what each round saw, since one bad round tells
// of the machine and many of the hub.
func (r *report) markdownViewerRounds(w io.Writer) {
	fmt.Fprint(w, "\np99 µs by round:\n\n| viewers |")
	for round := range r.Settings.ViewerRounds {
		fmt.Fprintf(w, " %d |", round+1)
	}
	fmt.Fprint(w, "\n|---|")
	for range r.Settings.ViewerRounds {
		fmt.Fprint(w, "---:|")
	}
	fmt.Fprintln(w)
	for _, v := range r.Viewers {
		fmt.Fprintf(w, "| %s |", v.Kind)
		for round := range r.Settings.ViewerRounds {
			if s, ok := v.Samples[round]; ok {
				fmt.Fprintf(w, " %.0f |", p99Of(s))
			} else {
				fmt.Fprint(w, " – |")
			}
		}
		fmt.Fprintln(w)
	}
}
