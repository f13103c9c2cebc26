package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const policyFile = `stoa: 1
data: /d
policy:
  groups: {staff: [alice, "ci-*"], boss: carol, nobody: }
  rules:
    - principals: bob
      groups: [staff, boss]
      prompts: "files:*"
      resources: [files, "file:///etc/*"]
      action: deny
    - tools: files__write
      args:
        path: {under: /work, not: "*.key"}
        options.mode: [w, a, 5, true]
        /a.b: {is: null}
        size: {above: 1, below: 2.5}
        name: {matches: "^[a-z]+$", present: true}
        empty: ""
      action: allow
servers:
  files: {command: x, trust: false}
  other: {command: x}
`

func TestRules(t *testing.T) {
	c, notes := must(t, Options{Dir: folder(t, "stoa.yaml", policyFile)})
	if len(notes) > 0 {
		t.Error(notes)
	}
	is := func(raw string) Cond { return Cond{Is: json.RawMessage(raw)} }
	want := Policy{
		Expiry: defaultPolicy().Expiry,
		Groups: map[string][]string{"staff": {"alice", "ci-*"}, "boss": {"carol"}, "nobody": {}},
		Rules: Rules{Rules: []Rule{
			{Principals: []string{"bob"}, Groups: []string{"staff", "boss"}, Prompts: []string{"files:*"}, Resources: []string{"files", "file:///etc/*"}, Action: "deny"},
			{Tools: []string{"files__write"}, Action: "allow", Args: map[string]Cond{
				"path":         {Under: "/work", Not: &Cond{Glob: "*.key"}},
				"options.mode": {Any: []Cond{{Glob: "w"}, {Glob: "a"}, is("5"), is("true")}},
				"/a.b":         is("null"),
				"size":         {Above: new(1.0), Below: new(2.5)},
				"name":         {Matches: "^[a-z]+$", Present: new(true)},
				"empty":        is(`""`),
			}},
		}},
	}
	if d := cmp.Diff(want, c.Policy); d != "" {
		t.Error(d)
	}
	if c.Server("files").Trust || !c.Server("other").Trust {
		t.Error("trust is not as it is written")
	}
	var shown strings.Builder
	if err := c.Show(&shown, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"trust": false`, `"under": "/work"`, `"not": "*.key"`, `"below": 2.5`, `"staff": [`, `"file:///etc/*"`, `"/policy/groups/boss"`} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("no %s in\n%s", want, &shown)
		}
	}
}

// Whatever a rule says makes another configuration.
func TestHashFollowsRules(t *testing.T) {
	seen := map[string]string{}
	for _, change := range []string{
		"", "bob>carl", "boss]>nobody]", "files:*>files:a", "etc>usr", "ci-*>ci-?", "/work>/home", "*.key>*.pem", "mode: [w>mode: [r", "5, true>6, true",
		"is: null>is: 1", "above: 1>above: 1.5", "2.5>3", "[a-z]>[a-y]", "present: true>present: false", `empty: "">empty: x`, "trust: false>trust: true", "/a.b>/a.c",
	} {
		from, to, _ := strings.Cut(change, ">")
		file := strings.Replace(policyFile, from, to, 1)
		if change != "" && file == policyFile {
			t.Fatalf("%s changes nothing", change)
		}
		c, _ := must(t, Options{Dir: folder(t, "stoa.yaml", file)})
		if other, twice := seen[c.Hash()]; twice {
			t.Errorf("%q and %q have one hash", change, other)
		}
		seen[c.Hash()] = change
	}
}

func TestRulesByHand(t *testing.T) {
	c := Default()
	c.Policy.Groups = map[string][]string{"staff": {"["}}
	c.Policy.Rules.Rules = []Rule{{Action: "ask", Groups: []string{"stuff"}, Prompts: []string{"["}, Resources: []string{""}, Principals: []string{"["}, Args: map[string]Cond{
		"a.": {Glob: "a"}, "b": {}, "c": {Any: []Cond{{Matches: "("}}}, "d": {Not: &Cond{Glob: "["}}, "e": {Matches: strings.Repeat("a", maxRegexp+1)},
	}}}
	for range maxRegexps {
		one := c.Policy.Rules.Rules[0].Args["f"]
		one.Any = append(one.Any, Cond{Matches: "a"})
		c.Policy.Rules.Rules[0].Args["f"] = one
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("no problems")
	}
	for _, want := range []string{
		"/policy/groups/staff: ", `/policy/rules/0/groups/0: there is no group "stuff"; did you mean "staff"?`, "/policy/rules/0/prompts: ", "/policy/rules/0/resources: ", "/policy/rules/0/principals: ",
		`/policy/rules/0/args/a.: "a." is no path`, "/policy/rules/0/args/b: the condition is empty", "/policy/rules/0/args/c/0/matches: ", "/policy/rules/0/args/d/not/glob: ",
		"/policy/rules/0/args/e/matches: the regular expression is longer than 1000 bytes", "/policy/rules: there are 1002 regular expressions",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
