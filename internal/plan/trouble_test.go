package plan_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// busy waits until so many calls are under way.
func (s *stage) busy(n int) {
	s.t.Helper()
	s.until(fmt.Sprint(n, " calls are under way"), func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.now == n })
}

// found is the run of that id in a hub.
func (s *stage) found(runs *plan.Runs, id string) (run *plan.Run) {
	s.t.Helper()
	s.until("the hub knows of "+id, func() bool {
		var err error
		run, err = runs.Find(s.who.Name, "test", id)
		return err == nil
	})
	return run
}

// another opens one more hub over the same store.
func (s *stage) another() *plan.Runs {
	s.t.Helper()
	other, err := plan.Open(s.t.Context(), s.store, s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(other.Close)
	other.Resume()
	return other
}

// TestFlaws is a table of plans and data that cannot be used when their step
// comes: the run says so and ends, and does not wait for its time-out.
func TestFlaws(t *testing.T) {
	for _, c := range []struct{ name, plan, want string }{
		{"what a person would be asked about is not there", `{"inputs":[{"name":"i","default":{}}],"steps":[{"id":"a","tool":"echo","approval":true,"args":{"x":"@i.k"}}]}`, "k"},
		{"the value of a fallback is not there", `{"inputs":[{"name":"i","default":{}}],"steps":[{"id":"a","tool":"lose","idempotent":true,"retries":0,"onError":"fallback","fallback":{"value":"@i.k"}}]}`, "k"},
		{"the arguments of a fallback are not there", `{"inputs":[{"name":"i","default":{}}],"steps":[{"id":"a","tool":"lose","idempotent":true,"retries":0,"onError":"fallback","fallback":{"tool":"echo","args":{"x":"@i.k"}}}]}`, "k"},
		{"what is undone refers to nothing", `{"rollback":true,"steps":[{"id":"a","tool":"echo","compensate":{"tool":"undo","args":{"x":"@a.k"}}},{"id":"b","tool":"lose","idempotent":true,"retries":0,"after":["a"]}]}`, "connection ended"},
		{"a tool says no at length", `{"steps":[{"id":"a","tool":"rant"}]}`, "no! no!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			defer s.desk.Attend(s.who.Name, "test")()
			v := s.wait(s.start(c.plan))
			if v.Status != plan.Failed || v.Failure == nil || !strings.Contains(v.Failure.Message, c.want) {
				t.Errorf("%s: %+v", states(v), v.Failure)
			}
		})
	}
}

// TestSessionEnds ends the Session of a run that is under way.
func TestSessionEnds(t *testing.T) {
	for _, kind := range []string{"kept", "temporary"} {
		t.Run(kind, func(t *testing.T) {
			st := storetest.Open(t, store.Options{Dir: t.TempDir()})
			s := newStageOn(t, st)
			if kind == "temporary" {
				s.store = nil
				s.open()
			}
			run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`)
			s.busy(1)
			waited := make(chan error, 1)
			go func() {
				_, err := run.Wait(t.Context(), true, nil)
				waited <- err
			}()
			if err := s.runs.EndSession(t.Context(), s.who.Name, "test"); err != nil {
				t.Error(err)
			}
			if err := <-waited; err == nil || !strings.Contains(err.Error(), "its session has ended") {
				t.Errorf("who waits for the run is told %v", err)
			}
			s.busy(0)
			if err := run.Continue(t.Context(), plan.ToBreak, ""); err == nil {
				t.Error("what is forgotten goes on")
			}
			if _, err := s.runs.Find(s.who.Name, "test", run.ID()); err == nil {
				t.Error("the run is there still")
			}
			if got := s.called(); got != `gate {"gate":"g"}` {
				t.Errorf("called %s", got)
			}
			s.runs.Close()
			if kind == "kept" {
				s.open()
				if all := s.runs.Of(s.who.Name, ""); len(all) != 0 {
					t.Errorf("%d runs come back", len(all))
				}
			}
		})
	}
}

// TestTemporary runs where nothing is kept.
func TestTemporary(t *testing.T) {
	s := newStage(t)
	s.runs.Close()
	s.store = nil
	s.open()
	s.runs.Resume()
	big := `"` + strings.Repeat("x", 700<<10) + `"`
	v := s.wait(s.start(chain, given("x", big)))
	if v.Status != plan.Finished || string(v.Outputs["r"]) != big {
		t.Error(states(v))
	}
}

// TestOneKeyOneRun begins runs with one key at the same time.
func TestOneKeyOneRun(t *testing.T) {
	s := newStage(t)
	p, _ := plan.Decode([]byte(`{"steps":[{"id":"a","tool":"echo"}]}`))
	runs := make([]*plan.Run, 20)
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			// A request that is bound to no Session gets another each time.
			run, err := s.runs.Start(t.Context(), plan.Start{By: s.by, Session: fmt.Sprint("s", i), Plan: p, Options: plan.DefaultOptions(), Key: "k"})
			if err != nil {
				t.Error(err)
			}
			runs[i] = run
		})
	}
	wg.Wait()
	for _, run := range runs {
		if run != runs[0] {
			t.Fatal("one key made two runs")
		}
	}
	s.wait(runs[0])
	if got := s.called(); got != "echo {}" {
		t.Errorf("called %s", got)
	}
	s.runs.Close()
	s.open()
	again, err := s.runs.Start(t.Context(), plan.Start{By: s.by, Session: "other", Plan: p, Options: plan.DefaultOptions(), Key: "k"})
	if err != nil || again.ID() != runs[0].ID() {
		t.Errorf("after a restart one key makes two runs (%v)", err)
	}
}

// TestOwnerGone goes on with a run whose owner's token is gone.
func TestOwnerGone(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`)
	s.busy(1)
	s.left.Store(true)
	s.gate("g") <- 1
	v := s.wait(run)
	if states(v) != "failed: a done, b failed" || v.Failure == nil || v.Failure.Kind != fault.Denied.String() || !strings.Contains(v.Failure.Message, "not valid any more") {
		t.Errorf("%s: %+v", states(v), v.Failure)
	}
	if got := s.called(); got != `gate {"gate":"g"}` {
		t.Errorf("called %s", got)
	}
}

// A run waits while nobody can say whether its owner's token is valid: that is no
// failure of its steps.
func TestOwnerNotKnownForAMoment(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`)
	s.busy(1)
	s.unread.Store(true)
	s.gate("g") <- 1
	s.until("the owner is looked up in vain", func() bool { return s.looked.Load() > 0 })
	s.unread.Store(false)
	if v := s.wait(run); states(v) != "done: a done, b done" {
		t.Errorf("%s: %+v", states(v), v.Failure)
	}
	if got := s.called(); got != "gate {\"gate\":\"g\"}\necho {}" {
		t.Errorf("called %s", got)
	}
}

// TestToldAtTheEnd has a tool answer when the hub is closed: what it said is
// known to the next one.
func TestToldAtTheEnd(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"late","args":{"gate":"late"}},{"id":"b","tool":"echo","args":{"x":"@a.gate"}}]}`)
	s.busy(1)
	s.runs.Close()
	s.open()
	s.runs.Resume()
	if v := s.wait(s.found(s.runs, run.ID())); states(v) != "done: a done, b done" {
		t.Error(states(v), v.Reason)
	}
	if got := s.called(); got != "late {\"gate\":\"late\"}\necho {\"x\":\"late\"}" {
		t.Errorf("called %s", got)
	}
}

// TestStopCutOff ends the hub while a run stops: what was under way is not
// made again, and is not said to be.
func TestStopCutOff(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"look","args":{"gate":"g"}},{"id":"b","tool":"echo"}]}`)
	s.busy(1)
	s.until("b is done", func() bool { return run.Summary().Done == 1 })
	s.runs.Close()
	s.called()
	s.open() // it does not drive
	again := s.found(s.runs, run.ID())
	if err := again.Stop(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	v := s.wait(again)
	if v.Status != plan.Stopped || v.Steps[0].State != "unknown" {
		t.Error(states(v))
	}
	if got := s.called(); got != "" {
		t.Errorf("called %s", got)
	}
}

// TestAskedAgain stops the hub while a person is asked. It does not wait for
// them, and the next hub asks again.
func TestAskedAgain(t *testing.T) {
	s := newStage(t)
	leave := s.desk.Attend(s.who.Name, "test")
	run := s.start(`{"steps":[{"id":"a","tool":"echo","approval":true}]}`)
	s.until("somebody is asked", func() bool { return run.Summary().Status == plan.Waiting })
	s.runs.Quiet()
	s.desk.Close()
	leave()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s.runs.Drain(ctx); ctx.Err() != nil {
		t.Fatalf("the hub waits for the person, %v", time.Since(began))
	}
	if _, err := run.Wait(ctx, false, nil); !fault.Is(err, fault.Unreachable) {
		t.Errorf("who waits for the run is told %v", err)
	}
	s.runs.Close()
	var err error
	if s.desk, err = policy.OpenDesk(t.Context(), s.store, policy.DeskOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.desk.Close)
	defer s.desk.Attend(s.who.Name, "test")()
	s.open()
	s.runs.Resume()
	s.until("somebody is asked again", func() bool { return len(s.desk.Pending(s.who.Name)) == 1 })
	if err := s.desk.Decide(s.who, s.desk.Pending(s.who.Name)[0].ID, policy.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(s.found(s.runs, run.ID())); v.Status != plan.Finished {
		t.Error(states(v))
	}
	if got := s.called(); got != "echo {}" {
		t.Errorf("called %s", got)
	}
}

// TestStoreAway takes the store away while a call is under way. What came of
// it is recorded when the store is back; nothing is called twice.
func TestStoreAway(t *testing.T) {
	server := storetest.StartServer(t)
	s := newStageOn(t, storetest.Open(t, store.Options{URL: server.URL}))
	s.runs.Resume()
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"},"outputs":["out"]},{"id":"b","tool":"echo","args":{"x":"@a"}}]}`)
	s.busy(1)
	server.Kill()
	s.gate("g") <- 1
	s.busy(0)
	v, err := run.View(t.Context(), plan.Look{})
	if err != nil || v.Steps[0].State != "running" {
		t.Errorf("what is not recorded is told: %s (%v)", states(v), err)
	}
	server.Restart(t)
	if v := s.wait(run); states(v) != "done: a done, b done" {
		t.Errorf("%s (%s)", states(v), v.Reason)
	}
	if got := s.called(); got != "gate {\"gate\":\"g\"}\necho {\"x\":{\"gate\":\"g\"}}" {
		t.Errorf("called %s", got)
	}
}

// TestForkIsWhole forks a run with large results. The fork has all of them from
// its first entry on.
func TestForkIsWhole(t *testing.T) {
	s := newStage(t)
	big := `"` + strings.Repeat("x", 300<<10) + `"`
	var steps []string
	for i := range 8 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"echo","args":{"v":"@x","n":%d}}`, i, i))
	}
	run := s.start(`{"inputs":[{"name":"x"}],"steps":[`+strings.Join(steps, ",")+`,{"id":"last","tool":"echo","args":{"a":"@s0.n","b":"@s7.n"}}]}`, given("x", big))
	s.wait(run)
	s.called()
	fork, err := s.runs.Fork(t.Context(), run, plan.Change{By: s.by, From: "last", Reason: "again"})
	if err != nil {
		t.Fatal(err)
	}
	s.runs.Close()
	s.open()
	fork = s.found(s.runs, fork.ID())
	if v := s.wait(fork); v.Status != plan.Paused || v.Done != 8 {
		t.Fatal(states(v))
	}
	if err := fork.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(fork); v.Status != plan.Finished || len(v.Context["s3"]) < 300<<10 {
		t.Error(states(v))
	}
	if got := s.called(); got != `echo {"a":0,"b":7}` {
		t.Errorf("called %.200s", got)
	}
}

// TestManyItems has a step for each of as many items as there may be.
func TestManyItems(t *testing.T) {
	s := newStage(t)
	items := make([]string, plan.MaxItems)
	for i := range items {
		items[i] = fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat("p", 100))
	}
	began := time.Now()
	run := s.start(`{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"echo","forEach":{"in":"@l","as":"i","max":1000},"args":{"v":"@i.n"}},{"id":"b","tool":"echo","args":{"x":"@a[999].v"}}]}`,
		given("l", "["+strings.Join(items, ",")+"]"), func(st *plan.Start) { st.Options.MaxParallel = 16 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	if _, err := run.Wait(ctx, false, nil); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	v := s.wait(run)
	if v.Status != plan.Finished || v.Steps[0].Done != plan.MaxItems || !strings.HasSuffix(s.called(), `echo {"x":999}`) {
		t.Error(states(v))
	}
	log, err := s.store.Log(t.Context(), store.LogOptions{Name: "plan", Subjects: []string{"evt.plan.>"}})
	if err != nil {
		t.Fatal(err)
	}
	u, err := log.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Bytes > 2<<20 {
		t.Errorf("the journal has %d bytes", u.Bytes)
	}
	t.Logf("%d items in %v, a journal of %+v", plan.MaxItems, took.Round(time.Millisecond), u)
}

// TestBounds forgets the oldest runs of a Session, and those of Sessions that
// hold nothing.
func TestBounds(t *testing.T) {
	s := newStage(t)
	const one = `{"steps":[{"id":"a","tool":"echo","args":{"v":"@x"}}],"inputs":[{"name":"x","default":1}]}`
	paused := s.start(one, func(st *plan.Start) { st.Paused = true })
	var last *plan.Run
	for range 30 {
		last = s.start(one)
		s.wait(last)
	}
	if n := len(s.runs.Of(s.who.Name, "test")); n < 20 || n > 22 {
		t.Errorf("%d runs are kept, of which at most 20 may be over", n)
	}
	for _, run := range []*plan.Run{paused, last} {
		if _, err := s.runs.Find(s.who.Name, "test", run.ID()); err != nil {
			t.Error(err)
		}
	}
	kept := s.start(`{"steps":[{"id":"a","tool":"echo","outputs":["v"]}]}`, func(st *plan.Start) { st.Session = "full" })
	s.wait(kept)
	s.runs.Sweep(t.Context(), time.Now().Add(59*time.Minute))
	if _, err := s.runs.Find(s.who.Name, "test", last.ID()); err != nil {
		t.Error(err)
	}
	s.runs.Sweep(t.Context(), time.Now().Add(61*time.Minute))
	if got := s.runs.Of(s.who.Name, ""); len(got) != 1 || got[0] != kept {
		t.Errorf("%d runs are left: want that of a session with a value", len(got))
	}
	s.runs.Close()
	s.open()
	if got := s.runs.Of(s.who.Name, ""); len(got) != 1 {
		t.Errorf("%d runs come back", len(got))
	}
}

// What a tool says of wrong arguments, or of what is not there, it would say
// again; of anything else that bears repetition it is asked once more.
func TestLastingFailures(t *testing.T) {
	for say, want := range map[string]int{
		"the database is locked": 2, "GitHub: 503 Service Unavailable": 2, "Rate limit exceeded, slow down": 2, "the request timed out": 2,
		"there is no customer 7": 1, "unknown branch main": 1,
		"MCP error -32602: Input validation error: Invalid arguments for tool write_file": 1,
		"ENOENT: no such file or directory, open 'x'":                                     1,
		"Access denied - path outside allowed directories: /etc":                          1,
	} {
		s := newStage(t)
		s.fails["f"] = 1
		v := s.wait(s.start(fmt.Sprintf(`{"steps":[{"id":"a","tool":"peek","args":{"name":"f","say":%q},"backoffMs":1}]}`, say)))
		if n := strings.Count(s.called(), "peek"); n != want || (v.Status == plan.Finished) != (want == 2) {
			t.Errorf("%q: called %d times, %s", say, n, states(v))
		}
	}
	s := newStage(t)
	s.fails["f"] = 1
	v := s.wait(s.start(`{"steps":[{"id":"a","tool":"peek","args":{"name":"f","say":"ENOENT"},"retries":1,"backoffMs":1}]}`))
	if states(v) != "done: a done" {
		t.Errorf("a step that says how often it is tried: %s", states(v))
	}
}

// A fault that depends on nothing but the call is never met twice, whatever the
// step says of retries, and what to do about it is told.
func TestSettledFaults(t *testing.T) {
	for _, retries := range []string{"", `,"retries":3`} {
		s := newStage(t)
		v := s.wait(s.start(`{"steps":[{"id":"a","tool":"bound","idempotent":true,"backoffMs":1` + retries + `}]}`))
		if n := strings.Count(s.called(), "bound"); n != 1 || v.Status != plan.Failed {
			t.Errorf("%q: called %d times, %s", retries, n, states(v))
		}
		if f := v.Steps[0].Error; f == nil || !strings.Contains(f.Hint, "limits.messageBytes") {
			t.Errorf("%q: the failure is %+v", retries, f)
		}
	}
}

// What is said of a call of which nobody knows is what happened: not that it is
// made again before it is.
func TestRetrySaysWhatHappens(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}}]}`)
	s.busy(1)
	s.runs.Close() // it is not known what became of the call
	s.called()
	s.open()
	s.runs.Resume()
	run = s.found(s.runs, run.ID())
	if v := s.wait(run); v.Status != plan.Paused || !strings.Contains(v.Reason, "not known") {
		t.Fatal(states(v), v.Reason)
	}
	_, note, err := s.runs.Act(t.Context(), run, plan.Act{By: s.by, Action: "retry", Step: "a"})
	if err != nil || note != "a will be called again when the run goes on: continue it" {
		t.Errorf("%v: %s", err, note)
	}
	v := s.wait(run)
	if got := s.called(); got != "" || v.Status != plan.Paused || strings.Contains(v.Reason, "not known") || !strings.Contains(v.Reason, "is to be called again") {
		t.Errorf("%s: %s; called %s", states(v), v.Reason, got)
	}
	s.gate("g") <- 1
	if err := run.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); states(v) != "done: a done" || s.called() != `gate {"gate":"g"}` {
		t.Error(states(v))
	}
}

// After a hub was killed and its run is paused, no step is said to run: neither one
// that may be called again by itself, nor one that a person wants called again.
func TestNothingRunsWhilePaused(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"gate","args":{"gate":"b","x":"@a"}},{"id":"c","tool":"look","args":{"gate":"c","x":"@a"}}]}`)
	s.busy(2)
	s.runs.Close()
	s.open()
	s.runs.Resume()
	run = s.found(s.runs, run.ID())
	if v := s.wait(run); states(v) != "paused: a done, b unknown, c pending" || !strings.Contains(v.Steps[2].Reason, "called again") {
		t.Fatal(states(v), v.Steps)
	}
	if _, _, err := s.runs.Act(t.Context(), run, plan.Act{By: s.by, Action: "retry", Step: "b"}); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); states(v) != "paused: a done, b pending, c pending" {
		t.Error(states(v))
	}
	s.gate("b") <- 1
	s.gate("c") <- 1
	if err := run.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); states(v) != "done: a done, b done, c done" {
		t.Error(states(v))
	}
}

// A run that goes on keeps its Session from expiring; one that was left at a
// breakpoint does not.
func TestPausedRunKeepsNoSession(t *testing.T) {
	s := newStage(t)
	kept, err := s.sessions.Bind(session.Binding{Principal: s.who.Name, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := kept.Put(t.Context(), session.New{Name: "v", Data: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	run := s.start(`{"steps":[{"id":"a","tool":"echo","args":{"x":1}},{"id":"b","tool":"gate","args":{"gate":"g","x":"@a.x"}}]}`, breaks(plan.Breakpoint{Step: "b"}))
	s.wait(run)
	fork, _, err := s.runs.Act(t.Context(), run, plan.Act{By: s.by, Action: "set", Step: "a", Value: []byte(`{"x":2}`), Breaks: []plan.Breakpoint{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := fork.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	s.busy(1)
	there := func() bool { return s.sessions.Find(s.who.Name, "test") != nil }
	far := time.Now().Add(10_000 * time.Hour)
	if s.sessions.Sweep(t.Context(), far); !there() {
		t.Fatal("the session of a run that goes on expires")
	}
	s.gate("g") <- 1
	s.wait(fork)
	s.until("the session expires", func() bool {
		s.sessions.Sweep(t.Context(), far)
		return !there()
	})
}
