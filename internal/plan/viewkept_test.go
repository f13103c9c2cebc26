package plan_test

import (
	"testing"

	"github.com/stoahub/stoa/internal/plan"
)

// What was seen of a run stays as it was while the run goes on.
func TestViewIsKept(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"lose","idempotent":true,"retries":2}]}`)
	var seen plan.View
	s.until("it is to be tried again", func() bool {
		var err error
		if seen, err = run.View(t.Context(), plan.Look{}); err != nil {
			t.Fatal(err)
		}
		return seen.Steps[0].Retry != nil
	})
	at := *seen.Steps[0].Retry
	s.wait(run)
	if at.IsZero() || !seen.Steps[0].Retry.Equal(at) {
		t.Errorf("the next try was to be at %v, and is at %v now", at, seen.Steps[0].Retry)
	}
}
