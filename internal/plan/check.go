package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/spell"
)

// Check says everything that is wrong with a plan as such. known reports
// whether there is a value of that name outside the plan; nil means that there
// is none.
func Check(p *Plan, known func(name string) bool) []Problem {
	c := checker{plan: p, known: known, own: p.owners(), names: map[string]string{}}
	if len(p.Steps) == 0 {
		c.add("/steps", "", "Add a step that calls a tool.", "is empty: there is nothing to do")
	}
	c.checkNames()
	for i := range p.Steps {
		c.checkStep(i)
	}
	c.checkOutputs()
	if !c.vague { // a circle among steps that are not told apart means nothing
		c.checkOrder()
	}
	return c.problems
}

type checker struct {
	plan     *Plan
	known    func(string) bool
	own      map[string]string // step by the names it owns
	names    map[string]string // what each name of the plan is
	vague    bool              // some names are missing or mean two things
	problems []Problem
}

func (c *checker) add(pointer, step, hint, format string, args ...any) {
	c.problems = append(c.problems, Problem{Pointer: pointer, Step: step, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// checkNames makes sure that each name of the plan means one thing.
func (c *checker) checkNames() {
	take := func(pointer, step, name, what string) {
		if name == "" { // that its form lacks it is said elsewhere
			c.vague = true
			return
		}
		if was, taken := c.names[name]; taken {
			c.vague = true
			c.add(pointer, step, "Use another name.", "%s is already %s", name, was)
			return
		}
		c.names[name] = what
	}
	for i, in := range c.plan.Inputs {
		at := fmt.Sprintf("/inputs/%d", i)
		take(at+"/name", "", in.Name, "an input")
		c.checkInput(at, in)
	}
	for i, s := range c.plan.Steps {
		take(fmt.Sprintf("/steps/%d/id", i), s.ID, s.ID, "the id of a step")
	}
	for i, s := range c.plan.Steps {
		for k, o := range s.Outputs {
			take(fmt.Sprintf("/steps/%d/outputs/%d", i, k), s.ID, o, "an output of "+s.ID)
		}
	}
}

func (c *checker) checkInput(at string, in Input) {
	if in.Schema == nil {
		return
	}
	s, err := schema.Compile(in.Schema)
	if err != nil {
		c.add(at+"/schema", "", "", "cannot be used: %v", err)
		return
	}
	if in.Default != nil {
		for _, f := range s.Validate(in.Default) {
			c.add(at+"/default"+f.Pointer, "", "", "%s", f.Message)
		}
	}
}

func (c *checker) checkStep(i int) {
	s := &c.plan.Steps[i]
	at := fmt.Sprintf("/steps/%d", i)
	if s.Called() == "" {
		c.add(at, s.ID, `Add "tool".`, "names no tool")
	}
	for k, a := range s.After {
		if c.plan.Step(a) == nil {
			c.add(fmt.Sprintf("%s/after/%d", at, k), s.ID, near(a, c.stepIDs()), "there is no step %s", a)
		}
	}
	if f := s.Fallback; f != nil && (f.Tool != "") == (f.Value != nil) {
		c.add(at+"/fallback", s.ID, "", "must have either a tool or a value")
	} else if f != nil && f.Value != nil && f.Args != nil {
		c.add(at+"/fallback/args", s.ID, "", "mean nothing beside a value")
	}
	if (s.OnError == FallBack) != (s.Fallback != nil) {
		c.add(at+"/onError", s.ID, `Write "onError": "fallback" and "fallback" together.`, "and fallback do not fit")
	}
	if f := s.ForEach; f != nil {
		if was, taken := c.names[f.As]; taken {
			c.add(at+"/forEach/as", s.ID, "Use another name.", "%s is already %s", f.As, was)
		}
		if len(s.Outputs) > 1 {
			c.add(at+"/outputs", s.ID, "Name one output: the list of all results.", "are several, but a step for each item yields one list")
		}
	}
	c.problems = append(c.problems, within(s.When.check(at+"/when", 0), s.ID)...)
	s.used(at, func(pointer, text string, undo bool) { c.checkReference(s, pointer, text, undo) })
	literals := s.literals(at)
	for _, where := range slices.Sorted(maps.Keys(literals)) {
		c.checkMalformed(s, where, literals[where])
	}
}

// checkMalformed finds what names something that the plan knows, and goes on as a
// reference would, but is none: a tool would be sent the text.
func (c *checker) checkMalformed(s *Step, at string, raw json.RawMessage) {
	eachMeant(raw, func(pointer, text string) {
		ref, why := session.Malformed(text)
		if why == "" || ref.Session != "" { // whether another session has it is known when it runs
			return
		}
		item := s.ForEach != nil && ref.Name == s.ForEach.As
		if item || c.names[ref.Name] != "" || c.known != nil && c.known(ref.Name) {
			c.add(at+pointer, s.ID, fmt.Sprintf(`A reference is @name, @name.member, @name[0] or @name["a key"], with nothing after it; the text itself is written %q.`, "@"+text),
				"%q names %s, but is no reference: %s", text, ref.Name, why)
		}
	})
}

func within(problems []Problem, step string) []Problem {
	for i := range problems {
		problems[i].Step = step
	}
	return problems
}

func (c *checker) checkReference(s *Step, pointer, text string, undo bool) {
	ref, ok := session.ParseReference(text)
	switch {
	case !ok:
		c.add(pointer, s.ID, "A reference is @name, @name.member or @name[0].", "%q is no reference", text)
		return
	case ref.Session != "":
		return // looked up when it is needed: it may be another's to say
	case s.ForEach != nil && ref.Name == s.ForEach.As && !strings.HasSuffix(pointer, "/forEach/in"):
		return
	case c.own[ref.Name] == s.ID && !undo:
		c.add(pointer, s.ID, "", "refers to what the step itself yields")
		return
	}
	c.checkKnown(pointer, s.ID, ref.Name)
}

func (c *checker) checkKnown(pointer, step, name string) {
	if c.names[name] == "" && (c.known == nil || !c.known(name)) {
		c.add(pointer, step, near(name, slices.Sorted(maps.Keys(c.names))), "refers to %s, which is neither an input, nor a step, nor an output, nor a value of the session", name)
	}
}

func (c *checker) checkOutputs() {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Outputs)) {
		at, text := "/outputs/"+escape(name), c.plan.Outputs[name]
		ref, ok := session.ParseReference(text)
		if !ok {
			c.add(at, "", "A reference is @name, @name.member or @name[0].", "%q is no reference", text)
			continue
		}
		if ref.Session == "" {
			c.checkKnown(at, "", ref.Name)
		}
	}
}

// checkOrder finds steps that wait for each other, and compensations that refer
// to what may come later.
func (c *checker) checkOrder() {
	if circle := c.plan.circle(); circle != nil {
		c.add("/steps", circle[0], "Take one of the references or after entries away.", "wait for each other: %s", strings.Join(circle, " → "))
		return
	}
	before := c.plan.ancestors()
	for i := range c.plan.Steps {
		s := &c.plan.Steps[i]
		s.used(fmt.Sprintf("/steps/%d", i), func(pointer, text string, undo bool) {
			ref, ok := session.ParseReference(text)
			owner := c.own[ref.Name]
			if !undo || !ok || ref.Session != "" || owner == "" || owner == s.ID || before[s.ID][owner] {
				return
			}
			c.add(pointer, s.ID, "Refer to this step or to one that it needs.", "refers to %s, which need not have run when this is undone", owner)
		})
	}
}

// circle returns steps that need each other, the first again at the end; nil
// if there are none.
func (p *Plan) circle() []string {
	own := p.owners()
	const visiting, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(id string) []string
	visit = func(id string) []string {
		switch state[id] {
		case done:
			return nil
		case visiting:
			return append(slices.Clone(path[slices.Index(path, id):]), id)
		}
		state[id] = visiting
		path = append(path, id)
		for _, n := range p.needs(own, p.Step(id)) {
			if c := visit(n); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		state[id] = done
		return nil
	}
	for i := range p.Steps {
		if c := visit(p.Steps[i].ID); c != nil {
			return c
		}
	}
	return nil
}

// ancestors maps each step to all that must have ended before it. The plan has
// no circles.
func (p *Plan) ancestors() map[string]map[string]bool {
	own := p.owners()
	all := map[string]map[string]bool{}
	var of func(id string) map[string]bool
	of = func(id string) map[string]bool {
		if set, ok := all[id]; ok {
			return set
		}
		set := map[string]bool{}
		for _, n := range p.needs(own, p.Step(id)) {
			set[n] = true
			maps.Copy(set, of(n))
		}
		all[id] = set
		return set
	}
	for i := range p.Steps {
		of(p.Steps[i].ID)
	}
	return all
}

func (c *checker) stepIDs() []string {
	var ids []string
	for _, s := range c.plan.Steps {
		ids = append(ids, s.ID)
	}
	return ids
}

func near(word string, words []string) string {
	if close := spell.Near(word, words, 3); len(close) > 0 {
		return "Is " + strings.Join(close, " or ") + " meant?"
	}
	return ""
}

// CheckInputs says what is wrong with what a run is given, and returns it with
// the defaults filled in.
func CheckInputs(p *Plan, given map[string]json.RawMessage) (map[string]json.RawMessage, []Problem) {
	out := maps.Clone(given)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	var problems []Problem
	var names []string
	for _, in := range p.Inputs {
		names = append(names, in.Name)
		value, ok := given[in.Name]
		switch {
		case !ok && in.Default != nil:
			out[in.Name] = in.Default
			continue
		case !ok && in.Optional:
			continue
		case !ok:
			problems = append(problems, Problem{Pointer: "/" + in.Name, Message: "is an input and was not given", Hint: strings.TrimSpace(in.Description)})
			continue
		}
		if in.Schema == nil {
			continue
		}
		s, err := schema.Compile(in.Schema)
		if err != nil {
			problems = append(problems, Problem{Pointer: "/" + in.Name, Message: "its schema cannot be used: " + err.Error()})
			continue
		}
		for _, f := range s.Validate(value) {
			problems = append(problems, Problem{Pointer: "/" + in.Name + f.Pointer, Message: f.Message})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			problems = append(problems, Problem{Pointer: "/" + escape(name), Message: "is no input of the plan", Hint: near(name, names)})
		}
	}
	return out, problems
}

// Levels are the steps in the order in which they can be done: those of one
// level do not wait for each other. The plan has no circles.
func (p *Plan) Levels() [][]string {
	own := p.owners()
	level := map[string]int{}
	var of func(id string) int
	of = func(id string) int {
		if n, ok := level[id]; ok {
			return n
		}
		n := 0
		for _, need := range p.needs(own, p.Step(id)) {
			n = max(n, of(need)+1)
		}
		level[id] = n
		return n
	}
	var out [][]string
	for i := range p.Steps {
		n := of(p.Steps[i].ID)
		for len(out) <= n {
			out = append(out, nil)
		}
		out[n] = append(out[n], p.Steps[i].ID)
	}
	return out
}
