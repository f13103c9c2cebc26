// Package fault owns the reasons for which the hub could not ask: a closed,
// numbered table of Kinds and the one error type that crosses its surfaces.
//
// What a tool says of its own failure is not a fault: it is a result with
// isError and passes untouched.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stoahub/stoa/internal/secret"
)

// Error is one fault.
type Error struct {
	Kind    Kind
	Subject string         // what it happened to: an upstream, a tool, a header
	Msg     string         // what was wrong; may be shown to a model or a person
	Hint    string         // what to do next; empty means the Kind's own hint
	Data    map[string]any // further members of error.data
	Err     error          // the cause, for the log only
	// Harmless says that repeating what was asked does no harm although the
	// Kind does not: it was not begun, or bears repetition.
	Harmless bool
	// Begun says that repeating what was asked may do harm although the Kind does
	// not: a server had it already.
	Begun bool
}

// New returns a fault about subject with a formatted message.
func New(k Kind, subject, format string, args ...any) *Error {
	return &Error{Kind: k, Subject: subject, Msg: fmt.Sprintf(format, args...)}
}

// Because returns e with its cause set.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// With returns e with one more member of error.data.
func (e *Error) With(key string, value any) *Error {
	if e.Data == nil {
		e.Data = map[string]any{}
	}
	e.Data[key] = value
	return e
}

func (e *Error) Error() string {
	s := e.Text()
	if e.Err != nil {
		s += ": " + secret.Redact(e.Err.Error())
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Text is the message with its subject, without the cause. What looks like a
// credential is taken out: messages repeat what servers, agents and libraries
// say, which may be what they were sent.
func (e *Error) Text() string {
	msg := secret.Redact(e.Msg)
	if e.Subject == "" {
		return msg
	}
	return e.Subject + ": " + msg
}

// Advice is the hint to show with the message.
func (e *Error) Advice() string {
	if e.Hint != "" {
		return e.Hint
	}
	return e.Kind.Info().Hint
}

// Retryable reports whether the same request may succeed later, and repeating it
// does no harm.
func (e *Error) Retryable() bool { return e.Harmless || e.Kind.Info().Retryable && !e.Begun }

// Wire renders e as the JSON-RPC error object for a client of the modern or
// the legacy era.
func (e *Error) Wire(modern bool) []byte {
	info := e.Kind.Info()
	code := info.Legacy
	if modern {
		code = info.Modern
	}
	b, err := json.Marshal(struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	}{code, e.Text(), e.data()})
	if err != nil {
		return []byte(`{"code":-32603,"message":"the error could not be encoded","data":{"kind":"internal"}}`)
	}
	return b
}

func (e *Error) data() map[string]any {
	d := make(map[string]any, len(e.Data)+3)
	for k, v := range e.Data {
		d[k] = v
	}
	d["kind"] = e.Kind.String()
	d["hint"] = e.Advice()
	if e.Retryable() {
		d["retryable"] = true
	}
	return d
}

// Status is the HTTP status of a response that carries e.
func (e *Error) Status(modern bool) int {
	info := e.Kind.Info()
	if modern && info.ModernOwn != 0 {
		return info.ModernOwn
	}
	return info.HTTP
}

// Of returns err as a fault; an error that is none becomes Internal, unless it
// only says that a context ended.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Cancelled, Msg: "the call was cancelled", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Msg: "the call took too long", Err: err}
	}
	return &Error{Kind: Internal, Msg: "internal error", Err: err}
}

// Is reports whether err is a fault of kind k.
func Is(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}
