package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/session"
)

// Tool is what is known of a tool that a plan calls.
type Tool struct {
	Name       string          // as it is offered
	Upstream   string          // whose it is
	Ref        string          // its name across servers
	Input      *schema.Lazy    // nil: anything
	Output     json.RawMessage // the schema of what it yields; nil: not said
	ReadOnly   bool
	Idempotent bool
	Defined    policy.Definition // for those who are asked about a call of it
	Registered string            // who registered the agent whose it is; empty if it is none
}

// Lookup finds a tool by any of the names that are accepted. A fault says why
// there is none.
type Lookup func(name string) (Tool, error)

// Preflight says what would keep a run of a plan from being made, as far as
// that can be told before anything is called: tools that do not exist or may
// not be called, and arguments that do not fit. values returns what is known of
// a reference already, nil that it is not; a nil function knows none.
func Preflight(p *Plan, find Lookup, values func(session.Reference) []byte) []Problem {
	if values == nil {
		values = nothing
	}
	c := preflight{fitting: fitting{plan: p, find: find, own: p.owners()}, values: values}
	var out []Problem
	for i := range p.Steps {
		s := &p.Steps[i]
		at := fmt.Sprintf("/steps/%d", i)
		if s.Called() != "" { // else Check says so
			out = append(out, c.call(at, s, s.Called(), s.Args)...)
		}
		if s.Fallback != nil && s.Fallback.Tool != "" {
			out = append(out, c.call(at+"/fallback", s, s.Fallback.Tool, s.Fallback.Args)...)
		}
		if s.Compensate != nil && s.Compensate.Tool != "" {
			out = append(out, c.call(at+"/compensate", s, s.Compensate.Tool, s.Compensate.Args)...)
		}
	}
	return out
}

type preflight struct {
	fitting
	values func(session.Reference) []byte
}

// call says what is wrong with one call of a step.
func (c *preflight) call(at string, s *Step, name string, args json.RawMessage) []Problem {
	tool, err := c.find(name)
	if err != nil {
		f := fault.Of(err)
		return []Problem{{Pointer: at + "/tool", Step: s.ID, Message: fmt.Sprintf("%s cannot be called: %s", name, f.Msg), Hint: f.Advice(), unknown: f.Kind == fault.UnknownTool}}
	}
	if tool.Input == nil {
		return nil
	}
	takes, err := tool.Input.Get()
	if err != nil {
		return nil // such a tool works, unchecked
	}
	var out []Problem
	for _, f := range faults(takes, args, c.values) {
		out = append(out, Problem{Pointer: at + "/args" + f.Pointer, Step: s.ID, Message: f.Message})
	}
	return merge(out, c.misfits(at+"/args", s, tool, args))
}

// placeholders stand for what is not known yet, one of each type: what is wrong
// whatever the value will be is wrong with all of them.
var placeholders = []string{`"x"`, `1`, `0.5`, `true`, `null`, `{}`, `[]`}

// faults are those of arguments that do not depend on what is not known yet.
func faults(s *schema.Schema, args []byte, values func(session.Reference) []byte) []schema.Fault {
	if len(args) == 0 {
		args = []byte("{}")
	}
	var open []string
	eachReference(args, func(pointer, text string) {
		if ref, _ := session.ParseReference(text); values(ref) == nil {
			open = append(open, pointer)
		}
	})
	try := func(placeholder string) []schema.Fault {
		full, _, err := session.Resolve(args, 8<<20, func(r session.Reference) ([]byte, error) {
			if v := values(r); v != nil {
				return v, nil
			}
			return []byte(placeholder), nil
		})
		if err != nil {
			return nil // told when it is called
		}
		return s.Validate(full)
	}
	found := try(placeholders[0])
	if len(open) == 0 {
		return found
	}
	found = slices.DeleteFunc(found, func(f schema.Fault) bool {
		return slices.ContainsFunc(open, func(at string) bool { return f.Pointer == at || strings.HasPrefix(f.Pointer, at+"/") })
	})
	for _, ph := range placeholders[1:] {
		if len(found) == 0 {
			break
		}
		others := try(ph)
		found = slices.DeleteFunc(found, func(f schema.Fault) bool {
			return !slices.ContainsFunc(others, func(o schema.Fault) bool { return o.Pointer == f.Pointer && o.Message == f.Message })
		})
	}
	return found
}

// nothing knows no value.
func nothing(session.Reference) []byte { return nil }
