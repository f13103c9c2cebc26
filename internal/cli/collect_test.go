package cli

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Little is collected seldom, much as it should be.
func TestHeadroom(t *testing.T) {
	for live, want := range map[uint64]int{0: lavish, 1 << 20: lavish, 16 << 20: 200, 24 << 20: 100, 28 << 20: thrifty, 100 << 20: thrifty, 4 << 30: thrifty} {
		if got := headroom(live); got != want {
			t.Errorf("of %d MiB: %d %%, not %d", live>>20, got, want)
		}
	}
}

// When the next collection is due follows what is held.
func TestTuned(t *testing.T) {
	t.Setenv("GOGC", "")
	defer tuned()()
	due := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	until := func(what string, ok func(uint64) bool) {
		t.Helper()
		await.Until(t, what, func() bool {
			runtime.GC()
			return ok(due())
		})
	}
	until("the little that is held is collected seldom", func(p uint64) bool { return p > thrifty })
	much := make([]byte, 2*roomy)
	until("much is collected as it should be", func(p uint64) bool { return p == thrifty })
	runtime.KeepAlive(much)
}
