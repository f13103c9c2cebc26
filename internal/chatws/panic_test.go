package chatws

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/hubtest/wildconn"
)

// wantPanic checks that a panic was told with its stack.
func wantPanic(t *testing.T, log *logbook.Book, what, file string) {
	t.Helper()
	if got := log.String(); !strings.Contains(got, what) || !strings.Contains(got, file) {
		t.Errorf("it is not told with its stack: %s", got)
	}
}

// cutOff reads until the socket is closed by the hub.
func cutOff(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for err == nil {
		_, _, err = c.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("the client is still there")
	}
}

// Where telling a client what happens panics it is cut off, and the next is
// served.
func TestPanicOfATail(t *testing.T) {
	var bad atomic.Bool
	log := &logbook.Book{}
	b := open(t, Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Heartbeat: 20 * time.Millisecond, Degraded: func(*auth.Principal) []string {
		if bad.Swap(false) {
			panic("not that server")
		}
		return nil
	}})
	bad.Store(true)
	url := "ws" + strings.TrimPrefix(b.url, "http") + "/ws"
	cutOff(t, url)
	wantPanic(t, log, "not that server", "panic_test.go")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if _, m, err := c.Read(ctx); err != nil || !strings.Contains(string(m), "connected") {
		t.Errorf("the next one: %s %v", m, err)
	}
}

// What somebody says to an agent and makes the hub panic costs that socket.
func TestPanicOfAnAsker(t *testing.T) {
	log := &logbook.Book{}
	s := openAgents(t, AgentOptions{Logger: slog.New(slog.NewTextHandler(log, nil))}, "")
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/{agent}", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Serve(wildconn.Response{ResponseWriter: w}, r, &auth.Principal{Name: "ann", Scopes: auth.Scopes{"*"}}); err != nil {
			t.Error(err)
		}
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	cutOff(t, "ws"+strings.TrimPrefix(srv.URL, "http")+"/ws/news")
	wantPanic(t, log, wildconn.Says, "wildconn.go")
}
