package incident

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// What an Error is about: its ErrorType.
const (
	ToolExecution = "tool-execution" // a call that could not be made, or whose tool said no
	Upstream      = "upstream"       // a server that cannot be reached, or says what it must not
	Module        = "module"         // a part of the hub that is not offered for now
	Panic         = "panic"          // a mistake of ours that was caught
	Storage       = "storage"        // what cannot be kept or read
	Model         = "model"          // a model that gave no answer
	System        = "system"         // anything else
)

// How bad it is: its Severity.
const (
	Critical = "critical" // a promise was broken
	Failed   = "error"
	Warning  = "warning" // it was expected to happen, or the caller's own doing

	maxMessage = 1000
	maxStack   = 8 << 10
	maxFact    = 200
	maxFacts   = 24
)

// Error is one fault that was met.
type Error struct {
	ID        string            `json:"id"`
	Time      time.Time         `json:"time"`
	ErrorType string            `json:"errorType"`
	Severity  string            `json:"severity"`
	Source    string            `json:"source"` // the part of the hub that met it
	Error     Body              `json:"error"`
	Context   map[string]string `json:"context,omitempty"` // tool, operation, upstream, session, call, …
}

// Body is what went wrong.
type Body struct {
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	Code    string `json:"code"` // the name of a fault's kind in capitals, or TOOL_ERROR, PANIC, …
}

// newID names an Error: err_[time]_[random].
func newID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // does not fail
	return "err_" + strconv.FormatInt(now.UnixMilli(), 10) + "_" + hex.EncodeToString(b[:])
}

// bound cuts what is too long and takes out what must not be told.
func (e *Error) bound(hide func(string) string) {
	e.Error.Message = clip(hide(e.Error.Message), maxMessage)
	e.Error.Stack = clip(hide(e.Error.Stack), maxStack)
	facts := make(map[string]string, min(len(e.Context), maxFacts))
	for k, v := range e.Context {
		if v != "" && len(facts) < maxFacts {
			facts[clip(k, 40)] = clip(hide(v), maxFact)
		}
	}
	e.Context = facts
}

func clip(text string, n int) string {
	if len(text) <= n {
		return strings.ToValidUTF8(text, "\ufffd")
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
