package session

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/store"
)

// A real disk of 24 MiB, in a child that has its own mounts, fills up and gets
// room again.
func TestFullDisk(t *testing.T) {
	cmd := exec.CommandContext(ctxFor(t, 100*time.Second), os.Args[0])
	cmd.Env = append(os.Environ(), "STOA_SESSION_ROLE=disk", "STOA_SESSION_DIR="+t.TempDir())
	cmd.SysProcAttr = proc.OwnMounts()
	b, err := cmd.CombinedOutput()
	if reason, ok := strings.CutPrefix(string(b), "SKIP "); ok || os.IsPermission(err) {
		t.Skip(strings.TrimSpace(reason), err)
	}
	if err != nil || !strings.HasSuffix(string(b), "done\n") {
		t.Errorf("%s%v", b, err)
	}
	t.Logf("%s", b)
}

func check(err error) {
	if err != nil {
		fmt.Println("FAIL", err)
		os.Exit(1)
	}
}

func roleDisk(dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		fmt.Println("SKIP a small disk cannot be mounted here:", err)
		return
	}
	ballast := filepath.Join(dir, "ballast")
	check(os.WriteFile(ballast, make([]byte, 12<<20), 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	st, err := store.Open(ctx, store.Options{Dir: filepath.Join(dir, "store")})
	check(err)
	o := Options{History: 2, Timeout: time.Hour}
	r, err := Open(ctx, st, o)
	check(err)
	s, err := r.Bind(Binding{Principal: "p", Name: "s"})
	check(err)
	l := &ledger{s: s, values: map[string]string{}, unsure: map[string]string{}}
	r.Close() // nothing is removed behind us, or the disk would never be full
	for err == nil && l.n < 1000 {
		err = l.put(ctx)
	}
	fmt.Println("full after", l.n, "values:", err)
	check(mustBeRetryable(err))
	check(l.check(ctx, s))
	check(mustBeRetryable(l.put(ctx)))
	fresh, err := r.Bind(Binding{Principal: "p", Name: "fresh"})
	check(err)
	_, _, err = fresh.Put(ctx, New{Name: "v", Data: []byte("1")})
	check(mustBeRetryable(err))
	if r.Find("p", "fresh") != nil {
		check(fmt.Errorf("a session came to be in which nothing could be stored"))
	}
	check(os.Remove(ballast))
	for start := time.Now(); l.put(ctx) != nil; {
		if time.Since(start) > 30*time.Second {
			check(fmt.Errorf("no recovery though the disk has room: %w", st.State()))
		}
		<-time.After(20 * time.Millisecond)
	}
	_, _, err = fresh.Put(ctx, New{Name: "v", Data: []byte("1")})
	check(err)
	check(l.check(ctx, s))
	check(st.Close())
	st, err = store.Open(ctx, store.Options{Dir: filepath.Join(dir, "store")})
	check(err)
	r, err = Open(ctx, st, o)
	check(err)
	s, err = r.Bind(Binding{Principal: "p", Name: "s"})
	check(err)
	check(l.check(ctx, s))
	r.Close()
	check(st.Close())
	fmt.Println("done")
}
