package agentd

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/hubtest/proc"
	"github.com/stoahub/stoa/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a running agent.
type stage struct {
	*Agent
	t   *testing.T
	dir string
	url string
	log *logbook.Book
}

// environ is what the agents of the tests find around them.
var environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "SECRET=sesame", "WANTED=yes", "ROUTER_HOST=hub.example", "AGENT_TOKEN=t0"}

// open serves a manifest until the test ends.
func open(t *testing.T, manifest string) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), log: &logbook.Book{}}
	s.write("agent.yaml", "agent: 1\nname: desk\n"+manifest)
	env := func(string) (string, bool) { return "", false }
	var err error
	s.Agent, err = Open(Options{Manifest: s.path("agent.yaml"), Env: env, Environ: environ, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.url = s.serve("127.0.0.1:0", "")
	return s
}

// serve serves the agent on one more address until the test ends, to those with
// the token if there is one, and returns where it is reached from here.
func (s *stage) serve(address, token string) (url string) {
	s.t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln, secret.New(token)) }()
	s.t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			s.t.Errorf("serve: %v", err)
		}
		if s.t.Failed() {
			s.t.Logf("log:\n%s", s.log)
		}
	})
	return "http://127.0.0.1:" + strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// write puts a file in place at once, as editors do.
func (s *stage) write(name, text string) {
	s.t.Helper()
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) client(era hubtest.Era) *hubtest.Client {
	s.t.Helper()
	return hubtest.Dial(s.t, s.url, hubtest.ClientOptions{Era: era})
}

// result is the result of a tool.
type result struct {
	Content           []struct{ Type, Text string }
	IsError           bool
	StructuredContent map[string]any
	Meta              map[string]any `json:"_meta"`
}

func decode(t *testing.T, m hubtest.Message) result {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("error %s", m.Error)
	}
	return hubtest.Decode[result](m.Result)
}

// pid reads a process's number that a command has written into a file.
func (s *stage) pid(name string) (pid int) {
	s.t.Helper()
	await.Until(s.t, name+" is written", func() bool {
		b, _ := os.ReadFile(s.path(name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0 && strings.HasSuffix(string(b), "\n")
	})
	return pid
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	await.Until(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return !proc.Alive(pid) })
}

var eras = []hubtest.Era{hubtest.Legacy, hubtest.Modern}
