package obs

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Who taps the log gets what went wrong with all its facts, even where nothing
// is logged, and nothing that is hidden.
func TestTap(t *testing.T) {
	l, err := NewLogs(LogOptions{Level: "error"})
	if err != nil {
		t.Fatal(err)
	}
	l.Hide([]string{"hunter2hunter2"})
	var got []Trouble
	l.Tap(func(tr Trouble) { got = append(got, tr) })
	log := Component(l.Logger(), "upstream")
	log.Info("all is well")
	log.Warn("it broke", KeyUpstream, "files", KeyErr, errors.New("said hunter2hunter2"), "n", 3)
	log.Error("it stumbled", KeyErr, fmt.Errorf("panic: x\ngoroutine 7 [running]:\nmain.f()"))
	log.Error("it stumbled", KeyErr, "y", "stack", "goroutine 8")
	if len(got) != 3 {
		t.Fatalf("%d came: %+v", len(got), got)
	}
	want := map[string]string{KeyComponent: "upstream", KeyUpstream: "files", KeyErr: "said •••", "n": "3"}
	if d := cmp.Diff(want, got[0].Facts); d != "" || got[0].Level != slog.LevelWarn || got[0].Msg != "it broke" || got[0].Time.IsZero() {
		t.Errorf("%s%+v", d, got[0])
	}
	if got[1].Facts[KeyErr] != "panic: x" || got[1].Stack != "goroutine 7 [running]:\nmain.f()" {
		t.Errorf("a panic in an error: %+v", got[1])
	}
	if _, there := got[2].Facts["stack"]; there || got[2].Stack != "goroutine 8" {
		t.Errorf("a panic: %+v", got[2])
	}
	l.Tap(nil)
	log.Error("nobody listens")
	if len(got) != 3 {
		t.Error("it was told after the tap was taken away")
	}
}
