package plan

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/obs"
)

// Event is one entry of the journal of a run. The journal is the truth: the
// state of a run is what its events make of it.
type Event struct {
	N    int       `json:"n"` // from 1, without gaps
	Time time.Time `json:"time"`
	Type EventType `json:"type"`

	Step    string   `json:"step,omitempty"`
	Item    int      `json:"item,omitempty"`
	Attempt int      `json:"attempt,omitempty"` // from 1
	Kind    CallKind `json:"kind,omitempty"`    // of a call; "" is the step's own

	Created *Created     `json:"created,omitempty"`
	Key     string       `json:"key,omitempty"`     // of Started: goes along with the call
	Safe    bool         `json:"safe,omitempty"`    // of Started: it may be made again if nobody knows what became of it
	Items   int          `json:"items,omitempty"`   // of Opened
	List    *Data        `json:"list,omitempty"`    // of Opened: what a forEach goes through
	Args    *Data        `json:"args,omitempty"`    // of Started: as they were sent; of Decided: as they were changed
	Result  *Data        `json:"result,omitempty"`  // of Done and Pinned
	Failure *Failure     `json:"failure,omitempty"` // of Failed, Unknown and Ended
	Retry   *time.Time   `json:"retry,omitempty"`   // of Failed: when it is tried again; nil means not
	Reason  string       `json:"reason,omitempty"`  // of Skipped, Paused, Stopping, Decided
	Approve bool         `json:"approve,omitempty"` // of Decided
	Defined string       `json:"defined,omitempty"` // of Decided: the digest of the definition that it was about
	Shown   bool         `json:"shown,omitempty"`   // of Decided: Args are those that the person was shown, unchanged
	Ask     string       `json:"ask,omitempty"`     // of Asked: the id of the approval
	After   bool         `json:"after,omitempty"`   // of Paused: after the step, not before it
	Mode    Mode         `json:"mode,omitempty"`    // of Continued
	To      string       `json:"to,omitempty"`      // of Continued with RunTo: the step
	Breaks  []Breakpoint `json:"breaks,omitempty"`  // of Breaks
	Status  Status       `json:"status,omitempty"`  // of Stopping and Ended
	By      string       `json:"by,omitempty"`      // of Created and Taken: which hub; else which person

	Actor *actor.Record `json:"actor,omitempty"` // of Steered: who moved the run on

	flaw error // why the entry could not be read
}

// EventType is what happened.
type EventType string

// What can happen.
const (
	RunCreated  EventType = "created"
	RunTaken    EventType = "taken" // a hub drives the run from here on
	StepOpened  EventType = "opened"
	StepSkipped EventType = "skipped"
	CallAsked   EventType = "asked"
	CallDecided EventType = "decided"
	CallStarted EventType = "started"
	CallDone    EventType = "done"
	CallFailed  EventType = "failed"
	CallUnknown EventType = "unknown" // it was begun and nobody knows what became of it
	StepKept    EventType = "kept"    // its outputs are values of the Session
	StepPinned  EventType = "pinned"  // its result was set by a person
	StepAgain   EventType = "again"   // a person wants it tried again
	RunBreaks   EventType = "breaks"
	RunPaused   EventType = "paused"
	RunContinue EventType = "continued"
	RunStopping EventType = "stopping" // nothing more is begun, but for what undoes
	RunSteered  EventType = "steered"  // somebody else moves it on, whose rights bound it from here on
	RunEnded    EventType = "ended"
)

// eventTypes are those that this version knows.
var eventTypes = []EventType{
	RunCreated, RunTaken, StepOpened, StepSkipped, CallAsked, CallDecided, CallStarted, CallDone, CallFailed, CallUnknown,
	StepKept, StepPinned, StepAgain, RunBreaks, RunPaused, RunContinue, RunStopping, RunSteered, RunEnded,
}

// known reports whether this version knows what an event says.
func (e *Event) known() bool { return slices.Contains(eventTypes, e.Type) }

// CallKind tells the calls of a step apart.
type CallKind string

// The kinds.
const (
	OwnCall      CallKind = ""
	FallbackCall CallKind = "fallback"
	UndoCall     CallKind = "undo"
)

// Created is what a run begins with.
type Created struct {
	Run     string          `json:"run"`
	Plan    Plan            `json:"plan"`
	Inputs  map[string]Data `json:"inputs,omitempty"`
	Options Options         `json:"options"`
	Session string          `json:"session,omitempty"` // its name
	Owner   string          `json:"owner,omitempty"`   // the principal
	// Actor is on whose behalf the run is made; nil in what older versions wrote.
	Actor *actor.Record `json:"actor,omitempty"`
	// Publisher is who published the plan, if it was run as a published one.
	Publisher *actor.Record `json:"publisher,omitempty"`
	// Steered is who else moved on what this was forked from.
	Steered []*actor.Record `json:"steered,omitempty"`
	From    *Origin         `json:"from,omitempty"`   // nil: it is no fork
	Paused  bool            `json:"paused,omitempty"` // it waits to be told to begin
	Key     string          `json:"key,omitempty"`    // the same key twice is the same run
	Breaks  []Breakpoint    `json:"breaks,omitempty"`
	Pinned  map[string]Data `json:"pinned,omitempty"` // of a fork: results that are taken over, by step
	Trace   obs.Parent      `json:"trace,omitzero"`   // what the run is part of
}

// Origin is the run that another was forked from.
type Origin struct {
	Run    string `json:"run"`
	At     int    `json:"at"`     // its events up to this one count
	Reason string `json:"reason"` // what was changed
}

// Options are those of a run.
type Options struct {
	StopOnError bool `json:"stopOnError"`
	TimeoutMS   int  `json:"timeoutMs"`
	Retries     int  `json:"retries"`
	MaxParallel int  `json:"maxParallel"`
}

// DefaultOptions are used where nothing is said.
func DefaultOptions() Options {
	return Options{StopOnError: true, TimeoutMS: 300_000, Retries: 3, MaxParallel: 4}
}

// Data is JSON in the journal: as it is, or by the hash of a blob.
type Data struct {
	Value json.RawMessage `json:"value,omitempty"`
	Blob  string          `json:"blob,omitempty"`
	Own   bool            `json:"own,omitempty"` // the blob is the run's; in older versions it was the Session's
	Size  int             `json:"size"`
}

// Failure is why a call or a run failed.
type Failure struct {
	Kind    string `json:"kind,omitempty"` // of fault; empty if the tool said so itself
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Step    string `json:"step,omitempty"`
}

// Breakpoint is where a run pauses.
type Breakpoint struct {
	Step  string     `json:"step"`
	After bool       `json:"after,omitempty"`
	If    *Condition `json:"if,omitempty"`
}

// Mode says how far a run goes on.
type Mode string

// The modes.
const (
	ToBreak Mode = "continue" // to the next breakpoint
	OneStep Mode = "step"     // until one more step has begun and ended
	RunTo   Mode = "run_to"   // until before a step
)

// Status is that of a run.
type Status string

// What a run can be.
const (
	Running  Status = "running"
	Paused   Status = "paused"
	Waiting  Status = "waiting" // for a person's approval, and nothing else
	Undoing  Status = "undoing"
	Finished Status = "done"
	Failed   Status = "failed"  // a step failed for good, or the time was over
	Stopped  Status = "stopped" // a person, or a call that was cancelled, stopped it
)

// Statuses are the names of all of them.
func Statuses() []string {
	var out []string
	for _, s := range []Status{Running, Paused, Waiting, Undoing, Finished, Failed, Stopped} {
		out = append(out, string(s))
	}
	return out
}

// Over says whether nothing more can happen to a run.
func (s Status) Over() bool { return s == Finished || s == Failed || s == Stopped }
