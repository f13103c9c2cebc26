package task

import (
	"bytes"
	"context"
	"testing"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// A task of one hub is known to the other hub on the same store: at once where
// somebody asks for it, its result and its end soon. Cancelled there, it ends
// here.
func TestHubsShareTasks(t *testing.T) {
	s := storetest.StartServer(t)
	gate := make(chan struct{})
	run := func(ctx context.Context, run *Run) Outcome {
		select {
		case <-gate:
			return Outcome{Result: result("done")}
		case <-ctx.Done():
			return Failure(context.Cause(ctx))
		}
	}
	hub := func() *Registry {
		r := open(t, storetest.Open(t, store.Options{URL: s.URL}), Options{Run: run})
		t.Cleanup(r.Close)
		r.Resume()
		return r
	}
	a, b := hub(), hub()
	create := func() (here, there *Task) {
		t.Helper()
		here, err := a.Create(t.Context(), Work{Principal: "p", Tool: "x"}, bytes.Repeat([]byte("x"), inEntry+1), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if there, err = b.Get("p", here.ID()); err != nil {
			t.Fatalf("the other hub does not know it: %v", err)
		}
		if _, err := b.Get("q", here.ID()); err == nil {
			t.Error("the other hub shows it to another principal")
		}
		return here, there
	}
	here, there := create()
	if err := there.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	await(t, "the run ends", func() bool { return here.State().Status == Cancelled && here.ctx.Err() != nil })
	here, there = create()
	close(gate)
	await(t, "its end is known to both", func() bool { return there.State().Status == Completed })
	if d, err := there.Detail(t.Context()); err != nil || !bytes.Equal(d.Result, result("done")) {
		t.Errorf("the other hub has %s, %v", d.Result, err)
	}
	if err := b.Forget(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	await(t, "it is forgotten by both", func() bool {
		_, err := a.Get("p", here.ID())
		return err != nil
	})
	if left := append(a.List(func(*State) bool { return true }), b.List(func(*State) bool { return true })...); len(left) > 0 {
		t.Errorf("%d tasks are left", len(left))
	}
}

// A principal's tasks are forgotten also where another hub has made them and this
// one has not heard of them.
func TestForgetsWhatAnotherHubHasJustMade(t *testing.T) {
	s := storetest.StartServer(t)
	run := func(ctx context.Context, _ *Run) Outcome {
		<-ctx.Done()
		return Failure(context.Cause(ctx))
	}
	hub := func() *Registry {
		r := open(t, storetest.Open(t, store.Options{URL: s.URL}), Options{Run: run})
		t.Cleanup(r.Close)
		return r
	}
	deaf, other := hub(), hub() // neither follows the other yet
	made, err := other.Create(t.Context(), Work{Principal: "bob", Tool: "x"}, []byte("{}"), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := deaf.Forget(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	other.Resume()
	await(t, "it is forgotten by the hub that made it", func() bool {
		_, err := other.Get("bob", made.ID())
		return err != nil && made.ctx.Err() != nil
	})
	if _, err := deaf.Get("bob", made.ID()); err == nil {
		t.Error("it is still there")
	}
}
