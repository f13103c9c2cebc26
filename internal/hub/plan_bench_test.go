package hub_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/plan"
)

// BenchmarkPlanInParallel runs 16 independent steps of 100 ms at once, over the
// whole way from a client by the journal on disk to an upstream, and says how
// many times as long it takes as a plan of one such step.
func BenchmarkPlanInParallel(b *testing.B) {
	h, _ := keeping(b, peer.Spec{Tools: []peer.Tool{{Name: "nap", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 100 * time.Millisecond}}}})
	c := h.Client(b, hubtest.ClientOptions{Header: in("bench")})
	run := func(n int) time.Duration {
		var steps []string
		for i := range n {
			steps = append(steps, fmt.Sprintf(`{"id":"step_%d","tool":"up__nap"}`, i+1))
		}
		began := time.Now()
		v := planRun(b, good(b, c.Tool("plan_execute", `{"maxParallel":16,"plan":{"steps":[`+strings.Join(steps, ",")+`]}}`)))
		if v.Status != plan.Finished || v.Done != n {
			b.Fatalf("%+v", v)
		}
		return time.Since(began)
	}
	run(1) // the upstream is connected
	var one, all time.Duration
	for b.Loop() {
		one += run(1)
		all += run(16)
	}
	b.ReportMetric(float64(one.Milliseconds())/float64(b.N), "ms/one-step")
	b.ReportMetric(float64(all.Milliseconds())/float64(b.N), "ms/16-steps")
	b.ReportMetric(float64(all)/float64(one), "16-steps/one-step")
}
