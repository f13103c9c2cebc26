package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// screen is a terminal that a program runs on.
type screen struct {
	cmd  *exec.Cmd
	ctrl *os.File
	done chan struct{} // closed when all output has been read

	mu   sync.Mutex
	out  bytes.Buffer
	seen int // how much of it shows has passed
}

// onTerminal runs stoa on a terminal of 60 columns, over the server alpha.
func onTerminal(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	return onTerminalIn(t, t.TempDir(), env, args...)
}

// onTerminalIn is onTerminal in a folder that is there already, with the data
// folder in it.
func onTerminalIn(t *testing.T, work string, env []string, args ...string) *screen {
	t.Helper()
	return onTerminalOver(t, work, map[string]any{"alpha": entry(alpha(work))}, env, args...)
}

// onTerminalOver is onTerminalIn over other servers.
func onTerminalOver(t *testing.T, work string, servers map[string]any, env []string, args ...string) *screen {
	t.Helper()
	config := filepath.Join(work, "stoa.jsonc")
	writeConfig(t, config, servers)
	ctrl, tty := openTerminal(t)
	s := &screen{ctrl: ctrl, done: make(chan struct{})}
	s.cmd = exec.Command("stoa", append(args, "--config", config, "--data", filepath.Join(work, "data"))...)
	s.cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR=", "GORACE=atexit_sleep_ms=0"), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	go func() {
		defer close(s.done)
		b := make([]byte, 4096)
		for {
			n, err := ctrl.Read(b)
			s.mu.Lock()
			s.out.Write(b[:n])
			s.mu.Unlock()
			if err != nil { // the last to hold the terminal has gone
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // gone already if all went well
		<-s.done
		ctrl.Close()
	})
	return s
}

func openTerminal(t *testing.T) (ctrl, tty *os.File) {
	t.Helper()
	ctrl, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(ctrl.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ctrl.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(ctrl.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return ctrl, tty
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.out.String(), "\r\n", "\n")
}

// end waits for the program and returns its exit code.
func (s *screen) end(t *testing.T) int {
	t.Helper()
	stop := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer stop.Stop()
	_ = s.cmd.Wait() // the code says it
	<-s.done
	return s.cmd.ProcessState.ExitCode()
}

// await waits until the screen has shown text.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !strings.Contains(s.text(), text) {
		select {
		case <-deadline:
			t.Fatalf("%q is not on the screen:\n%s", text, s.text())
		case <-tick.C:
		}
	}
}

func TestTerminalTable(t *testing.T) {
	s := onTerminal(t, nil, "tools")
	if code := s.end(t); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, s.text())
	}
	if !strings.Contains(s.text(), "\x1b[1mNAME\x1b[0m") {
		t.Errorf("no bold head:\n%q", s.text())
	}
	plain := onTerminal(t, []string{"NO_COLOR=1"}, "tools")
	if code := plain.end(t); code != exitOK || strings.Contains(plain.text(), "\x1b") {
		t.Errorf("exit code %d, with NO_COLOR:\n%q", code, plain.text())
	}
}

func TestTerminalProgress(t *testing.T) {
	s := onTerminal(t, nil, "call", "alpha__steps")
	if code := s.end(t); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, s.text())
	}
	if got := s.text(); !strings.Contains(got, "\r\x1b[2K100% step 3 of 3") || !strings.HasSuffix(got, "\r\x1b[2Kdone\n") {
		t.Errorf("the screen has %q", got)
	}
}

func TestTerminalServe(t *testing.T) {
	s := onTerminal(t, nil, "serve", "--listen", "127.0.0.1:0")
	s.await(t, `{"mcpServers": {"stoa": {"type": "http", "url": "http://127.0.0.1:`)
	s.await(t, "Ctrl-C stops the hub.")
	if _, err := s.ctrl.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if code := s.end(t); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C\n%s", code, s.text())
	}
	if n := strings.Count(s.text(), "mcpServers"); n != 1 {
		t.Errorf("the banner was shown %d times\n%s", n, s.text())
	}
}

// What is logged may be foreign text, which must not do things to a terminal.
func TestTerminalLogs(t *testing.T) {
	logs := t.TempDir()
	line := `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"server \u001b]0;title","component":"upstream","err":"a\u001b[2Jb"}` + "\n"
	if err := os.WriteFile(filepath.Join(logs, "stoa.log"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	s := onTerminal(t, []string{"AIUR_LOG_DIRECTORY=" + logs}, "logs")
	if code := s.end(t); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, s.text())
	}
	if got := s.text(); !strings.Contains(got, "\x1b[93mWRN\x1b[0m") || strings.Contains(got, "\x1b]0") || strings.Contains(got, "\x1b[2J") || !strings.Contains(got, "a[2Jb") {
		t.Errorf("the screen has %q", got)
	}
	plain := onTerminal(t, []string{"AIUR_LOG_DIRECTORY=" + logs, "NO_COLOR=1"}, "logs")
	if code := plain.end(t); code != exitOK || strings.Contains(plain.text(), "\x1b") {
		t.Errorf("exit code %d, with NO_COLOR:\n%q", code, plain.text())
	}
}
