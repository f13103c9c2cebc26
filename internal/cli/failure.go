package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/plan"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // or a wrong config
	exitToolSaidNo  = 3
	exitUnreachable = 4 // or a time-out
	exitDenied      = 5
	exitInterrupted = 130
)

// failure is an error that knows what to do about it and its exit code.
type failure struct {
	err  error
	hint string // may be empty
	more string // what else there is to see; may be empty
	code int
	rpc  int // the code of the JSON-RPC error that it was; 0 if it was none

	problems []plan.Problem // of a plan, where that was refused
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(code int, hint, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), hint: hint, code: code}
}

// doing says what was being done when err happened. A fault names its subject
// itself; once is enough.
func doing(action, subject string, err error) error {
	text := err.Error()
	f := describe(err)
	return &failure{err: &retold{action + " " + subject + ": " + strings.TrimPrefix(text, subject+": "), err}, hint: f.hint, more: f.more, code: f.code, rpc: f.rpc}
}

// retold is an error in other words.
type retold struct {
	text string
	err  error
}

func (r *retold) Error() string { return r.text }
func (r *retold) Unwrap() error { return r.err }

// errSilent ends a command whose output has said everything; the code is the
// failure's that wraps it.
var errSilent = errors.New("")

// report prints an error and returns the exit code for it.
func (s std) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		fmt.Fprintln(s.err, problems.Error())
		return exitUsage
	}
	f := describe(err)
	if !errors.Is(f, errSilent) {
		fmt.Fprintln(s.err, s.paint(s.err, red, "stoa:"), printable(f.Error()))
		if f.more != "" {
			fmt.Fprintln(s.err, strings.TrimSuffix(exact(f.more), "\n"))
		}
		if f.hint != "" {
			fmt.Fprintln(s.err, s.paint(s.err, dim, "hint: "+printable(f.hint)))
		}
	}
	return f.code
}

// describe finds the exit code and the advice of an error.
func describe(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return &failure{err: outer(err, f), hint: f.hint, more: f.more, code: f.code, rpc: f.rpc}
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return &failure{err: err, hint: f.Advice(), code: exitCode(f.Kind.String())}
	}
	return &failure{err: err, code: exitFailed}
}

// outer keeps what layers above a failure have added to its text.
func outer(err error, f *failure) error {
	if err == error(f) {
		return f.err
	}
	return err
}

// exitCode is that of a fault of the hub, by the name of its kind.
func exitCode(kind string) int {
	switch kind {
	case "unreachable", "misconfigured", "timeout", "breaker_open", "upstream_lost", "queue_full":
		return exitUnreachable
	case "denied", "unauthorized", "approval_required", "foreign_origin", "definition_held":
		return exitDenied
	case "unknown_tool", "unknown_agent", "invalid_arguments", "invalid_params", "resource_not_found", "bad_reference", "session_required":
		return exitUsage
	}
	return exitFailed
}

// rpcError is the error object of an answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Kind     string         `json:"kind"`
		Hint     string         `json:"hint"`
		Change   string         `json:"change"` // of a definition that is held
		Problems []plan.Problem `json:"problems"`
	} `json:"data"`
}

// refusal makes an error of the error object with which the hub answered.
func refusal(object []byte) error {
	var e rpcError
	if err := json.Unmarshal(object, &e); err != nil {
		// data may be of any form where the error is the server's own.
		var plain struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if json.Unmarshal(object, &plain) != nil {
			return failed(exitFailed, "", "the answer is an error that cannot be read: %.200s", object)
		}
		e.Code, e.Message = plain.Code, plain.Message
	}
	if e.Data.Kind == "" {
		return &failure{err: fmt.Errorf("the server answered: %s (code %d)", e.Message, e.Code), code: exitFailed, rpc: e.Code}
	}
	hint := e.Data.Hint
	if e.Data.Kind == fault.UnknownAgent.String() {
		hint = "Run stoa servers to see their names."
	}
	return &failure{err: errors.New(e.Message), hint: hint, more: e.Data.Change, code: exitCode(e.Data.Kind), rpc: e.Code, problems: e.Data.Problems}
}

// lost makes an error of a request that got no answer.
func lost(ctx context.Context, err error) error {
	if rejected, ok := errors.AsType[*mcp.Rejected](err); ok {
		return refusal(rejected.Object)
	}
	if ctx.Err() != nil {
		return &failure{err: context.Cause(ctx), code: exitUnreachable}
	}
	if status, ok := errors.AsType[*mcp.StatusError](err); ok {
		return &failure{err: status, hint: "Is something else in front of the hub?", code: exitFailed}
	}
	if errors.Is(err, mcp.ErrNotSent) || errors.Is(err, mcp.ErrLost) || isNet(err) {
		return &failure{err: err, hint: "Is the hub still running? See its log.", code: exitUnreachable}
	}
	return err
}

func isNet(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// plural is "1 server", "2 servers".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
