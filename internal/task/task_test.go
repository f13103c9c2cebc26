package task

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/wire"
	"pgregory.net/rapid"
)

// await polls until ok.
func await(t rapid.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-tick.C
	}
}

func open(t rapid.TB, st *store.Store, o Options) *Registry {
	t.Helper()
	r, err := Open(context.Background(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func result(text string) []byte { return []byte(`{"content":[{"type":"text","text":"` + text + `"}]}`) }

// A result is kept byte for byte, whatever its size, and outlives the hub.
func TestResultIsKept(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	for _, n := range []int{10, inEntry + 1, 3 << 20} {
		big := result(strings.Repeat("x", n))
		params := []byte(`{"name":"x","arguments":{"a":"` + strings.Repeat("y", n) + `"}}`)
		var got []byte
		r := open(t, st, Options{Run: func(ctx context.Context, run *Run) Outcome {
			var err error
			if got, err = run.Params(ctx); err != nil {
				return Failure(err)
			}
			return Outcome{Result: big}
		}})
		task, err := r.Create(t.Context(), Work{Principal: "p", Tool: "x"}, params, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "it has ended", func() bool { return task.State().Status == Completed })
		r.Close()
		if !bytes.Equal(got, params) {
			t.Errorf("%d: the runner got other params", n)
		}
		r = open(t, st, Options{})
		again, err := r.Get("p", task.ID())
		if err != nil {
			t.Fatal(err)
		}
		d, err := again.Detail(t.Context())
		if err != nil || !bytes.Equal(d.Result, big) {
			t.Errorf("%d: %d bytes came back, %v", n, len(d.Result), err)
		}
		if _, err := r.Get("q", task.ID()); fault.Of(err).Kind != fault.InvalidParams {
			t.Errorf("another principal gets %v", err)
		}
		r.Close()
	}
}

// Answers come one at a time and in any order; the task goes on when all are
// there, and a name that the upstream uses again is another to the client.
func TestInput(t *testing.T) {
	r := open(t, storetest.Open(t, store.Options{}), Options{Run: func(ctx context.Context, run *Run) Outcome {
		text := ""
		for range 2 {
			if err := run.Ask(ctx, []byte(`{"inputRequests":{"a":{"method":"m","params":1},"b":{"method":"n"}},"requestState":"s"}`)); err != nil {
				return Failure(err)
			}
			demand, answers, err := run.Input(ctx)
			if err != nil {
				return Failure(err)
			}
			text += string(wire.Get(demand, "requestState")[1]) + string(wire.Get(answers, "a")) + string(wire.Get(answers, "b")) + " "
		}
		return Outcome{Result: result(text)}
	}})
	defer r.Close()
	task, err := r.Create(t.Context(), Work{Principal: "p"}, []byte("{}"), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	update := func(answers string) {
		t.Helper()
		if err := task.Update(t.Context(), wire.Members([]byte(answers))); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(open string) {
		t.Helper()
		await(t, open+" is open", func() bool {
			d, err := task.Detail(t.Context())
			return err == nil && string(d.Requests) == open
		})
	}
	wants(`{"a":{"method":"m","params":1},"b":{"method":"n"}}`)
	update(`{"b":2,"zzz":3}`)
	wants(`{"a":{"method":"m","params":1}}`)
	update(`{"b":4,"zzz":3}`) // neither is asked for
	update(`{"a":1}`)
	wants(`{"a-2":{"method":"m","params":1},"b-2":{"method":"n"}}`)
	update(`{"a":9}`)
	update(`{"a-2":3,"b-2":4}`)
	await(t, "it has ended", func() bool { return task.State().Status.Final() })
	if d, err := task.Detail(t.Context()); err != nil || !strings.Contains(string(d.Result), "s12 s34 ") {
		t.Errorf("%s, %v", d.Result, err)
	}
}

func TestExpiry(t *testing.T) {
	st := storetest.Open(t, store.Options{})
	var cause error
	r := open(t, st, Options{TTL: time.Minute, Run: func(ctx context.Context, run *Run) Outcome {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return Failure(cause)
	}})
	task, err := r.Create(t.Context(), Work{Principal: "p", Shown: "up__x"}, bytes.Repeat([]byte("x"), inEntry+1), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.Sweep(t.Context(), now.Add(59*time.Second))
	if s := task.State(); s.Status != Working {
		t.Fatalf("before its time is over it is %s", s.Status)
	}
	r.Sweep(t.Context(), now.Add(61*time.Second))
	d, err := task.Detail(t.Context())
	if err != nil || d.Status != Failed || !strings.Contains(string(d.Error), `"timeout"`) {
		t.Errorf("afterwards: %s, %s, %v", d.Status, d.Error, err)
	}
	r.Sweep(t.Context(), now.Add(62*time.Second))
	if _, err := r.Get("p", task.ID()); err == nil {
		t.Error("it is still there")
	}
	r.Close()
	if fault.Of(cause).Kind != fault.Timeout {
		t.Errorf("the run ended by %v", cause)
	}
	r = open(t, st, Options{})
	defer r.Close()
	if left := r.List(func(*State) bool { return true }); len(left) > 0 {
		t.Errorf("%d tasks are left in the store", len(left))
	}
}

func TestBounds(t *testing.T) {
	r := open(t, storetest.Open(t, store.Options{}), Options{Max: 2, Kept: 3, Run: func(ctx context.Context, run *Run) Outcome {
		<-ctx.Done()
		return Failure(context.Cause(ctx))
	}})
	defer r.Close()
	create := func(who string) (*Task, error) {
		return r.Create(t.Context(), Work{Principal: who}, []byte("{}"), false, nil)
	}
	first, err := create("p")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []fault.Kind{0, fault.Limit} {
		if _, err := create("p"); err != nil != (want != 0) || err != nil && fault.Of(err).Kind != want {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := first.Cancel(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := create("p"); err != nil {
		t.Errorf("after one was cancelled: %v", err)
	}
	if _, err := create("q"); err == nil {
		t.Error("more are kept than may be")
	}
}

// world is the upstream of a schedule: it counts what was done.
type world struct {
	mu   sync.Mutex
	done map[string]int // by key
	gate map[string]chan struct{}
}

func (w *world) run(ctx context.Context, r *Run) Outcome {
	work := r.Work()
	if work.Tool == "asks" {
		demand, _, err := r.Input(ctx)
		if err == nil && demand == nil {
			if err = r.Starting(ctx); err == nil {
				err = r.Ask(ctx, []byte(`{"inputRequests":{"a":{},"b":{}}}`))
			}
		} else if err == nil {
			err = r.Answered(ctx)
		}
		if err != nil {
			return Failure(err)
		}
	}
	if err := r.Starting(ctx); err != nil {
		return Failure(err)
	}
	w.mu.Lock()
	w.done[work.Key]++
	gate := w.gate[work.Shown]
	w.mu.Unlock()
	select {
	case <-gate:
	case <-ctx.Done():
		return Failure(context.Cause(ctx))
	}
	return Outcome{Result: result(work.Key)}
}

// schedule is one run of the property below.
type schedule struct {
	t     *rapid.T
	st    *store.Store
	w     *world
	r     *Registry
	made  []string
	ended map[string]Phase // as somebody was told
}

func (s *schedule) restart() {
	if s.r != nil {
		s.r.Close()
	}
	s.r = open(s.t, s.st, Options{Run: s.w.run})
	s.r.Resume()
}

func (s *schedule) pick() *Task {
	if len(s.made) == 0 {
		return nil
	}
	t, err := s.r.Get("p", rapid.SampledFrom(s.made).Draw(s.t, "task"))
	if err != nil {
		s.t.Fatalf("a task is lost: %v", err)
	}
	return t
}

func (s *schedule) step() {
	ctx := context.Background()
	switch rapid.SampledFrom([]string{"create", "create", "release", "release", "answer", "answer", "cancel", "expire", "restart", "look"}).Draw(s.t, "step") {
	case "create":
		name := fmt.Sprint(len(s.made))
		s.w.mu.Lock()
		s.w.gate[name] = make(chan struct{})
		s.w.mu.Unlock()
		t, err := s.r.Create(ctx, Work{Principal: "p", Shown: name, Tool: rapid.SampledFrom([]string{"plain", "asks"}).Draw(s.t, "tool"),
			Repeat: rapid.Bool().Draw(s.t, "repeat")}, []byte(`{}`), false, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		s.made = append(s.made, t.ID())
	case "release":
		if t := s.pick(); t != nil {
			s.release(t)
		}
	case "answer":
		if t := s.pick(); t != nil {
			answers := rapid.SampledFrom([]string{`{"a":1}`, `{"b":1}`, `{"a":1,"b":2}`, `{"c":1}`}).Draw(s.t, "answers")
			if err := t.Update(ctx, wire.Members([]byte(answers))); err != nil {
				s.t.Fatal(err)
			}
		}
	case "cancel":
		if t := s.pick(); t != nil {
			if err := t.Cancel(ctx, "enough"); err != nil {
				s.t.Fatal(err)
			}
		}
	case "expire":
		if t := s.pick(); t != nil && rapid.IntRange(0, 3).Draw(s.t, "late") == 0 {
			if err := t.expire(ctx); err != nil {
				s.t.Fatal(err)
			}
		}
	case "restart":
		s.restart()
	case "look":
		if t := s.pick(); t != nil {
			s.see(t)
		}
	}
}

func (s *schedule) release(t *Task) {
	name := t.State().Work.Shown
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	select {
	case <-s.w.gate[name]:
	default:
		close(s.w.gate[name])
	}
}

// see checks that what was final stays what it was.
func (s *schedule) see(t *Task) {
	now := t.State()
	if was, told := s.ended[t.ID()]; told && was != now.Status {
		s.t.Fatalf("a task that was %s is %s", was, now.Status)
	}
	if now.Status.Final() {
		s.ended[t.ID()] = now.Status
	}
}

// finish lets everything end and looks at the log itself.
func (s *schedule) finish() {
	ctx := context.Background()
	for _, id := range s.made {
		t, err := s.r.Get("p", id)
		if err != nil {
			s.t.Fatalf("a task is lost: %v", err)
		}
		s.release(t)
		await(s.t, "task "+id+" ends", func() bool {
			_ = t.Update(ctx, wire.Members([]byte(`{"a":1,"b":2}`)))
			return t.State().Status.Final()
		})
		s.see(t)
		d, err := t.Detail(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		s.w.mu.Lock()
		n := s.w.done[d.Work.Key]
		s.w.mu.Unlock()
		switch {
		case d.Status == Completed && (n == 0 || !bytes.Equal(d.Result, result(d.Work.Key))):
			s.t.Fatalf("completed after %d runs with %s", n, d.Result)
		case n > 1 && !d.Work.Repeat:
			s.t.Fatalf("work that bears no repetition was done %d times", n)
		case d.Status == Failed && !json.Valid(d.Error):
			s.t.Fatalf("failed with %s", d.Error)
		}
	}
	s.r.Close()
	ends := map[string]int{}
	err := s.r.disk.log.Scan(ctx, "", 0, func(e store.Entry) error {
		ev, _, err := decode(e.Data)
		if err == nil && ev.Kind == ended {
			ends[strings.TrimPrefix(e.Subject, subjectPrefix)]++
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, id := range s.made {
		if ends[id] != 1 {
			s.t.Fatalf("task %s has %d recorded ends", id, ends[id])
		}
	}
	if err := s.r.disk.log.Purge(ctx, ">"); err != nil {
		s.t.Fatal(err)
	}
}

// No task is lost, each has one recorded end, and what bears no repetition is
// done at most once, whatever cancels, time-outs, answers and restarts come in
// between. STOA_SOAK=1 runs 10,000 schedules.
func TestTaskSchedules(t *testing.T) {
	checks := "60"
	if os.Getenv("STOA_SOAK") != "" {
		checks = "10000"
	}
	before := flag.Lookup("rapid.checks").Value.String()
	if before == "100" {
		_ = flag.Set("rapid.checks", checks)
		defer flag.Set("rapid.checks", before)
	}
	st := storetest.Open(t, store.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		s := &schedule{t: rt, st: st, w: &world{done: map[string]int{}, gate: map[string]chan struct{}{}}, ended: map[string]Phase{}}
		s.restart()
		defer func() { s.r.Close() }()
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			s.step()
		}
		s.finish()
	})
}
