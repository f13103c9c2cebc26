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

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/wire"
)

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
	log, err := s.st.Log(ctx, store.LogOptions{Name: "task", Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		s.t.Fatal(err)
	}
	err = log.Scan(ctx, "", 0, func(e store.Entry) error {
		ev, _, _, err := decode(e.Data)
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
	if err := log.Purge(ctx, ">"); err != nil {
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
