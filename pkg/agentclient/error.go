package agentclient

import (
	"encoding/json"
	"fmt"
)

// Error says why a call could not be made, or how it was refused.
type Error struct {
	Agent   string          // the agent that was asked
	Method  string          // what it was asked for
	Code    int             // of JSON-RPC; 0 if no JSON-RPC error came
	Message string          // what was wrong
	Data    json.RawMessage // the error's data as it came; nil if there is none
	Status  int             // of HTTP; 0 if no answer came

	// Of a stoa hub's data: a name from docs/errors.md, such as "queue_full",
	// what to do about it, and whether the same call may succeed later.
	Kind      string
	Hint      string
	Retryable bool

	era   era // in which it was said
	cause error
}

func (e *Error) Error() string { return fmt.Sprintf("agent %s: %s: %s", e.Agent, e.Method, e.Message) }

// Unwrap returns the cause, such as context.Canceled, or nil.
func (e *Error) Unwrap() error { return e.cause }

// rpcError is the error object of an answer.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// refused makes an Error of the object that a router answered with.
func refused(agent, method string, status int, o *rpcError) *Error {
	e := &Error{Agent: agent, Method: method, Code: o.Code, Message: o.Message, Data: o.Data, Status: status}
	var ours struct {
		Kind      string `json:"kind"`
		Hint      string `json:"hint"`
		Retryable bool   `json:"retryable"`
	}
	if json.Unmarshal(o.Data, &ours) == nil { // another router's data may be anything
		e.Kind, e.Hint, e.Retryable = ours.Kind, ours.Hint, ours.Retryable
	}
	return e
}

// lost makes an Error of a request that got no answer, or none that can be read.
func lost(agent, method string, status int, cause error, format string, args ...any) *Error {
	return &Error{Agent: agent, Method: method, Status: status, Message: fmt.Sprintf(format, args...), cause: cause}
}
