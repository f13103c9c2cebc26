package call

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
)

// A call that may become a task runs on a goroutine of its own: where it panics
// the caller is told, and the log has the stack.
func TestPanicOfAPatientCall(t *testing.T) {
	var log strings.Builder
	k := &Tasks{door: door(t), opts: TaskOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	req := requestOf(modernCaller(), `{"name":"t","arguments":{}}`)
	req.Client = nil // nobody asks
	resp, err := k.guarded(context.Background(), &Call{Req: req, Upstream: idle(t, "u")})
	if !fault.Is(err, fault.Internal) || resp.Result != nil {
		t.Errorf("%v %+v", err, resp)
	}
	if !strings.Contains(log.String(), "nil pointer") || !strings.Contains(log.String(), "door.go") {
		t.Errorf("the log says %s", log.String())
	}
}
