package agentd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// A handler that panics costs its request; the log has the stack, and the agent
// goes on.
func TestPanicOfAHandler(t *testing.T) {
	s := open(t, "tools:\n  hi:\n    description: Says hi.\n    command: [echo, hi]\n")
	w := httptest.NewRecorder()
	s.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh dear") })).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "stumble") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := s.log.String(); !strings.Contains(got, "oh dear") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("the log says %s", got)
	}
	if m := s.client(hubtest.Modern).Tool("hi", `{}`); !strings.Contains(m.Text(), "hi") {
		t.Errorf("after it: %s", m.Raw)
	}
}
