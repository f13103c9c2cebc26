package plan_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/hubtest/gate"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
)

// wild is a face that panics.
type wild struct{ mcp.Handler }

func (wild) Handle(context.Context, *mcp.Request) (mcp.Response, error) { panic("oh dear") }

// A call that panics fails its step and nothing else, and is told with its
// stack.
func TestPanicOfACall(t *testing.T) {
	s, log := newStage(t), &logbook.Book{}
	o := s.options()
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	o.Face = func(string) call.Face { return gate.Face(wild{}, gate.Options{}) }
	runs, err := plan.Open(t.Context(), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runs.Close)
	s.runs = runs
	v := s.wait(s.start(`{"steps":[{"id":"a","tool":"echo"}]}`))
	if v.Status != plan.Failed || v.Failure == nil || !strings.Contains(v.Failure.Message, "stumbled") {
		t.Errorf("%+v", v)
	}
	if got := log.String(); !strings.Contains(got, "oh dear") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("it is not told with its stack: %s", got)
	}
}

// Where driving a run panics the run stays as it was, is told of, and goes on
// when somebody says so.
func TestPanicOfADriver(t *testing.T) {
	s, log, bad := newStage(t), &logbook.Book{}, &atomic.Bool{}
	o := s.options()
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	under := o.Find
	o.Find = func(ctx context.Context, by actor.Actor, session, name string) (plan.Tool, error) {
		if bad.Swap(false) {
			panic("not that tool")
		}
		return under(ctx, by, session, name)
	}
	runs, err := plan.Open(t.Context(), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runs.Close)
	s.runs = runs
	run := s.start(`{"steps":[{"id":"a","tool":"echo"}]}`, func(st *plan.Start) { st.Paused = true })
	s.wait(run)
	bad.Store(true)
	if _, _, err := runs.Act(t.Context(), run, plan.Act{By: s.by, Action: "continue"}); err != nil {
		t.Fatal(err)
	}
	s.until("the panic is told", func() bool {
		return strings.Contains(log.String(), "not that tool") && strings.Contains(log.String(), "panic_test.go")
	})
	if got := s.called(); got != "" {
		t.Errorf("called %s", got)
	}
	s.until("it goes on", func() bool {
		// It may be over between two looks.
		if _, _, err := runs.Act(t.Context(), run, plan.Act{By: s.by, Action: "pause"}); err == nil {
			_, _, _ = runs.Act(t.Context(), run, plan.Act{By: s.by, Action: "continue"})
		}
		return run.Summary().Status == plan.Finished
	})
}

// stumbling are options of runs in which telling that a step is done panics, once
// for each time that bad is set.
func (s *stage) stumbling(what string) (o plan.RunsOptions, log *logbook.Book, bad *atomic.Bool) {
	o, log, bad = s.options(), &logbook.Book{}, &atomic.Bool{}
	o.Logger = slog.New(slog.NewJSONHandler(log, nil))
	o.Events = event.New(0)
	o.Events.Hear(func(r *event.Record) {
		if r.Type == "step.done" && bad.Swap(false) {
			panic(what)
		}
	})
	return o, log, bad
}

// Where recording what came of a call panics the run goes on from what is in its
// journal, and nobody who looks at it has to wait for ever.
func TestPanicOfARecord(t *testing.T) {
	s := newStage(t)
	o, log, bad := s.stumbling("not that result")
	runs, err := plan.Open(t.Context(), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runs.Close)
	s.runs = runs
	bad.Store(true)
	v := s.wait(s.start(`{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"echo","after":["a"]}]}`))
	if v.Status != plan.Finished || bad.Load() {
		t.Errorf("%+v", v)
	}
	if got := log.String(); !strings.Contains(got, "not that result") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("it is not told with its stack: %s", got)
	}
}

// What one hub writes of a run and makes another panic costs the other that
// entry: it still follows.
func TestPanicOfAFollower(t *testing.T) {
	s := newStage(t)
	o, log, bad := s.stumbling("not what they wrote")
	other, err := plan.Open(t.Context(), s.store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	other.Resume()
	bad.Store(true)
	s.wait(s.start(`{"steps":[{"id":"a","tool":"echo"},{"id":"b","tool":"echo","after":["a"]}]}`))
	s.until("the other hub knows that it is over", func() bool {
		all := other.Of(s.who.Name, "test")
		return len(all) == 1 && all[0].Summary().Status == plan.Finished
	})
	if got := log.String(); bad.Load() || !strings.Contains(got, "not what they wrote") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("it is not told with its stack: %s", got)
	}
}
