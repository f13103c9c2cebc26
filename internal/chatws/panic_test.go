package chatws

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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

// Where telling a client what happens panics it is cut off, and the next is
// served.
func TestPanicOfATail(t *testing.T) {
	var bad atomic.Bool
	log := &logbook.Book{}
	b := open(t, Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Degraded: func(*auth.Principal) []Degraded {
		if bad.Swap(false) {
			panic("not that server")
		}
		return nil
	}})
	bad.Store(true)
	wildconn.CutOff(t, b.url+"/ws")
	wantPanic(t, log, "not that server", "panic_test.go")
	b.dial("", "").find("connection") // the next one
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
	wildconn.CutOff(t, srv.URL+"/ws/news")
	wantPanic(t, log, wildconn.Says, "wildconn.go")
}
