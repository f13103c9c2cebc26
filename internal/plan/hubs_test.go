package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// TestTwoHubs has two hubs on one store. One drives a run at a time; what
// people want is heard by it whichever hub they say it to, and costs no result.
func TestTwoHubs(t *testing.T) {
	s := newStage(t)
	s.runs.Resume()
	other := s.another()
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","args":{"x":"@a"}},{"id":"c","tool":"gate","args":{"gate":"h"},"after":["b"]}]}`)
	s.busy(1)
	far := s.found(other, run.ID()) // begun after the other hub was opened
	if err := far.Break(t.Context(), []plan.Breakpoint{{Step: "b"}}); err != nil {
		t.Fatal(err)
	}
	s.gate("g") <- 1
	if v := s.wait(far); states(v) != "paused: a done, b pending, c pending" {
		t.Fatal(states(v), v.Reason)
	}
	if err := far.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	s.busy(1) // c
	if err := far.Stop(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*plan.Run{run, far} {
		if v := s.wait(r); states(v) != "stopped: a done, b done, c failed" || v.Reason != "enough" {
			t.Error(states(v), v.Reason)
		}
	}
	if got := s.called(); got != "gate {\"gate\":\"g\"}\necho {\"x\":{\"gate\":\"g\"}}\ngate {\"gate\":\"h\"}" {
		t.Errorf("called\n%s", got)
	}
}

// A principal's runs are forgotten also where another hub has begun them and this
// one has not heard of them.
func TestForgetsWhatAnotherHubHasJustBegun(t *testing.T) {
	s := newStageOn(t, storetest.Open(t, store.Options{URL: storetest.StartServer(t).URL}))
	deaf := s.runs // it is not resumed, and follows nobody
	s.open()
	s.runs.Resume()
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}}]}`)
	s.busy(1)
	if err := deaf.Forget(t.Context(), s.who.Name); err != nil {
		t.Fatal(err)
	}
	s.until("the hub that began it has forgotten it", func() bool {
		return len(s.runs.All(func(plan.Summary) bool { return true })) == 0
	})
	if _, err := deaf.Find(s.who.Name, "test", run.ID()); err == nil {
		t.Error("it is still there")
	}
}

// TestTakeOver ends one of two hubs: the other goes on with its runs.
func TestTakeOver(t *testing.T) {
	s := newStage(t)
	s.runs.Resume()
	other := s.another()
	run := s.start(`{"steps":[{"id":"a","tool":"look","args":{"gate":"g"}},{"id":"b","tool":"echo","args":{"x":"@a"}}]}`)
	s.busy(1)
	far := s.found(other, run.ID())
	quiet := time.Now().Add(3 * time.Second)
	s.until("the lease keeps the other from calling", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.calls) > 1 {
			t.Fatal("both hubs drive the run")
		}
		return time.Now().After(quiet)
	})
	s.runs.Close()
	s.gate("g") <- 1
	if v := s.wait(far); states(v) != "done: a done, b done" {
		t.Error(states(v))
	}
	if len(s.keys) != 3 || s.keys[0] != s.keys[1] {
		t.Errorf("the keys of the calls are %v", s.keys)
	}
}

// TestManyHands has people at two hubs tell one run what to do, all at once.
// Each order is taken or refused, and the run ends as one of them said.
func TestManyHands(t *testing.T) {
	s := newStage(t)
	s.runs.Resume()
	other := s.another()
	run := s.start(`{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"echo","after":["a"]},{"id":"c","tool":"echo","after":["b"]}]}`, func(st *plan.Start) { st.Paused = true })
	far := s.found(other, run.ID())
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			r := []*plan.Run{run, far}[i%2]
			for range 5 {
				_ = r.Pause(t.Context(), "wait") // refused where it is paused or over
				_ = r.Continue(t.Context(), plan.ToBreak, "")
			}
		})
	}
	wg.Wait()
	for _, r := range []*plan.Run{run, far} {
		if v := s.wait(r); v.Status == plan.Paused {
			if err := r.Continue(t.Context(), plan.ToBreak, ""); err != nil && !strings.Contains(err.Error(), "over") {
				t.Fatal(err)
			}
		}
	}
	if v := s.wait(far); states(v) != "done: a done, b done, c done" {
		t.Error(states(v))
	}
	if got := strings.Count(s.called(), "echo"); got != 3 {
		t.Errorf("%d calls", got)
	}
}

// TestTakenWithoutAConflict has another hub take a run over while this one waits
// for a call: this one hears of it before it writes again, so that nothing is in
// its way. It begins no call before it has taken the run back.
func TestTakenWithoutAConflict(t *testing.T) {
	s := newStage(t)
	s.runs.Close()
	s.open() // with leases that are brief, a part of which passes before it takes the run back
	s.runs.Resume()
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`)
	s.busy(1)
	log, err := s.store.Log(t.Context(), store.LogOptions{Name: "plan", Subjects: []string{"evt.plan.>"}})
	if err != nil {
		t.Fatal(err)
	}
	last, err := log.Last(t.Context(), "evt.plan.>")
	if err != nil {
		t.Fatal(err)
	}
	var e plan.Event
	if err := json.Unmarshal(last.Data, &e); err != nil {
		t.Fatal(err)
	}
	e = plan.Event{N: e.N + 1, Time: time.Now().UTC(), Type: plan.RunTaken, By: "another"}
	entry, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), last.Subject, entry, last.Seq); err != nil {
		t.Fatal(err)
	}
	holders := func() (all []string) {
		if err := run.Journal(t.Context(), func(e plan.Event) error {
			switch {
			case e.Type == plan.RunTaken && e.By == "another":
				all = append(all, "another")
			case e.Type == plan.RunTaken:
				all = append(all, "this one")
			case e.Type == plan.CallStarted:
				all = append(all, e.Step)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	s.until("this hub hears of it", func() bool { return slices.Contains(holders(), "another") })
	s.gate("g") <- 1
	if v := s.wait(run); states(v) != "done: a done, b done" {
		t.Error(states(v))
	}
	if got := strings.Join(holders(), ", "); !strings.HasSuffix(got, "a, another, this one, b") {
		t.Errorf("the run went on as %s", got)
	}
}
