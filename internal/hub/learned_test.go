package hub_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// What is learned of a tool by calling it is known to all hubs on a store, counted
// once, and outlives each of them.
func TestHubsShareFigures(t *testing.T) {
	hubtest.Parallel(t)
	p := newPair(t, storetest.StartServer(t).URL)
	call := func(i, n int) {
		for range n {
			if a := p.at(t, i).do(http.MethodPost, "/api/tools/up__echo", `{"text":"x"}`); a.Status != http.StatusOK {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
	}
	knows := func(i, want int) {
		t.Helper()
		await.NoError(t, "the hub knows of all calls", func() error {
			got := hubtest.Decode[struct{ Calls int }](p.at(t, i).ok(http.MethodGet, "/api/v1/tools/up__echo", ""))
			if got.Calls != want {
				return fmt.Errorf("hub %d knows of %d calls, not of %d", i, got.Calls, want)
			}
			return nil
		})
	}
	call(0, 3)
	knows(0, 3)
	p.hubs[0].hub.Stop()
	knows(1, 3)
	call(1, 2)
	knows(1, 5)
	p.hubs[1].hub.Stop()
	p.open(0)
	knows(0, 5)
	p.open(1)
	knows(1, 5)
	call(0, 1)
	knows(0, 6)
	knows(1, 6)
}
