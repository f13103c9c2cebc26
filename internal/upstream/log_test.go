package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// lines are those of a log, level first.
type lines struct{ logbook.Book }

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *lines) count(parts ...string) (n int) {
each:
	for line := range strings.Lines(l.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue each
			}
		}
		n++
	}
	return n
}

// A server that stays away is told of once.
func TestFailureIsToldOfOnce(t *testing.T) {
	web := peer.Serve(t, peer.Spec{Era: peer.EraLegacy})
	web.Kill()
	var log lines
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	u, err := pool.Add(Options{Name: "up", URL: web.URL, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it has failed again and again", func() bool {
		_, _ = u.Hello(context.Background(), nil, "") // an attempt that is due is made
		return log.count("level=DEBUG", "state=error", "refused") > 1
	})
	if n := log.count("level=WARN"); n != 1 {
		t.Errorf("told %d times", n)
	}
	web.Restart()
	await.Until(t, "it is back", func() bool { return log.count("level=INFO", "state=connected") == 1 })
}

// Another failure is news, and so is the same one after a better time.
func TestNewFailuresAreToldOf(t *testing.T) {
	var log lines
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	u, err := pool.Add(Options{Name: "up", URL: "http://127.0.0.1:1", Lazy: true, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	u.mu.Lock()
	for _, fails := range []string{"a", "a", "b", "", "b", "b", "a"} {
		u.setState(Connecting, nil)
		if fails == "" {
			u.setState(Connected, nil)
		} else {
			u.setState(Failed, errors.New(fails))
		}
	}
	u.mu.Unlock()
	for text, n := range map[string]int{"level=WARN err=a": 2, "level=DEBUG err=a": 1, "level=WARN err=b": 2, "level=DEBUG err=b": 1, "level=INFO state=connected": 1, "level": 7} {
		if got := log.count(strings.Fields(text)...); got != n {
			t.Errorf("%s: %d lines, want %d", text, got, n)
		}
	}
}

// That a server is being dialled when the hub ends is no failure of it.
func TestNothingIsMournedAtTheEnd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var log lines
	pool := Open(catalog.New(0), PoolOptions{})
	if _, err := pool.Add(Options{Name: "up", URL: "http://" + ln.Addr().String(), Logger: log.logger(), Probe: time.Hour, Connect: time.Hour}); err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	if n := log.count("level=WARN"); n != 0 {
		t.Errorf("%d complaints: %s", n, log.String())
	}
}

// A server that failed and is tried again has not come back yet: who looks is told why it is tried.
func TestFailureIsKnownWhileItIsTriedAgain(t *testing.T) {
	mute := filepath.Join(t.TempDir(), "mute")
	pool := Open(catalog.New(0), PoolOptions{})
	t.Cleanup(pool.Close)
	u, err := pool.Add(Options{Name: "up", Command: "/bin/sh", Args: []string{"-c", `[ -e "$0" ] || exit 7; exec 3>&1 cat >/dev/null`, mute}})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it has failed", func() bool { return u.Status().State == Failed })
	if err := os.WriteFile(mute, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "it is tried again", func() bool { return u.Status().State == Connecting })
	if got := u.Status().Error; !strings.Contains(got, "exit status 7") {
		t.Errorf("it says %q", got)
	}
}
