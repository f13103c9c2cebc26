// Command bench measures what a hub costs: it builds stoa, starts a minimal MCP
// server, Go's plain reverse proxy and stoa in front of it, each in a process
// of its own on loopback, and calls a tool through each of them in turn.
//
// It owns the loader, the yardsticks and the report. It promises that all
// targets are measured in the same run, under the same runtime settings, in
// interleaved rounds, and that the CPU time of a window belongs to exactly the
// calls counted in it. It is for people: it asserts no timings by itself,
// sends traffic to 127.0.0.1 only, and reads nothing of the hub but what
// anybody can (its address, /metrics and its process).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "role" {
		if err := runRole(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	settings
	quick bool
	bars  bool
	only  *regexp.Regexp
	out   string
	stoa  string
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "only 16 connections and 100 B, in 2 rounds unless -rounds is given")
	flags.BoolVar(&o.bars, "bars", false, "print a verdict for each bar, exit 1 if one fails")
	flags.StringVar(&o.out, "o", "", "also write the report as JSON to this `file`")
	flags.StringVar(&o.stoa, "stoa", "", "measure this `binary` instead of building the module")
	flags.IntVar(&o.Rounds, "rounds", 7, "interleaved rounds")
	flags.DurationVar(&o.Window, "duration", time.Second, "window of the cells with bars (16 connections, 100 B) and of those with Sessions")
	flags.DurationVar(&o.SideWindow, "side", 200*time.Millisecond, "window of all other cells")
	flags.IntVar(&o.Idle, "idle", 5000, "idle connections of each kind; 0 leaves that part out")
	flags.StringVar(&o.GOGC, "gogc", "", "GOGC of every process; empty leaves each its own: Go's 100, and what stoa serve sets")
	flags.StringVar(&o.GOMEMLIMIT, "gomemlimit", "2GiB", "GOMEMLIMIT of every process")
	flags.IntVar(&o.GOMAXPROCS, "procs", runtime.NumCPU(), "GOMAXPROCS of every process")
	only := flags.String("only", "", "measure only what matches this `regexp`, for instance ^(direct|proxy)/ or /16/100B/ or ^idle/ or viewers")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.IdleGOGC = "20"
	rounds := false
	flags.Visit(func(f *flag.Flag) { rounds = rounds || f.Name == "rounds" })
	if o.quick && !rounds {
		o.Rounds = 2
	}
	if o.ViewerRounds = viewerRounds; rounds {
		o.ViewerRounds = o.Rounds
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("argument %q is not known: bench takes flags only", flags.Arg(0))
	case o.Rounds < 1 || o.Rounds > 100:
		return o, fmt.Errorf("-rounds %d: want 1 to 100", o.Rounds)
	case o.Window <= 0 || o.SideWindow <= 0 || max(o.Window, o.SideWindow) > time.Minute:
		return o, errors.New("-duration and -side: want more than 0 and at most 1m")
	case o.Idle < 0 || o.Idle > 7000:
		return o, fmt.Errorf("-idle %d: want 0 to 7000, the hub holds 10,000 sessions and three quarters are for one caller", o.Idle)
	}
	if *only != "" {
		re, err := regexp.Compile(*only)
		if err != nil {
			return o, fmt.Errorf("-only: %w", err)
		}
		o.only = re
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	began := time.Now()
	dir, err := os.MkdirTemp("", "stoa-bench-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	r := &report{Machine: thisMachine(), Settings: o.settings}
	if err := o.measure(ctx, dir, r); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted: all processes of the run were ended")
		}
		return err
	}
	r.Settings.Took = time.Since(began)
	r.summarise()
	r.markdown(os.Stdout)
	passed := !o.bars || r.markdownBars(os.Stdout)
	if o.out != "" {
		b, err := json.MarshalIndent(r, "", " ")
		if err == nil {
			err = os.WriteFile(o.out, append(b, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	switch {
	case len(r.Failures) > 0:
		return fmt.Errorf("%d measurements failed, see Failures above", len(r.Failures))
	case !passed:
		return errors.New("a bar failed, see Bars above")
	}
	return nil
}

// measure does the parts of the run that the options select.
func (o options) measure(ctx context.Context, dir string, r *report) error {
	groups := matrix(o.quick, o.only)
	kinds, watched := o.selectedIdle(), o.selectedViewers()
	if len(groups) == 0 && len(kinds) == 0 && len(watched) == 0 {
		return errors.New("-only matches nothing: names look like proxy/modern/16/100B/json, idle/post and viewers/stalled")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	s := &stage{self: self, stoa: o.stoa, dir: dir, env: environment(dir, o.GOGC, o.GOMEMLIMIT, o.GOMAXPROCS)}
	if needsHub(groups) || len(kinds) > 0 || len(watched) > 0 {
		if s.stoa, err = hubBinary(ctx, o.stoa, dir); err != nil {
			return err
		}
	}
	if len(groups) > 0 {
		if err := o.measureCalls(ctx, s, groups, r); err != nil {
			return err
		}
	}
	if len(watched) > 0 {
		if err := o.measureViewers(ctx, s, watched, r); err != nil {
			return err
		}
	}
	idle := *s
	idle.env = environment(dir, o.IdleGOGC, o.GOMEMLIMIT, o.GOMAXPROCS)
	for _, kind := range kinds {
		fmt.Fprintf(os.Stderr, "idle: %s\n", kind)
		result, err := idle.idle(ctx, kind, o.Idle)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("idle, %s: %v", kind, err))
			continue
		}
		r.Idle = append(r.Idle, result)
	}
	return nil
}

func (o options) selectedIdle() []idleKind {
	var out []idleKind
	for _, kind := range idleKinds {
		if o.Idle > 0 && (o.only == nil || o.only.MatchString(kind.name())) {
			out = append(out, kind)
		}
	}
	return out
}

// hubBinary returns an absolute path: the hub runs in another folder.
func hubBinary(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	binary := filepath.Join(dir, "stoa")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "github.com/stoahub/stoa")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build stoa: %w (run bench inside the module, or name a binary with -stoa)\n%s", err, out)
	}
	return binary, nil
}

func thisMachine() machine {
	m := machine{Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Kernel: "unknown"}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}
