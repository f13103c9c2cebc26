package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
)

// A call that may be repeated is sent again as often as the server's config
// says, or the call itself; one that may not is not.
func TestRetries(t *testing.T) {
	hubtest.Parallel(t)
	var breaks atomic.Int64 // how many further calls break off
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `"error":{"code":-32601,"message":"unknown"}`
		switch m.Method {
		case "initialize":
			result = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"breaks","version":"1"}}`
		case "tools/list":
			result = `"result":{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"act","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			if breaks.Add(-1) >= 0 {
				panic(http.ErrAbortHandler)
			}
			result = `"result":{"content":[{"type":"text","text":"done"}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
	}))
	defer web.Close()
	h := hubtest.New(t, hubtest.HTTP("up", web.URL, func(s *config.Server) { s.Retries, s.Breaker.Failures = 2, 100 }))
	c := h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy})
	for name, tc := range map[string]struct {
		tool   string
		breaks int64
		meta   []hubtest.Meta
		kind   string // of the fault; empty if it succeeds
	}{
		"as configured":       {"up__look", 2, nil, ""},
		"once too often":      {"up__look", 3, nil, "upstream_lost"},
		"as the call says":    {"up__look", 4, []hubtest.Meta{`"stoa/retries":4`}, ""},
		"not at all":          {"up__look", 1, []hubtest.Meta{`"stoa/retries":0`}, "upstream_lost"},
		"not to be repeated":  {"up__act", 1, []hubtest.Meta{`"stoa/retries":4`}, "upstream_lost"},
		"nothing to be tried": {"up__act", 0, nil, ""},
	} {
		breaks.Store(tc.breaks)
		m := c.Tool(tc.tool, "{}", tc.meta...)
		if tc.kind == "" && (m.Error != nil || m.Text() != "done") || tc.kind != "" && (m.Error == nil || m.Fault().Data.Kind != tc.kind) {
			t.Errorf("%s: %s", name, m.Raw)
		}
	}
}
