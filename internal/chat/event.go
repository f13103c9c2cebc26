package chat

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
)

// Type says what happened.
type Type string

// The types. All but CallProgress are durable.
const (
	InputAdded          Type = "input"         // the user's words were accepted: Input
	InputDropped        Type = "input.dropped" // an input that waited will not be answered: Input, with its ID
	TurnStarted         Type = "turn.started"  // Start
	TextPart            Type = "text"          // Text; Opaque ends a part of the message
	ReasoningPart       Type = "reasoning"     // Text; Opaque ends a part of the message
	CallMade            Type = "call"          // the model wants this called: Call
	AnswerDone          Type = "answer"        // a message of the model is whole: Answer
	ApprovalAsked       Type = "approval.asked"
	ApprovalDecided     Type = "approval.decided"     // Decision, and Approval with its ID, Call and Tool
	ElicitationAsked    Type = "elicitation.asked"    // a server asks the person: Elicitation
	ElicitationAnswered Type = "elicitation.answered" // Reply, and Elicitation with its ID, Call and Tool
	CallStarted         Type = "call.started"         // Call, with the arguments as sent
	CallProgress        Type = "call.progress"        // live only: Progress
	CallDone            Type = "call.done"            // Result
	ModelRetry          Type = "retry"                // Retry
	Noted               Type = "note"                 // Note
	ContextUsed         Type = "context"              // Context
	Compacted           Type = "compacted"            // Compaction
	TurnEnded           Type = "turn.ended"           // End
	AbortAsked          Type = "abort"                // somebody at another hub wants the turn to end, or one call of it: Call, with its ID
)

// types are those that this release knows.
var types = []Type{
	InputAdded, InputDropped, TurnStarted, TextPart, ReasoningPart, CallMade, AnswerDone, ApprovalAsked, ApprovalDecided, ElicitationAsked,
	ElicitationAnswered, CallStarted, CallProgress, CallDone, ModelRetry, Noted, ContextUsed, Compacted, TurnEnded, AbortAsked,
}

func (t Type) known() bool { return slices.Contains(types, t) }

// Event is one thing that happened in a conversation. Seq counts from 1 in each
// conversation, without a gap.
//
// A Live event is not in the log yet: Text is what follows Offset in the part
// that will be event Seq. A durable part that was partly seen live comes with
// Offset too, and Text is the rest of it, maybe nothing.
type Event struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"ts"`
	Type   Type      `json:"type"`
	Turn   string    `json:"turn,omitempty"`
	Text   string    `json:"text,omitempty"`
	Offset int       `json:"offset,omitempty"`
	Live   bool      `json:"live,omitempty"`

	Opaque      *llm.Opaque      `json:"opaque,omitempty"`
	Input       *Input           `json:"input,omitempty"`
	Start       *Start           `json:"start,omitempty"`
	Call        *Call            `json:"call,omitempty"`
	Result      *Result          `json:"result,omitempty"`
	Progress    *Progress        `json:"progress,omitempty"`
	Approval    *policy.Approval `json:"approval,omitempty"`
	Decision    *policy.Decision `json:"decision,omitempty"`
	Elicitation *Elicitation     `json:"elicitation,omitempty"`
	Reply       *Reply           `json:"reply,omitempty"`
	Answer      *Answer          `json:"answer,omitempty"`
	Retry       *Retry           `json:"retry,omitempty"`
	Note        *Note            `json:"note,omitempty"`
	Context     *Context         `json:"context,omitempty"`
	Compaction  *Compaction      `json:"compaction,omitempty"`
	End         *End             `json:"end,omitempty"`
}

// Input is what a user says. Principal and Session say whose conversation it
// is, so that an input that waited can be answered after a restart.
type Input struct {
	ID        string `json:"id"`
	Text      string `json:"text,omitempty"`
	Agent     string `json:"agent,omitempty"`
	FileID    string `json:"fileId,omitempty"`
	Key       string `json:"key,omitempty"`  // given twice, the input is taken once
	File      string `json:"file,omitempty"` // what the model is told of the file
	Principal string `json:"principal,omitempty"`
	// Actor is on whose behalf it was said; nil in what older versions wrote.
	Actor   *actor.Record `json:"actor,omitempty"`
	Session string        `json:"session,omitempty"`
	Trace   obs.Parent    `json:"trace,omitzero"` // what it is part of
	// Correlation is what all lines of the log have that come of it.
	Correlation string `json:"correlation,omitempty"`
}

// Start is what a turn begins with.
type Start struct {
	Input string `json:"input"` // the ID of the input
	Model string `json:"model"`
	Agent string `json:"agent,omitempty"`
}

// Call is a call of the model. ID is ours and unique in the conversation.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Malformed string          `json:"malformed,omitempty"` // see llm.ToolCall
	Model     string          `json:"model,omitempty"`     // the model's own id for it
	Index     int             `json:"index,omitempty"`     // its place in the answer
	Upstream  string          `json:"upstream,omitempty"`
	Ref       string          `json:"ref,omitempty"`
	Edited    bool            `json:"edited,omitempty"` // a person changed the arguments
}

// How a call ended.
const (
	OK          = "ok"
	Failed      = "failed"      // the tool said no, or could not be asked
	Denied      = "denied"      // by policy or by a person
	Refused     = "refused"     // there is no such tool, or the call makes no sense
	Cancelled   = "cancelled"   // the turn was aborted, or the call alone
	Interrupted = "interrupted" // the hub stopped
)

// Result is what came of a call: Content is what the model sees.
type Result struct {
	Call    string `json:"call"`
	Name    string `json:"name,omitempty"`
	Content string `json:"content"`
	IsError bool   `json:"isError,omitempty"`
	Status  string `json:"status"`
	TookMS  int64  `json:"tookMs,omitempty"`
	Bytes   int    `json:"bytes,omitempty"` // of the tool's own result
	Saved   string `json:"saved,omitempty"` // the name under which it is kept
	Text    string `json:"text,omitempty"`  // what a person is told of a failure
}

// Progress is how far a running call is.
type Progress struct {
	Call     string  `json:"call"`
	Name     string  `json:"name,omitempty"` // of the tool
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// Answer ends a message of the model.
type Answer struct {
	Stop  llm.Stop  `json:"stop"`
	Usage llm.Usage `json:"usage"`
	Cost  float64   `json:"cost,omitempty"`
}

// Retry says that the model is asked again. If the answer then begins with what
// was said already, that is not said again; else another Retry says Discard.
type Retry struct {
	Attempt int    `json:"attempt"` // the number of the attempt that begins; the first was 1
	WaitMS  int64  `json:"waitMs"`
	Reason  string `json:"reason"`
	Discard bool   `json:"discard,omitempty"` // what the model has said in this answer is void
}

// Note is something that a person should know.
type Note struct {
	Kind string `json:"kind"` // left_out, warning, degraded, cut_off, loop, lost
	Tool string `json:"tool,omitempty"`
	Text string `json:"text"`
}

// Context is how much the model has before it, in tokens, about.
type Context struct {
	Used    int `json:"used"`
	Limit   int `json:"limit,omitempty"` // 0: not known
	System  int `json:"system"`
	Tools   int `json:"tools"`
	History int `json:"history"`
}

// Kinds of compaction.
const (
	Prune   = "prune"   // the content of old results was replaced
	Summary = "summary" // old messages are summed up
	Drop    = "drop"    // old messages are left out
)

// Compaction is what was done to make the history fit.
type Compaction struct {
	Kind   string    `json:"kind"`
	Before int       `json:"before"` // tokens, about
	After  int       `json:"after"`
	Calls  []string  `json:"calls,omitempty"` // Prune: whose results
	Cut    int       `json:"cut,omitempty"`   // else: how many messages of the conversation are left out by now
	Text   string    `json:"text,omitempty"`  // what stands for them
	Usage  llm.Usage `json:"usage,omitzero"`
	Cost   float64   `json:"cost,omitempty"`
}

// Why a turn ended.
const (
	ReasonDone        = "done"
	ReasonAborted     = "aborted"
	ReasonFailed      = "failed"
	ReasonSteps       = "steps"
	ReasonLoop        = "loop"
	ReasonBudget      = "budget"
	ReasonInterrupted = "interrupted"
)

// End is how a turn ended. Usage and Cost are those of the whole turn.
type End struct {
	Reason   string    `json:"reason"`
	Text     string    `json:"text,omitempty"`  // for the user, unless Reason is done
	Error    string    `json:"error,omitempty"` // what went wrong, exactly
	Kind     string    `json:"kind,omitempty"`  // a Cause of llm, or a Kind of fault
	Model    string    `json:"model,omitempty"`
	Attempts int       `json:"attempts,omitempty"` // of the request that failed
	Tokens   int       `json:"tokens,omitempty"`   // that it took, about
	Steps    int       `json:"steps,omitempty"`
	Usage    llm.Usage `json:"usage,omitzero"`
	Cost     float64   `json:"cost,omitempty"`
	TookMS   int64     `json:"tookMs,omitempty"`
}
