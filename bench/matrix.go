package main

import (
	"fmt"
	"regexp"
)

// target names what a call goes through on its way to the upstream.
type target string

const (
	direct  target = "direct"
	proxy   target = "proxy"
	oneFace target = "stoa-mcps"    // /mcps/x/mcp, names unchanged
	allFace target = "stoa-mcp"     // /mcp, names prefixed
	tenK    target = "stoa-mcp-10k" // /mcp of a hub whose catalogue is large

	stateFace target = "stoa-s" // /s/{session}/mcp, names prefixed, values
)

// isHub says whether the target needs the stoa binary.
func (t target) isHub() bool { return t == oneFace || t == allFace || t == tenK || t == stateFace }

// path is where the target serves MCP; the proxy serves the upstream's own.
// Each connection to stateFace has its own instead: see sessionPath.
func (t target) path() string {
	if t == oneFace {
		return "/mcps/x/mcp"
	}
	return "/mcp"
}

// prefix is what the target puts before the upstream's tool names.
func (t target) prefix() string {
	if t == allFace || t == tenK || t == stateFace {
		return "x__"
	}
	return ""
}

func (t target) tools() int {
	if t == tenK {
		return largeCatalogue
	}
	return smallCatalogue
}

type era string

const (
	legacy era = "legacy"
	modern era = "modern"
)

// scenario is one cell of the table; every target is measured in it.
type scenario struct {
	Era      era    `json:"era"`
	Conns    int    `json:"connections"`
	Size     int    `json:"bytes"`
	Progress bool   `json:"progress"` // SSE with progress, else JSON
	Handle   handle `json:"handle,omitempty"`
}

func (s scenario) mode() string {
	if s.Handle != noHandle {
		return string(s.Handle)
	}
	if s.Progress {
		return "sse"
	}
	return "json"
}

// isBar says whether a bar is set on this cell.
func (s scenario) isBar() bool { return s.Conns == 16 && s.Size == 100 }

// isLong says whether the cell gets a long window: those with bars do, and
// those that write to disk, which does not take the same time each time.
func (s scenario) isLong() bool { return s.isBar() || s.Handle != noHandle }

func sizeName(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%dMB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// variant is one target in one scenario.
type variant struct {
	Target target `json:"target"`
	scenario
}

// name is what -only matches, for instance proxy/modern/16/100B/json.
func (v variant) name() string {
	return fmt.Sprintf("%s/%s/%d/%s/%s", v.Target, v.Era, v.Conns, sizeName(v.Size), v.mode())
}

const (
	smallCatalogue = 10
	largeCatalogue = 10_000
)

// matrix lists the scenarios with their targets, those that only selects. The
// variants of one scenario are neighbours, so that they are compared within
// seconds of each other.
func matrix(quick bool, only *regexp.Regexp) [][]variant {
	conns, sizes := []int{1, 16, 64}, []int{100, 10 << 10, 1 << 20}
	if quick {
		conns, sizes = []int{16}, []int{100}
	}
	var out [][]variant
	for _, progress := range []bool{false, true} {
		for _, size := range sizes {
			for _, n := range conns {
				for _, e := range []era{legacy, modern} {
					s := scenario{Era: e, Conns: n, Size: size, Progress: progress}
					if group := selected(s, only); len(group) > 0 {
						out = append(out, group)
					}
				}
			}
		}
	}
	if quick {
		return out
	}
	for _, h := range []handle{references, saveAs} {
		for _, e := range []era{legacy, modern} {
			s := scenario{Era: e, Conns: 16, Size: stateSize, Handle: h}
			if group := selected(s, only); len(group) > 0 {
				out = append(out, group)
			}
		}
	}
	return out
}

func selected(s scenario, only *regexp.Regexp) []variant {
	targets := []target{direct, proxy, oneFace, allFace}
	if s.isBar() && !s.Progress {
		targets = append(targets, tenK)
	}
	if s.Handle != noHandle {
		targets = []target{direct, proxy, allFace, stateFace}
	}
	var out []variant
	for _, t := range targets {
		v := variant{Target: t, scenario: s}
		if only == nil || only.MatchString(v.name()) {
			out = append(out, v)
		}
	}
	return out
}

// interleave is the order of one round: every variant once, scenario by
// scenario, and within each the targets rotated by the round, so that none is
// always the first after the one before it.
func interleave(groups [][]variant, round int) []variant {
	var out []variant
	for _, g := range groups {
		for i := range g {
			out = append(out, g[(i+round)%len(g)])
		}
	}
	return out
}
