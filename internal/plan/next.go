package plan

import (
	"fmt"
	"slices"
	"time"
)

// Do is something that a run needs done. What comes of it is an event.
type Do struct {
	What   What
	Step   string
	Item   int
	Kind   CallKind
	Reason string
	After  bool      // of DoPause
	Status Status    // of DoStop and DoEnd
	Until  time.Time // of DoWait
}

// What is to be done.
type What int

// What can be to do.
const (
	DoOpen    What = iota + 1 // look at the condition and the list of a step
	DoSkip                    // a step
	DoAsk                     // a person
	DoCall                    // a tool, or put the value of a fallback in its place
	DoUnknown                 // note that nobody knows what became of a call
	DoKeep                    // make the outputs of a step values of the Session
	DoPause                   // at a breakpoint
	DoStop                    // begin nothing more
	DoEnd                     // the run
	DoWait                    // until a time, if nothing else happens
)

// Env is what Next has to know that is not in the journal.
type Env struct {
	Now time.Time
	// Busy says whether a call is under way in this process. One that the
	// journal has as running and that is not was cut off.
	Busy func(step string, item int) bool
	// Breaks says whether the condition of a breakpoint holds.
	Breaks func(Breakpoint) bool
}

// Next says what is to be done now. An empty answer means that something that
// is under way has to end first, or that a person has to say something.
func (s *State) Next(env Env) []Do {
	n := next{s: s, env: env, room: max(s.Created.Options.MaxParallel, 1)}
	switch {
	case s.Status.Over():
		return n.keep()
	case s.Stopping != "":
		return n.undo()
	}
	n.cutOff()
	if len(n.out) > 0 {
		return n.out
	}
	if s.Pause != nil {
		return n.keep()
	}
	if late := s.timeLeft(env.Now); late <= 0 {
		return []Do{{What: DoStop, Status: Failed, Reason: fmt.Sprintf("the run took longer than %d ms", s.Created.Options.TimeoutMS)}}
	}
	if n.failed() || n.paused() {
		return n.out
	}
	n.steps()
	if len(n.out) == 0 && n.busy == 0 && n.over() {
		return append(n.keep(), s.end())
	}
	if n.wait.IsZero() || n.wait.After(env.Now.Add(s.timeLeft(env.Now))) {
		n.wait = env.Now.Add(s.timeLeft(env.Now))
	}
	return append(append(n.out, n.keep()...), Do{What: DoWait, Until: n.wait})
}

type next struct {
	s    *State
	env  Env
	out  []Do
	room int // how many calls may be begun
	busy int // how many are under way
	wait time.Time
}

func (s *State) timeLeft(now time.Time) time.Duration {
	if s.Created.Options.TimeoutMS <= 0 {
		return 24 * time.Hour
	}
	return time.Duration(s.Created.Options.TimeoutMS)*time.Millisecond - s.Spent(now)
}

// maxCuts is how often a call may be made again after the hub ended in the
// midst of it: it may be what ends the hub.
const maxCuts = 5

// cutOff finds calls that were under way when the hub ended. In a run that
// stops none is made again.
func (n *next) cutOff() {
	for _, id := range n.s.planned {
		for i := range n.s.Steps[id].Items {
			it := &n.s.Steps[id].Items[i]
			if it.Phase != ItemRunning {
				continue
			}
			switch {
			case n.env.Busy(id, i):
				n.busy++
			case !it.Safe || it.Cuts >= maxCuts || n.s.Stopping != "":
				n.out = append(n.out, Do{What: DoUnknown, Step: id, Item: i, Kind: it.Kind})
			}
		}
	}
	n.room -= n.busy
}

// failed stops the run if a step failed that it cannot do without, and pauses
// it if nobody knows what became of a call.
func (n *next) failed() bool {
	for _, id := range n.s.planned {
		st := n.s.Steps[id]
		for i := range st.Items {
			if st.Items[i].Phase == ItemUnknown && st.Phase == StepOpen {
				n.out = append(n.out, Do{What: DoPause, Step: id, Reason: fmt.Sprintf("whether the call of %s took effect is not known: retry it, skip it, or set its result", id)})
				return true
			}
		}
		if st.Phase == StepFailed && n.s.onError(id) == Stop {
			n.out = append(n.out, Do{What: DoStop, Step: id, Status: Failed, Reason: "step " + id + " failed"})
			return true
		}
	}
	return false
}

// onError is what happens when a step fails.
func (s *State) onError(id string) OnError {
	switch step := s.step(id); {
	case step.OnError == Continue:
		return Continue
	case step.OnError == Stop || s.Created.Options.StopOnError:
		return Stop
	}
	return Continue
}

// paused pauses after steps, once nothing is under way for them.
func (n *next) paused() bool {
	s := n.s
	pause := func(step string, after bool, reason string) bool {
		n.out = append(n.out, Do{What: DoPause, Step: step, After: after, Reason: reason})
		return true
	}
	for _, b := range s.Breaks {
		st := s.Steps[b.Step]
		if st != nil && b.After && st.Phase.Over() && !s.passed[breakKey(b.Step, true)] && n.env.Breaks(b) {
			return pause(b.Step, true, "breakpoint after "+b.Step)
		}
	}
	if s.mode == OneStep && s.single != "" && s.Steps[s.single].Phase.Over() && n.busy == 0 {
		return pause(s.single, true, s.single+" was the step to do")
	}
	return false
}

// steps finds what can be begun.
func (n *next) steps() {
	for _, id := range n.s.planned {
		switch st := n.s.Steps[id]; st.Phase {
		case StepPending:
			if !n.begin(id) {
				return
			}
		case StepOpen:
			n.calls(id, st)
		}
	}
}

// begin opens or skips a step if those it waits for are over. It says no if the
// run pauses there.
func (n *next) begin(id string) bool {
	s := n.s
	l := s.links[id]
	for _, need := range slices.Concat(l.hard, l.soft) {
		if !s.Steps[need].Phase.Over() {
			return true
		}
	}
	for _, need := range l.hard {
		if p := s.Steps[need].Phase; p != StepDone {
			n.out = append(n.out, Do{What: DoSkip, Step: id, Reason: fmt.Sprintf("it needs %s, which %s", need, map[Phase]string{StepFailed: "failed", StepSkip: "was skipped"}[p])})
			return true
		}
	}
	if s.mode == OneStep && s.single != "" {
		return true
	}
	if why := n.breaksBefore(id); why != "" {
		n.out = []Do{{What: DoPause, Step: id, Reason: why}}
		return false
	}
	n.out = append(n.out, Do{What: DoOpen, Step: id})
	return s.mode != OneStep
}

func (n *next) breaksBefore(id string) string {
	s := n.s
	if s.passed[id] {
		return ""
	}
	if s.mode == RunTo && s.to == id {
		return "it was to run to " + id
	}
	for _, b := range s.Breaks {
		if b.Step == id && !b.After && n.env.Breaks(b) {
			return "breakpoint before " + id
		}
	}
	return ""
}

// calls finds the calls of a step that can be made.
func (n *next) calls(id string, st *StepState) {
	step := n.s.step(id)
	for i := range st.Items {
		it := &st.Items[i]
		do := Do{What: DoCall, Step: id, Item: i, Kind: it.Kind}
		if n.env.Busy(id, i) {
			continue // a call of it or a question about it is under way
		}
		switch {
		case it.Phase == ItemPending && step.Approval && !it.Allowed, it.Phase == ItemAsked:
			n.out = append(n.out, Do{What: DoAsk, Step: id, Item: i})
			continue
		case it.Phase == ItemPending, it.Phase == ItemRunning:
		case it.Phase == ItemRetry && it.Retry.After(n.env.Now):
			if n.wait.IsZero() || it.Retry.Before(n.wait) {
				n.wait = it.Retry
			}
			continue
		case it.Phase == ItemRetry:
		case it.Phase == ItemFailed && st.fallback && it.Kind == OwnCall && !it.denied():
			do.Kind = FallbackCall
		default:
			continue
		}
		if n.room > 0 {
			n.room--
			n.out = append(n.out, do)
		}
	}
}

// keep finds steps whose outputs are to be values of the Session.
func (n *next) keep() []Do {
	var out []Do
	for _, id := range n.s.planned {
		st := n.s.Steps[id]
		if st.Phase == StepDone && !st.Kept && len(n.s.step(id).Outputs) > 0 {
			out = append(out, Do{What: DoKeep, Step: id})
		}
	}
	return out
}

// over says whether all steps are.
func (n *next) over() bool {
	for _, st := range n.s.Steps {
		if !st.Phase.Over() {
			return false
		}
	}
	return true
}

// end says what a run that came to its end is.
func (s *State) end() Do {
	for _, id := range s.planned {
		if s.Steps[id].Phase == StepFailed && s.step(id).OnError != Continue {
			return Do{What: DoEnd, Status: Failed, Step: id, Reason: "step " + id + " failed"}
		}
	}
	return Do{What: DoEnd, Status: Finished}
}

// undo finds what is to be done in a run that stops: what is under way ends,
// then what was done is undone, the last first, one after the other.
func (n *next) undo() []Do {
	n.cutOff()
	if len(n.out) > 0 || n.busy > 0 {
		return n.out
	}
	for i := range n.s.order {
		d := n.s.order[len(n.s.order)-1-i]
		step := n.s.step(d.step)
		it := &n.s.Steps[d.step].Items[d.item]
		if !n.s.Created.Plan.Rollback || step.Compensate == nil || it.Phase != ItemDone {
			continue
		}
		do := Do{What: DoCall, Step: d.step, Item: d.item, Kind: UndoCall}
		switch {
		case it.Undo == ItemDone || it.Undo == ItemFailed || it.Undo == ItemUnknown:
			continue
		case it.Undo == ItemRunning && n.env.Busy(d.step, d.item):
			return nil
		case it.Undo == ItemRunning && (!it.UndoSafe || it.UndoCuts >= maxCuts):
			do.What = DoUnknown
		case it.Undo == ItemRetry && it.UndoRetry.After(n.env.Now):
			return []Do{{What: DoWait, Until: it.UndoRetry}}
		}
		return []Do{do}
	}
	return append(n.keep(), Do{What: DoEnd, Status: n.s.Stopping, Reason: n.s.Reason})
}
