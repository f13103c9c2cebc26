package call

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/task"
	"github.com/stoahub/stoa/internal/upstream"
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

// Who listens to a task and makes the hub panic costs nobody the news of other
// tasks.
func TestPanicOfAListener(t *testing.T) {
	pool := upstream.Open(catalog.New(0), upstream.PoolOptions{})
	t.Cleanup(pool.Close)
	var log strings.Builder
	k, err := OpenTasks(t.Context(), storetest.Open(t, store.Options{Dir: t.TempDir()}), TaskOptions{Door: door(t), Pool: pool, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var heard atomic.Int32
	reached, told := make(chan struct{}, 1), make(chan string, 10)
	l := &mcp.Listener{Client: modernCaller(), Deliver: func(_ string, params []byte) {
		if heard.Add(1) == 1 {
			reached <- struct{}{}
			panic("not that task")
		}
		told <- string(params)
	}}
	for i := range 2 {
		end := make(chan struct{})
		one, err := k.kept.Create(t.Context(), task.Work{Principal: auth.LocalName, Upstream: "u", Tool: "t"}, []byte("{}"), true, func(context.Context, *task.Run) task.Outcome {
			<-end
			return task.Outcome{Result: []byte("{}")}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Follow(t.Context(), l, "", one.ID()); err != nil {
			t.Fatal(err)
		}
		close(end)
		if i == 0 {
			<-reached
		}
	}
	if params := <-told; !strings.Contains(params, "completed") {
		t.Errorf("told %s", params)
	}
	k.Close()
	if !strings.Contains(log.String(), "not that task") || !strings.Contains(log.String(), "panic_test.go") {
		t.Errorf("the log says %s", log.String())
	}
}
