package stoa

import (
	"encoding/json"
	"errors"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/plan"
)

// Kinds that are not in docs/errors.md, because only this package has them.
const (
	KindConfig = "config" // the configuration is wrong; Message names every place
	KindServer = "server" // the server answered with an error of its own: see Code and Data
)

// Error says why something could not be done.
type Error struct {
	Kind      string          // a name from docs/errors.md, such as "unreachable" or "timeout", KindConfig or KindServer
	Message   string          // what was wrong, and with what
	Hint      string          // what to do; may be empty
	Retryable bool            // the same call may succeed later, unchanged, and repeating it does no harm
	Code      int             // KindServer: the JSON-RPC code
	Data      json.RawMessage // KindServer: the error's data; nil if there is none
	Problems  []Problem       // of a plan, if that is what is wrong

	cause error
}

func (e *Error) Error() string { return "stoa: " + e.Message }

// Unwrap returns the cause, such as context.Canceled, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Problem is one thing that is wrong with a plan.
type Problem struct {
	Pointer string // a JSON pointer into the plan, or /inputs/NAME
	Step    string // the step that it is about; may be empty
	Message string
	Hint    string // may be empty
}

// wrap makes an Error of what the hub says.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		return &Error{Kind: KindConfig, Message: problems.Error(), Hint: "Mend what is listed.", cause: err}
	}
	if problems, ok := errors.AsType[*plan.Problems](err); ok {
		e := &Error{Kind: fault.InvalidArguments.String(), Message: problems.Error(), Hint: "Mend every problem that is listed.", cause: err}
		for _, p := range problems.List {
			e.Problems = append(e.Problems, Problem{Pointer: p.Pointer, Step: p.Step, Message: p.Message, Hint: p.Hint})
		}
		return e
	}
	f := fault.Of(err)
	e := &Error{Kind: f.Kind.String(), Message: f.Error(), Hint: f.Advice(), Retryable: f.Retryable(), cause: f.Err}
	if f.Kind == fault.Internal && f.Err != nil {
		e.Message = f.Err.Error()
	}
	return e
}

// said makes an Error of a JSON-RPC error object.
func said(object []byte) error {
	var o struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return &Error{Kind: KindServer, Message: "the server answered with an error that cannot be read: " + string(object)}
	}
	return &Error{Kind: KindServer, Message: "the server answered: " + o.Message, Code: o.Code, Data: o.Data}
}

func wrong(text, hint string) *Error { return &Error{Kind: KindConfig, Message: text, Hint: hint} }
