package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stoahub/stoa/internal/plan/search"
	"github.com/stoahub/stoa/internal/session"
)

// Fact is something that an action takes or yields, or that a plan is given or
// has to yield. In JSON it may be just its name.
type Fact struct {
	Name     string          `json:"name"`
	Type     string          `json:"type,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"`
	Optional bool            `json:"optional,omitempty"`
}

// UnmarshalJSON reads a fact, or the name of one.
func (f *Fact) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*f = Fact{}
		return json.Unmarshal(raw, &f.Name)
	}
	type plain Fact
	return json.Unmarshal(raw, (*plain)(f))
}

// Action is something that a plan may do.
type Action struct {
	Type    string          `json:"type"`
	Tool    string          `json:"tool,omitempty"` // empty: the one called as Type
	Inputs  []Fact          `json:"inputs"`
	Outputs []Fact          `json:"outputs"`
	Args    json.RawMessage `json:"args,omitempty"` // besides the inputs, or with references to them
	Cost    float64         `json:"cost,omitempty"`
	About   string          `json:"-"` // what the tool says of itself; decides between actions that are alike
	Members bool            `json:"-"` // the outputs are members of the result, as the tool's schema has them
}

// Goal is what to make a plan for.
type Goal struct {
	Title       string
	Description string
	Actions     []Action
	Inputs      []Fact
	Outputs     []Fact // what is wanted
	Find        Lookup // what is known of tools; nil: nothing
}

// Create finds a plan for a goal. If there is none, the error is a
// *search.Impossible that says why.
func Create(g Goal) (*Plan, error) {
	if len(g.Outputs) == 0 {
		return nil, errors.New("no output is required: there is nothing to plan")
	}
	problem := search.Problem{Given: asFacts(g.Inputs), Goals: asFacts(g.Outputs)}
	costs := g.costs()
	for i, a := range g.Actions {
		problem.Actions = append(problem.Actions, search.Action{Name: a.Type, Inputs: asFacts(a.Inputs), Outputs: asFacts(a.Outputs), Cost: costs[i]})
	}
	found, why := search.Find(problem)
	if why != nil {
		return nil, why
	}
	if len(found.Steps) == 0 {
		return nil, errors.New("everything that is required is an input already: there is nothing to plan")
	}
	w := writer{goal: g, found: found, named: map[search.Source]string{}, taken: map[string]bool{}, tools: map[string]Tool{}}
	return w.write()
}

func asFacts(facts []Fact) []search.Fact {
	var out []search.Fact
	for _, f := range facts {
		typ, coarse := typeOf(f)
		out = append(out, search.Fact{Name: f.Name, Type: typ, Coarse: coarse, Shape: shapeOf(f.Schema), Optional: f.Optional})
	}
	return out
}

// typeOf is the type of a fact: as it is said, or as its schema says it. It is
// coarse where a schema says no more than object or array: that tells what a fact
// cannot be, not what it is.
func typeOf(f Fact) (typ string, coarse bool) {
	if f.Type != "" {
		return f.Type, false
	}
	if kinds := kindsOf(f.Schema); len(kinds) == 1 {
		return kinds[0], kinds[0] == "object" || kinds[0] == "array"
	}
	return "", false
}

// shapeOf is a schema with its members in order and without what is for people.
func shapeOf(raw json.RawMessage) string {
	v, ok := decoded(raw)
	m, isObject := v.(map[string]any)
	if !ok || !isObject || len(m) == 0 {
		return ""
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range []string{"description", "title", "examples", "default", "$schema", "$id"} {
				if _, isText := v[k].(string); isText || k == "examples" || k == "default" {
					delete(v, k)
				}
			}
			for _, e := range v {
				strip(e)
			}
		case []any:
			for _, e := range v {
				strip(e)
			}
		}
	}
	strip(m)
	if t, ok := m["type"].(string); ok && len(m) == 1 && (t != "object" && t != "array") {
		return "" // that is its type
	}
	out, err := json.Marshal(m) // members are sorted
	if err != nil || string(out) == "{}" {
		return ""
	}
	return string(out)
}

// writer writes a plan that was found.
type writer struct {
	goal  Goal
	found *search.Found
	plan  Plan
	named map[search.Source]string // what each output that is used is called
	taken map[string]bool
	ids   []string
	tools map[string]Tool
}

func (w *writer) write() (*Plan, error) {
	w.plan.Title, w.plan.Description, w.plan.Steps = w.goal.Title, w.goal.Description, []Step{}
	for i, in := range w.goal.Inputs {
		w.named[search.Source{Step: search.Given, Output: i}] = in.Name
		w.taken[in.Name] = true
		w.plan.Inputs = append(w.plan.Inputs, Input{Name: in.Name, Schema: inputSchema(in), Optional: in.Optional})
	}
	for i := range w.found.Steps {
		w.ids = append(w.ids, w.free("step", i+1))
	}
	w.nameOutputs()
	for i := range w.found.Steps {
		s, err := w.step(i)
		if err != nil {
			return nil, err
		}
		w.plan.Steps = append(w.plan.Steps, s)
	}
	w.plan.Outputs = map[string]string{}
	for i, u := range w.found.Goals {
		w.plan.Outputs[w.goal.Outputs[i].Name] = "@" + w.reference(u.From, kindsOf(w.goal.Outputs[i].Schema))
		w.tell("the required output "+u.Input, u)
	}
	return &w.plan, nil
}

func inputSchema(f Fact) json.RawMessage {
	if f.Schema != nil {
		return f.Schema
	}
	switch f.Type {
	case "string", "number", "integer", "boolean", "object", "array", "null":
		return fmt.Appendf(nil, `{"type":%q}`, f.Type)
	}
	return nil // a word of the people who plan
}

// nameOutputs names what the steps yield. A name that is taken gets a number.
func (w *writer) nameOutputs() {
	for i, s := range w.found.Steps {
		for k, out := range w.goal.Actions[s.Action].Outputs {
			name := out.Name
			if w.taken[name] {
				name = w.free(name, 2)
			}
			w.taken[name] = true
			w.named[search.Source{Step: i, Output: k}] = name
		}
	}
}

// free takes the first name with a number that nothing has.
func (w *writer) free(stem string, n int) string {
	for ; ; n++ {
		if name := fmt.Sprintf("%s_%d", stem, n); !w.taken[name] {
			w.taken[name] = true
			return name
		}
	}
}

func (w *writer) step(i int) (Step, error) {
	found := w.found.Steps[i]
	a := w.goal.Actions[found.Action]
	s := Step{ID: w.ids[i], Action: a.Type, Tool: a.Tool}
	var fills []filled
	for k, u := range found.Uses {
		if u.Absent {
			continue
		}
		fills = append(fills, filled{name: a.Inputs[k].Name, ref: w.reference(u.From, w.kindsOf(a, a.Inputs[k])), from: u.From})
		w.tell(fmt.Sprintf("the input %s of %s (%s)", u.Input, s.ID, a.Type), u)
	}
	if err := w.arguments(&s, a, fills); err != nil {
		return s, err
	}
	if w.plain(i) {
		for k := range a.Outputs {
			s.Outputs = append(s.Outputs, w.named[search.Source{Step: i, Output: k}])
		}
	}
	return s, nil
}

// plain says whether the outputs of a step have their own names. Of several
// outputs each is the result's member of its name, so that none of them can
// have another.
func (w *writer) plain(i int) bool {
	a := w.goal.Actions[w.found.Steps[i].Action]
	outs := a.Outputs
	if a.Members { // there may be many, and they need not be there
		return false
	}
	if len(outs) <= 1 {
		return true
	}
	for k, o := range outs {
		if w.named[search.Source{Step: i, Output: k}] != o.Name {
			return false
		}
	}
	return true
}

// reference is how what a source yields is referred to, where something of these
// types is wanted; nil is any. The name of a single output is the whole result: if
// the tool says that the result has a member of that name, that is what is meant,
// unless what is wanted can only be the whole.
func (w *writer) reference(from search.Source, wanted []string) string {
	if from.Step == search.Given {
		return w.named[from]
	}
	if a := w.goal.Actions[w.found.Steps[from.Step].Action]; w.plain(from.Step) {
		if len(a.Outputs) > 1 {
			return w.named[from]
		}
		member := []session.Step{session.Member(a.Outputs[0].Name)}
		part := schemaAt(w.tool(a).Output, member)
		if is := kindsOf(part); part == nil || len(is) > 0 && len(wanted) > 0 && !overlap(is, wanted) {
			return w.named[from]
		}
		return w.named[from] + session.FormatPath(member)
	}
	return w.ids[from.Step] + "." + w.goal.Actions[w.found.Steps[from.Step].Action].Outputs[from.Output].Name
}
