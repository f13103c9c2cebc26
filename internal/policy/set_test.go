package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestDecideByParty(t *testing.T) {
	groups := map[string][]string{"staff": {"alice", "ci-*"}, "empty": nil}
	write := Subject{Tool: "fs__write", Upstream: "fs", Ref: "fs:write"}
	read := Subject{Tool: "fs__read", Upstream: "fs", Ref: "fs:read", ReadOnly: new(true)}
	mild := Subject{Tool: "fs__touch", Upstream: "fs", Ref: "fs:touch", Destructive: new(false)}
	own := Subject{Tool: "plan_run", Upstream: "plan", Ref: "plan:plan_run", Builtin: true}
	prompt := Subject{Kind: KindPrompt, Tool: "fs__sum", Upstream: "fs", Ref: "fs:sum"}
	resource := Subject{Kind: KindResource, Tool: "file:///etc/passwd", Upstream: "fs"}
	sampling := Subject{Kind: KindSampling, Tool: "fs:sampling", Upstream: "fs", Ref: "fs:sampling"}
	one := func(r Rule) []Rules { return []Rules{{Name: "policy", Rules: []Rule{r}}} }
	by := func(s Subject, who string) Query { return Query{Subject: s, Principal: who} }
	model := func(s Subject) Query { return Query{Subject: s, Model: true} }
	for name, tc := range map[string]struct {
		q     Query
		lists []Rules
		want  Action
		rule  string
	}{
		"a client":                         {by(write, "x"), nil, Allow, "client"},
		"a model":                          {model(write), nil, Ask, "unsaid"},
		"a model, read-only":               {model(read), nil, Allow, "read-only"},
		"a model, mild":                    {model(mild), nil, Allow, "not destructive"},
		"a model, distrusted":              {model(read.WithoutAnnotations()), nil, Ask, "unsaid"},
		"a model, built-in":                {model(own), nil, Ask, "unsaid"},
		"a model reads a prompt":           {model(prompt), nil, Allow, "read-only"},
		"a model reads a resource":         {model(resource), nil, Allow, "read-only"},
		"the rule is named":                {by(write, "x"), []Rules{{Name: "policy", Rules: []Rule{{Tools: []string{"a"}, Action: Deny}, {Tools: []string{"fs__*"}, Action: Ask}}}}, Ask, "policy rule 2 (fs__*)"},
		"the default is named":             {by(write, "x"), []Rules{{Name: "chat.approvals", Default: Ask}}, Ask, "chat.approvals default"},
		"many patterns":                    {by(write, "x"), one(Rule{Tools: []string{"a", "b", "fs", "d"}, Action: Ask}), Ask, "policy rule 1 (a, b, fs, …)"},
		"a principal":                      {by(write, "bob"), one(Rule{Principals: []string{"b*"}, Action: Deny}), Deny, "policy rule 1"},
		"another principal":                {by(write, "alice"), one(Rule{Principals: []string{"b*"}, Action: Deny}), Allow, "client"},
		"everybody, also without a name":   {by(write, ""), one(Rule{Principals: []string{"*"}, Action: Deny}), Deny, "policy rule 1"},
		"a group":                          {by(write, "ci-7"), one(Rule{Groups: []string{"staff"}, Action: Deny}), Deny, "policy rule 1"},
		"outside of the group":             {by(write, "bob"), one(Rule{Groups: []string{"staff"}, Action: Deny}), Allow, "client"},
		"an empty group":                   {by(write, "bob"), one(Rule{Groups: []string{"empty"}, Action: Deny}), Allow, "client"},
		"a principal or a group, first":    {by(write, "bob"), one(Rule{Principals: []string{"bob"}, Groups: []string{"staff"}, Action: Deny}), Deny, ""},
		"a principal or a group, second":   {by(write, "alice"), one(Rule{Principals: []string{"bob"}, Groups: []string{"staff"}, Action: Deny}), Deny, ""},
		"a principal and a tool":           {by(write, "bob"), one(Rule{Principals: []string{"bob"}, Tools: []string{"gh"}, Action: Deny}), Allow, "client"},
		"a prompt by name":                 {by(prompt, ""), one(Rule{Prompts: []string{"fs__s*"}, Action: Deny}), Deny, "policy rule 1 (fs__s*)"},
		"a prompt by ref":                  {by(prompt, ""), one(Rule{Prompts: []string{"fs:sum"}, Action: Deny}), Deny, ""},
		"a prompt by server":               {by(prompt, ""), one(Rule{Prompts: []string{"fs"}, Action: Deny}), Deny, ""},
		"tools are no prompts":             {by(prompt, ""), one(Rule{Tools: []string{"*"}, Action: Deny}), Allow, "client"},
		"prompts are no tools":             {by(write, ""), one(Rule{Prompts: []string{"*"}, Action: Deny}), Allow, "client"},
		"tools and prompts":                {by(prompt, ""), one(Rule{Tools: []string{"gh"}, Prompts: []string{"*"}, Action: Deny}), Deny, ""},
		"a resource by URI":                {by(resource, ""), one(Rule{Resources: []string{"file:///*"}, Action: Deny}), Deny, ""},
		"a resource by server":             {by(resource, ""), one(Rule{Resources: []string{"fs"}, Action: Deny}), Deny, ""},
		"tools are no resources":           {by(resource, ""), one(Rule{Tools: []string{"*"}, Action: Deny}), Allow, "client"},
		"no kind named, prompt":            {by(prompt, ""), one(Rule{Action: Deny}), Deny, ""},
		"no kind named, resource":          {by(resource, ""), one(Rule{Action: Deny}), Deny, ""},
		"no kind named, sampling":          {by(sampling, ""), one(Rule{Action: Allow}), Allow, ""},
		"prompts are read-only":            {by(prompt, ""), one(Rule{ReadOnly: new(false), Action: Deny}), Allow, "client"},
		"resources are not destructive":    {by(resource, ""), one(Rule{Destructive: new(false), Action: Ask}), Ask, ""},
		"sampling":                         {by(sampling, ""), nil, Ask, "sampling"},
		"sampling by a model":              {model(sampling), nil, Ask, "sampling"},
		"sampling, default allow":          {by(sampling, ""), []Rules{{Default: Allow}}, Ask, "sampling"},
		"sampling, a later default":        {by(sampling, ""), []Rules{{Default: Allow}, {Default: Ask}}, Ask, "default"},
		"sampling, default deny":           {by(sampling, ""), []Rules{{Default: Deny}}, Deny, "default"},
		"sampling by ref":                  {by(sampling, ""), one(Rule{Tools: []string{"fs:sampling"}, Action: Allow}), Allow, ""},
		"sampling by server":               {by(sampling, ""), one(Rule{Tools: []string{"fs"}, Action: Deny}), Deny, ""},
		"prompts are no sampling":          {by(sampling, ""), one(Rule{Prompts: []string{"*"}, Action: Allow}), Ask, "sampling"},
		"arguments do not match":           {by(write, ""), one(Rule{Args: map[string]Cond{"p": is("2")}, Action: Deny}), Allow, "client"},
		"all arguments must match":         {by(write, ""), one(Rule{Args: map[string]Cond{"p": is("1"), "q": is("1")}, Action: Deny}), Allow, "client"},
		"a condition before a rule":        {by(write, ""), []Rules{{Rules: []Rule{{Args: map[string]Cond{"p": is("1")}, Action: Ask}, {Action: Allow}}}}, Ask, "rule 1"},
		"a condition that denies, later":   {by(write, ""), []Rules{{Rules: []Rule{{Action: Allow}, {Args: map[string]Cond{"p": is("1")}, Action: Deny}}}}, Deny, "rule 2"},
		"default deny, condition fails":    {by(write, ""), []Rules{{Default: Deny, Rules: []Rule{{Args: map[string]Cond{"p": is("2")}, Action: Allow}}}}, Deny, "default"},
		"default deny, condition holds":    {by(write, ""), []Rules{{Default: Deny, Rules: []Rule{{Args: map[string]Cond{"p": is("1")}, Action: Allow}}}}, Allow, "rule 1"},
		"default deny of a list elsewhere": {by(write, ""), []Rules{{Rules: []Rule{{Action: Allow}}}, {Default: Deny, Rules: []Rule{{Action: Ask, Args: map[string]Cond{"p": is("2")}}}}}, Deny, "default"},
	} {
		sets := []*Set{nil}
		for _, l := range tc.lists {
			sets = append(sets, Compile(l, groups))
		}
		tc.q.Args = []byte(`{"p":1}`)
		v := Decide(&tc.q, sets...)
		if v.Action != tc.want || !strings.HasPrefix(v.Rule, tc.rule) || v.Rule == "" || v.Reason == "" {
			t.Errorf("%s: %+v, want %s by %s", name, v, tc.want, tc.rule)
		}
	}
}

func TestReasons(t *testing.T) {
	for want, r := range map[string]Rules{
		"policy rule 1 (fs) does not allow it": {Name: "policy", Rules: []Rule{{Tools: []string{"fs"}, Action: Deny}}},
		"policy rule 1 requires approval":      {Name: "policy", Rules: []Rule{{Action: Ask}}},
		"it is late":                           {Name: "policy", Rules: []Rule{{Action: Ask, Reason: "it is late"}}},
		"the policy default does not allow it": {Name: "policy", Default: Deny},
		"the default allows it":                {Default: Allow},
	} {
		if v := Decide(&Query{Subject: Subject{Tool: "fs__a", Upstream: "fs"}}, Compile(r, nil)); v.Reason != want {
			t.Errorf("%q, want %q", v.Reason, want)
		}
	}
}

func TestEmpty(t *testing.T) {
	var none *Set
	if !none.Empty() || !Compile(Rules{Name: "policy"}, nil).Empty() || Compile(Rules{Default: Allow}, nil).Empty() || Compile(Rules{Rules: []Rule{{Action: Ask}}}, nil).Empty() {
		t.Error("what is empty is not, or the other way round")
	}
	if v := Decide(&Query{}, none); v.Action != Allow {
		t.Errorf("by nothing: %+v", v)
	}
}

// The index leaves out no rule that applies, whatever the patterns and names.
func TestIndexMissesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func(alphabet string) string {
		b := make([]byte, rnd.IntN(4))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	list := func() (out []string) {
		for range rnd.IntN(3) {
			out = append(out, word("ab:*?"))
		}
		return out
	}
	applied := 0
	for range 300 {
		var r Rules
		for range 1 + rnd.IntN(150) {
			r.Rules = append(r.Rules, Rule{Action: Ask, Tools: list(), Prompts: list(), Resources: list(), Principals: list(), Args: map[string]Cond{"a": {}}})
		}
		set := Compile(r, nil)
		for range 20 {
			k := key{kind: []string{KindTool, KindPrompt, KindResource, KindSampling}[rnd.IntN(4)],
				tool: word("ab:"), ref: word("ab:"), upstream: word("ab:"), principal: word("ab:")}
			var want []*rule
			for _, one := range set.rules {
				if one.applies(&k) {
					want = append(want, one)
				}
			}
			if got := set.rulesFor(&k); !slices.Equal(got, want) {
				t.Fatalf("%+v: %d rules are found, %d apply", k, len(got), len(want))
			}
			applied += len(want)
		}
	}
	if applied == 0 {
		t.Error("no rule applied to anything")
	}
}

func TestStrictest(t *testing.T) {
	all := []Action{Allow, Ask, Deny}
	for i, a := range all {
		for j, b := range all {
			got := Strictest(Verdict{Action: a, Rule: "a"}, Verdict{Action: b, Rule: "b"})
			if got.Action != all[max(i, j)] || i == j && got.Rule != "a" {
				t.Errorf("%s and %s: %+v", a, b, got)
			}
		}
	}
	if Strictest(Verdict{Action: Ask}, Verdict{Action: "what"}).Action != "what" {
		t.Error("what is no action is not strict")
	}
}

// thousand are rules such as a large installation may have.
func thousand() Rules {
	r := Rules{Name: "policy"}
	for i := range 1000 {
		one := Rule{Action: Ask}
		switch i % 5 {
		case 0, 1:
			one.Tools = []string{fmt.Sprintf("server%d__tool_%d", i%40, i)}
		case 2:
			one.Tools = []string{fmt.Sprintf("server%d__*", i)}
		case 3:
			one.Tools = []string{fmt.Sprintf("*_delete_%d", i)}
		case 4:
			one.Principals = []string{fmt.Sprintf("user-%d", i), "ci-*"}
			one.Action = Deny
		}
		if i%100 == 10 { // a few apply, and look at arguments
			one = Rule{Tools: []string{"server7__*"}, Action: Deny, Args: map[string]Cond{"path": {Under: fmt.Sprint("/secret/", i)}}}
		}
		r.Rules = append(r.Rules, one)
	}
	return r
}

func BenchmarkDecide(b *testing.B) {
	groups := map[string][]string{"staff": {"alice"}}
	args := json.RawMessage(`{"path":"/home/me/notes/today.md","content":"Some words that somebody wrote."}`)
	q := func(i int) *Query {
		tool := fmt.Sprintf("tool_%d", i)
		return &Query{Subject: Subject{Tool: "server7__" + tool, Upstream: "server7", Ref: "server7:" + tool}, Args: args, Principal: "alice", Model: true}
	}
	var many []*Query
	for i := range 16384 {
		many = append(many, q(i))
	}
	for _, bc := range []struct {
		name string
		mod  int
	}{{"warm", 100}, {"cold", len(many)}} {
		b.Run(bc.name, func(b *testing.B) {
			set := Compile(thousand(), groups)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if v := Decide(many[i%bc.mod], set); v.Action == Deny {
					b.Fatal(v)
				}
			}
		})
	}
	b.Run("hidden", func(b *testing.B) {
		set := Compile(thousand(), groups)
		for i := 0; b.Loop(); i++ {
			if Hidden(many[i%100], set) {
				b.Fatal("hidden")
			}
		}
	})
}
