package policy

import (
	"fmt"
	"strings"
)

// Face is how a call came, which decides where no rule does.
type Face int

const (
	// Client is a client of MCP, which asks its own user: its calls are
	// allowed.
	Client Face = iota
	// Chat is the hub's own model, for which nobody else asks: what is not
	// said to be harmless is asked for.
	Chat
)

// Verdict is what was decided, and why.
type Verdict struct {
	Action Action `json:"action"`
	Reason string `json:"reason,omitempty"`
	Rule   string `json:"rule,omitempty"` // which rule, for people
}

// Decide says what becomes of a call. A deny in any list wins, be it by a rule
// or by the default of a list none of whose rules matches; else the first rule
// that matches counts, the lists in the order given; else the first default
// that is said; else the face.
func Decide(s Subject, face Face, lists ...Rules) Verdict {
	var first, otherwise *Verdict
	for n := range lists {
		list := &lists[n]
		matched := false
		for i := range list.Rules {
			r := &list.Rules[i]
			if !r.matches(&s) {
				continue
			}
			v := Verdict{Action: r.Action, Reason: r.Reason, Rule: r.name(i)}
			if !r.Action.Valid() { // never by mistake
				v.Action = Deny
			}
			if v.Action == Deny {
				return v.explained(&s)
			}
			if first == nil {
				first = &v
			}
			matched = true
		}
		if list.Default == "" {
			continue
		}
		v := Verdict{Action: list.Default, Rule: "default"}
		if !v.Action.Valid() {
			v.Action = Deny
		}
		if v.Action == Deny && !matched {
			return v.explained(&s)
		}
		if otherwise == nil {
			otherwise = &v
		}
	}
	switch {
	case first != nil:
		return first.explained(&s)
	case otherwise != nil:
		return otherwise.explained(&s)
	}
	return byFace(&s, face)
}

func byFace(s *Subject, face Face) Verdict {
	switch {
	case face == Client:
		return Verdict{Action: Allow, Reason: "the client asks its own user", Rule: "client"}
	case s.Builtin:
		return Verdict{Action: Allow, Reason: "it is a tool of the hub", Rule: "builtin"}
	case said(s.ReadOnly, false):
		return Verdict{Action: Allow, Reason: "it is said to change nothing", Rule: "read-only"}
	case !said(s.Destructive, true):
		return Verdict{Action: Allow, Reason: "it is said to destroy nothing", Rule: "not destructive"}
	}
	return Verdict{Action: Ask, Reason: "its server does not say that it is harmless", Rule: "unsaid"}
}

// explained gives a verdict a reason if its rule has none.
func (v Verdict) explained(s *Subject) Verdict {
	if v.Reason != "" {
		return v
	}
	what := map[Action]string{Allow: "allows", Ask: "wants a person to be asked for", Deny: "does not allow"}[v.Action]
	if v.Rule == "default" {
		v.Reason = fmt.Sprintf("the default of the policy %s %s", what, s.Tool)
	} else {
		v.Reason = fmt.Sprintf("%s of the policy %s it", v.Rule, what)
	}
	return v
}

// name says which rule it is.
func (r *Rule) name(i int) string {
	if len(r.Tools) == 0 {
		return fmt.Sprintf("rule %d", i+1)
	}
	return fmt.Sprintf("rule %d (%s)", i+1, strings.Join(r.Tools, ", "))
}
