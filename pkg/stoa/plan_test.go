package stoa_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/pkg/stoa"
)

// counting is a hub with the tools plus and fail, and how often plus was called.
func counting(t *testing.T) (*stoa.Hub, *atomic.Int64) {
	t.Helper()
	hub := open(t, stoa.Config{})
	var calls atomic.Int64
	numbers := json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`)
	for _, tool := range []stoa.Tool{
		{Name: "plus", InputSchema: numbers, Handler: func(_ context.Context, args json.RawMessage) (any, error) {
			var in struct{ A, B int }
			calls.Add(1)
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			return map[string]int{"sum": in.A + in.B}, nil
		}},
		{Name: "fail", Handler: func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("it is broken") }},
	} {
		if err := hub.AddTool(tool); err != nil {
			t.Fatal(err)
		}
	}
	return hub, &calls
}

const twice = `
inputs: [{name: n, schema: {type: integer}}]
steps:
  - {id: first, tool: "local:plus", args: {a: "@n", b: 1}}
  - {id: second, tool: "local:plus", args: {a: "@first.sum", b: 10}}
outputs: {total: "@second.sum"}
`

func parsed(t *testing.T, text string) *stoa.Plan {
	t.Helper()
	p, err := stoa.ParsePlan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRunPlan(t *testing.T) {
	hub, calls := counting(t)
	p := parsed(t, twice)
	if err := hub.CheckPlan(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	s, err := hub.RunPlan(t.Context(), p, stoa.RunOptions{Inputs: map[string]int{"n": 5}})
	if err != nil {
		t.Fatal(err)
	}
	if s.State != stoa.RunDone || string(s.Outputs["total"]) != "16" || calls.Load() != 2 {
		t.Errorf("%+v after %d calls", s, calls.Load())
	}
	bad := parsed(t, "steps:\n  - {id: a, tool: \"local:fail\"}\n  - {id: b, tool: \"local:plus\", args: {a: 1, b: 1}, after: [a]}\n")
	s, err = hub.RunPlan(t.Context(), bad, stoa.RunOptions{})
	if err != nil || s.State != stoa.RunFailed || !strings.Contains(s.Steps[0].Error, "it is broken") || s.Steps[1].State != "pending" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = hub.RunPlan(t.Context(), bad, stoa.RunOptions{GoOn: true}); err != nil || s.State != stoa.RunFailed || s.Steps[1].State != "done" {
		t.Errorf("going on: %+v, %v", s, err)
	}
	if n := len(hub.Runs()); n != 3 {
		t.Errorf("there are %d runs", n)
	}
}

func TestPlanProblems(t *testing.T) {
	hub, calls := counting(t)
	var e *stoa.Error
	_, err := stoa.ParsePlan([]byte("steps:\n  - {id: a, tool: x, args: {v: \"@b\"}}\n  - {id: b, tool: x, args: {v: \"@a\"}}\n"))
	if !errors.As(err, &e) || len(e.Problems) != 1 || e.Problems[0].Pointer != "/steps" || !strings.Contains(e.Message, "wait for each other") {
		t.Errorf("a circle: %v", err)
	}
	if _, err = stoa.ParsePlan([]byte("steps: [")); !errors.As(err, &e) || !strings.Contains(e.Message, "plan:1:") {
		t.Errorf("no YAML: %v", err)
	}
	_, err = hub.RunPlan(t.Context(), parsed(t, twice), stoa.RunOptions{Inputs: map[string]any{"n": "five", "m": 1}})
	var got []string
	if errors.As(err, &e) {
		for _, p := range e.Problems {
			got = append(got, p.Pointer)
		}
	}
	if diff := cmp.Diff([]string{"/inputs/n", "/inputs/m", "/steps/0/args/a"}, got); diff != "" {
		t.Errorf("-want +got\n%s\n%v", diff, err)
	}
	err = hub.CheckPlan(t.Context(), parsed(t, `{"steps":[{"id":"a","tool":"local:pluss"}]}`), nil)
	if !errors.As(err, &e) || len(e.Problems) != 1 || !strings.Contains(e.Problems[0].Hint, "plus") {
		t.Errorf("no such tool: %v", err)
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls were made", calls.Load())
	}
	if _, err := hub.Run("run_none"); !errors.As(err, &e) || e.Kind != "resource_not_found" {
		t.Errorf("no such run: %v", err)
	}
}

func TestDebugPlan(t *testing.T) {
	hub, calls := counting(t)
	ctx := t.Context()
	run, err := hub.StartPlan(ctx, parsed(t, twice), stoa.RunOptions{Inputs: map[string]int{"n": 5}, Breakpoints: []stoa.Breakpoint{{Step: "second"}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := run.Wait(ctx)
	if err != nil || s.State != stoa.RunPaused || s.Before != "second" || string(s.Variables["first"]) != `{"sum":6}` {
		t.Fatalf("%+v, %v", s, err)
	}
	tool, args, err := run.Inspect(ctx, "second")
	if err != nil || tool != "local:plus" || string(args) != `{"a":6,"b":10}` {
		t.Errorf("%s %s %v", tool, args, err)
	}
	fork, err := run.Set(ctx, "first", map[string]int{"sum": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := fork.Break(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fork.Continue(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err = fork.Wait(ctx); err != nil || s.State != stoa.RunDone || string(s.Outputs["total"]) != "11" || s.From != run.ID() || calls.Load() != 2 {
		t.Errorf("the fork: %+v, %v, %d calls", s, err, calls.Load())
	}
	diff, err := run.Compare(ctx, fork)
	if err != nil || len(diff) != 2 || diff[0].Name != "first" || diff[1].States != [2]string{"pending", "done"} {
		t.Errorf("%+v, %v", diff, err)
	}
	if err := run.Skip(ctx, "second"); err != nil {
		t.Error(err)
	}
	if err := run.Stop(ctx); err != nil {
		t.Error(err)
	}
	if s, err = run.Wait(ctx); err != nil || s.State != stoa.RunStopped {
		t.Errorf("%+v, %v", s, err)
	}
	var e *stoa.Error
	if err := run.Continue(ctx); !errors.As(err, &e) || !strings.Contains(e.Message, "the run is over") {
		t.Errorf("going on after the end: %v", err)
	}
	n := 0
	if err := fork.Journal(ctx, func(raw json.RawMessage) error {
		n++
		if !strings.HasPrefix(string(raw), fmt.Sprintf(`{"n":%d,`, n)) {
			t.Errorf("event %d is %s", n, raw)
		}
		return nil
	}); err != nil || n < 5 {
		t.Errorf("%d events, %v", n, err)
	}
}

func TestCreatePlanImpossible(t *testing.T) {
	hub, _ := counting(t)
	var e *stoa.Error
	_, err := hub.CreatePlan(t.Context(), stoa.Goal{Actions: []stoa.Action{{Type: "bake", Inputs: []string{"flour"}, Outputs: []string{"bread"}}}, Outputs: []string{"bread"}})
	if !errors.As(err, &e) || !strings.Contains(e.Message, "flour") {
		t.Errorf("%v", err)
	}
}

func ExampleHub_RunPlan() {
	ctx := context.Background()
	hub, err := stoa.Open(ctx, stoa.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()
	for _, name := range []string{"build", "deploy"} {
		err := hub.AddTool(stoa.Tool{Name: name, Handler: func(_ context.Context, args json.RawMessage) (any, error) {
			return name + " of " + string(args), nil
		}})
		if err != nil {
			log.Fatal(err)
		}
	}
	plan, err := hub.CreatePlan(ctx, stoa.Goal{
		Actions: []stoa.Action{
			{Type: "build", Inputs: []string{"source"}, Outputs: []string{"artifact"}},
			{Type: "deploy", Inputs: []string{"artifact"}, Outputs: []string{"deployment"}},
		},
		Inputs:  []string{"source_code"},
		Outputs: []string{"deployment"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Steps(), plan.Assumptions())
	status, err := hub.RunPlan(ctx, plan, stoa.RunOptions{Inputs: map[string]string{"source_code": "./src"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State, string(status.Outputs["deployment"]))
	// Output:
	// [step_1 step_2] [the input source of step_1 (build) is taken to be source_code, by the words of its name]
	// done "deploy of {\"artifact\":\"build of {\\\"source\\\":\\\"./src\\\"}\"}"
}
