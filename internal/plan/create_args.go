package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/plan/search"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// tool is what is known of the tool of an action.
func (w *writer) tool(a Action) Tool {
	name := (&Step{Action: a.Type, Tool: a.Tool}).Called()
	t, ok := w.tools[name]
	if !ok && w.goal.Find != nil {
		t, _ = w.goal.Find(name) // actions need not be tools yet
		w.tools[name] = t
	}
	return t
}

// filled is an input of an action, and what fills it.
type filled struct {
	name string
	ref  string // without the @
	from search.Source
}

// arguments writes those of a step: what the args of its action say, with what
// fills its inputs where they refer to them. An input that they do not refer to is
// an argument of its name, or of the one that the tool has for it; where the tool
// has none, the step waits for what yields it.
func (w *writer) arguments(s *Step, a Action, fills []filled) (err error) {
	args, placed := map[string]any{}, map[string]bool{}
	if a.Args != nil {
		v, _ := decoded(a.Args)
		var ok bool
		if args, ok = v.(map[string]any); !ok {
			return fmt.Errorf("the args of action %s are no object", a.Type)
		}
		refs := map[string]string{}
		for _, f := range fills {
			refs[f.name] = f.ref
		}
		refer(args, refs, placed)
	}
	properties := wire.Members(wire.Get(w.tool(a).takes(), "properties"))
	for _, f := range fills {
		if placed[f.name] {
			continue
		}
		arg := argumentFor(f.name, properties, args)
		switch {
		case arg == "":
			w.assume("%s has no argument for the input %s of %s, which only waits for it", s.Called(), f.name, s.ID)
			if f.from.Step != search.Given && !slices.Contains(s.After, w.ids[f.from.Step]) {
				s.After = append(s.After, w.ids[f.from.Step])
			}
			continue
		case arg != f.name:
			w.assume("the argument %s of %s is taken to be the input %s, by the words of its name", arg, s.ID, f.name)
		}
		args[arg] = "@" + f.ref
	}
	s.Args, err = json.Marshal(args)
	return err
}

func (w *writer) assume(format string, args ...any) {
	w.plan.Assumptions = append(w.plan.Assumptions, fmt.Sprintf(format, args...))
}

// kindsOf are the types that an input of an action may be of; nil is any.
func (w *writer) kindsOf(a Action, in Fact) []string {
	if in.Schema != nil {
		return kindsOf(in.Schema)
	}
	return kindsOf(schemaAt(w.tool(a).takes(), []session.Step{session.Member(in.Name)}))
}

// takes is the schema of a tool's arguments; nil if it is not known.
func (t Tool) takes() json.RawMessage {
	if t.Input == nil {
		return nil
	}
	return t.Input.Raw
}

// refer puts what fills inputs in the place of the references to them, and notes
// which there are.
func refer(v any, inputs map[string]string, placed map[string]bool) any {
	switch v := v.(type) {
	case string:
		ref, ok := session.ParseReference(v)
		if !ok || ref.Session != "" || inputs[ref.Name] == "" {
			return v
		}
		placed[ref.Name] = true
		return "@" + inputs[ref.Name] + session.FormatPath(ref.Path)
	case []any:
		for i := range v {
			v[i] = refer(v[i], inputs, placed)
		}
	case map[string]any:
		for k := range v {
			v[k] = refer(v[k], inputs, placed)
		}
	}
	return v
}

// argumentFor is the argument of a tool that an input is meant for: the one of
// its name, or the only free one that has the same words besides others; "" if
// there is none. A tool that says nothing of its arguments takes any.
func argumentFor(name string, properties []wire.Field, taken map[string]any) string {
	var alike []string
	for _, p := range properties {
		arg := string(p.Name)
		if arg == name {
			return name
		}
		if _, set := taken[arg]; !set && search.Alike(name, arg) {
			alike = append(alike, arg)
		}
	}
	switch {
	case len(properties) == 0:
		return name
	case len(alike) == 1:
		return alike[0]
	}
	return ""
}

// tell notes what was supposed, and what else would have done.
func (w *writer) tell(what string, u search.Use) {
	if u.Match != search.ByName {
		how := map[search.Match]string{search.ByWords: "by the words of its name", search.ByType: "by its type", search.ByShape: "by its schema"}[u.Match]
		w.assume("%s is taken to be %s, %s", what, u.Fact, how)
	}
	if len(u.Ties) > 0 {
		tie := fmt.Sprintf("%s could as well come from %s", what, strings.Join(u.Ties, " or "))
		if !slices.Contains(w.plan.Ties, tie) {
			w.plan.Ties = append(w.plan.Ties, tie)
		}
	}
}
