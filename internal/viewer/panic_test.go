package viewer

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/hubtest/wildconn"
)

// What a viewer says and makes the hub panic costs that viewer its place, and is
// told with its stack.
func TestPanicOfAViewer(t *testing.T) {
	log := &logbook.Book{}
	g := New(event.New(0), Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.Serve(wildconn.Response{ResponseWriter: w}, r, Wish{}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(func() {
		g.Close()
		srv.Close()
	})
	wildconn.CutOff(t, srv.URL)
	await.Until(t, "nobody watches", func() bool { return g.Len() == 0 })
	if got := log.String(); !strings.Contains(got, wildconn.Says) || !strings.Contains(got, "wildconn.go") {
		t.Errorf("it is not told with its stack: %s", got)
	}
}
