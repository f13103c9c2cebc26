package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// plan is how much is asked of whom.
type plan struct {
	sessions int
	pieces   int           // of an answer
	pace     time.Duration // between two
	window   time.Duration // that is measured, once all speak
}

func planned(t *testing.T) (plan, bool) {
	if os.Getenv("STOA_SOAK") != "1" {
		return plan{sessions: 20, pieces: 15, pace: 50 * time.Millisecond, window: 2 * time.Second}, false
	}
	p := plan{sessions: 500, pieces: 200, pace: 100 * time.Millisecond, window: 10 * time.Minute}
	if s := os.Getenv("STOA_LOAD_WINDOW"); s != "" {
		var err error
		if p.window, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	return p, true
}

// target is a process under load.
type target struct {
	name   string
	pid    int
	url    string
	tokens []string
}

// figures are what a target took.
type figures struct {
	perPiece   time.Duration // CPU
	perSession int64         // bytes resident that one more session takes
	few        int64         // resident with a tenth of the sessions
	early      int64         // resident in the first and in the last third
	late       int64
	pieces     int64
}

func (f figures) String() string {
	return fmt.Sprintf("%.1f µs of CPU a piece, %.1f KiB a session above %.1f MiB with a tenth of them, %.1f MiB early and %.1f MiB late, %d pieces",
		float64(f.perPiece)/1e3, float64(f.perSession)/1024, float64(f.few)/(1<<20), float64(f.early)/(1<<20), float64(f.late)/(1<<20), f.pieces)
}

// TestLoad has many conversations at once, first with the bare loop and then
// with the hub. Every piece that the model says arrives, once and in order.
// The long form (STOA_SOAK=1) holds the hub to one and a half times what the
// bare loop takes, of CPU for a piece and of memory for a session, and to
// memory that does not grow.
func TestLoad(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("CPU time and memory of processes are read on Linux only")
	}
	p, long := planned(t)
	model, _ := start(t, exec.Command(os.Args[0]), roleEnv+"=model")
	url, pid := start(t, exec.Command(os.Args[0]), roleEnv+"=bare", modelEnv+"="+model)
	least := p
	if least.window > time.Minute {
		least.window = time.Minute // it keeps nothing that could grow
	}
	base := least.all(t, &target{name: "bare loop", pid: pid, url: "ws://" + url, tokens: []string{""}})
	t.Logf("bare loop: %v", base)
	got := p.all(t, hub(t, model, (p.sessions+59)/60))
	t.Logf("hub: %v", got)
	cpu, memory := float64(got.perPiece)/float64(base.perPiece), float64(got.perSession)/float64(base.perSession)
	t.Logf("hub to bare loop: CPU of a piece %.2f, memory of a session %.2f", cpu, memory)
	if !long {
		return // too short to mean anything
	}
	if cpu > 1.5 || memory > 1.5 {
		t.Errorf("the hub takes more than 1.5 times what the bare loop does: CPU %.2f, memory %.2f", cpu, memory)
	}
	if p.window >= 5*time.Minute && float64(got.late) > 1.15*float64(got.early) {
		t.Errorf("memory grows from %d to %d bytes", got.early, got.late)
	}
}

// start runs a process of the test until its end, and returns what it says
// first.
func start(t *testing.T, cmd *exec.Cmd, env ...string) (line string, pid int) {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, out, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it ends anyway
		_ = cmd.Wait()
	})
	line, err = out.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error") {
		t.Fatalf("%s: %q, %v", env, line, err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid
}

// hub builds stoa and starts `stoa serve` over the model. As many tokens are
// made: one principal may have 64 sockets.
func hub(t *testing.T, model string, tokens int) *target {
	t.Helper()
	dir := t.TempDir()
	binary := os.Getenv("STOA_LOAD_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "stoa")
		build := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
		build.Dir = "../../../.."
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build stoa: %v: %s", err, out)
		}
	}
	config, data := filepath.Join(dir, "stoa.jsonc"), filepath.Join(dir, "data")
	text := fmt.Sprintf(`{"stoa":1,"models":{"fake":{"provider":"openai","baseUrl":"http://%s","model":"test-model","apiKey":"sk-load"}},"chat":{"tools":["none"]}}`, model)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stoa := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, append(args, "--config", config, "--data", data)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	}
	h := &target{name: "hub"}
	for i := range tokens {
		out, err := stoa("token", "create", fmt.Sprint("p", i)).Output()
		if err != nil {
			t.Fatalf("make a token: %v", err)
		}
		h.tokens = append(h.tokens, strings.TrimSpace(string(out)))
	}
	cmd := stoa("serve", "--listen", "127.0.0.1:0")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // what it keeps goes with it
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the hub says:\n%.8000s", said.String())
		}
	})
	h.pid = cmd.Process.Pid
	for end := time.Now().Add(time.Minute); ; {
		b, _ := os.ReadFile(filepath.Join(data, "hub.json")) // not there yet
		var note struct{ Address string }
		if json.Unmarshal(b, &note) == nil && note.Address != "" {
			h.url = "ws://" + note.Address + "/ws"
			return h
		}
		if time.Now().After(end) {
			t.Fatal("the hub does not start")
		}
		<-time.After(20 * time.Millisecond)
	}
}

// all puts a tenth of the load on a target, for a while, and then the whole. What
// is there once, such as the buffers of the hub's store, is no session's.
func (p plan) all(t *testing.T, on *target) figures {
	t.Helper()
	some := p
	some.sessions, some.window = p.sessions/10, min(p.window, 30*time.Second)
	few := some.run(t, on)
	f := p.run(t, on)
	f.few = few.late
	f.perSession = (f.late - few.late) / int64(p.sessions-some.sessions)
	return f
}

// run puts a load on a target and measures it.
func (p plan) run(t *testing.T, on *target) figures {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var heard, speaking atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, p.sessions)
	for i := range p.sessions {
		token := on.tokens[i%len(on.tokens)]
		wg.Go(func() {
			// They begin one after the other within one answer, as people do.
			select {
			case <-time.After(p.pace * time.Duration(p.pieces) * time.Duration(i) / time.Duration(p.sessions)):
			case <-ctx.Done():
				return
			}
			for first := true; ctx.Err() == nil; first = false {
				if err := p.talk(ctx, on.url, token, func(n int) {
					if heard.Add(1); first && n == 0 {
						speaking.Add(1)
					}
				}); err != nil && ctx.Err() == nil {
					errs <- fmt.Errorf("session %d: %w", i, err)
					return
				}
			}
		})
	}
	for speaking.Load() < int64(p.sessions) {
		select {
		case err := <-errs:
			t.Fatal(on.name, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	f := p.measure(t, on, &heard, errs)
	cancel()
	wg.Wait()
	return f
}

// measure looks at the target for as long as the plan says.
func (p plan) measure(t *testing.T, on *target, heard *atomic.Int64, errs <-chan error) (f figures) {
	t.Helper()
	var sizes []int64
	n, cpu := heard.Load(), figure(t, proc.CPUTime, on.pid)
	tick := time.NewTicker(p.window / 60)
	defer tick.Stop()
	for range 60 {
		select {
		case err := <-errs:
			t.Fatal(on.name, err)
		case <-tick.C:
		}
		sizes = append(sizes, figure(t, proc.Anonymous, on.pid))
	}
	f.pieces = heard.Load() - n
	f.perPiece = (figure(t, proc.CPUTime, on.pid) - cpu) / time.Duration(max(f.pieces, 1))
	if want := int64(p.window/p.pace) * int64(p.sessions); f.pieces < want/2 {
		t.Errorf("%s: %d pieces came in time, of about %d", on.name, f.pieces, want)
	}
	f.early, f.late = median(sizes[:20]), median(sizes[40:])
	return f
}

// figure is something that can be read of a process.
func figure[T any](t *testing.T, read func(pid int) (T, error), pid int) T {
	t.Helper()
	v, err := read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func median(list []int64) int64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// talk holds one conversation of one question, and checks the answer.
func (p plan) talk(ctx context.Context, url, token string, heard func(n int)) error {
	ctx, cancel := context.WithTimeout(ctx, p.pace*time.Duration(p.pieces)*3+time.Minute)
	defer cancel()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	q := frame{Type: "message"}
	q.Payload.Text = question(p.pieces, p.pace)
	b := []byte(fmt.Sprintf(`{"type":"message","payload":{"text":%q}}`, q.Payload.Text))
	if err := ws.Write(ctx, websocket.MessageText, b); err != nil {
		return err
	}
	n, want := 0, ""
	for {
		_, r, err := ws.Reader(ctx)
		if err != nil {
			return fmt.Errorf("after %d pieces: %w", n, err)
		}
		b, err := io.ReadAll(r)
		var f frame
		if err = errors.Join(err, json.Unmarshal(b, &f)); err != nil {
			return err
		}
		switch f.Type {
		case "text":
			// A piece may come in halves, and several as one.
			for rest := f.Payload.Content; rest != ""; {
				if want == "" {
					want = piece(n)
				}
				k := min(len(want), len(rest))
				if n >= p.pieces || rest[:k] != want[:k] {
					return fmt.Errorf("in piece %d of %d comes %s", n, p.pieces, b)
				}
				if rest, want = rest[k:], want[k:]; want == "" {
					heard(n)
					n++
				}
			}
		case "turn.ended":
			if n != p.pieces || strings.Contains(string(b), `"reason":"failed"`) {
				return fmt.Errorf("it ended after %d pieces of %d: %s", n, p.pieces, b)
			}
			return nil
		case "error":
			return fmt.Errorf("the answer is %s", b)
		}
	}
}
