package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// doubtful is a server of all eras that refuses the version of the first
// probes, naming those it says it speaks.
type doubtful struct {
	refusals int
	supports string

	mu   sync.Mutex
	seen []string // methods
}

func (d *doubtful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	d.mu.Lock()
	d.seen = append(d.seen, m.Method)
	refuse := d.refusals > 0 && m.Method == "server/discover"
	if refuse {
		d.refusals--
	}
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case refuse:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"not this one","data":{"supported":%s,"requested":"2026-07-28"}}}`, m.ID, d.supports)
	case m.Method == "server/discover":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}}`, m.ID)
	case m.Method == "initialize":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"d","version":"1"}}}`, m.ID)
	default:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete"}}`, m.ID)
	}
}

func (d *doubtful) got(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(d.seen), func(m string) bool { return m != method }))
}

// What a server says it speaks when it refuses a version decides whether it is
// asked again or in the other era.
func TestProbeBelievesARefusal(t *testing.T) {
	const modern, legacy = `"2026-07-28"`, `"2025-11-25"`
	for name, tc := range map[string]struct {
		refusals int
		supports string
		eras     mcp.Eras // 0 means that it cannot be reached
	}{
		"once, though modern":   {1, "[" + modern + "]", mcp.Eras(mcp.Modern)},
		"always, though modern": {1 << 20, "[" + modern + "]", 0},
		"once, though both":     {1, "[" + legacy + "," + modern + "]", mcp.Eras(mcp.Modern)},
		"always, though both":   {1 << 20, "[" + legacy + "," + modern + "]", mcp.Eras(mcp.Legacy)},
		"legacy":                {1, "[" + legacy + "]", mcp.Eras(mcp.Legacy)},
		"no version we know":    {1, `["2031-01-01"]`, mcp.Eras(mcp.Legacy)},
		"no versions":           {1, `{"no":"list"}`, mcp.Eras(mcp.Legacy)},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doubtful{refusals: tc.refusals, supports: tc.supports}
			web := httptest.NewServer(d)
			t.Cleanup(web.Close)
			pool := Open(catalog.New(0), PoolOptions{})
			t.Cleanup(pool.Close)
			u, err := pool.Add(Options{Name: "up", URL: web.URL})
			if err != nil {
				t.Fatal(err)
			}
			hello, err := u.Hello(context.Background(), nil, "")
			if tc.eras == 0 {
				if !fault.Is(err, fault.Unreachable) || !strings.Contains(err.Error(), "not this one") {
					t.Errorf("got %v, %v", hello, err)
				}
			} else if err != nil || u.Eras() != tc.eras {
				t.Errorf("speaks %v, %v", u.Eras().Strings(), err)
			}
			if asked := d.got("initialize"); asked > 0 != tc.eras.Has(mcp.Legacy) {
				t.Errorf("initialize was sent %d times", asked)
			}
		})
	}
}

// Those who come while the eras are being found out share the connection that
// finds them: a second would take its place, and its calls with it.
func TestProbeLeavesOneConnection(t *testing.T) {
	for range 30 {
		d := &doubtful{}
		web := httptest.NewServer(d)
		pool := Open(catalog.New(0), PoolOptions{})
		u, err := pool.Add(Options{Name: "up", URL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for u.Eras() == 0 {
					runtime.Gosched()
				}
				if _, err := u.Hello(context.Background(), nil, ""); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		pool.Close()
		web.Close()
		if n := d.got("server/discover"); n != 1 {
			t.Fatalf("%d connections were made", n)
		}
	}
}
