// Package hubtest owns a whole hub in a test: real listeners, real processes,
// real bytes.
//
// New runs a hub on a loopback port of the system's choice, with a data folder
// of its own. When the test ends the hub is drained and closed, and whatever it
// leaves running fails the test. Clients speak raw HTTP in either era and hand
// out the bytes that came, untouched; they share no code with the hub's own
// protocol packages, so that a mistake there cannot cancel itself out.
//
// Tests with hubs run beside each other if they begin with Parallel. It does not
// check what the hub answers.
package hubtest

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/secret"
)

// Setup is what a hub is made of; edits given to New change it.
type Setup struct {
	Config  config.Config
	Options hub.Options
}

// Default is the Setup that edits begin with: that of a hub which was told
// nothing, without built-in tools, since tests say which tools there are.
// Modules switches them on.
func Default() *Setup {
	s := &Setup{Config: config.Default()}
	s.Config.Modules = config.Modules{}
	return s
}

// Edit changes a Setup.
type Edit func(*Setup)

// Config is an Edit of the configuration.
func Config(f func(*config.Config)) Edit { return func(s *Setup) { f(&s.Config) } }

// Data makes the hub use a data folder that another has used before it.
func Data(path string) Edit { return func(s *Setup) { s.Config.Data = path } }

// Stdio adds a stdio peer as an upstream.
func Stdio(name string, spec peer.Spec, edit ...func(*config.Server)) Edit {
	return func(s *Setup) {
		srv := server(name)
		srv.Transport = config.Stdio
		var env map[string]string
		srv.Command, srv.Args, env = peer.Command(spec)
		srv.Env = map[string]secret.String{}
		for k, v := range env {
			srv.Env[k] = secret.New(v)
		}
		s.add(srv, edit)
	}
}

// Within bounds the calls of one tool, and no others: those may take as long as a
// busy machine needs.
func Within(tool string, d time.Duration) func(*config.Server) {
	return func(s *config.Server) {
		if s.Tools.Override == nil {
			s.Tools.Override = map[string]config.Override{}
		}
		o := s.Tools.Override[tool]
		o.Timeout = d
		s.Tools.Override[tool] = o
	}
}

// HTTP adds an upstream at a URL.
func HTTP(name, url string, edit ...func(*config.Server)) Edit {
	return func(s *Setup) {
		srv := server(name)
		srv.URL = url
		s.add(srv, edit)
	}
}

func server(name string) config.Server {
	srv := config.DefaultServer()
	srv.Name, srv.Title = config.Slug(name), name
	return srv
}

func (s *Setup) add(srv config.Server, edits []func(*config.Server)) {
	for _, edit := range edits {
		edit(&srv)
	}
	s.Config.Servers = append(s.Config.Servers, srv)
}

// Hub is a running hub.
type Hub struct {
	*hub.Hub
	URL   string // http://host:port
	Data  string // the data folder
	Token string // that lets use the API

	tb   testing.TB
	http *http.Client
	log  *logbook.Book
	end  context.CancelFunc
	done chan error
	once sync.Once
}

var parallel sync.Map // the names of tests that run beside others

// AtOnce has so many tests run beside each other, unless -parallel says how
// many: those with hubs wait more than they compute. It is for TestMain.
func AtOnce(n int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Parallel has a test run beside others, as it should unless it looks at
// something that all share: the environment, the memory, the goroutines.
// Whether its hubs leave something running cannot be told while others run: the
// end of the package tells.
func Parallel(t *testing.T) {
	parallel.Store(t.Name(), nil)
	t.Parallel()
}

// New runs a hub until the test ends.
func New(tb testing.TB, edits ...Edit) *Hub {
	tb.Helper()
	leaks := leaks(tb)
	h := &Hub{tb: tb, log: &logbook.Book{}, done: make(chan error, 1)}
	h.Data = filepath.Join(tb.TempDir(), "data")
	s := Default()
	s.Config.Listen, s.Config.Data = []string{"127.0.0.1:0"}, h.Data
	s.Options.Logger = slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, edit := range edits {
		edit(s)
	}
	s.Options.Config, h.Data = &s.Config, s.Config.Data
	var err error
	if h.Hub, err = hub.Open(s.Options); err != nil {
		tb.Fatalf("open the hub: %v", err)
	}
	tb.Cleanup(func() {
		h.Stop()
		if tb.Failed() {
			tb.Logf("the hub's log:\n%s", h.Log())
			return // what is left may be the failure's doing
		}
		leaks()
	})
	h.http = &http.Client{Transport: transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var ctx context.Context
	ctx, h.end = context.WithCancel(context.Background())
	go func() { h.done <- h.Hub.Run(ctx) }()
	h.await()
	return h
}

// leaks returns what fails the test if more is running than now.
func leaks(tb testing.TB) func() {
	test, _, _ := strings.Cut(tb.Name(), "/")
	if _, ok := parallel.Load(test); ok {
		return func() {}
	}
	before := goleak.IgnoreCurrent()
	return func() {
		// Peers are ended by the test that began them.
		peers := goleak.IgnoreAnyFunction("github.com/stoahub/stoa/internal/hubtest/peer.(*HTTPServer).start.func1")
		if err := goleak.Find(before, peers); err != nil {
			tb.Errorf("the hub left something running: %v", err)
		}
	}
}

func transport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
}

// await waits until the hub listens.
func (h *Hub) await() {
	h.tb.Helper()
	await.Until(h.tb, "the hub listens", func() bool {
		if addrs := h.Addresses(); len(addrs) > 0 {
			h.URL = "http://" + addrs[0]
		}
		select {
		case err := <-h.done:
			h.done <- err
			h.tb.Fatalf("the hub ended: %v", err)
		default:
		}
		return h.URL != ""
	})
	b, err := os.ReadFile(filepath.Join(h.Data, "token"))
	if err != nil {
		h.tb.Fatalf("read the local token: %v", err)
	}
	h.Token = strings.TrimSpace(string(b))
}

// End tells the hub to stop, as a signal does, and returns at once.
func (h *Hub) End() { h.end() }

// Stop ends the hub and waits until it has drained and closed. New sees to it
// when the test ends.
func (h *Hub) Stop() {
	h.once.Do(func() {
		if h.end != nil {
			h.end()
			if err := <-h.done; err != nil {
				h.tb.Errorf("the hub ended with: %v", err)
			}
		}
		h.Hub.Close()
		if h.http != nil {
			h.http.CloseIdleConnections()
		}
	})
}

// Log is what the hub has logged so far, at every level.
func (h *Hub) Log() string { return h.log.String() }

// Get asks for a path with the local token and returns status and body.
func (h *Hub) Get(path string) (int, []byte) {
	h.tb.Helper()
	req, err := http.NewRequest(http.MethodGet, h.URL+path, nil)
	if err != nil {
		h.tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.Token)
	resp, err := h.http.Do(req)
	if err != nil {
		h.tb.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.tb.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode, b
}

// Modules offers the built-in tools that are offered by default.
func Modules() Edit {
	return Config(func(c *config.Config) { c.Modules = config.Default().Modules })
}
