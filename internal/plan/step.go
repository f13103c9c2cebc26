package plan

import (
	"fmt"
	"time"
)

// StepState is what has become of a step.
type StepState struct {
	Phase  Phase
	Items  []ItemState // one, but for a step for each item of a list
	List   *Data       // what a forEach goes through
	Pinned *Data       // its result, if a person or a fork has set it
	Kept   bool        // its outputs are values of the Session
	Reason string      // why it was skipped

	each     bool
	fallback bool
}

// Phase is how far a step is.
type Phase string

// The phases.
const (
	StepPending Phase = "pending"
	StepOpen    Phase = "running" // some of its calls are not over
	StepDone    Phase = "done"
	StepFailed  Phase = "failed"
	StepSkip    Phase = "skipped"
)

// Over says whether the step is not going to do anything more by itself.
func (p Phase) Over() bool { return p == StepDone || p == StepFailed || p == StepSkip }

// ItemState is what has become of one call of a step.
type ItemState struct {
	Phase   ItemPhase
	Kind    CallKind
	Attempt int // of all calls, the last
	Tries   int // since it began, or since a person wanted it tried again
	Args    *Data
	Result  *Data
	Failure *Failure
	Retry   time.Time // when it is tried again
	Began   time.Time
	Took    time.Duration
	Ask     string // the id of the approval that is waited for
	Key     string // of the last call
	Safe    bool   // the last call may be made again
	Cuts    int    // how often the hub ended in the midst of it
	Edited  *Data  // arguments as a person changed them
	Shown   *Data  // arguments as a person was shown and allowed them
	Allowed bool   // a person allowed it
	Defined string // the digest of the definition that they allowed a call of

	Undo      ItemPhase // how far it is undone
	UndoTries int
	UndoRetry time.Time
	UndoError *Failure
	UndoKey   string
	UndoSafe  bool
	UndoCuts  int
}

// ItemPhase is how far a call is.
type ItemPhase string

// The phases.
const (
	ItemPending ItemPhase = "pending"
	ItemAsked   ItemPhase = "waiting" // for an approval
	ItemRunning ItemPhase = "running"
	ItemRetry   ItemPhase = "retrying"
	ItemDone    ItemPhase = "done"
	ItemFailed  ItemPhase = "failed"
	ItemUnknown ItemPhase = "unknown" // it was begun, and nobody knows what became of it
)

func (st *StepState) open(e Event) error {
	if st.Phase != StepPending {
		return fmt.Errorf("it is %s", st.Phase)
	}
	if e.Items < 0 || e.Items > MaxItems || !st.each && e.Items != 1 {
		return fmt.Errorf("it cannot have %d items", e.Items)
	}
	st.Phase, st.List, st.Items = StepOpen, e.List, make([]ItemState, e.Items)
	for i := range st.Items {
		st.Items[i].Phase = ItemPending
	}
	st.settle()
	return nil
}

// skip also takes a step that failed or is unsure, since a person may want to
// go on without it.
func (st *StepState) skip(e Event) error {
	if st.Phase == StepDone || st.Phase == StepSkip || st.busy() {
		return fmt.Errorf("it is %s", st.Phase)
	}
	st.Phase, st.Reason = StepSkip, e.Reason
	return nil
}

// busy says whether a call of the step is under way.
func (st *StepState) busy() bool {
	for i := range st.Items {
		if st.Items[i].Phase == ItemRunning {
			return true
		}
	}
	return false
}

// again makes the calls of a step that failed, or of which nobody knows, ones
// to be made.
func (st *StepState) again() error {
	if st.busy() {
		return fmt.Errorf("it is at work")
	}
	switch st.Phase {
	case StepSkip:
		st.Phase, st.Items, st.Reason = StepPending, nil, ""
		return nil
	case StepFailed, StepOpen:
		n := 0
		for i := range st.Items {
			it := &st.Items[i]
			if it.Phase == ItemFailed || it.Phase == ItemUnknown || it.Phase == ItemRetry {
				*it = ItemState{Phase: ItemPending, Attempt: it.Attempt, Edited: it.Edited}
				n++
			}
		}
		if n > 0 {
			st.Phase = StepOpen
			return nil
		}
	}
	return fmt.Errorf("it is %s", st.Phase)
}

// settle finds out whether the step is over.
func (st *StepState) settle() {
	failed := false
	for i := range st.Items {
		switch it := &st.Items[i]; it.Phase {
		case ItemDone:
		case ItemFailed:
			if st.fallback && it.Kind == OwnCall && !it.denied() {
				return // its fallback takes over
			}
			failed = true
		default:
			return
		}
	}
	st.Phase = StepDone
	if failed {
		st.Phase = StepFailed
	}
}

// The kinds of failures that a person's answer is, and that there was none.
const (
	deniedKind     = "denied"
	unansweredKind = "approval_required"
	heldKind       = "definition_held" // its definition is to be accepted first
)

// denied says whether the call was not allowed; nothing takes its place then.
func (it *ItemState) denied() bool {
	return it.Failure != nil && (it.Failure.Kind == deniedKind || it.Failure.Kind == unansweredKind || it.Failure.Kind == heldKind)
}

func (it *ItemState) apply(e Event) error {
	no := func() error { return fmt.Errorf("the call is %s", it.Phase) }
	switch e.Type {
	case CallAsked:
		switch it.Phase {
		case ItemPending, ItemAsked: // asked again, by the next hub
		case ItemRunning: // it was begun, and has to be allowed before anybody gets it
			it.Tries--
		default:
			return no()
		}
		it.Phase, it.Ask = ItemAsked, e.Ask
	case CallDecided:
		if it.Phase != ItemAsked {
			return no()
		}
		it.Ask = ""
		if it.Shown = e.Args; !e.Shown {
			it.Edited, it.Shown = e.Args, nil
		}
		if it.Phase, it.Allowed, it.Defined = ItemPending, e.Approve, e.Defined; !e.Approve {
			it.Phase, it.Failure = ItemFailed, &Failure{Kind: deniedKind, Message: e.Reason}
			if e.By == "" { // nobody has said so
				it.Failure.Kind = unansweredKind
			}
		}
	case CallStarted:
		again := e.Kind == FallbackCall && it.Kind == OwnCall && it.Phase == ItemFailed
		if it.Phase != ItemPending && it.Phase != ItemRetry && it.Phase != ItemRunning && !again {
			return no()
		}
		if e.Attempt <= it.Attempt {
			return fmt.Errorf("attempt %d cannot follow attempt %d", e.Attempt, it.Attempt)
		}
		if e.Kind != it.Kind {
			it.Tries, it.Cuts = 0, 0
		}
		if it.Phase == ItemRunning {
			it.Cuts++
		}
		it.Phase, it.Kind, it.Attempt, it.Tries, it.Retry = ItemRunning, e.Kind, e.Attempt, it.Tries+1, time.Time{}
		it.Args, it.Key, it.Safe, it.Began = e.Args, e.Key, e.Safe, e.Time
	case CallDone:
		value := e.Kind == FallbackCall && it.Phase == ItemFailed // a fallback that is a value
		if it.Phase != ItemRunning && !value {
			return no()
		}
		it.Phase, it.Kind, it.Result, it.Failure, it.Took = ItemDone, e.Kind, e.Result, nil, e.Time.Sub(it.Began)
	case CallFailed:
		if it.Phase != ItemRunning && it.Phase != ItemPending {
			return no()
		}
		it.Phase, it.Kind, it.Failure = ItemFailed, e.Kind, e.Failure
		if e.Retry != nil {
			it.Phase, it.Retry = ItemRetry, *e.Retry
		}
	case CallUnknown:
		if it.Phase != ItemRunning {
			return no()
		}
		it.Phase, it.Failure = ItemUnknown, e.Failure
	default:
		return fmt.Errorf("nothing is known of it")
	}
	return nil
}

// undo takes in what happens to the call that undoes this one.
func (it *ItemState) undo(e Event) error {
	if it.Phase != ItemDone {
		return fmt.Errorf("what is not done cannot be undone")
	}
	switch e.Type {
	case CallStarted:
		if it.Undo == ItemDone || it.Undo == ItemFailed || it.Undo == ItemUnknown {
			return fmt.Errorf("the undoing is %s", it.Undo)
		}
		if it.Undo == ItemRunning {
			it.UndoCuts++
		}
		it.Undo, it.UndoTries, it.UndoRetry, it.UndoKey, it.UndoSafe = ItemRunning, it.UndoTries+1, time.Time{}, e.Key, e.Safe
		it.Attempt = max(it.Attempt, e.Attempt)
		return nil
	case CallDone, CallFailed, CallUnknown:
		if it.Undo != ItemRunning && it.Undo != "" {
			return fmt.Errorf("the undoing is %s", it.Undo)
		}
		it.Undo, it.UndoError = map[EventType]ItemPhase{CallDone: ItemDone, CallFailed: ItemFailed, CallUnknown: ItemUnknown}[e.Type], e.Failure
		if e.Retry != nil {
			it.Undo, it.UndoRetry = ItemRetry, *e.Retry
		}
		return nil
	}
	return fmt.Errorf("nothing is known of it")
}
