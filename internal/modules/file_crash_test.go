package modules

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/proc"
)

const crashSize = 1 << 20

// child starts this program again to do one thing with a folder.
func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Env = append(os.Environ(), "STOA_TEST_CHILD="+what)
	return cmd
}

// overwrite calls file_write without a test around it.
func overwrite(m *Module, path, content string) error {
	req, err := request("file_write", o{"path": path, "content": content, "mode": "overwrite"})
	if err != nil {
		return err
	}
	resp, err := m.Handle(context.Background(), req)
	if err == nil && strings.Contains(string(resp.Result), `"isError":true`) {
		err = errors.New(string(resp.Result))
	}
	return err
}

func writeForEver(dir string) error {
	m, err := File(FileOptions{Roots: []string{dir}})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := overwrite(m, "f", strings.Repeat(string(rune('a'+i%26)), crashSize)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// A writer that is killed leaves one whole content or another.
func TestKilledWriter(t *testing.T) {
	dir := tree(t, map[string]string{"f": strings.Repeat("z", crashSize)})
	for round := range 5 {
		cmd := child(t, "writes", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + round%3 {
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		got := content(t, dir, "f")
		if len(got) != crashSize || strings.Trim(got, got[:1]) != "" {
			t.Fatalf("round %d: %d bytes, not all the same", round, len(got))
		}
	}
}

// writeHalf stops for ever in the middle of a write.
func writeHalf(dir string) error {
	f := &files{}
	var err error
	if f.roots, err = openRoots([]string{dir}); err != nil {
		return err
	}
	p, err := f.findChange("f", true)
	if err != nil {
		return err
	}
	return f.replace(context.Background(), p, change{}, func(w io.Writer) error {
		if _, err := io.WriteString(w, "the new con"); err != nil {
			return err
		}
		fmt.Println("half")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
}

func TestKilledInTheMiddle(t *testing.T) {
	dir := tree(t, map[string]string{"f": "the old content"})
	cmd := child(t, "half", dir)
	in, out, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if line, err := out.ReadString('\n'); line != "half\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := content(t, dir, "f"); got != "the old content" {
		t.Errorf("%q", got)
	}
}

// The system refuses to write on, as a full disk does, in the middle of it.
func writeOnFullDisk(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1000}); err != nil {
		return err
	}
	m, err := File(FileOptions{Roots: []string{dir}})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Println(overwrite(m, "f", strings.Repeat("x", 2000)))
	fmt.Println(overwrite(m, "new", strings.Repeat("x", 2000)))
	return nil
}

func TestFullDisk(t *testing.T) {
	dir := tree(t, map[string]string{"f": "the old content"})
	out, err := child(t, "full", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Count(string(out), "there is no room for it; what was there is unchanged") != 4 { // twice a result, which says it twice
		t.Errorf("%s", out)
	}
	if got := content(t, dir, "f"); got != "the old content" {
		t.Errorf("%q", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v %v", entries, err)
	}
}

// Somebody else's change between reading and writing is not lost.
func TestChangedMeanwhile(t *testing.T) {
	dir := tree(t, map[string]string{"f": "old"})
	f := &files{opts: FileOptions{MaxBytes: 1000}}
	var err error
	if f.roots, err = openRoots([]string{dir}); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	p, err := f.findChange("f", true)
	if err != nil {
		t.Fatal(err)
	}
	_, info, err := f.whole(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.replace(t.Context(), p, change{same: true, info: info}, bytesOf([]byte("ours"))); err == nil || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("%v", err)
	}
	if err := f.replace(t.Context(), p, change{fresh: true}, bytesOf([]byte("ours"))); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v %v", entries, err)
	}
	if diff := cmp.Diff("theirs", content(t, dir, "f")); diff != "" {
		t.Error(diff)
	}
}
