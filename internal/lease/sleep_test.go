package lease

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/hubtest/sleep"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// A hub whose machine wakes up without its network does not go on for as long as
// the lease had left when it fell asleep.
func TestMachineSleeps(t *testing.T) {
	s := storetest.StartServer(t)
	p := proxy.New(t, s.URL)
	var slept atomic.Int64
	b, err := Open(t.Context(), storetest.Open(t, store.Options{URL: p.URL}), Options{Bucket: "worklease", Hub: "a", Life: time.Hour,
		now: func() time.Time { return sleep.For(time.Now(), time.Duration(slept.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := b.Try(t.Context(), "k")
	if err != nil || l == nil {
		t.Fatalf("it is not granted: %v", err)
	}
	defer l.Release()
	p.Set(proxy.Lose, proxy.Lose)
	slept.Store(int64(2 * time.Hour))
	await.Until(t, "it is known to be lost", func() bool {
		select {
		case <-l.Lost():
			return true
		default:
			return false
		}
	})
}
