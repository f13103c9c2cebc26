package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// world is a run without tools: what calls come to is a matter of chance, and
// so is when the hub is killed.
type world struct {
	t      *testing.T
	r      *rand.Rand
	plan   *Plan
	events []Event
	state  *State
	now    time.Time
	busy   map[string]bool // calls under way
	asking map[string]bool // persons that are asked
	sure   map[string]bool // steps that may be called again
	kills  int

	called  map[string]int  // calls begun, by step, item and kind
	outcome map[string]bool // calls that are recorded as done
	waits   int
}

func key(step string, item int, kind CallKind) string {
	return fmt.Sprintf("%s/%d/%s", step, item, kind)
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	p := grow(r)
	w := &world{t: t, r: r, plan: p, now: time.Unix(0, 0), state: &State{}, busy: map[string]bool{}, asking: map[string]bool{}, sure: map[string]bool{}, called: map[string]int{}, outcome: map[string]bool{}}
	for i := range p.Steps {
		s := &p.Steps[i]
		w.sure[s.ID] = r.IntN(2) == 0
		switch r.IntN(6) {
		case 0:
			s.OnError = Continue
		case 1:
			s.OnError, s.Fallback = FallBack, &Fallback{Tool: "f"}
		case 2:
			s.Approval = true
		}
		if r.IntN(3) == 0 {
			n := r.IntN(3)
			s.Retries = &n
		}
	}
	p.Rollback = r.IntN(2) == 0
	o := Options{StopOnError: r.IntN(2) == 0, Retries: r.IntN(2), MaxParallel: 1 + r.IntN(3), TimeoutMS: []int{0, 60_000}[r.IntN(2)]}
	w.add(Event{Type: RunCreated, Created: &Created{Run: "r", Plan: *p, Options: o}})
	if r.IntN(3) == 0 {
		w.add(Event{Type: RunBreaks, Breaks: []Breakpoint{{Step: p.Steps[r.IntN(len(p.Steps))].ID, After: r.IntN(2) == 0}}})
	}
	return w
}

func (w *world) add(e Event) {
	e.N, e.Time = len(w.events)+1, w.now
	if err := w.state.Apply(e); err != nil {
		w.t.Fatalf("%v\n%+v", err, w.events)
	}
	w.events = append(w.events, e)
}

func (w *world) env() Env {
	return Env{Now: w.now,
		Busy:   func(step string, item int) bool { k := key(step, item, ""); return w.busy[k] || w.asking[k] },
		Breaks: func(Breakpoint) bool { return true },
	}
}

// turn does what is to be done, or lets something happen. It says whether the
// run goes on.
func (w *world) turn() bool {
	w.now = w.now.Add(time.Duration(w.r.IntN(50)) * time.Millisecond)
	if w.r.IntN(40) == 0 && w.kills < 9 {
		w.kill()
	}
	todo := w.state.Next(w.env())
	if running := len(w.busy); running > w.state.Created.Options.MaxParallel && w.state.Stopping == "" {
		w.t.Fatalf("%d calls at once", running)
	}
	wait := false
	for _, d := range todo {
		if d.What == DoWait {
			wait = true
			continue
		}
		w.do(d)
		if d.What == DoEnd {
			return false
		}
		if d.What == DoPause || d.What == DoStop {
			break // what follows was decided before it
		}
		if w.r.IntN(4) == 0 {
			return true // not all of it at once
		}
	}
	switch {
	case len(w.busy) > 0:
		w.finish()
	case w.state.Pause != nil:
		w.person()
	case len(todo) == 0 || wait && len(todo) == 1:
		w.idle(todo)
	}
	return true
}

// idle is when nothing is under way: then there must be something to wait for.
func (w *world) idle(todo []Do) {
	for _, id := range w.state.Order() {
		for i := range w.state.Steps[id].Items {
			if w.state.Steps[id].Items[i].Phase == ItemAsked {
				delete(w.asking, key(id, i, ""))
				w.add(Event{Type: CallDecided, Step: id, Item: i, Approve: w.r.IntN(4) > 0, Reason: "no"})
				return
			}
		}
	}
	if len(todo) == 0 {
		w.t.Fatalf("nothing is to be done, and nothing is waited for\n%+v\n%+v", w.state, w.events)
	}
	w.now = todo[0].Until
	if w.waits++; w.waits > 1000 {
		w.t.Fatal("it waits for ever")
	}
}

func (w *world) do(d Do) {
	st := w.state.Steps[d.Step]
	switch d.What {
	case DoOpen:
		for _, need := range w.plan.Needs(d.Step) {
			if !w.state.Steps[need].Phase.Over() {
				w.t.Fatalf("%s begins before %s is over", d.Step, need)
			}
		}
		n := 1
		if w.plan.Step(d.Step).ForEach != nil {
			n = w.r.IntN(4)
		}
		if w.r.IntN(8) == 0 {
			w.add(Event{Type: StepSkipped, Step: d.Step, Reason: "the condition does not hold"})
			return
		}
		w.add(Event{Type: StepOpened, Step: d.Step, Items: n})
	case DoSkip:
		w.add(Event{Type: StepSkipped, Step: d.Step, Reason: d.Reason})
	case DoAsk:
		w.add(Event{Type: CallAsked, Step: d.Step, Item: d.Item})
		w.asking[key(d.Step, d.Item, "")] = true
	case DoUnknown:
		if w.sure[d.Step] && w.state.Stopping == "" && st.Items[d.Item].Cuts < maxCuts {
			w.t.Fatalf("%s may be called again", d.Step)
		}
		w.add(Event{Type: CallUnknown, Step: d.Step, Item: d.Item, Kind: d.Kind, Failure: &Failure{Message: "?"}})
	case DoKeep:
		w.add(Event{Type: StepKept, Step: d.Step})
	case DoPause:
		w.add(Event{Type: RunPaused, Step: d.Step, After: d.After, Reason: d.Reason})
	case DoStop:
		w.add(Event{Type: RunStopping, Status: d.Status, Reason: d.Reason})
	case DoEnd:
		w.add(Event{Type: RunEnded, Status: d.Status})
	case DoCall:
		k := key(d.Step, d.Item, d.Kind)
		if w.outcome[k] {
			w.t.Fatalf("%s is called again though its result is recorded", k)
		}
		w.called[k]++
		w.add(Event{Type: CallStarted, Step: d.Step, Item: d.Item, Kind: d.Kind, Attempt: st.Items[d.Item].Attempt + 1, Safe: w.sure[d.Step]})
		w.busy[key(d.Step, d.Item, "")] = true
	}
}

// finish ends one call that is under way.
func (w *world) finish() {
	for k := range w.busy {
		var step string
		var item int
		for _, id := range w.state.Order() {
			for i := range w.state.Steps[id].Items {
				if key(id, i, "") == k {
					step, item = id, i
				}
			}
		}
		delete(w.busy, k)
		it := &w.state.Steps[step].Items[item]
		kind, tries := it.Kind, it.Tries
		if it.Undo == ItemRunning {
			kind, tries = UndoCall, it.UndoTries
		}
		e := Event{Type: CallDone, Step: step, Item: item, Kind: kind, Result: &Data{Value: []byte("1"), Size: 1}}
		if w.r.IntN(3) == 0 {
			e = Event{Type: CallFailed, Step: step, Item: item, Kind: kind, Failure: &Failure{Message: "no"}}
			if tries <= 1 && w.r.IntN(2) == 0 && w.state.Stopping == "" {
				at := w.now.Add(time.Second)
				e.Retry = &at
			}
		} else {
			w.outcome[key(step, item, kind)] = true
		}
		w.add(e)
		return
	}
}

// kill ends the hub: calls under way are lost, the journal is not.
func (w *world) kill() {
	w.kills++
	clear(w.busy)
	clear(w.asking)
	again, err := Replay(w.events)
	if err != nil {
		w.t.Fatal(err)
	}
	if d := cmp.Diff(w.state.Spent(w.now), again.Spent(w.now)); d != "" {
		w.t.Fatal(d)
	}
	if d := cmp.Diff(w.state, again, cmp.AllowUnexported(State{}, StepState{}, completed{}, links{}), cmpopts.EquateEmpty()); d != "" {
		w.t.Fatalf("the journal leads to another state:\n%s", d)
	}
	w.state = again
	if w.r.IntN(2) == 0 {
		spent := w.state.Spent(w.now)
		w.now = w.now.Add(time.Hour) // before the next hub comes
		w.add(Event{Type: RunTaken, By: "another"})
		if w.state.Spent(w.now) > spent {
			w.t.Fatalf("a run has spent %v, and %v after no hub had it", spent, w.state.Spent(w.now))
		}
	}
}

// person goes on with a run that is paused.
func (w *world) person() {
	at := w.state.Pause.Step
	if st := w.state.Steps[at]; st != nil && !st.Phase.Over() && slices.ContainsFunc(st.Items, func(it ItemState) bool { return it.Phase == ItemUnknown }) {
		switch w.r.IntN(3) {
		case 0:
			w.add(Event{Type: StepAgain, Step: at})
		case 1:
			w.add(Event{Type: StepSkipped, Step: at, Reason: "by a person"})
		case 2:
			w.add(Event{Type: StepPinned, Step: at, Result: &Data{Value: []byte("2"), Size: 1}})
		}
	}
	mode := []Mode{ToBreak, OneStep, RunTo}[w.r.IntN(3)]
	to := ""
	if mode == RunTo {
		to = w.plan.Steps[w.r.IntN(len(w.plan.Steps))].ID
	}
	if w.r.IntN(20) == 0 {
		w.add(Event{Type: RunStopping, Status: Stopped, Reason: "by a person"})
		return
	}
	w.add(Event{Type: RunContinue, Mode: mode, To: to})
}

// TestRunsEnd drives random plans through random outcomes and kills: every run
// ends, nothing recorded is called again, nothing uncertain is repeated, and
// the journal alone leads to the same state.
func TestRunsEnd(t *testing.T) {
	rounds := 1_000
	if os.Getenv("STOA_SOAK") != "" {
		rounds = 300_000
	}
	ended := map[Status]int{}
	for n := range rounds {
		w := newWorld(t, rand.New(rand.NewPCG(uint64(n), 11)))
		for turns := 0; w.turn(); turns++ {
			if turns > 20_000 {
				t.Fatalf("run %d does not end: %+v", n, w.state)
			}
		}
		ended[w.state.Status]++
		w.check(n)
	}
	for _, s := range []Status{Finished, Failed, Stopped} {
		if ended[s] == 0 {
			t.Errorf("no run was %s", s)
		}
	}
	t.Logf("%d runs: %v", rounds, ended)
}

// check holds a run that is over to what its status says.
func (w *world) check(n int) {
	for _, id := range w.state.Order() {
		st := w.state.Steps[id]
		if w.state.Status == Finished && !st.Phase.Over() {
			w.t.Fatalf("run %d is done, but %s is %s", n, id, st.Phase)
		}
		if st.Phase == StepDone && !st.Kept && len(w.plan.Step(id).Outputs) > 0 {
			w.t.Fatalf("run %d: the outputs of %s are not kept", n, id)
		}
		for i := range st.Items {
			it := &st.Items[i]
			if it.Phase == ItemRunning || it.Undo == ItemRunning {
				w.t.Fatalf("run %d is %s, but a call of %s is at work", n, w.state.Status, id)
			}
			undone := it.Undo == ItemDone || it.Undo == ItemFailed || it.Undo == ItemUnknown
			must := w.plan.Rollback && w.state.Status != Finished && w.state.Stopping != "" && it.Phase == ItemDone && it.Kind == OwnCall && w.plan.Step(id).Compensate != nil
			if must != undone && it.Kind == OwnCall {
				w.t.Fatalf("run %d: %s is undone: %v (%q), must be: %v", n, id, undone, it.Undo, must)
			}
		}
	}
}
