package plan_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/gate"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/modules"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// stage is runs over a real store, with a module of tools that count how they
// are called.
type stage struct {
	t        *testing.T
	store    *store.Store
	sessions *session.Registry
	desk     *policy.Desk
	runs     *plan.Runs
	who      *auth.Principal
	by       actor.Actor   // who, as the API lets them in
	left     atomic.Bool   // its token is not valid any more
	unread   atomic.Bool   // nor can it be said whether it is
	looked   atomic.Int64  // how often that was tried
	lease    time.Duration // of the next runs that are opened; 0: longer than a busy machine could keep them from renewing it

	mu    sync.Mutex
	calls []string            // the tools as they were called, with their arguments
	keys  []string            // what went along
	gates map[string]chan int // tools that wait, by the gate they name
	fails map[string]int      // how often a tool fails still
	most  int                 // calls at once, at most
	now   int
}

func newStage(t *testing.T) *stage {
	return newStageOn(t, storetest.Open(t, store.Options{Dir: t.TempDir()}))
}

func newStageOn(t *testing.T, st *store.Store) *stage {
	s := &stage{t: t, store: st, who: auth.Owner, by: actor.New(actor.API, auth.Owner), gates: map[string]chan int{}, fails: map[string]int{}}
	var err error
	if s.sessions, err = session.Open(t.Context(), st, session.Options{Timeout: 5000 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.sessions.Close)
	if s.desk, err = policy.OpenDesk(t.Context(), st, policy.DeskOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.desk.Close)
	s.open()
	return s
}

// open opens the runs, as a hub that starts does.
func (s *stage) open() {
	s.t.Helper()
	runs, err := plan.Open(s.t.Context(), s.store, s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	s.runs = runs
	s.t.Cleanup(runs.Close)
	s.lease = 3 * time.Second // for which those that are opened later leave the runs of this one to it
}

func (s *stage) options() plan.RunsOptions {
	m := s.module()
	return plan.RunsOptions{
		Face: func(string) call.Face { return gate.Face(late{s, m}, gate.Options{Desk: s.desk}) },
		Find: func(_ context.Context, _ actor.Actor, _, name string) (plan.Tool, error) {
			switch name {
			case "echo", "fail", "gate", "undo", "lose", "rant", "late", "bound":
				return plan.Tool{Name: name}, nil
			case "look", "peek":
				return plan.Tool{Name: name, ReadOnly: true}, nil
			}
			return plan.Tool{}, fault.New(fault.UnknownTool, name, "there is no tool %s", name)
		},
		Principal: func(name string, via auth.Via) (*auth.Principal, error) {
			switch {
			case s.unread.Load():
				s.looked.Add(1)
				return nil, errors.New("the file is half written")
			case s.left.Load() || name != s.who.Name || via != s.who.Via:
				return nil, nil
			}
			return s.who, nil
		},
		Sessions: s.sessions, Desk: s.desk, Lease: cmp.Or(s.lease, time.Minute), Max: 20, Keep: func() time.Duration { return time.Hour },
	}
}

// module has the tools: echo says what it is given, fail fails as often as it
// is told, gate and look wait for their gate, lose loses its upstream, rant
// says no at length, and late says yes when nobody wants to know any more.
func (s *stage) module() mcp.Handler {
	tool := func(name string, run func(ctx context.Context, args json.RawMessage) (any, error)) modules.Tool {
		return modules.Tool{Name: name, Title: name, Input: `{"type":"object"}`, Run: func(ctx context.Context, req *mcp.Request, args json.RawMessage) (any, error) {
			s.begin(name, args, req)
			defer s.end()
			return run(ctx, args)
		}}
	}
	echo := func(_ context.Context, args json.RawMessage) (any, error) { return args, nil }
	fail := func(_ context.Context, args json.RawMessage) (any, error) {
		var a struct{ Name, Say string }
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fails[a.Name] > 0 {
			s.fails[a.Name]--
			if a.Say != "" {
				return modules.Answer{Data: 0, Error: a.Say}, nil // it spoke itself
			}
			return nil, errors.New("no luck with " + a.Name)
		}
		return args, nil
	}
	gate := func(ctx context.Context, args json.RawMessage) (any, error) {
		var a struct{ Gate string }
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		select {
		case <-s.gate(a.Gate):
			return args, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return modules.New("t", "", nil, tool("echo", echo), tool("undo", echo), tool("peek", fail), tool("fail", fail), tool("gate", gate), tool("look", gate),
		tool("rant", func(context.Context, json.RawMessage) (any, error) {
			return modules.Answer{Data: 0, Error: strings.Repeat("no! ", 300_000)}, nil
		}),
		tool("late", gate),
		tool("bound", func(context.Context, json.RawMessage) (any, error) {
			return nil, &fault.Error{Kind: fault.Limit, Subject: "t", Msg: "the answer is larger than 7 bytes", Hint: "Ask for less, or raise limits.messageBytes."}
		}),
		tool("lose", func(context.Context, json.RawMessage) (any, error) {
			return nil, fault.New(fault.UpstreamLost, "t", "the connection ended")
		}))
}

// late is a face whose tool late does not hear that it is to end, and answers
// then.
type late struct {
	s *stage
	mcp.Handler
}

func (l late) Handle(ctx context.Context, req *mcp.Request) (mcp.Response, error) {
	if name, _ := req.Text("name"); name == "late" {
		defer context.AfterFunc(ctx, func() { l.s.gate("late") <- 1 })()
		ctx = context.WithoutCancel(ctx)
	}
	return l.Handler.Handle(ctx, req)
}

func (s *stage) gate(name string) chan int {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[name]
	if g == nil {
		g = make(chan int, 100)
		s.gates[name] = g
	}
	return g
}

func (s *stage) begin(name string, args json.RawMessage, req *mcp.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name+" "+string(args))
	s.keys = append(s.keys, req.Key)
	s.now++
	s.most = max(s.most, s.now)
}

func (s *stage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
}

// called are the calls that were made, and forgets them.
func (s *stage) called() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.calls, "\n")
	s.calls = nil
	return out
}

// start begins a run of a plan, given as JSON.
func (s *stage) start(text string, change ...func(*plan.Start)) *plan.Run {
	s.t.Helper()
	run, err := s.try(text, change...)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *stage) try(text string, change ...func(*plan.Start)) (*plan.Run, error) {
	s.t.Helper()
	p, problems := plan.Decode([]byte(text))
	if problems != nil {
		s.t.Fatal(problems)
	}
	st := plan.Start{By: s.by, Session: "test", Plan: p, Options: plan.DefaultOptions()}
	for _, c := range change {
		c(&st)
	}
	return s.runs.Start(s.t.Context(), st)
}

// wait waits until a run is over or paused.
func (s *stage) wait(run *plan.Run) plan.View {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if _, err := run.Wait(ctx, false, nil); err != nil {
		v, _ := run.View(s.t.Context(), plan.Look{Results: true})
		s.t.Fatalf("%v\n%+v", err, v)
	}
	v, err := run.View(s.t.Context(), plan.Look{Results: true, Context: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// until waits until something holds.
func (s *stage) until(what string, holds func() bool) {
	s.t.Helper()
	await.Until(s.t, what, holds)
}

// states are the states of the steps in one line.
func states(v plan.View) string {
	var out []string
	for _, st := range v.Steps {
		out = append(out, fmt.Sprintf("%s %s", st.ID, st.State))
	}
	return string(v.Status) + ": " + strings.Join(out, ", ")
}
