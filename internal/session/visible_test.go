package session

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// BenchmarkVisible measures how long it takes from the moment at which a value is
// acknowledged at one hub until a plain read at another has it.
func BenchmarkVisible(b *testing.B) {
	url := storetest.StartServer(b).URL
	here := registry(b, storetest.Open(b, store.Options{URL: url}), Options{})
	there := registry(b, storetest.Open(b, store.Options{URL: url}), Options{})
	s := bind(b, here, "p", "s")
	seen := make(chan time.Time, 1)
	there.Watch(func(c Change) {
		if _, err := c.Session.Value(c.Value); c.Value != "" && err == nil {
			seen <- time.Now()
		}
	})
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		_, _, err := s.Put(ctx, New{Name: "v", Data: fmt.Appendf(nil, "%d", i)})
		if err != nil {
			b.Fatal(err)
		}
		acknowledged := time.Now()
		select {
		case at := <-seen:
			took = append(took, max(0, at.Sub(acknowledged)))
		case <-ctx.Done():
			b.Fatal("the other hub does not hear of it")
		}
	}
	slices.Sort(took)
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		b.ReportMetric(float64(took[int(part*float64(len(took)-1))].Microseconds()), name+"-µs")
	}
}
