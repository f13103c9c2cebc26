package policy

import (
	"fmt"
	"path"
	"strings"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/wire"
)

// Action is what becomes of a call.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // a person decides
	Deny  Action = "deny"
)

// Valid reports whether a is one of the actions.
func (a Action) Valid() bool { return a == Allow || a == Ask || a == Deny }

// Subject is the tool that is to be called. The annotations are as its server
// said them; nil means that it said nothing.
type Subject struct {
	Tool     string // the exposed name
	Upstream string
	Ref      string // server:tool
	Builtin  bool   // a tool of the hub itself

	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// Of is the tool that the catalogue knows as it.
func Of(it *catalog.Item, builtin bool) Subject {
	s := Subject{Tool: it.Exposed, Upstream: it.Upstream, Ref: it.Ref(), Builtin: builtin}
	s.Annotate(wire.Get(it.Raw, "annotations"))
	return s
}

// Annotate takes in the annotations of a tool's definition.
func (s *Subject) Annotate(annotations []byte) {
	for _, f := range wire.Members(annotations) {
		var to **bool
		switch string(f.Name) {
		case "readOnlyHint":
			to = &s.ReadOnly
		case "destructiveHint":
			to = &s.Destructive
		case "idempotentHint":
			to = &s.Idempotent
		case "openWorldHint":
			to = &s.OpenWorld
		default:
			continue
		}
		if v := string(f.Value); v == "true" || v == "false" {
			said := v == "true"
			*to = &said
		}
	}
}

// Rule says what becomes of the calls of some tools. A tool is one of them if
// a glob matches and its annotations are as the rule has them. What a server
// leaves unsaid is taken as the protocol has it: not read-only, destructive,
// not idempotent, open to the world.
type Rule struct {
	Tools []string // globs over exposed name, server:tool or the server's name; none means all tools

	ReadOnly, Destructive, Idempotent, OpenWorld *bool // nil: either

	Action Action
	Reason string // told to who is refused or asked
}

// Rules are a list of rules and what holds where none of them matches.
type Rules struct {
	Default Action // "" means that nothing is said
	Rules   []Rule
}

// Empty reports whether nothing is said.
func (r Rules) Empty() bool { return r.Default == "" && len(r.Rules) == 0 }

// Problem is a flaw of a list of rules.
type Problem struct {
	Path string // of the flaw, such as rules[2].tools[0]
	Text string
}

func (p Problem) String() string { return p.Path + ": " + p.Text }

// Check returns what is wrong with the rules.
func (r Rules) Check() (out []Problem) {
	if r.Default != "" && !r.Default.Valid() {
		out = append(out, Problem{"default", fmt.Sprintf("%q is no action: use allow, ask or deny", r.Default)})
	}
	for i, rule := range r.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		switch {
		case rule.Action == "":
			out = append(out, Problem{at + ".action", "it is missing: use allow, ask or deny"})
		case !rule.Action.Valid():
			out = append(out, Problem{at + ".action", fmt.Sprintf("%q is no action: use allow, ask or deny", rule.Action)})
		}
		for j, glob := range rule.Tools {
			if err := CheckGlob(glob); err != nil {
				out = append(out, Problem{fmt.Sprintf("%s.tools[%d]", at, j), err.Error()})
			}
		}
	}
	return out
}

// CheckGlob says what is wrong with a pattern of tools, if anything.
func CheckGlob(glob string) error {
	if glob == "" {
		return fmt.Errorf("a pattern is empty: name tools such as fs__write_file, fs:write_*, or a server")
	}
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("%q is no pattern: * stands for any text, ? for one character, [a-z] for one of a set, \\ before one of these for itself", glob)
	}
	return nil
}

// Matches reports whether a glob means the tool: by its exposed name, its Ref
// or its server's name.
func Matches(glob string, s *Subject) bool {
	return glob == "*" || match(glob, s.Tool) || match(glob, s.Ref) || match(glob, s.Upstream)
}

// match is path.Match over names that are no paths: a slash in one is a
// character like others, else a deny of all tools would miss it.
func match(glob, name string) bool {
	if name == "" {
		return false
	}
	if glob == name {
		return true
	}
	if strings.IndexByte(name, '/') >= 0 {
		glob, name = strings.ReplaceAll(glob, "/", "\x1f"), strings.ReplaceAll(name, "/", "\x1f")
	}
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// matches reports whether the rule is about the tool.
func (r *Rule) matches(s *Subject) bool {
	named := len(r.Tools) == 0
	for _, glob := range r.Tools {
		if named = Matches(glob, s); named {
			break
		}
	}
	if !named {
		return false
	}
	readOnly := said(s.ReadOnly, false)
	return is(r.ReadOnly, readOnly) && is(r.Destructive, said(s.Destructive, !readOnly)) &&
		is(r.Idempotent, said(s.Idempotent, readOnly)) && is(r.OpenWorld, said(s.OpenWorld, true))
}

func said(v *bool, otherwise bool) bool {
	if v != nil {
		return *v
	}
	return otherwise
}

func is(want *bool, v bool) bool { return want == nil || *want == v }
