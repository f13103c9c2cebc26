package plan

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// result of a call.
type result struct {
	data    []byte
	failure *Failure
	again   bool // the same call may succeed later, and did nothing
	said    bool // the tool itself said no
	lasting bool // and would say so again, as far as one can tell
	settled bool // the same call fails for the same reason whenever it is made
	unknown bool // whether it took effect is not known
	cut     bool // it was cancelled
	refused bool // it was not allowed
}

// kind is why it failed; "" if it did not.
func (r *result) kind() string {
	if r.failure == nil {
		return ""
	}
	return r.failure.Kind
}

func outcome(resp mcp.Response, err error) result {
	if err != nil {
		f := fault.Of(err)
		out := result{failure: failure(err), again: f.Retryable() && f.Kind != fault.Cancelled, settled: settled(f.Kind.String())}
		switch f.Kind {
		case fault.Timeout, fault.UpstreamLost, fault.OutcomeUnknown:
			out.unknown = true
		case fault.Cancelled:
			out.cut = true
		}
		if errors.Is(err, context.Canceled) {
			out.cut = true
		}
		return out
	}
	if resp.Error != nil {
		text, _ := wire.String(wire.Get(resp.Error, "message"))
		code, data := string(wire.Get(resp.Error, "code")), wire.Get(resp.Error, "data")
		out := result{failure: &Failure{Message: clip(text)}, said: true, lasting: slices.Contains(lastingCodes, code) || lasting(text)}
		if kind, _ := wire.String(wire.Get(data, "kind")); slices.Contains(unknownKinds, kind) && string(wire.Get(data, "retryable")) != "true" {
			out.unknown, out.failure.Kind = true, kind // the server is a hub, and its own lost the call
		}
		return out
	}
	if string(wire.Get(resp.Result, "resultType")) == `"input_required"` {
		return result{failure: &Failure{Kind: fault.MissingCapability.String(), Message: "the tool asks for input, and in a plan nobody can be asked", Hint: "Call it by itself, and give the plan what comes of it."}}
	}
	e := envelope.Of(resp.Result)
	if !e.Success {
		return saidNo(e, envelope.FaultKind(resp.Result))
	}
	data := e.Data
	if len(data) == 0 {
		data = []byte("null")
	}
	return result{data: append([]byte(nil), data...)}
}

// saidNo is what became of a call whose result is an error: that of the tool, or a
// fault of this kind. A tool that said no to arguments says it again, unless it says
// that it is only for now.
func saidNo(e envelope.Envelope, kind string) result {
	out := result{failure: &Failure{Kind: kind, Message: clip(e.Error), Hint: clip(e.Message)}, said: true, settled: settled(kind) || settled(strings.ToLower(e.Code)), refused: kind == deniedKind || kind == unansweredKind}
	missing := fault.ResourceNotFound.String()
	switch {
	case kind == missing || strings.ToLower(e.Code) == missing:
		out.lasting = true // a plan may wait for it by its retries
	case kind == "":
		out.lasting = lasting(e.Error) || !passing(e.Error)
	}
	return out
}

// unknownKinds are the reasons that leave open whether a call took effect.
var unknownKinds = []string{fault.Timeout.String(), fault.UpstreamLost.String(), fault.OutcomeUnknown.String(), fault.Cancelled.String()}

// settledKinds are the reasons that depend on nothing but the call and the config.
var settledKinds = []fault.Kind{
	fault.InvalidRequest, fault.UnknownMethod, fault.InvalidParams, fault.UnknownTool, fault.TooLarge, fault.HeaderMismatch, fault.MissingCapability, fault.BadVersion,
	fault.Unauthorized, fault.ForeignOrigin, fault.InvalidArguments, fault.BadReference, fault.SessionRequired, fault.Denied, fault.ApprovalRequired, fault.Limit,
	fault.DefinitionHeld, fault.UnknownAgent, fault.Misconfigured, fault.Loop,
}

func settled(kind string) bool {
	return slices.ContainsFunc(settledKinds, func(k fault.Kind) bool { return k.String() == kind })
}

// passingWords are in what tools say of what may be over soon.
var passingWords = []string{
	"rate limit", "rate-limit", "ratelimit", "too many requests", "429", "timeout", "timed out", "etimedout", "busy", "unavailable", "502", "503", "504", "bad gateway",
	"temporar", "try again", "retry", "overload", "throttl", "locked", "econnreset", "econnrefused", "connection reset", "connection refused", "eai_again",
}

// passing says whether a tool says that the same call may do better later.
func passing(text string) bool { return says(text, passingWords) }

// lastingCodes are those of JSON-RPC that say that a request is wrong.
var lastingCodes = []string{"-32600", "-32601", "-32602"}

// lastingWords are in what tools say of arguments that they do not take, and of
// what is not there or not allowed: the same call will not do better.
var lastingWords = []string{
	"mcp error -32600", "mcp error -32601", "mcp error -32602", "validation error", "invalid argument", "invalid input", "invalid param",
	"enoent", "no such file", "eacces", "eperm", "permission denied", "access denied", "eisdir", "enotdir", "unknown tool",
}

func lasting(text string) bool { return says(text, lastingWords) }

func says(text string, words []string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}
