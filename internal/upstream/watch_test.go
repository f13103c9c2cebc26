package upstream

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
)

// watched is the time of a request that may take 10 s without progress and a
// minute in all, which begins now.
func watched(t *testing.T) (*watch, context.Context) {
	t.Helper()
	w := &watch{Stream: mcp.Discard, timeout: 10 * time.Second, most: time.Minute, end: time.Now().Add(time.Minute)}
	ctx, cancel := context.WithCancelCause(t.Context())
	w.cancel = cancel
	w.timer = time.AfterFunc(w.timeout, w.expire)
	t.Cleanup(func() {
		w.timer.Stop()
		cancel(nil)
	})
	return w, ctx
}

// endsAfter waits for the end of a request and says whether it was when it should
// have been, and why.
func endsAfter(t *testing.T, ctx context.Context, began time.Time, want time.Duration, why string) {
	t.Helper()
	<-ctx.Done()
	if took := time.Since(began); took != want {
		t.Errorf("it ended after %v and not after %v", took, want)
	}
	if err := context.Cause(ctx); !fault.Is(err, fault.Timeout) || !strings.Contains(err.Error(), why) {
		t.Errorf("it ended because of %v", err)
	}
}

// A request ends when its time is over, which begins anew with progress, and with
// nothing else; the maximum stands whatever there is of it.
func TestProgressGivesARequestMoreTime(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		times  int // one each 9 s
		want   time.Duration
		why    string
	}{
		"none":     {"", 0, 10 * time.Second, "within 10s"},
		"some":     {"notifications/progress", 3, 37 * time.Second, "within 10s"},
		"endless":  {"notifications/progress", 6, time.Minute, "within 1m0s, however much progress"},
		"messages": {"notifications/message", 1, 10 * time.Second, "within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w, ctx := watched(t)
				for range tc.times {
					<-time.After(9 * time.Second)
					w.Notify(tc.method, nil)
				}
				endsAfter(t, ctx, began, tc.want, tc.why)
			})
		})
	}
}

// While somebody is asked a request takes no time, however long that is.
func TestAskingTakesNoTimeOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w, ctx := watched(t)
		one, two := w.pause(), w.pause()
		<-time.After(time.Hour)
		one()
		<-time.After(time.Hour)
		w.Notify("notifications/progress", nil) // of somebody else's work
		two()
		endsAfter(t, ctx, began, 2*time.Hour+10*time.Second, "within 10s")
	})
}
