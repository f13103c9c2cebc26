package hub_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
)

// Of many who change the same version of a value one succeeds, and the others
// are told.
func TestContextAddOver(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t, hubtest.Modules())
	for _, era := range []hubtest.Era{hubtest.Legacy, hubtest.Modern} {
		c := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/" + string(era) + "/mcp"})
		good(t, c.Tool("context_add", `{"name":"n","data":1,"over":0}`))
		if code := bad(t, c.Tool("context_add", `{"name":"n","data":9,"over":0}`)); code != "INVALID_ARGUMENTS" {
			t.Errorf("%s: a name that is taken: %s", era, code)
		}
		if code := bad(t, c.Tool("context_add", `{"name":"nothing","data":9,"over":1}`)); code != "INVALID_ARGUMENTS" {
			t.Errorf("%s: a value that is not there: %s", era, code)
		}
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			other := h.Client(t, hubtest.ClientOptions{Era: era, Face: "/s/" + string(era) + "/mcp"})
			wg.Go(func() {
				if envelope(t, other.Tool("context_add", fmt.Sprintf(`{"name":"n","data":%d,"over":1}`, i+2))).Success {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%s: %d of 8 have taken the place of version 1", era, won.Load())
		}
		if got := hubtest.Decode[struct{ Versions []any }](good(t, c.Tool("context_history", `{"name":"n"}`))); len(got.Versions) != 2 {
			t.Errorf("%s: %d versions", era, len(got.Versions))
		}
	}
}
