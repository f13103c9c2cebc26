package elapsed_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/elapsed"
	"github.com/stoahub/stoa/internal/hubtest/sleep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Time passes by the clock that says more: one stands still in sleep, and the
// other is set back.
func TestBetween(t *testing.T) {
	began := time.Now()
	end := began.Add(time.Minute)
	for what, c := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"awake":                 {began.Add(2 * time.Second), 2 * time.Second},
		"after a sleep":         {sleep.For(began.Add(2*time.Second), time.Hour), time.Hour + 2*time.Second},
		"the wall was set back": {sleep.For(began.Add(2*time.Second), -time.Hour), 2 * time.Second},
		"the wall alone":        {began.Add(3 * time.Second).Round(0), 3 * time.Second},
	} {
		if got := elapsed.Between(began, c.now); got != c.want {
			t.Errorf("%s: %v passed, want %v", what, got, c.want)
		}
		if got := elapsed.Past(end, c.now); got != (c.want >= time.Minute) {
			t.Errorf("%s: it is over: %v", what, got)
		}
	}
	if !elapsed.Past(end, end) {
		t.Error("it is not over at its end")
	}
}
