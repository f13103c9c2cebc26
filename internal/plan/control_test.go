package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/plan"
)

const four = `{"inputs":[{"name":"x","default":1}],"steps":[
	{"id":"a","tool":"echo","args":{"n":"@x"}},
	{"id":"b","tool":"echo","args":{"n":"@a.n"}},
	{"id":"c","tool":"echo","args":{"n":"@b.n"}},
	{"id":"d","tool":"echo","args":{"n":"@a.n","free":true}}],
	"outputs":{"r":"@c.n"}}`

func breaks(b ...plan.Breakpoint) func(*plan.Start) {
	return func(s *plan.Start) { s.Breaks, s.Options.MaxParallel = b, 1 }
}

func TestBreakpoints(t *testing.T) {
	s := newStage(t)
	run := s.start(four, breaks(plan.Breakpoint{Step: "c"}, plan.Breakpoint{Step: "b", After: true}))
	v := s.wait(run)
	if v.Paused == nil || v.Paused.Step != "b" || !v.Paused.After {
		t.Fatalf("paused at %+v", v.Paused)
	}
	goOn := func(mode plan.Mode, to string) plan.View {
		t.Helper()
		if err := run.Continue(t.Context(), mode, to); err != nil {
			t.Fatal(err)
		}
		return s.wait(run)
	}
	v = goOn(plan.ToBreak, "")
	if v.Paused == nil || v.Paused.Step != "c" || v.Paused.After {
		t.Fatalf("paused at %+v", v.Paused)
	}
	in, err := run.Inspect(t.Context(), "c")
	if err != nil || string(in.Args) != `{"n":1}` {
		t.Errorf("c would be called with %s (%v)", in.Args, err)
	}
	s.called()
	v = goOn(plan.OneStep, "")
	if got := s.called(); got != `echo {"n":1}` || v.Status != plan.Paused {
		t.Errorf("one step called %s and is %s", got, v.Status)
	}
	if v = goOn(plan.ToBreak, ""); v.Status != plan.Finished {
		t.Error(states(v))
	}
}

func TestRunToAndPausedStart(t *testing.T) {
	s := newStage(t)
	run := s.start(four, func(st *plan.Start) { st.Paused, st.Options.MaxParallel = true, 1 })
	if v := s.wait(run); v.Status != plan.Paused || s.called() != "" {
		t.Fatalf("it has begun: %s", states(v))
	}
	if err := run.Continue(t.Context(), plan.RunTo, "c"); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); v.Paused == nil || v.Paused.Step != "c" || v.Steps[1].State != "done" {
		t.Errorf("%s %+v", states(v), v.Paused)
	}
	if err := run.Continue(t.Context(), plan.RunTo, "cc"); err == nil {
		t.Error("it runs to a step that is not there")
	}
}

func TestConditionalBreakpoint(t *testing.T) {
	s := newStage(t)
	at := func(n string) plan.Breakpoint {
		return plan.Breakpoint{Step: "c", If: &plan.Condition{Value: "@b.n", Is: plan.Equal, To: []byte(n)}}
	}
	if v := s.wait(s.start(four, breaks(at("2")))); v.Status != plan.Finished {
		t.Errorf("it pauses where the condition does not hold: %s", states(v))
	}
	if v := s.wait(s.start(four, breaks(at("1")))); v.Paused == nil || v.Paused.Step != "c" {
		t.Errorf("it does not pause: %s", states(v))
	}
}

// TestBreakpointsStay changes breakpoints of a run that is past one of them.
func TestBreakpointsStay(t *testing.T) {
	s := newStage(t)
	after := plan.Breakpoint{Step: "a", After: true}
	run := s.start(four, breaks(after, plan.Breakpoint{Step: "c"}))
	goOn := func(want string, now ...plan.Breakpoint) {
		t.Helper()
		if err := run.Break(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if err := run.Continue(t.Context(), plan.ToBreak, ""); err != nil {
			t.Fatal(err)
		}
		at := ""
		if v := s.wait(run); v.Paused != nil {
			at = v.Paused.Reason
		}
		if at != want {
			t.Fatalf("paused at %q, want %q", at, want)
		}
	}
	if v := s.wait(run); v.Paused == nil || v.Paused.Step != "a" {
		t.Fatalf("paused at %+v", v.Paused)
	}
	goOn("breakpoint before c", after, plan.Breakpoint{Step: "c"})
	goOn("breakpoint after c", after, plan.Breakpoint{Step: "c", After: true}) // it was gone on from a, and does not pause there once more
	goOn("breakpoint after b", plan.Breakpoint{Step: "b", After: true})
	goOn("")
}

// TestActForks forks by what a person says: with other inputs, from a step on, or both.
func TestActForks(t *testing.T) {
	s := newStage(t)
	old := s.start(four)
	s.wait(old)
	nine := map[string]json.RawMessage{"x": []byte("9")}
	for _, test := range []struct {
		act                  plan.Act
		reason, note, states string
	}{
		{plan.Act{By: s.by, Action: "fork", Step: "c"}, "from c on", "in which all from c on is to be done again", "a done, b done, c pending, d done"},
		{plan.Act{By: s.by, Action: "fork", Inputs: nine}, "other inputs: x", "in which what comes of x is to be done again", "a pending, b pending, c pending, d pending"},
		{plan.Act{By: s.by, Action: "fork", Step: "d", Inputs: nine}, "from d on, other inputs: x", "in which all from d on, and what comes of x, is to be done again", "a pending, b pending, c pending, d pending"},
	} {
		fork, note, err := s.runs.Act(t.Context(), old, test.act)
		if err != nil {
			t.Fatal(err)
		}
		v := s.wait(fork)
		var got []string
		for _, st := range v.Steps {
			got = append(got, st.ID+" "+st.State)
		}
		if v.From.Reason != test.reason || !strings.HasSuffix(note, test.note) || strings.Join(got, ", ") != test.states {
			t.Errorf("%+v: %q, %q, %s", test.act, v.From.Reason, note, got)
		}
	}
	for _, act := range []plan.Act{{By: s.by, Action: "fork"}, {By: s.by, Action: "continue", Inputs: nine}, {By: s.by, Action: "fork", Inputs: map[string]json.RawMessage{"y": []byte("1")}}} {
		if _, _, err := s.runs.Act(t.Context(), old, act); err == nil {
			t.Errorf("%+v is done", act)
		}
	}
}

// TestFork changes a value of a run that is paused: what comes of it is done
// again, what does not is not, and the old run stays.
func TestFork(t *testing.T) {
	s := newStage(t)
	old := s.start(four, breaks(plan.Breakpoint{Step: "c", After: true}))
	s.wait(old)
	s.called()
	fork, err := s.runs.Fork(t.Context(), old, plan.Change{By: s.by, Pins: map[string]json.RawMessage{"b": []byte(`{"n":50}`)}, Reason: "b is set"})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.wait(fork); v.Status != plan.Paused || v.From == nil || v.From.Run != old.ID() {
		t.Fatalf("%s %+v", states(v), v.From)
	}
	if err := fork.Break(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := fork.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(fork); string(v.Outputs["r"]) != "50" {
		t.Errorf("%s %s", states(v), v.Outputs)
	}
	if got := s.called(); !strings.Contains(got, `{"n":50}`) || strings.Contains(got, `echo {"n":1}`) {
		t.Errorf("the fork called\n%s", got)
	}
	v := s.wait(old)
	if v.Status != plan.Paused || string(v.Context["b"]) != `{"n":1}` {
		t.Errorf("the old run is changed: %s %s", states(v), v.Context)
	}
	all := s.runs.Of(s.who.Name, "test")
	if len(all) != 2 {
		t.Errorf("%d runs", len(all))
	}
}

func TestForkFromStepAndInput(t *testing.T) {
	s := newStage(t)
	old := s.start(four)
	s.wait(old)
	s.called()
	again := func(ch plan.Change) string {
		t.Helper()
		fork, err := s.runs.Fork(t.Context(), old, ch)
		if err != nil {
			t.Fatal(err)
		}
		if err := fork.Continue(t.Context(), plan.ToBreak, ""); err != nil {
			t.Fatal(err)
		}
		if v := s.wait(fork); v.Status != plan.Finished {
			t.Fatal(states(v))
		}
		return s.called()
	}
	if got := again(plan.Change{By: s.by, From: "c"}); got != `echo {"n":1}` {
		t.Errorf("from c on: %s", got)
	}
	if got := again(plan.Change{By: s.by, Inputs: map[string]json.RawMessage{"x": []byte("9")}}); strings.Count(got, "9") != 4 {
		t.Errorf("with another input: %s", got)
	}
	if _, err := s.runs.Fork(t.Context(), old, plan.Change{By: s.by, From: "z"}); err == nil {
		t.Error("it forks from a step that is not there")
	}
	if _, err := s.runs.Fork(t.Context(), old, plan.Change{By: s.by, Inputs: map[string]json.RawMessage{"y": []byte("9")}}); err == nil {
		t.Error("it takes an input that the plan does not have")
	}
}

func TestSkipAndRetry(t *testing.T) {
	s := newStage(t)
	s.fails["f"] = 1
	run := s.start(`{"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"onError":"continue"},{"id":"b","tool":"echo","args":{"x":"@a"}}]}`, breaks(plan.Breakpoint{Step: "a", After: true}))
	v := s.wait(run)
	if v.Steps[0].State != "failed" || v.Status != plan.Paused {
		t.Fatal(states(v))
	}
	if err := run.Retry(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := run.Skip(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := run.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	if v = s.wait(run); states(v) != "done: a done, b skipped" {
		t.Error(states(v))
	}
}

func TestPauseNow(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`)
	s.until("it is at work", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.now == 1 })
	if err := run.Pause(t.Context(), "wait"); err != nil {
		t.Fatal(err)
	}
	s.gate("g") <- 1
	v := s.wait(run)
	if states(v) != "paused: a done, b pending" {
		t.Error(states(v))
	}
}

// Of those who step at once one gets the step, and the others are told.
func TestStepAtOnce(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`, func(st *plan.Start) { st.Paused = true })
	s.wait(run)
	said := make(chan error)
	for range 4 {
		go func() { said <- run.Continue(t.Context(), plan.OneStep, "") }()
	}
	refused := 0
	for range 4 {
		if err := <-said; err != nil {
			refused++
			if f := fault.Of(err); f.Kind != fault.InvalidArguments || !strings.Contains(f.Msg, "going on already") {
				t.Errorf("told: %v", err)
			}
		}
	}
	s.gate("g") <- 1
	if v := s.wait(run); refused != 3 || states(v) != "paused: a done, b pending" {
		t.Errorf("%d were refused: %s", refused, states(v))
	}
}
