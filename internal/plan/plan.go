// Package plan owns plans: DAGs of tool calls that can be written down, checked,
// run, stopped at a step, looked into, changed and gone on with.
//
// A Plan says what to call with what, where arguments are references to inputs,
// to what other steps yield, or to values of the Session. Check says everything
// that is wrong with one before anything is called. Create finds one from what
// actions need and yield.
package plan

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// The bounds of a plan.
const (
	MaxSteps  = 1000
	MaxItems  = 1000 // of one forEach
	MaxBytes  = 256 << 10
	MaxNested = 16 // conditions in conditions
)

// Plan is a DAG of steps. The form is that of plan.schema.json.
type Plan struct {
	ID          string            `json:"id,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Inputs      []Input           `json:"inputs,omitempty"`
	Steps       []Step            `json:"steps"`
	Outputs     map[string]string `json:"outputs,omitempty"` // names, and the references they stand for
	Rollback    bool              `json:"rollback,omitempty"`
	Assumptions []string          `json:"assumptions,omitempty"` // what was supposed when it was found
	Ties        []string          `json:"ties,omitempty"`        // what would have done as well
}

// Input is something a run is given.
type Input struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Optional    bool            `json:"optional,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"` // makes it optional
}

// Step is one call, or one for each item of a list.
type Step struct {
	ID         string          `json:"id"`
	Title      string          `json:"title,omitempty"`
	Action     string          `json:"action,omitempty"` // what it is for, where the plan was found by actions
	Tool       string          `json:"tool,omitempty"`   // empty: the tool that Action names
	Args       json.RawMessage `json:"args,omitempty"`   // an object, with references
	Outputs    []string        `json:"outputs,omitempty"`
	After      []string        `json:"after,omitempty"` // steps that must have ended, besides those that are referred to
	When       *Condition      `json:"when,omitempty"`
	ForEach    *ForEach        `json:"forEach,omitempty"`
	Retries    *int            `json:"retries,omitempty"`   // nil: as the run says
	BackoffMS  int             `json:"backoffMs,omitempty"` // before the first; doubles. 0: 500
	TimeoutMS  int             `json:"timeoutMs,omitempty"` // of one attempt; 0: as the tool has it
	OnError    OnError         `json:"onError,omitempty"`   // "": as the run says
	Fallback   *Fallback       `json:"fallback,omitempty"`
	Approval   bool            `json:"approval,omitempty"`   // a person is asked first
	Idempotent *bool           `json:"idempotent,omitempty"` // nil: as the tool says
	Compensate *Invocation     `json:"compensate,omitempty"`
}

// ForEach makes a step a call for each item of a list.
type ForEach struct {
	In  string `json:"in"`            // a reference to an array
	As  string `json:"as"`            // what an item is called in the arguments
	Max int    `json:"max,omitempty"` // more items are an error; 0: 100
}

// Cap is how many items there may be.
func (f *ForEach) Cap() int {
	if f.Max > 0 {
		return f.Max
	}
	return 100
}

// OnError says what becomes of a run when a step has failed for good.
type OnError string

// What can become of it.
const (
	Stop     OnError = "stop"     // nothing more is begun
	Continue OnError = "continue" // what needs the step is skipped
	FallBack OnError = "fallback" // the fallback takes its place
)

// Fallback takes the place of a step that failed: another call, or a value.
type Fallback struct {
	Tool  string          `json:"tool,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Invocation is a call besides that of a step.
type Invocation struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Called is the name of the tool that a step calls: that of its action where it
// names none.
func (s *Step) Called() string {
	if s.Tool != "" {
		return s.Tool
	}
	return s.Action
}

// Step returns the step of that id, or nil.
func (p *Plan) Step(id string) *Step {
	for i := range p.Steps {
		if p.Steps[i].ID == id {
			return &p.Steps[i]
		}
	}
	return nil
}

//go:embed plan.schema.json
var schemaText []byte

// Schema is the JSON Schema of a plan.
func Schema() []byte { return schemaText }

var compiled = sync.OnceValue(func() *schema.Schema {
	s, err := schema.Compile(schemaText)
	if err != nil {
		panic(fmt.Sprintf("plan: %v", err)) // it is part of the program
	}
	return s
})

// Decode reads a plan and checks its form, not yet what it says.
func Decode(raw []byte) (*Plan, []Problem) {
	p, problems := Read(raw)
	if problems != nil {
		return nil, problems
	}
	return p, nil
}

// Read is Decode that returns what could be read where something is wrong; nil
// if nothing could.
func Read(raw []byte) (*Plan, []Problem) {
	if len(raw) > MaxBytes {
		return nil, []Problem{{Message: fmt.Sprintf("is longer than %d bytes", MaxBytes), Hint: "Keep large data as values of the session and refer to them."}}
	}
	if err := wire.Valid(raw, wire.FromClient); err != nil {
		return nil, []Problem{{Message: "is not JSON: " + err.Error(), Hint: "Send the plan as a JSON object."}}
	}
	var problems []Problem
	for _, f := range compiled().Validate(raw) {
		p := Problem{Pointer: f.Pointer, Message: f.Message}
		if f.Close == "" && len(f.Allowed) > 0 && len(f.Allowed) <= 30 {
			var words []string
			for _, a := range f.Allowed {
				words = append(words, fmt.Sprint(a))
			}
			p.Hint = "Allowed: " + strings.Join(words, ", ") + "."
		}
		problems = append(problems, p)
	}
	if len(problems) > 0 {
		return readable(raw, problems), problems
	}
	// A run sends the same bytes before and after a restart: the journal has them without white space.
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	p := &Plan{}
	if err := json.Unmarshal(compact.Bytes(), p); err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	return p, nil
}

// Problem is one thing that is wrong with a plan.
type Problem struct {
	Pointer string `json:"pointer"` // RFC 6901, into the plan
	Step    string `json:"step,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`

	unknown bool // there is no such tool, for who asks
}

func (p Problem) String() string {
	s := p.Message
	if p.Pointer != "" {
		s = p.Pointer + " " + s
	}
	if p.Hint != "" {
		s += ". " + p.Hint
	}
	return s
}
