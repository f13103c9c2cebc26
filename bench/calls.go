package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

func needsHub(groups [][]variant) bool {
	return needs(groups, target.isHub)
}

func needs(groups [][]variant, is func(target) bool) bool {
	for _, g := range groups {
		for _, v := range g {
			if is(v.Target) {
				return true
			}
		}
	}
	return false
}

// open starts what the selected variants go through. It returns the process
// that each target's calls are sent to, and a func that ends them all.
func (s *stage) open(ctx context.Context, groups [][]variant) (map[target]*child, func() error, error) {
	at := map[target]*child{}
	var children []*child
	closeAll := func() error {
		var errs []error
		for _, c := range children {
			errs = append(errs, c.stop())
		}
		return errors.Join(errs...)
	}
	keep := func(c *child, err error) (*child, error) {
		if c != nil {
			children = append([]*child{c}, children...) // ended before what it calls
		}
		return c, err
	}
	var err error
	if at[direct], err = keep(s.role(ctx, "upstream", "-tools", fmt.Sprint(smallCatalogue))); err != nil {
		return nil, nil, err
	}
	if at[proxy], err = keep(s.role(ctx, "proxy", at[direct].address)); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	if needs(groups, func(t target) bool { return t.isHub() && t != tenK }) {
		if at[allFace], err = keep(s.hub(ctx, at[direct], smallCatalogue)); err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		at[oneFace], at[stateFace] = at[allFace], at[allFace]
	}
	if needs(groups, func(t target) bool { return t == tenK }) {
		up, err := keep(s.role(ctx, "upstream", "-tools", fmt.Sprint(largeCatalogue)))
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		if at[tenK], err = keep(s.hub(ctx, up, largeCatalogue)); err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
	}
	return at, closeAll, nil
}

// measureCalls runs the rounds. A cell that fails is noted and the run goes
// on: one broken cell should not cost the others their numbers.
func (o options) measureCalls(ctx context.Context, s *stage, groups [][]variant, r *report) (err error) {
	at, closeAll, err := s.open(ctx, groups)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	cells := map[variant]*cell{}
	for _, v := range interleave(groups, 0) {
		cells[v] = &cell{variant: v, Samples: map[int]sample{}}
		r.Cells = append(r.Cells, cells[v])
	}
	for round := 0; ; round++ {
		var still map[variant]bool // nil: all
		if round >= o.Rounds {
			if still = r.open(); !o.bars || len(still) == 0 || round >= mostRounds*o.Rounds {
				return nil
			}
		}
		began := time.Now()
		for _, v := range interleave(groups, round) {
			if still != nil && !still[v] {
				continue
			}
			got, err := s.measure(ctx, o.load(v, at[v.Target]))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				r.Failures = append(r.Failures, fmt.Sprintf("round %d, %s: %v", round+1, v.name(), err))
				continue
			}
			cells[v].Samples[round] = got
		}
		fmt.Fprintf(os.Stderr, "round %d of %d took %v\n", round+1, max(o.Rounds, round+1), time.Since(began).Round(time.Millisecond))
	}
}

// mostRounds is how many times as many rounds a bar may have as are asked for,
// while it cannot be told whether it holds. All of them count.
const mostRounds = 4

// load is the loader's order for a variant. The warm-up is a fraction of the
// window: long enough to open the connections of the chain.
func (o options) load(v variant, c *child) load {
	window := o.SideWindow
	if v.isLong() {
		window = o.Window
	}
	return load{
		endpoint: endpoint{c.address, v.Target.path()}, scenario: v.scenario,
		Tools: v.Target.tools(), Prefix: v.Target.prefix(), Stateful: v.Target == stateFace,
		Warm: min(window/5, 200*time.Millisecond), Window: window, PID: c.pid,
	}
}
