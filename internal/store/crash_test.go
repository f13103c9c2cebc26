package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// role starts the test binary as a child over a folder. The child ends with
// its stdin, or with the test.
func role(t *testing.T, name, dir string, attr *syscall.SysProcAttr, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "STOA_STORE_ROLE="+name, "STOA_STORE_DIR="+dir), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	_, out, err := proc.Start(cmd)
	if err != nil {
		if attr != nil && errors.Is(err, syscall.EPERM) {
			t.Skipf("a child with its own mounts is not permitted here: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, out
}

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Println("FAIL", err)
		os.Exit(1)
	}
	return v
}

func roleStore() *store.Store {
	return must(store.Open(context.Background(), store.Options{Dir: os.Getenv("STOA_STORE_DIR")}))
}

func roleHold() {
	s := roleStore()
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	must(0, s.Close())
}

// roleAppend appends without end and tells each entry that was acknowledged.
func roleAppend() {
	s := roleStore()
	l := must(s.Log(context.Background(), store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}}))
	e, err := l.Last(context.Background(), "evt.a")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		must(0, err)
	}
	for last := e.Seq; ; {
		last = must(l.Append(context.Background(), "evt.a", fmt.Appendf(nil, "value after %d%s", last, strings.Repeat(".", int(last*37%3000))), last))
		fmt.Println(last)
	}
}

// roleChurn does everything that makes the engine rewrite, remove and compact
// its files.
func roleChurn() {
	ctx := context.Background()
	s := roleStore()
	l := must(s.Log(ctx, store.LogOptions{Name: "evt", Subjects: []string{"evt.>"}, PerSubject: 40}))
	b := must(s.Bucket(ctx, store.BucketOptions{Name: "b"}))
	for i := 0; ; i++ {
		seq := must(l.AppendAny(ctx, fmt.Sprintf("evt.%d", i%5), make([]byte, i*7919%200_000)))
		must(b.Put(ctx, fmt.Sprint("k", i%3), []byte("v"), time.Duration(i%2)*time.Second))
		switch i % 10 {
		case 3:
			must(0, l.Delete(ctx, seq))
		case 5:
			must(0, b.Delete(ctx, "k1", 0))
		case 7:
			must(0, l.Purge(ctx, "evt.2"))
		case 9:
			must(0, l.PurgeBefore(ctx, "", seq-min(seq, uint64(i%20))+1))
		}
		fmt.Println(i)
	}
}

// A kill at any moment is no damage.
func TestKilledWhileChanging(t *testing.T) {
	dir := t.TempDir()
	for round := range 6 {
		cmd, out := role(t, "churn", dir, nil)
		for range 15 + 11*round {
			if line, err := out.ReadString('\n'); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		s, err := store.Open(context.Background(), store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if d := s.Damage(); len(d) != 0 {
			t.Errorf("round %d: %v", round, d)
		}
		if round%2 == 0 { // else the next start is the one after a kill, without a close between
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			copied := t.TempDir()
			copyDir(t, dir, copied)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			dir = copied
		}
	}
}

func TestKilledWhileAppending(t *testing.T) {
	dir := t.TempDir()
	var acked uint64
	rounds := 4
	if os.Getenv("STOA_SOAK") == "1" {
		rounds = 200
	}
	for round := range rounds {
		cmd, out := role(t, "append", dir, nil)
		for range 40 + 13*(round%7) {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if acked, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out) // what it told before it died was acknowledged too
		for line := range strings.Lines(string(rest)) {
			if n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64); err == nil && strings.HasSuffix(line, "\n") {
				acked = n
			}
		}
		_ = cmd.Wait()
		checkKilled(t, dir, acked)
	}
}

func checkKilled(t *testing.T, dir string, acked uint64) {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d := s.Damage(); len(d) != 0 {
		t.Errorf("damage after a kill: %v", d)
	}
	seqs, data := entries(t, evt(t, s), "", 0)
	// One more may be there: stored, and not yet told.
	if n := uint64(len(seqs)); n < acked || n > acked+1 {
		t.Fatalf("%d were acknowledged, %d are there", acked, n)
	}
	for i, seq := range seqs {
		if want := fmt.Sprintf("value after %d%s", i, strings.Repeat(".", i*37%3000)); seq != uint64(i)+1 || data[i] != want {
			t.Fatalf("entry %d is %q", seq, data[i])
		}
	}
}

func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, out := role(t, "hold", dir, nil)
	if line, err := out.ReadString('\n'); err != nil || line != "open\n" {
		t.Fatal(line, err)
	}
	_, err := store.Open(context.Background(), store.Options{Dir: dir})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", cmd.Process.Pid)) {
		t.Errorf("%v; the process is %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s := storetest.Open(t, store.Options{Dir: dir})
	if _, err := store.Open(context.Background(), store.Options{Dir: dir}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("twice in one process: %v", err)
	}
	evt(t, s)
}
