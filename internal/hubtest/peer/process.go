package peer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	specVar  = "STOA_PEER"       // the Spec of a child
	sleepVar = "STOA_PEER_SLEEP" // set for a grandchild
	// maxVar bounds the variable below what Linux allows for one string.
	maxVar   = 120 << 10
	zipped   = "gzip:"
	lifetime = 5 * time.Minute // of a grandchild, or a child without its parent, that nobody kills
)

// Apart has stdio peers be a program of their own. For a package that starts them
// by the hundred: a test binary has the packages of the whole hub to set up, and
// with the race detector that takes thirty times as long. It is for TestMain,
// after Main.
func Apart() { apart = true }

var apart bool

// program builds the peer that Apart wants. It is beside the test binary, where
// programs can be run, and goes with it. "" means that it cannot be built here.
var program = sync.OnceValue(func() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), "stoa-peer")
	build := exec.Command("go", "build", "-o", path, "github.com/stoahub/stoa/internal/hubtest/peer/alone")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if build.Run() != nil {
		return ""
	}
	return path
})

// Command returns how to start a stdio peer as a child of this test binary, or as
// Apart has it: its TestMain must begin with Main. It panics if the spec is not sound or too
// large for an environment variable even when compressed.
func Command(spec Spec) (command string, args []string, env map[string]string) {
	spec, err := spec.check()
	if err != nil {
		panic(err)
	}
	command, err = os.Executable()
	if err != nil {
		panic(fmt.Errorf("peer %s: find the test binary: %w", spec.Name, err))
	}
	if apart {
		command = cmp.Or(program(), command)
	}
	// Without the variable the child would run the tests and start itself again.
	// A child built with the race detector would linger a second at its exit.
	return command, []string{"-test.run=^$"}, map[string]string{specVar: pack(spec), "GORACE": "atexit_sleep_ms=0"}
}

// Main runs the peer that the environment describes and exits; without one it
// returns at once.
func Main() {
	if os.Getenv(sleepVar) != "" {
		wait(nil, lifetime)
		os.Exit(0)
	}
	v := os.Getenv(specVar)
	if v == "" {
		return
	}
	spec, err := unpack(v)
	if err == nil {
		err = run(spec)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

func pack(spec Spec) string {
	b := encode(spec)
	if len(b) <= maxVar {
		return string(b)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	if err == nil {
		err = w.Close()
	}
	v := zipped + base64.StdEncoding.EncodeToString(z.Bytes())
	if err != nil || len(v) > maxVar {
		panic(fmt.Sprintf("peer %s: the spec has %d bytes, compressed %d: make it smaller or more regular (%v)",
			spec.Name, len(b), len(v), err))
	}
	return v
}

func unpack(v string) (Spec, error) {
	var spec Spec
	var r io.Reader = strings.NewReader(v)
	if z, ok := strings.CutPrefix(v, zipped); ok {
		var err error
		if r, err = gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(z))); err != nil {
			return spec, fmt.Errorf("peer: read %s: %w", specVar, err)
		}
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return spec, fmt.Errorf("peer: read %s: %w", specVar, err)
	}
	return spec.check()
}

// run is the life of a child.
func run(spec Spec) error {
	j := &journal{path: spec.StatePath}
	s := newServer(context.Background(), spec, j)
	q := spec.Quirks
	for i := range q.StderrNoise {
		fmt.Fprintf(os.Stderr, "WARN %s: noise %d\n", spec.Name, i+1)
	}
	if q.IgnoreSIGTERM {
		terms := make(chan os.Signal, 16)
		signal.Notify(terms, syscall.SIGTERM)
		go func() {
			for range terms {
				j.note("term", "")
			}
		}()
	}
	if q.SpawnGrandchild {
		if err := spawn(j); err != nil {
			return err
		}
	}
	if q.CrashEvery > 0 {
		time.AfterFunc(q.CrashEvery, func() { os.Exit(3) })
	}
	wait(nil, q.SlowStart)
	parent := os.Getppid()
	err := serveStdio(context.Background(), s, os.Stdin, os.Stdout, os.Exit)
	if q.IgnoreEOF {
		// A child that outlives the tests would be a nuisance on the machine.
		for end := time.Now().Add(lifetime); os.Getppid() == parent && time.Now().Before(end); {
			wait(nil, 100*time.Millisecond)
		}
	}
	return err
}

// spawn starts a child that holds this process's stdout and stderr open, as
// the helpers of package runners do.
func spawn(j *journal) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("peer: find the test binary: %w", err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), sleepVar+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("peer: start a grandchild: %w", err)
	}
	j.note("grandchild", cmd.Process.Pid)
	return nil
}
