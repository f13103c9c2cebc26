package viewer

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
)

// wild is a response whose connection panics when something is read from it.
type wild struct{ http.ResponseWriter }

type wildConn struct{ net.Conn }

func (wildConn) Read([]byte) (int, error) { panic("not that frame") }

func (w wild) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := wildConn{conn}
	rw.Reader.Reset(c)
	return c, rw, nil
}

// What a viewer says and makes the hub panic costs that viewer its place, and is
// told with its stack.
func TestPanicOfAViewer(t *testing.T) {
	log := &logbook.Book{}
	g := New(event.New(0), Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Serve(wild{w}, r, Wish{}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(func() {
		g.Close()
		srv.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for err == nil {
		_, _, err = c.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("the viewer is still there")
	}
	eventually(t, "nobody watches", func() bool { return g.Len() == 0 })
	if got := log.String(); !strings.Contains(got, "not that frame") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("it is not told with its stack: %s", got)
	}
}
