package plan

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/session"
)

// Examine reads a plan and says everything that is wrong with it, all at once:
// with its form, with what it says, and with its tools. Where something is wrong
// the plan is what could be read of it, or nil. known is as in Check; a nil find
// means that tools are not looked at.
func Examine(raw []byte, known func(name string) bool, find Lookup) (*Plan, []Problem) {
	p, problems := Read(raw)
	if p == nil {
		return nil, problems
	}
	problems = merge(problems, Check(p, known))
	if find != nil {
		problems = merge(problems, Preflight(p, find, nil))
	}
	return p, problems
}

// Known leaves out what is said of tools that are not there. Who may use some
// servers alone cannot see the tools of others, and may write plans for those who
// can: whether such a tool is there must not be told.
func Known(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.unknown })
}

// merge adds what is not said of the same place already.
func merge(problems, more []Problem) []Problem {
	said := map[string]bool{}
	for _, p := range problems {
		said[p.Pointer] = true
	}
	for _, p := range more {
		if !said[p.Pointer] {
			problems = append(problems, p)
		}
	}
	return problems
}

// readable is what can be read of a plan whose form is wrong in places.
func readable(raw []byte, wrong []Problem) *Plan {
	p := &Plan{}
	if json.Unmarshal(raw, p) == nil {
		return p // something is missing, or there is too much
	}
	v, ok := decoded(raw)
	if !ok {
		return nil
	}
	for _, w := range wrong {
		if w.Pointer == "" {
			return nil
		}
		blank(v, strings.Split(w.Pointer[1:], "/"))
	}
	rest, err := json.Marshal(v)
	p = &Plan{}
	if err != nil || json.Unmarshal(rest, p) != nil {
		return nil
	}
	return p
}

var pointerPlain = strings.NewReplacer("~1", "/", "~0", "~")

// blank takes what a pointer leads to out of v, so that all else stays where it
// is.
func blank(v any, path []string) {
	name := pointerPlain.Replace(path[0])
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(v, name)
			return
		}
		blank(v[name], path[1:])
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v) {
			return
		}
		if len(path) == 1 {
			v[i] = nil
			return
		}
		blank(v[i], path[1:])
	}
}

// Problems is a plan that cannot be run, and why.
type Problems struct {
	List []Problem
	Rest *Plan // what could be read of it; nil if nothing could, or all was
}

func (p *Problems) Error() string {
	text := make([]string, len(p.List))
	for i, one := range p.List {
		text[i] = one.String()
	}
	return strings.Join(text, "; ")
}

// And adds what else an error says is wrong with the plan.
func (p *Problems) And(err error) *Problems {
	if more, ok := err.(*Problems); ok {
		return &Problems{List: merge(slices.Clip(p.List), more.List), Rest: p.Rest}
	}
	return p
}

// knownInputs says what references stand for that are to inputs which are given.
func knownInputs(inputs map[string]json.RawMessage) func(session.Reference) []byte {
	return func(ref session.Reference) []byte {
		data, ok := inputs[ref.Name]
		if !ok || ref.Session != "" {
			return nil
		}
		part, err := session.Dig(data, ref.Path)
		if err != nil {
			return nil
		}
		return part
	}
}
