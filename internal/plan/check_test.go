package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// grow makes a random plan that is valid: references go to inputs and to steps
// before, and the steps are then put into any order.
func grow(r *rand.Rand) *Plan {
	p := &Plan{}
	var names []string
	for i := range r.IntN(3) {
		p.Inputs = append(p.Inputs, Input{Name: fmt.Sprintf("in%d", i)})
		names = append(names, p.Inputs[i].Name)
	}
	ref := func() string {
		if len(names) == 0 || r.IntN(5) == 0 {
			return "text"
		}
		return "@" + names[r.IntN(len(names))] + []string{"", ".a", "[0]", ".a[1].b"}[r.IntN(4)]
	}
	for i := range 1 + r.IntN(6) {
		s := Step{ID: fmt.Sprintf("step_%d", i+1), Tool: "t"}
		s.Args = args(map[string]any{"x": ref(), "y": []any{ref(), map[string]any{"z": ref(), "lit": "@@no"}}})
		if r.IntN(4) == 0 && i > 0 {
			s.After = []string{fmt.Sprintf("step_%d", 1+r.IntN(i))}
		}
		if v := ref(); r.IntN(4) == 0 && v[0] == '@' {
			s.When = &Condition{Not: &Condition{Value: v, Is: Equal, To: args(ref())}}
		}
		if v := ref(); r.IntN(4) == 0 && v[0] == '@' {
			s.ForEach = &ForEach{In: v, As: "item"}
			s.Args = args(map[string]any{"x": "@item", "y": ref()})
		}
		names = append(names, s.ID)
		if r.IntN(2) == 0 {
			s.Outputs = []string{fmt.Sprintf("out%d", i)}
			names = append(names, s.Outputs[0])
		}
		if r.IntN(4) == 0 {
			s.Compensate = &Invocation{Tool: "undo", Args: args(map[string]any{"of": "@" + s.ID})}
		}
		p.Steps = append(p.Steps, s)
	}
	if len(names) > 0 {
		p.Outputs = map[string]string{"result": "@" + names[r.IntN(len(names))]}
	}
	r.Shuffle(len(p.Steps), func(i, j int) { p.Steps[i], p.Steps[j] = p.Steps[j], p.Steps[i] })
	return p
}

func args(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// mutate changes one thing of a plan, as its text.
func mutate(r *rand.Rand, p *Plan) *Plan {
	text := string(args(p))
	all := func(pattern string) [][]int { return regexp.MustCompile(pattern).FindAllStringIndex(text, -1) }
	words := []string{"step_1", "step_2", "step_3", "step_9", "in0", "in1", "out0", "out1", "item", "nothing"}
	word := words[r.IntN(len(words))]
	put := func(found [][]int, with string) {
		if len(found) > 0 {
			at := found[r.IntN(len(found))]
			text = text[:at[0]] + with + text[at[1]:]
		}
	}
	switch r.IntN(6) {
	case 0, 1:
		put(all(`"@[a-z_0-9]+`), `"@`+word) // another reference
	case 2:
		put(all(`"id":"[a-z_0-9]+`), `"id":"`+word)
	case 3:
		put(all(`"outputs":\["[a-z_0-9]+`), `"outputs":["`+word)
	case 4:
		put(all(`"after":\["[a-z_0-9]+`), `"after":["`+word)
	case 5:
		put(all(`\{"name":"[a-z0-9]+"\},?`), "")
		text = strings.ReplaceAll(text, ",]", "]")
	}
	q := &Plan{}
	if err := json.Unmarshal([]byte(text), q); err != nil {
		panic(err)
	}
	return q
}

var naiveReference = regexp.MustCompile(`"@([A-Za-z_][A-Za-z0-9_-]*)`)

// runnable is the brute force: it says whether all steps of a plan could be
// called, by trying again and again which can, and whether each name means one
// thing that is there.
func runnable(p *Plan) bool {
	seen := map[string]bool{}
	fresh := func(name string) bool {
		old := seen[name]
		seen[name] = true
		return !old
	}
	for _, in := range p.Inputs {
		if !fresh(in.Name) {
			return false
		}
	}
	for _, s := range p.Steps {
		for _, name := range append([]string{s.ID}, s.Outputs...) {
			if !fresh(name) {
				return false
			}
		}
	}
	have := map[string]bool{}
	for _, in := range p.Inputs {
		have[in.Name] = true
	}
	within := func(have map[string]bool, as string, parts ...any) bool {
		for _, part := range parts {
			for _, m := range naiveReference.FindAllStringSubmatch(string(args(part)), -1) {
				if m[1] != as && !have[m[1]] {
					return false
				}
			}
		}
		return true
	}
	left := slices.Clone(p.Steps)
	behind := map[string]map[string]bool{} // what must be there when a step is undone
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(s Step) bool {
			as := ""
			if s.ForEach != nil {
				as = s.ForEach.As
				if seen[as] || !within(have, "", s.ForEach.In) {
					return false
				}
			}
			for _, a := range s.After {
				if !slices.ContainsFunc(p.Steps, func(o Step) bool { return o.ID == a }) || !have[a] {
					return false
				}
			}
			return within(have, as, s.Args, s.When)
		})
		if i < 0 {
			return false
		}
		s := left[i]
		left = slices.Delete(left, i, i+1)
		have[s.ID] = true
		for _, o := range s.Outputs {
			have[o] = true
		}
		own := map[string]bool{s.ID: true}
		for _, o := range s.Outputs {
			own[o] = true
		}
		behind[s.ID] = own
	}
	for _, s := range p.Steps {
		if s.Compensate == nil {
			continue
		}
		can := map[string]bool{}
		for _, in := range p.Inputs {
			can[in.Name] = true
		}
		reachable := map[string]bool{}
		var back func(id string)
		back = func(id string) {
			if reachable[id] {
				return
			}
			reachable[id] = true
			for name := range behind[id] {
				can[name] = true
			}
			o := p.Steps[slices.IndexFunc(p.Steps, func(o Step) bool { return o.ID == id })]
			text := string(args([]any{o.Args, o.When, o.ForEach}))
			for _, m := range naiveReference.FindAllStringSubmatch(text, -1) {
				for of, names := range behind {
					if names[m[1]] && (o.ForEach == nil || m[1] != o.ForEach.As) {
						back(of)
					}
				}
			}
			for _, a := range o.After {
				back(a)
			}
		}
		back(s.ID)
		as := ""
		if s.ForEach != nil {
			as = s.ForEach.As
		}
		if !within(can, as, s.Compensate.Args) {
			return false
		}
	}
	return within(have, "", p.Outputs)
}

func TestCheckAgainstBruteForce(t *testing.T) {
	rounds := 2_000
	if os.Getenv("STOA_SOAK") != "" {
		rounds = 500_000
	}
	r := rand.New(rand.NewPCG(7, 8))
	valid, invalid := 0, 0
	for n := range rounds {
		p := grow(r)
		if problems := Check(p, nil); len(problems) > 0 || !runnable(p) {
			t.Fatalf("plan %d was made valid: %v, brute force %v\n%s", n, problems, runnable(p), args(p))
		}
		q := mutate(r, p)
		problems, can := Check(q, nil), runnable(q)
		if can != (len(problems) == 0) {
			t.Fatalf("plan %d: brute force says %v, Check says %v\n%s", n, can, problems, args(q))
		}
		if can {
			valid++
		} else {
			invalid++
		}
	}
	if valid < rounds/10 || invalid < rounds/10 {
		t.Errorf("of %d mutants %d were valid and %d not: the test shows too little of one", rounds, valid, invalid)
	}
	t.Logf("%d mutants: %d valid, %d invalid", rounds, valid, invalid)
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ name, plan, want string }{
		{"not JSON", `{`, `is not JSON: `},
		{"an unknown member", `{"steps":[{"id":"a","tol":"t"}]}`, `/steps/0`},
		{"no steps", `{}`, `steps`},
		{"a bad name", `{"steps":[{"id":"1st","tool":"t"}]}`, `/steps/0/id`},
		{"no tool", `{"steps":[{"id":"a"}]}`, `/steps/0 names no tool. Add "tool".`},
		{"the same id", `{"steps":[{"id":"a","tool":"t"},{"id":"a","tool":"t"}]}`, `/steps/1/id a is already the id of a step. Use another name.`},
		{"a misspelt reference", `{"inputs":[{"name":"source"}],"steps":[{"id":"a","tool":"t","args":{"x":{"y":["@sorce.code"]}}}]}`,
			`/steps/0/args/x/y/0 refers to sorce, which is neither an input, nor a step, nor an output, nor a value of the session. Is source meant?`},
		{"a key without quotes", `{"steps":[{"id":"m","tool":"t"},{"id":"a","tool":"t","args":{"v":"@m.a[x]"}}]}`,
			`/steps/1/args/v "@m.a[x]" names m, but is no reference: it cannot be read at "[x]". A reference is @name, @name.member, @name[0] or @name["a key"], with nothing after it; the text itself is written "@@m.a[x]".`},
		{"space after a reference", `{"steps":[{"id":"m","tool":"t"},{"id":"a","tool":"t","args":{"w":["@m "]}}]}`, `/steps/1/args/w/0 "@m " names m`},
		{"a bracket that is open", `{"steps":[{"id":"m","tool":"t"},{"id":"a","tool":"t","args":{"x":{"$ref":"@m["}}}]}`, `/steps/1/args/x "@m[" names m`},
		{"a dot after an input", `{"inputs":[{"name":"m"}],"steps":[{"id":"a","tool":"t","args":{"y":"@m."}}]}`, `/steps/0/args/y "@m." names m`},
		{"an index that is open, of an output", `{"steps":[{"id":"s","tool":"t","outputs":["m"]},{"id":"a","tool":"t","fallback":{"value":"@m.a[0"},"onError":"fallback"}]}`, `/steps/1/fallback/value "@m.a[0" names m`},
		{"a dot after the item", `{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"t","forEach":{"in":"@l","as":"e"},"args":{"y":"@e."}}]}`, `/steps/0/args/y "@e." names e`},
		{"a circle", `{"steps":[{"id":"a","tool":"t","args":{"x":"@b"}},{"id":"b","tool":"t","after":["c"]},{"id":"c","tool":"t","args":{"x":{"$ref":"@a.y"}}}]}`,
			`/steps wait for each other: a → b → c → a. Take one of the references or after entries away.`},
		{"itself", `{"steps":[{"id":"a","tool":"t","args":{"x":"@a"}}]}`, `/steps/0/args/x refers to what the step itself yields`},
		{"after nothing", `{"steps":[{"id":"step_1","tool":"t"},{"id":"b","tool":"t","after":["step1"]}]}`, `/steps/1/after/0 there is no step step1. Is step_1 meant?`},
		{"a fallback that is not used", `{"steps":[{"id":"a","tool":"t","fallback":{"value":1}}]}`, `/steps/0/onError and fallback do not fit. Write "onError": "fallback" and "fallback" together.`},
		{"a fallback of two kinds", `{"steps":[{"id":"a","tool":"t","onError":"fallback","fallback":{"value":1,"tool":"u"}}]}`, `/steps/0/fallback must have either a tool or a value`},
		{"too many items", `{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"t","forEach":{"in":"@l","as":"i","max":5000}}]}`, `/steps/0/forEach/max`},
		{"a taken item name", `{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"t","forEach":{"in":"@l","as":"l"}}]}`, `/steps/0/forEach/as l is already an input. Use another name.`},
		{"a list of its own items", `{"steps":[{"id":"a","tool":"t","forEach":{"in":"@i","as":"i"}}]}`, `/steps/0/forEach/in refers to i`},
		{"a condition of two kinds", `{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"t","when":{"value":"@l","all":[{"value":"@l"}]}}]}`, `/steps/0/when must have just one of all, any, not and value`},
		{"a comparison with nothing", `{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"t","when":{"value":"@l","is":"less"}}]}`, `/steps/0/when says less, but not to what. Add "to".`},
		{"a broken pattern", `{"inputs":[{"name":"l"}],"steps":[{"id":"a","tool":"t","when":{"value":"@l","is":"matches","to":"("}}]}`, `/steps/0/when/to is no regular expression`},
		{"an output of nothing", `{"steps":[{"id":"a","tool":"t"}],"outputs":{"x":"@b"}}`, `/outputs/x refers to b`},
		{"an undo that looks ahead", `{"steps":[{"id":"a","tool":"t","compensate":{"tool":"u","args":{"x":"@b"}}},{"id":"b","tool":"t"}]}`,
			`/steps/0/compensate/args/x refers to b, which need not have run when this is undone. Refer to this step or to one that it needs.`},
		{"a default that does not fit", `{"inputs":[{"name":"n","schema":{"type":"integer"},"default":"x"}],"steps":[]}`, `/inputs/0/default`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, problems := Decode([]byte(c.plan))
			if p != nil {
				problems = Check(p, nil)
			}
			var all []string
			for _, p := range problems {
				all = append(all, p.String())
			}
			if got := strings.Join(all, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestKnownValues(t *testing.T) {
	p, problems := Decode([]byte(`{"steps":[{"id":"a","tool":"t","args":{"x":"@kept.y","z":"@s_1:other"}}]}`))
	if problems != nil {
		t.Fatal(problems)
	}
	if got := Check(p, func(name string) bool { return name == "kept" }); got != nil {
		t.Errorf("a value of the session is refused: %v", got)
	}
	if got := Check(p, nil); len(got) != 1 {
		t.Errorf("without the session: %v", got)
	}
}

// What names nothing, and what is escaped, is text.
func TestTextIsNoReference(t *testing.T) {
	for _, text := range []string{"@octocat.", "@octocat ", "@@m.a[x]", "@@m ", "@m!", "@m/x", "me@m.", "@types/node", "ask @m.", "@s:m."} {
		raw, err := json.Marshal(map[string]string{"v": text})
		if err != nil {
			t.Fatal(err)
		}
		p := &Plan{Steps: []Step{{ID: "m", Tool: "t"}, {ID: "a", Tool: "t", Args: raw}}}
		if problems := Check(p, nil); problems != nil {
			t.Errorf("%q: %v", text, problems)
		}
	}
}

func TestCheckInputs(t *testing.T) {
	p := &Plan{Inputs: []Input{{Name: "n", Schema: []byte(`{"type":"integer"}`)}, {Name: "o", Optional: true}, {Name: "d", Default: []byte(`7`)}}}
	got, problems := CheckInputs(p, map[string]json.RawMessage{"n": []byte("3")})
	if problems != nil {
		t.Fatal(problems)
	}
	if d := cmp.Diff(map[string]json.RawMessage{"n": []byte("3"), "d": []byte("7")}, got); d != "" {
		t.Error(d)
	}
	_, problems = CheckInputs(p, map[string]json.RawMessage{"m": []byte("3"), "d": []byte(`1`)})
	if len(problems) != 2 || problems[0].Pointer != "/n" || problems[1].Pointer != "/m" {
		t.Errorf("one input is missing, one is unknown: %v", problems)
	}
	if _, problems = CheckInputs(p, map[string]json.RawMessage{"n": []byte(`"3"`)}); len(problems) != 1 {
		t.Errorf("an input of the wrong type: %v", problems)
	}
}
