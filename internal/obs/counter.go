package obs

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// Counter registers a count of what happens now and then, and returns what
// counts it: n more for one combination of labels, which are pairs of name and
// value, always of the same names. Combinations beyond a bound are counted with
// "other" for each value. It panics if name is not that of a metric.
func (m *Metrics) Counter(name, help string) func(n int64, pairs ...string) {
	c, err := m.meter.Int64Counter(name, metric.WithDescription(m.list(name, "counter", help)))
	if err != nil {
		panic(fmt.Sprintf("obs: counter %q: %v", name, err))
	}
	var mu sync.Mutex
	seen := map[string]metric.MeasurementOption{}
	return func(n int64, pairs ...string) {
		key := strings.Join(pairs, "\x00")
		mu.Lock()
		with, ok := seen[key]
		if !ok {
			if len(seen) >= maxCounted {
				folded := append([]string(nil), pairs...)
				for i := 1; i < len(folded); i += 2 {
					folded[i] = other
				}
				with = labels(folded...)
			} else {
				with = labels(pairs...)
				seen[key] = with
			}
		}
		mu.Unlock()
		c.Add(context.Background(), n, with)
	}
}
