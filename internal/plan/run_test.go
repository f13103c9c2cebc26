package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/policy"
)

const chain = `{"inputs":[{"name":"x"}],"steps":[
	{"id":"a","tool":"echo","args":{"v":"@x"},"outputs":["first"]},
	{"id":"b","tool":"echo","args":{"w":"@first.v","all":{"$ref":"@a"}}}],
	"outputs":{"r":"@b.w"}}`

func given(name, value string) func(*plan.Start) {
	return func(s *plan.Start) {
		if s.Inputs == nil {
			s.Inputs = map[string]json.RawMessage{}
		}
		s.Inputs[name] = json.RawMessage(value)
	}
}

func TestRun(t *testing.T) {
	s := newStage(t)
	v := s.wait(s.start(chain, given("x", `[1,2]`)))
	if got := states(v); got != "done: a done, b done" {
		t.Fatal(got)
	}
	if d := cmp.Diff("echo {\"v\":[1,2]}\necho {\"w\":[1,2],\"all\":{\"v\":[1,2]}}", s.called()); d != "" {
		t.Error(d)
	}
	if string(v.Outputs["r"]) != "[1,2]" {
		t.Errorf("outputs: %s", v.Outputs)
	}
	sess := s.sessions.Find(s.who.Name, "test")
	if sess == nil {
		t.Fatal("the outputs are not kept in the session")
	}
	val, err := sess.Value("first")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := sess.Data(t.Context(), val); err != nil || string(data) != `{"v":[1,2]}` {
		t.Errorf("first is %s (%v)", data, err)
	}
	if len(s.keys) != 2 || s.keys[0] == s.keys[1] || !strings.Contains(s.keys[0], v.ID) {
		t.Errorf("the keys of the calls are %v", s.keys)
	}
}

// TestOutcomes is a table of what becomes of runs.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name, plan string
		fails      map[string]int
		change     func(*plan.Start)
		want       string
		calls      string // tools in their order; empty: not looked at
	}{
		{"a failure stops", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"}},{"id":"b","tool":"echo","after":["a"]}]}`,
			map[string]int{"f": 9}, nil, "failed: a failed, b pending", "fail"},
		{"a failure is gone on from", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"onError":"continue"},{"id":"b","tool":"echo","after":["a"]},{"id":"c","tool":"echo","args":{"x":"@a"}}]}`,
			map[string]int{"f": 9}, nil, "done: a failed, b done, c skipped", "fail echo"},
		{"not stopping on error", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"}},{"id":"b","tool":"echo","after":["a"]}]}`,
			map[string]int{"f": 9}, func(s *plan.Start) { s.Options.StopOnError = false }, "failed: a failed, b done", "fail echo"},
		{"a fallback by another tool", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"onError":"fallback","fallback":{"tool":"echo","args":{"y":1}}},{"id":"b","tool":"echo","args":{"x":"@a.y"}}]}`,
			map[string]int{"f": 9}, nil, "done: a done, b done", "fail echo echo"},
		{"a fallback by a value", `{"inputs":[{"name":"i","default":7}],"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"onError":"fallback","fallback":{"value":{"n":"@i"}}},{"id":"b","tool":"echo","args":{"x":"@a.n"}}]}`,
			map[string]int{"f": 9}, nil, "done: a done, b done", "fail echo"},
		{"what may be repeated is tried again", `{"steps":[{"id":"a","tool":"peek","args":{"name":"f","say":"busy"},"backoffMs":1}]}`,
			map[string]int{"f": 2}, nil, "done: a done", "peek peek peek"},
		{"what says no is not called again unasked", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"backoffMs":1}]}`,
			map[string]int{"f": 2}, nil, "failed: a failed", "fail"},
		{"retries of a step", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"retries":2,"backoffMs":1}]}`,
			map[string]int{"f": 2}, nil, "done: a done", "fail fail fail"},
		{"retries are bounded", `{"steps":[{"id":"a","tool":"fail","args":{"name":"f"},"retries":1,"backoffMs":1}]}`,
			map[string]int{"f": 2}, nil, "failed: a failed", "fail fail"},
		{"a condition that holds", `{"inputs":[{"name":"i","default":7}],"steps":[{"id":"a","tool":"echo","when":{"value":"@i","is":"greater","to":5}}]}`, nil, nil, "done: a done", "echo"},
		{"a condition that does not", `{"inputs":[{"name":"i","default":7}],"steps":[{"id":"a","tool":"echo","when":{"value":"@i","is":"less","to":5}},{"id":"b","tool":"echo","args":{"x":"@a"}},{"id":"c","tool":"echo","when":{"value":"@a","is":"absent"}}]}`,
			nil, nil, "done: a skipped, b skipped, c done", "echo"},
		{"for each item", `{"inputs":[{"name":"l","default":[1,2,3]}],"steps":[{"id":"a","tool":"echo","forEach":{"in":"@l","as":"i"},"args":{"n":"@i"}},{"id":"b","tool":"echo","args":{"x":"@a[2].n"}}]}`,
			nil, func(s *plan.Start) { s.Options.MaxParallel = 1 }, "done: a done, b done", "echo echo echo echo"},
		{"for no item", `{"inputs":[{"name":"l","default":[]}],"steps":[{"id":"a","tool":"echo","forEach":{"in":"@l","as":"i"},"args":{"n":"@i"}},{"id":"b","tool":"echo","args":{"x":"@a"}}]}`, nil, nil, "done: a done, b done", "echo"},
		{"for too many items", `{"inputs":[{"name":"l","default":[1,2,3]}],"steps":[{"id":"a","tool":"echo","forEach":{"in":"@l","as":"i","max":2}}]}`, nil, nil, "failed: a failed", ""},
		{"for each of what is no list", `{"inputs":[{"name":"l","default":{}}],"steps":[{"id":"a","tool":"echo","forEach":{"in":"@l","as":"i"}}]}`, nil, nil, "failed: a failed", ""},
		{"a path that is not there", `{"inputs":[{"name":"l","default":{}}],"steps":[{"id":"a","tool":"echo","args":{"x":"@l.k"}}]}`, nil, nil, "failed: a failed", ""},
		{"an upstream lost", `{"steps":[{"id":"a","tool":"lose"}]}`, nil, nil, "failed: a failed", "lose"},
		{"undone in reverse", `{"rollback":true,"steps":[
			{"id":"a","tool":"echo","args":{"n":1},"compensate":{"tool":"undo","args":{"of":"@a.n"}}},
			{"id":"b","tool":"echo","args":{"n":2},"after":["a"],"compensate":{"tool":"undo","args":{"of":"@b.n"}}},
			{"id":"c","tool":"fail","args":{"name":"f"},"after":["b"],"compensate":{"tool":"undo","args":{"of":3}}}]}`,
			map[string]int{"f": 1}, nil, "failed: a done, b done, c failed", `echo {"n":1}|echo {"n":2}|fail {"name":"f"}|undo {"of":2}|undo {"of":1}`},
		{"not undone unless it says so", `{"steps":[{"id":"a","tool":"echo","compensate":{"tool":"undo"}},{"id":"c","tool":"fail","args":{"name":"f"},"after":["a"]}]}`,
			map[string]int{"f": 1}, nil, "failed: a done, c failed", "echo fail"},
		{"an approval that nobody can give", `{"steps":[{"id":"a","tool":"echo","approval":true}]}`, nil, nil, "failed: a failed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			for k, n := range c.fails {
				s.fails[k] = n
			}
			change := c.change
			if change == nil {
				change = func(*plan.Start) {}
			}
			v := s.wait(s.start(c.plan, change))
			if got := states(v); got != c.want {
				t.Errorf("got %s, want %s\n%+v", got, c.want, v.Steps)
			}
			calls := s.called()
			if c.calls == "" {
				return
			}
			got := strings.ReplaceAll(calls, "\n", "|")
			if !strings.Contains(c.calls, "{") {
				var names []string
				for line := range strings.Lines(calls) {
					name, _, _ := strings.Cut(line, " ")
					names = append(names, name)
				}
				got = strings.Join(names, " ")
			}
			if got != c.calls {
				t.Errorf("called %s, want %s", got, c.calls)
			}
			if v.Status == plan.Failed && v.Failure == nil {
				t.Error("it does not say why it failed")
			}
		})
	}
}

func TestPreflightRefuses(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct{ plan, want string }{
		{`{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"nothing"}]}`, "/steps/1/tool nothing cannot be called: there is no tool nothing"},
		{`{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"forbidden"}]}`, "/steps/1/tool forbidden cannot be called: there is no tool forbidden"},
		{`{"inputs":[{"name":"i"}],"steps":[{"id":"a","tool":"echo"}]}`, "/inputs/i is an input and was not given"},
		{`{"steps":[{"id":"a","tool":"echo","args":{"x":"@nowhere"}}]}`, "/steps/0/args/x refers to nowhere"},
	} {
		if _, err := s.try(c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if got := s.called(); got != "" {
		t.Errorf("something was called: %s", got)
	}
}

func TestParallel(t *testing.T) {
	s := newStage(t)
	var steps []string
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		steps = append(steps, `{"id":"`+id+`","tool":"gate","args":{"gate":"g"}}`)
	}
	run := s.start(`{"steps":[`+strings.Join(steps, ",")+`]}`, func(st *plan.Start) { st.Options.MaxParallel = 3 })
	s.until("three calls at once", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.now == 3 })
	for range 6 {
		s.gate("g") <- 1
	}
	if v := s.wait(run); v.Status != plan.Finished || s.most != 3 {
		t.Errorf("%s, %d calls at once", states(v), s.most)
	}
}

func TestStop(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}},{"id":"b","tool":"echo","after":["a"]}]}`)
	s.until("the call is under way", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.now == 1 })
	if err := run.Stop(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	v := s.wait(run)
	if got := states(v); got != "stopped: a failed, b pending" || v.Reason != "enough" {
		t.Errorf("%s (%s)", got, v.Reason)
	}
	if err := run.Continue(t.Context(), plan.ToBreak, ""); err == nil || !strings.Contains(err.Error(), "over") {
		t.Errorf("a run that is over goes on: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	s := newStage(t)
	run := s.start(`{"steps":[{"id":"a","tool":"gate","args":{"gate":"g"}}]}`, func(st *plan.Start) { st.Options.TimeoutMS = 30 })
	v := s.wait(run)
	if v.Status != plan.Failed || !strings.Contains(v.Reason, "30 ms") {
		t.Errorf("%s (%s)", states(v), v.Reason)
	}
}

func TestApprovals(t *testing.T) {
	s := newStage(t)
	leave := s.desk.Attend(s.who.Name, "test")
	defer leave()
	run := s.start(`{"steps":[{"id":"a","tool":"echo","approval":true,"args":{"n":1}}]}`)
	s.until("somebody is asked", func() bool { return len(s.desk.Pending(s.who.Name)) == 1 })
	s.until("the run says so", func() bool { return run.Summary().Status == plan.Waiting })
	ask := s.desk.Pending(s.who.Name)[0]
	if string(ask.Args) != `{"n":1}` {
		t.Errorf("the arguments shown are %s", ask.Args)
	}
	if err := s.desk.Decide(s.who, ask.ID, policy.Decision{Approve: true, Args: []byte(`{"n":2}`)}); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); v.Status != plan.Finished {
		t.Fatal(states(v))
	}
	if got := s.called(); got != `echo {"n":2}` {
		t.Errorf("called %s", got)
	}
}

// TestApprovalIsForOneCall asks again for a call that is made again, with the
// reason that the plan gives.
func TestApprovalIsForOneCall(t *testing.T) {
	s := newStage(t)
	s.fails["f"] = 1
	defer s.desk.Attend(s.who.Name, "test")()
	run := s.start(`{"steps":[{"id":"a","tool":"fail","approval":true,"args":{"name":"f"},"retries":1,"backoffMs":1}]}`)
	last := ""
	for n := range 2 {
		var ask policy.Approval
		s.until("somebody is asked", func() bool {
			p := s.desk.Pending(s.who.Name)
			if len(p) == 1 {
				ask = p[0]
			}
			return len(p) == 1 && ask.ID != last
		})
		last = ask.ID
		if got := strings.Count(s.called(), "fail"); got != n || string(ask.Args) != `{"name":"f"}` || ask.Reason != "the plan wants an approval before a" {
			t.Errorf("%d calls before question %d: %+v", got, n+1, ask)
		}
		if err := s.desk.Decide(s.who, ask.ID, policy.Decision{Approve: true}); err != nil {
			t.Fatal(err)
		}
	}
	if v := s.wait(run); v.Status != plan.Finished || s.called() != `fail {"name":"f"}` {
		t.Error(states(v))
	}
}

// TestSameKey begins a run twice with one key: it is one run.
func TestSameKey(t *testing.T) {
	s := newStage(t)
	keyed := func(st *plan.Start) { st.Key = "k1" }
	a := s.start(`{"steps":[{"id":"a","tool":"echo"}]}`, keyed)
	b := s.start(`{"steps":[{"id":"a","tool":"echo"}]}`, keyed)
	s.wait(a)
	if a != b || s.called() != "echo {}" {
		t.Error("one key made two runs")
	}
	if c := s.start(`{"steps":[{"id":"a","tool":"echo"}]}`); c == a {
		t.Error("no key is the same key")
	}
}

// TestTakenUp ends the hub in the midst of runs: the next one goes on with
// them.
func TestTakenUp(t *testing.T) {
	s := newStage(t)
	sure := s.start(`{"steps":[{"id":"a","tool":"echo","args":{"n":"sure"}},{"id":"b","tool":"look","args":{"gate":"sure"},"after":["a"]},{"id":"c","tool":"echo","args":{"x":"@b"}}]}`)
	unsure := s.start(`{"steps":[{"id":"a","tool":"echo","args":{"n":"unsure"}},{"id":"b","tool":"gate","args":{"gate":"unsure"},"after":["a"]},{"id":"c","tool":"echo","args":{"x":"@b"}}]}`)
	s.until("both are at work", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.now == 2 })
	s.runs.Close()
	s.called()
	first := len(s.keys)
	s.open()
	s.runs.Resume()
	find := func(r *plan.Run) *plan.Run {
		t.Helper()
		run, err := s.runs.Find(s.who.Name, "test", r.ID())
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	s.gate("sure") <- 1
	if v := s.wait(find(sure)); states(v) != "done: a done, b done, c done" {
		t.Error(states(v))
	}
	if got := s.called(); got != "look {\"gate\":\"sure\"}\necho {\"x\":{\"gate\":\"sure\"}}" {
		t.Errorf("called after the restart:\n%s", got)
	}
	if again := s.keys[first]; !strings.Contains(strings.Join(s.keys[:first], " "), again) {
		t.Errorf("a call that is made again has another key: %s", again)
	}
	run := find(unsure)
	v := s.wait(run)
	if v.Status != plan.Paused || v.Steps[1].State != "unknown" || !strings.Contains(v.Reason, "not known") {
		t.Fatalf("%s (%s)", states(v), v.Reason)
	}
	if err := run.Pin(t.Context(), "b", []byte(`{"set":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := run.Continue(t.Context(), plan.ToBreak, ""); err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); states(v) != "done: a done, b done, c done" {
		t.Error(states(v))
	}
	if got := s.called(); got != `echo {"x":{"set":1}}` {
		t.Errorf("called %s", got)
	}
}

// TestLargeData keeps what is too large for an entry.
func TestLargeData(t *testing.T) {
	s := newStage(t)
	big := `"` + strings.Repeat("x", 700<<10) + `"`
	v := s.wait(s.start(chain, given("x", big)))
	if v.Status != plan.Finished || string(v.Outputs["r"]) != big {
		t.Errorf("%s, %d bytes", states(v), len(v.Outputs["r"]))
	}
	s.runs.Close()
	s.open()
	run, err := s.runs.Find(s.who.Name, "test", v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if v := s.wait(run); string(v.Outputs["r"]) != big {
		t.Errorf("after a restart %d bytes", len(v.Outputs["r"]))
	}
}
