package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rules say what may be called: Default where no rule matches ("": as the
// face does), else the first of Rules that matches.
type Rules struct {
	Default string // "", allow, ask or deny
	Rules   []Rule
}

// Rule is one of Rules. What is empty or nil is not looked at. A rule that has
// neither Tools nor Prompts nor Resources is about all of them.
type Rule struct {
	Tools, Prompts, Resources                    []string // patterns
	Principals                                   []string // patterns
	Groups                                       []string // names of Policy.Groups
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
	Args                                         map[string]Cond // by path
	Action                                       string          // allow, ask or deny
	Reason                                       string          // for whoever is asked or refused
}

// actions are what a rule can say.
var actions = []string{"allow", "ask", "deny"}

// rulesField reads rules; where they are one word, that is the default.
func rulesField[T any](key, doc string, p func(*T) *Rules) field[T] {
	table := rulesFields()
	f := objectField(key, doc+" A plain `allow`, `ask` or `deny` is `default`.", p, table)
	schemaOf, decode := f.schema, f.decode
	f.schema = func(def *T) *schema {
		return &schema{AnyOf: []*schema{schemaOf(def), {Type: "string", Enum: actions}}}
	}
	f.decode = func(d *decoder, n *node, path string, t *T) {
		if n.kind == text {
			*p(t) = Rules{}
			d.trace.forget(path)
			table[0].decode(d, n, under(path, "default"), p(t))
			return
		}
		if n.kind != object {
			d.problem(n.at, n.ptr, `write allow, ask or deny, or {"rules": [{"tools": ["…"], "action": "ask"}]}`, "must be one word or an object, and is %s", n.describe())
			return
		}
		decode(d, n, path, t)
	}
	return f
}

func rulesFields() []field[Rules] {
	word := enumField("default", "What becomes of a call that no rule matches: it is made, a person is asked, or it is refused.", func(r *Rules) *string { return &r.Default }, actions...)
	show := word.show
	word.show = func(s *shower, path string, r *Rules) {
		if r.Default != "" {
			show(s, path, r)
		}
	}
	return []field[Rules]{word, rulesList()}
}

func rulesList() field[Rules] {
	return field[Rules]{
		key: "rules", doc: "The rules. A `deny` that matches wins over all others, wherever it stands; else the first that matches counts.",
		schema: func(*Rules) *schema {
			one := objectSchema(&Rule{}, ruleFields())
			one.Required = []string{"action"}
			return &schema{Type: "array", Items: one}
		},
		decode: func(d *decoder, n *node, path string, r *Rules) {
			if !d.want(n, list, `write it as [{"tools": ["…"], "action": "ask"}]`) {
				return
			}
			d.record(path, n)
			whole := d.trace.places[path]
			d.trace.forget(path)
			d.trace.places[path] = whole
			r.Rules = make([]Rule, 0, len(n.items))
			for i, item := range n.items {
				var one Rule
				before := len(d.problems)
				decodeObject(d, item, under(path, strconv.Itoa(i)), &one, ruleFields())
				if one.Action == "" && len(d.problems) == before {
					d.problem(item.at, item.ptr, "allowed: "+strings.Join(actions, ", "), "the rule has no action")
				}
				r.Rules = append(r.Rules, one)
			}
			if text, hint := checkExpressions(r); text != "" {
				d.problem(n.at, n.ptr, hint, "%s", text)
			}
		},
		show: func(s *shower, path string, r *Rules) {
			if len(r.Rules) == 0 {
				return
			}
			all := make([]map[string]any, 0, len(r.Rules))
			for i := range r.Rules {
				inner := shower{c: &Config{}}
				showObject(&inner, "", &r.Rules[i], ruleFields())
				one := map[string]any{}
				for _, e := range inner.entries {
					one[strings.TrimPrefix(e.path, "/")] = e.value
				}
				all = append(all, one)
			}
			s.put(path, all)
		},
	}
}

func ruleFields() []field[Rule] {
	return []field[Rule]{
		textsField("tools", "Which tools: patterns of the name as it is offered (`files__*`), of `server:tool`, or the name of a server alone; `*`, `?` and `[a-z]` are wildcards. A rule that names no tools, prompts or resources is about all of them.", asWritten, true, func(r *Rule) *[]string { return &r.Tools }, checkGlob),
		textsField("prompts", "Which prompts: patterns of the name as it is offered, of `server:prompt`, or the name of a server alone.", asWritten, true, func(r *Rule) *[]string { return &r.Prompts }, checkGlob),
		textsField("resources", "Which resources: patterns of the URI (`file:///etc/*`), or the name of a server alone.", asWritten, true, func(r *Rule) *[]string { return &r.Resources }, checkGlob),
		textsField("principals", "Who calls: patterns of the names of principals, as `stoa token list` shows them. With `groups`, either will do; without both, everybody.", asWritten, true, func(r *Rule) *[]string { return &r.Principals }, checkGlob),
		textsField("groups", "Who calls: names of [policy.groups](#policy).", asWritten, true, func(r *Rule) *[]string { return &r.Groups }, nil),
		toggleField("readOnly", "Only tools that are said to change nothing, or with false only the others. A tool whose server does not say counts as one that does.", func(r *Rule) **bool { return &r.ReadOnly }),
		toggleField("destructive", "Only tools that may destroy something, or with false only those that are said not to. A tool whose server does not say counts as destructive, unless it is read-only.", func(r *Rule) **bool { return &r.Destructive }),
		toggleField("idempotent", "Only tools that are said to bear repetition, or with false only the others.", func(r *Rule) **bool { return &r.Idempotent }),
		toggleField("openWorld", "Only tools that may reach beyond their server, or with false only those that are said not to.", func(r *Rule) **bool { return &r.OpenWorld }),
		argsField(),
		enumField("action", "What becomes of the call.", func(r *Rule) *string { return &r.Action }, actions...),
		textField("reason", "What is said to whoever is asked or refused.", asWritten, func(r *Rule) *string { return &r.Reason }, nil),
	}
}

// checkRules looks at rules made by hand.
func checkRules(r Rules, path string, problem func(path, text, hint string)) {
	hint := "allowed: " + strings.Join(actions, ", ")
	if r.Default != "" && !slices.Contains(actions, r.Default) {
		problem(path+"/default", fmt.Sprintf("unknown value %q", r.Default), hint)
	}
	for i, one := range r.Rules {
		at := fmt.Sprintf("%s/rules/%d", path, i)
		if !slices.Contains(actions, one.Action) {
			problem(at+"/action", fmt.Sprintf("unknown value %q", one.Action), hint)
		}
		patterns := func(key string, list []string) {
			for _, g := range list {
				if text, hint := checkGlob(g); text != "" {
					problem(at+key, text, hint)
				}
			}
		}
		patterns("/tools", one.Tools)
		patterns("/prompts", one.Prompts)
		patterns("/resources", one.Resources)
		patterns("/principals", one.Principals)
		for _, key := range sortedKeys(one.Args) {
			c := one.Args[key]
			checkArg(key, &c, under(at+"/args", key), problem)
		}
	}
	if text, hint := checkExpressions(&r); text != "" {
		problem(path+"/rules", text, hint)
	}
}

// checkExpressions bounds the regular expressions of a list of rules.
func checkExpressions(r *Rules) (text, hint string) {
	n := 0
	for i := range r.Rules {
		for _, c := range r.Rules[i].Args {
			n += c.expressions()
		}
	}
	if n > maxRegexps {
		return fmt.Sprintf("there are %d regular expressions in one list of rules", n), fmt.Sprintf("at most %d are allowed; use patterns", maxRegexps)
	}
	return "", ""
}

// checkGroups looks for groups that rules name and the policy does not have.
func checkGroups(c *Config, problem func(path, text, hint string)) {
	names := sortedKeys(c.Policy.Groups)
	check := func(path string, r *Rules) {
		for i := range r.Rules {
			for j, name := range r.Rules[i].Groups {
				if slices.Contains(names, name) {
					continue
				}
				hint := "define it in policy.groups"
				if len(names) > 0 {
					hint = didYouMean(name, names)
				}
				problem(fmt.Sprintf("%s/rules/%d/groups/%d", path, i, j), fmt.Sprintf("there is no group %q", name), hint)
			}
		}
	}
	check("/policy", &c.Policy.Rules)
	check("/chat/approvals", &c.Chat.Approvals)
	for i := range c.Agents {
		check(under("/agents", c.Agents[i].Name)+"/approvals", &c.Agents[i].Approvals)
	}
}
