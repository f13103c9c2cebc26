package task

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/wire"
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

// A hub that starts leaves the tasks alone that another hub runs, and goes on with
// them when that hub stops.
func TestStartingHubLeavesTasksAlone(t *testing.T) {
	s := storetest.StartServer(t)
	var runs, resent atomic.Int64
	gate := make(chan struct{})
	hub := func(o Options, run Runner) *Registry {
		o.Run = run
		r := open(t, storetest.Open(t, store.Options{URL: s.URL}), o)
		t.Cleanup(r.Close)
		r.Resume()
		return r
	}
	a := hub(Options{}, func(ctx context.Context, run *Run) Outcome {
		if err := run.Starting(ctx); err != nil {
			return Failure(err)
		}
		runs.Add(1)
		select {
		case <-gate:
			return Outcome{Result: result("done")}
		case <-ctx.Done():
			return Failure(context.Cause(ctx))
		}
	})
	create := func(repeat bool) *Task {
		t.Helper()
		made, err := a.Create(t.Context(), Work{Principal: "p", Tool: "x", Repeat: repeat}, []byte("{}"), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	once, again := create(false), create(true)
	await(t, "both are at work", func() bool { return runs.Load() == 2 })
	b := hub(Options{Lease: 4 * time.Second}, func(context.Context, *Run) Outcome { // looks each second
		resent.Add(1)
		return Outcome{Result: result("sent again")}
	})
	atB := func(x *Task) *Task {
		t.Helper()
		there, err := b.Get("p", x.ID())
		if err != nil {
			t.Fatal(err)
		}
		return there
	}
	// The other hub has looked at both of them twice when it has taken up what is free.
	for range 2 {
		free := open(t, storetest.Open(t, store.Options{URL: s.URL}), Options{Run: func(ctx context.Context, run *Run) Outcome {
			<-ctx.Done()
			return Failure(context.Cause(ctx))
		}})
		made, err := free.Create(t.Context(), Work{Principal: "q", Tool: "x"}, []byte("{}"), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		free.Close()
		await(t, "what the hub left that stopped is taken up", func() bool {
			there, err := b.Get("q", made.ID())
			return err == nil && there.State().Status == Completed
		})
	}
	if n := resent.Load(); n != 2 || atB(once).State().Status != Working || atB(again).State().Status != Working {
		t.Fatalf("the starting hub runs them too: %d runs, %+v, %+v", n, atB(once).State(), atB(again).State())
	}
	idle, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if b.Drain(idle); idle.Err() != nil {
		t.Error("a hub that stops waits for the tasks of another")
	}
	close(gate)
	for _, x := range []*Task{once, again} {
		await(t, "it ends once", func() bool { return atB(x).State().Status == Completed })
		if d, err := atB(x).Detail(t.Context()); err != nil || !bytes.Equal(d.Result, result("done")) {
			t.Errorf("its result is %s, %v", d.Result, err)
		}
	}
}

// Another hub takes up the tasks of one that has lost the store for as long as its
// leases last. That hub ends its runs when it hears of it, and writes nothing more.
func TestTakesUpTasksOfALostHub(t *testing.T) {
	s := storetest.StartServer(t)
	p := proxy.New(t, s.URL)
	gate := make(chan struct{})
	var begun atomic.Int64
	why := make(chan error, 2)
	hub := func(url string, run Runner) *Registry {
		r := open(t, storetest.Open(t, store.Options{URL: url}), Options{Run: run, Lease: 2 * time.Second})
		t.Cleanup(r.Close)
		r.Resume()
		return r
	}
	a := hub(p.URL, func(ctx context.Context, run *Run) Outcome {
		if err := run.Starting(ctx); err != nil {
			return Failure(err)
		}
		begun.Add(1)
		<-ctx.Done()
		why <- context.Cause(ctx)
		<-gate // its upstream answers all the same
		return Outcome{Result: result("too late")}
	})
	b := hub(s.URL, func(context.Context, *Run) Outcome { return Outcome{Result: result("again")} })
	create := func(repeat bool) (id string) {
		t.Helper()
		made, err := a.Create(t.Context(), Work{Principal: "p", Tool: "x", Repeat: repeat}, []byte("{}"), false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made.ID()
	}
	once, again := create(false), create(true)
	await(t, "both are at work", func() bool { return begun.Load() == 2 })
	p.Set(proxy.Lose, proxy.Lose)
	at := func(r *Registry, id string) Phase {
		x, err := r.Get("p", id)
		if err != nil {
			t.Fatal(err)
		}
		return x.State().Status
	}
	await(t, "the other hub has taken them up", func() bool { return at(b, once) == Failed && at(b, again) == Completed })
	p.Restore()
	for range 2 {
		if err := <-why; !errors.Is(err, errTaken) && fault.Of(err).Kind != fault.Timeout {
			t.Errorf("a run ended by %v", err)
		}
	}
	close(gate)
	await(t, "the first knows how they ended", func() bool { return at(a, once) == Failed && at(a, again) == Completed })
	for _, r := range []*Registry{a, b} {
		x, err := r.Get("p", again)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := x.Detail(t.Context()); err != nil || !bytes.Equal(d.Result, result("again")) {
			t.Errorf("its result is %s, %v", d.Result, err)
		}
	}
}

// Answers that come by a hub which has not heard the question yet reach the run.
func TestAnswersByAHubThatHasNotHeardTheQuestion(t *testing.T) {
	s := storetest.StartServer(t)
	hub := func() *Registry {
		r := open(t, storetest.Open(t, store.Options{URL: s.URL}), Options{Run: func(ctx context.Context, run *Run) Outcome {
			if err := run.Ask(ctx, []byte(`{"inputRequests":{"name":{}}}`)); err != nil {
				return Failure(err)
			}
			return Outcome{Result: result("heard")}
		}})
		t.Cleanup(r.Close)
		return r
	}
	deaf, owner := hub(), hub()
	owner.Resume()
	ready := make(chan struct{})
	made, err := owner.Create(t.Context(), Work{Principal: "p", Tool: "x"}, []byte("{}"), false, func(ctx context.Context, run *Run) Outcome {
		<-ready
		return owner.opts.Run(ctx, run)
	})
	if err != nil {
		t.Fatal(err)
	}
	there, err := deaf.Get("p", made.ID()) // before it asks
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	await(t, "it asks", func() bool { return made.State().Status == InputRequired })
	if err := there.Update(t.Context(), []wire.Field{{Name: []byte("name"), Value: []byte(`{}`)}}); err != nil {
		t.Fatal(err)
	}
	await(t, "it ends", func() bool { return made.State().Status == Completed })
}
