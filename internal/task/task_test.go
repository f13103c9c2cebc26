package task

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/wire"
)

// await polls until ok.
func await(t rapid.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
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
