package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/suspect"
	"github.com/stoahub/stoa/internal/wire"
)

// Kinds of what is asked for.
const (
	KindTool     = "tool"
	KindSampling = "sampling"
)

// Approval is what a person is asked: whether this call may be made.
type Approval struct {
	ID        string   `json:"id"`
	Session   string   `json:"session,omitempty"`
	Principal string   `json:"principal"`
	Agent     string   `json:"agent,omitempty"`   // of the hub, whose model wants to call
	Agents    []string `json:"agents,omitempty"`  // all whose models act in it, Agent last, if there are several
	Through   []string `json:"through,omitempty"` // by which delegates of the principal it comes, the first one first
	Client    string   `json:"client,omitempty"`  // how the client that wants to call names itself
	Turn      string   `json:"turn,omitempty"`
	Call      string   `json:"call,omitempty"`
	Tool      string   `json:"tool,omitempty"`
	Upstream  string   `json:"upstream,omitempty"`
	Ref       string   `json:"ref,omitempty"`
	// Registered is who has registered the agent that Upstream is. It is empty for
	// a server of the config, which is another one whatever its name.
	Registered string          `json:"registered,omitempty"`
	Kind       string          `json:"kind"` // KindTool or KindSampling
	Args       json.RawMessage `json:"args,omitempty"`
	Sent       json.RawMessage `json:"sent,omitempty"`   // Args with what references in them stand for, if there are any
	Reason     string          `json:"reason,omitempty"` // why it is asked for
	Definition
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Definition is what an approval is about: a call of what was defined so, and of
// nothing else.
type Definition struct {
	Digest string         `json:"definition,omitempty"` // "" if the server's definitions are not pinned
	Change string         `json:"change,omitempty"`     // how it differs from what was accepted or approved before
	Flags  []suspect.Flag `json:"flags,omitempty"`      // what is suspicious about it

	Accepted time.Time     `json:"-"` // since when it is accepted; zero if it is not
	Diff     func() string `json:"-"` // how it differs from the one before it; optional
}

// Remember says for what else a decision holds.
type Remember string

// How far a decision reaches.
const (
	Once        Remember = "once"    // or "": this call
	ForSession  Remember = "session" // this tool, in this Session
	ForTool     Remember = "tool"    // this tool, in all Sessions of the principal
	ForUpstream Remember = "server"  // all tools of the server, for the principal
)

// ParseRemember reads one of the words; empty means once.
func ParseRemember(text string) (Remember, error) {
	switch r := Remember(text); r {
	case "":
		return Once, nil
	case Once, ForSession, ForTool, ForUpstream:
		return r, nil
	}
	return "", fault.New(fault.InvalidParams, "remember", "%q is none: use once, session, tool or server", text)
}

// Why an approval was decided without a person's words.
const (
	ReasonDenied     = "denied"
	ReasonExpired    = "expired"
	ReasonNobody     = "nobody" // nobody is there to answer
	ReasonAborted    = "aborted"
	ReasonRemembered = "remembered"
	ReasonFailed     = "failed" // the desk could not ask; its error says why
)

// Decision is what became of an approval.
type Decision struct {
	Approve  bool            `json:"approve"`
	Args     json.RawMessage `json:"args,omitempty"` // edited; nil means unchanged
	Remember Remember        `json:"remember,omitempty"`
	By       string          `json:"by,omitempty"`     // the principal that decided; empty if nobody did
	Reason   string          `json:"reason,omitempty"` // a person's words, or one of those above
	Time     time.Time       `json:"time"`
}

// Outcome names the decision in one word, for records: approved, denied,
// expired, nobody, aborted, remembered or failed.
func (d *Decision) Outcome() string {
	switch {
	case d.Approve && d.Reason == ReasonRemembered:
		return ReasonRemembered
	case d.Approve:
		return "approved"
	case d.By != "":
		return ReasonDenied
	}
	return d.Reason
}

// Tell says what a denial means, to the model or client whose call it was.
func (d *Decision) Tell() string {
	switch {
	case d.Approve:
		return "approved"
	case d.By != "" && d.Reason == ReasonRemembered:
		return fmt.Sprintf("%s has said that calls of this kind are not to be made", d.By)
	case d.By != "" && d.Reason != "" && d.Reason != ReasonDenied:
		return fmt.Sprintf("%s does not want it: %s", d.By, d.Reason)
	case d.By != "":
		return d.By + " does not want it"
	}
	switch d.Reason {
	case ReasonExpired:
		return "nobody answered in time whether it may be called"
	case ReasonNobody:
		return "a person has to allow it, and nobody is there to be asked: open the console, or run `stoa approvals watch`"
	case ReasonAborted:
		return "the call ended before anybody answered"
	}
	return "whether it may be called could not be found out"
}

// checkArgs says what is wrong with edited arguments, if anything.
func checkArgs(args json.RawMessage) error {
	if args == nil {
		return nil
	}
	hint := "Send args as an object, the way the call has them, or leave them out to change nothing."
	if err := wire.Valid(args, wire.FromClient); err != nil {
		return &fault.Error{Kind: fault.InvalidParams, Subject: "args", Msg: "the edited arguments are not JSON: " + err.Error(), Hint: hint}
	}
	if bytes.TrimLeft(args, " \t\r\n")[0] != '{' {
		return &fault.Error{Kind: fault.InvalidParams, Subject: "args", Msg: "the edited arguments are no JSON object", Hint: hint}
	}
	return nil
}

// outlived says in the question that it was approved before, for a definition
// that is another now.
func (a *Approval) outlived() {
	const why = "its definition has changed since it was approved"
	if a.Change == "" && a.Diff != nil {
		a.Change = a.Diff()
	}
	if !strings.Contains(a.Reason, why) {
		a.Reason = strings.TrimPrefix(a.Reason+"; "+why, "; ")
	}
}
