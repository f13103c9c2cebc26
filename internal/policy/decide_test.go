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
		face  Face
		lists []Rules
		want  Action
		why   string // a part of reason or rule
	}{
		"client, nothing said":         {write, Client, nil, Allow, "its own user"},
		"chat, nothing said":           {write, Chat, nil, Ask, "harmless"},
		"chat, read-only":              {read, Chat, nil, Allow, "read-only"},
		"chat, not destructive":        {mild, Chat, nil, Allow, "non-destructive"},
		"chat, destructive":            {harsh, Chat, nil, Ask, ""},
		"chat, built-in":               {own, Chat, nil, Allow, "of the hub"},
		"exposed name":                 {write, Client, []Rules{rules(Rule{Tools: []string{"fs__write_file"}, Action: Ask})}, Ask, "rule 1 (fs__write_file)"},
		"exposed glob":                 {write, Client, []Rules{rules(Rule{Tools: []string{"fs__w*"}, Action: Ask})}, Ask, ""},
		"ref":                          {write, Client, []Rules{rules(Rule{Tools: []string{"fs:write_file"}, Action: Ask})}, Ask, ""},
		"ref glob":                     {write, Client, []Rules{rules(Rule{Tools: []string{"*:write_*"}, Action: Ask})}, Ask, ""},
		"server":                       {write, Client, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Ask})}, Ask, ""},
		"server glob":                  {write, Client, []Rules{rules(Rule{Tools: []string{"f?"}, Action: Ask})}, Ask, ""},
		"other server":                 {write, Client, []Rules{rules(Rule{Tools: []string{"fsx", "write_file"}, Action: Deny})}, Allow, ""},
		"all":                          {write, Client, []Rules{rules(Rule{Tools: []string{"*"}, Action: Deny})}, Deny, ""},
		"no tools is all":              {write, Client, []Rules{rules(Rule{Action: Deny})}, Deny, "rule 1"},
		"a star covers a slash":        {slashed, Client, []Rules{rules(Rule{Tools: []string{"gh:*"}, Action: Deny})}, Deny, ""},
		"a slash is a slash":           {slashed, Client, []Rules{rules(Rule{Tools: []string{"gh:repos/del*"}, Action: Deny})}, Deny, ""},
		"the first match":              {write, Client, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Ask, Reason: "one"}, Rule{Tools: []string{"fs"}, Action: Allow, Reason: "two"})}, Ask, "one"},
		"a later deny wins":            {write, Client, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}, Rule{Tools: []string{"fs:write*"}, Action: Deny, Reason: "no"})}, Deny, "no"},
		"a deny of a later list wins":  {write, Chat, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}), rules(Rule{Tools: []string{"fs"}, Action: Deny})}, Deny, ""},
		"lists in order":               {write, Chat, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}), rules(Rule{Tools: []string{"fs"}, Action: Ask})}, Allow, ""},
		"rule before default":          {write, Chat, []Rules{{Default: Ask}, rules(Rule{Tools: []string{"fs"}, Action: Allow})}, Allow, ""},
		"first default":                {write, Client, []Rules{{}, {Default: Ask}, {Default: Allow}}, Ask, "default"},
		"default before face":          {write, Chat, []Rules{{Default: Allow}}, Allow, "default"},
		"default deny":                 {write, Client, []Rules{{Default: Deny}}, Deny, "default"},
		"default deny with a rule":     {write, Client, []Rules{{Default: Deny, Rules: []Rule{{Tools: []string{"fs"}, Action: Allow}}}}, Allow, ""},
		"default deny of another list": {write, Chat, []Rules{rules(Rule{Tools: []string{"fs"}, Action: Allow}), {Default: Deny}}, Deny, "default"},
		"default deny, built-in":       {own, Chat, []Rules{{Default: Deny}}, Deny, ""},
		"destructive, unsaid":          {write, Client, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Ask, ""},
		"destructive, said not":        {mild, Client, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Allow, "client"},
		"destructive, read-only":       {read, Client, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Allow, "client"},
		"destructive, says both":       {odd, Client, []Rules{rules(Rule{Destructive: ptr(true), Action: Ask})}, Ask, ""},
		"not destructive, unsaid":      {write, Chat, []Rules{rules(Rule{Destructive: ptr(false), Action: Allow})}, Ask, "unsaid"},
		"read-only":                    {read, Client, []Rules{rules(Rule{ReadOnly: ptr(true), Action: Deny})}, Deny, ""},
		"not read-only":                {read, Client, []Rules{rules(Rule{ReadOnly: ptr(false), Action: Deny})}, Allow, ""},
		"idempotent":                   {harsh, Client, []Rules{rules(Rule{Idempotent: ptr(true), Action: Ask})}, Ask, ""},
		"not idempotent, unsaid":       {write, Client, []Rules{rules(Rule{Idempotent: ptr(false), Action: Ask})}, Ask, ""},
		"open world, unsaid":           {write, Client, []Rules{rules(Rule{OpenWorld: ptr(true), Action: Ask})}, Ask, ""},
		"closed world":                 {mild, Client, []Rules{rules(Rule{OpenWorld: ptr(true), Action: Ask})}, Allow, "client"},
		"all of a rule must hold":      {write, Client, []Rules{rules(Rule{Tools: []string{"gh"}, Destructive: ptr(true), Action: Ask})}, Allow, "client"},
		"an action that is none":       {write, Client, []Rules{rules(Rule{Action: "perhaps"})}, Deny, ""},
		"a default that is none":       {write, Client, []Rules{{Default: "perhaps"}}, Deny, ""},
	} {
		v := Decide(tc.s, tc.face, tc.lists...)
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
