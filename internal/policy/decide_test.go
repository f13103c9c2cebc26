package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

func ptr(b bool) *bool { return &b }

func TestDecide(t *testing.T) {
	write := Subject{Tool: "fs__write_file", Upstream: "fs", Ref: "fs:write_file"}
	read := Subject{Tool: "fs__read_file", Upstream: "fs", Ref: "fs:read_file", ReadOnly: ptr(true)}
	mild := Subject{Tool: "fs__touch", Upstream: "fs", Ref: "fs:touch", Destructive: ptr(false), OpenWorld: ptr(false)}
	harsh := Subject{Tool: "fs__wipe", Upstream: "fs", Ref: "fs:wipe", Destructive: ptr(true), Idempotent: ptr(true)}
	odd := Subject{Tool: "fs__both", Upstream: "fs", Ref: "fs:both", ReadOnly: ptr(true), Destructive: ptr(true)}
	slashed := Subject{Tool: "gh__repos_delete_a1b2c3", Upstream: "gh", Ref: "gh:repos/delete"}
	own := Subject{Tool: "context_add", Upstream: "context", Ref: "context:context_add", Builtin: true}
	rules := func(rs ...Rule) Rules { return Rules{Rules: rs} }
	for name, tc := range map[string]struct {
		s     Subject
		model bool
		lists []Rules
		want  Action
		why   string // a part of reason or rule
	}{
		"client, nothing said":         {write, false, nil, Allow, "its own user"},
		"chat, nothing said":           {write, true, nil, Ask, "harmless"},
		"chat, read-only":              {read, true, nil, Allow, "read-only"},
		"chat, not destructive":        {mild, true, nil, Allow, "non-destructive"},
		"chat, destructive":            {harsh, true, nil, Ask, ""},
		"chat, built-in":               {own, true, nil, Ask, "harmless"},
		"exposed name":                 {write, false, []Rules{rules(Rule{Tools: []string{"fs__write_file"}, Action: Ask})}, Ask, "rule 1 (fs__write_file)"},
		"exposed glob":                 {write, false, []Rules{rules(Rule{Tools: []string{"fs__w*"}, Action: Ask})}, Ask, ""},
		"ref":                          {write, false, []Rules{rules(Rule{Tools: []string{"fs:write_file"}, Action: Ask})}, Ask, ""},
		"ref glob":                     {write, false, []Rules{rules(Rule{Tools: []string{"*:write_*"}, Action: Ask})}, Ask, ""},
		"server":                       {write, false, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Ask})}, Ask, ""},
		"server glob":                  {write, false, []Rules{rules(Rule{Tools: []string{"f?"}, Action: Ask})}, Ask, ""},
		"other server":                 {write, false, []Rules{rules(Rule{Tools: []string{"fsx", "write_file"}, Action: Deny})}, Allow, ""},
		"all":                          {write, false, []Rules{rules(Rule{Tools: []string{"*"}, Action: Deny})}, Deny, ""},
		"no tools is all":              {write, false, []Rules{rules(Rule{Action: Deny})}, Deny, "rule 1"},
		"a star covers a slash":        {slashed, false, []Rules{rules(Rule{Tools: []string{"gh:*"}, Action: Deny})}, Deny, ""},
		"a slash is a slash":           {slashed, false, []Rules{rules(Rule{Tools: []string{"gh:repos/del*"}, Action: Deny})}, Deny, ""},
		"the first match":              {write, false, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Ask, Reason: "one"}, Rule{Tools: []string{"fs"}, Action: Allow, Reason: "two"})}, Ask, "one"},
		"a later deny wins":            {write, false, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}, Rule{Tools: []string{"fs:write*"}, Action: Deny, Reason: "no"})}, Deny, "no"},
		"a deny of a later list wins":  {write, true, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}), rules(Rule{Tools: []string{"fs"}, Action: Deny})}, Deny, ""},
		"lists in order":               {write, true, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}), rules(Rule{Tools: []string{"fs"}, Action: Ask})}, Allow, ""},
		"rule before default":          {write, true, []Rules{{Default: Ask}, rules(Rule{Tools: []string{"fs"}, Action: Allow})}, Allow, ""},
		"first default":                {write, false, []Rules{{}, {Default: Ask}, {Default: Allow}}, Ask, "default"},
		"default before face":          {write, true, []Rules{{Default: Allow}}, Allow, "default"},
		"default deny":                 {write, false, []Rules{{Default: Deny}}, Deny, "default"},
		"default deny with a rule":     {write, false, []Rules{{Default: Deny, Rules: []Rule{{Tools: []string{"fs"}, Action: Allow}}}}, Allow, ""},
		"default deny of another list": {write, true, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}), {Default: Deny}}, Deny, "default"},
		"default deny, built-in":       {own, true, []Rules{{Default: Deny}}, Deny, ""},
		"destructive, unsaid":          {write, false, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Ask, ""},
		"destructive, said not":        {mild, false, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Allow, "client"},
		"destructive, read-only":       {read, false, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Allow, "client"},
		"destructive, says both":       {odd, false, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Ask, ""},
		"not destructive, unsaid":      {write, true, []Rules{rules(Rule{Destructive: ptr(false), Action: Allow})}, Ask, "unsaid"},
		"read-only":                    {read, false, []Rules{rules(Rule{ReadOnly: ptr(true), Action: Deny})}, Deny, ""},
		"not read-only":                {read, false, []Rules{rules(Rule{ReadOnly: ptr(false), Action: Deny})}, Allow, ""},
		"idempotent":                   {harsh, false, []Rules{rules(Rule{Idempotent: ptr(true), Action: Ask})}, Ask, ""},
		"not idempotent, unsaid":       {write, false, []Rules{rules(Rule{Idempotent: ptr(false), Action: Ask})}, Ask, ""},
		"open world, unsaid":           {write, false, []Rules{rules(Rule{OpenWorld: ptr(true), Action: Ask})}, Ask, ""},
		"closed world":                 {mild, false, []Rules{rules(Rule{OpenWorld: ptr(true), Action: Ask})}, Allow, "client"},
		"all of a rule must hold":      {write, false, []Rules{rules(Rule{Tools: []string{"gh"}, Destructive: ptr(true), Action: Ask})}, Allow, "client"},
		"an action that is none":       {write, false, []Rules{rules(Rule{Action: "perhaps"})}, Deny, ""},
		"a default that is none":       {write, false, []Rules{{Default: "perhaps"}}, Deny, ""},
	} {
		var sets []*Set
		for _, r := range tc.lists {
			sets = append(sets, Compile(r, nil))
		}
		v := Decide(&Query{Subject: tc.s, Model: tc.model}, sets...)
		if v.Action != tc.want || !strings.Contains(v.Reason+" "+v.Rule, tc.why) || v.Reason == "" || v.Rule == "" {
			t.Errorf("%s: %+v, want %s (%s)", name, v, tc.want, tc.why)
		}
	}
}

func TestRulesAreChecked(t *testing.T) {
	r := Rules{Default: "sometimes", Rules: []Rule{{Tools: []string{"ok", "fs:[a", ""}, Action: Ask}, {}, {Action: "never"}}}
	var got []string
	for _, p := range r.Check() {
		got = append(got, p.Path)
	}
	if diff := cmp.Diff([]string{"default", "rules[0].tools[1]", "rules[0].tools[2]", "rules[1].action", "rules[2].action"}, got); diff != "" {
		t.Error(diff)
	}
	if p := (Rules{Default: Ask, Rules: []Rule{{Tools: []string{"a*"}, Action: Deny}}}).Check(); p != nil {
		t.Errorf("of good rules: %v", p)
	}
}

func TestSubjectOfATool(t *testing.T) {
	it, err := catalog.Parse(catalog.Tool, "fs", []byte(`{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":true,"openWorldHint":"yes"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Subject{Tool: "fs__wipe", Upstream: "fs", Ref: "fs:wipe", ReadOnly: ptr(false), Destructive: ptr(true)}
	if diff := cmp.Diff(want, Of(it, false)); diff != "" {
		t.Error(diff)
	}
}
