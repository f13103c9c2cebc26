package proc

import (
	"io"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

func TestParseStatus(t *testing.T) {
	in := []byte("Name:\tstoa\nVmHWM:\t  9000 kB\nVmRSS:\t   1234 kB\nRssAnon:\t 800 kB\nThreads:\t7\n")
	for kind, want := range map[string]int64{"VmRSS": 1234 << 10, "RssAnon": 800 << 10} {
		if got, err := parseStatus(in, kind); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", kind, got, err, want)
		}
	}
	for _, in := range []string{"", "Name:\tzombie\n", "VmRSS:\t12 MB\n", "VmRSS:\tmany kB\n"} {
		if _, err := parseStatus([]byte(in), "VmRSS"); err == nil {
			t.Errorf("%q has a size", in)
		}
	}
}

// A child that was started is seen to run and to use the machine, and is seen
// to have ended before anybody has waited for it.
func TestChild(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what processes take of the machine is read on Linux only")
	}
	cmd := exec.Command("cat")
	in, out, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if _, err := io.WriteString(in, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	all, err1 := Resident(pid)
	own, err2 := Anonymous(pid)
	cpu, err3 := CPUTime(pid)
	if err1 != nil || err2 != nil || err3 != nil || own <= 0 || all < own || cpu <= 0 || !Alive(pid) {
		t.Errorf("memory %d (%v), of its own %d (%v), CPU %v (%v), alive %t", all, err1, own, err2, cpu, err3, Alive(pid))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is killed", func() bool { return !Alive(pid) })
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := cmd.Wait(); err == nil || Alive(pid) {
		t.Errorf("killed: %v, alive %t", err, Alive(pid))
	}
}
