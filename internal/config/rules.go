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

// Rule is one of Rules. A nil annotation is not looked at.
type Rule struct {
	Tools                                        []string // patterns; empty: every tool
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
	Action                                       string // allow, ask or deny
	Reason                                       string // for whoever is asked or refused
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
		textsField("tools", "Which tools: patterns of the name as it is offered (`files__*`), of `server:tool`, or the name of a server alone; `*`, `?` and `[a-z]` are wildcards. Left out, every tool.", asWritten, true, func(r *Rule) *[]string { return &r.Tools }, checkGlob),
		toggleField("readOnly", "Only tools that are said to change nothing, or with false only the others. A tool whose server does not say counts as one that does.", func(r *Rule) **bool { return &r.ReadOnly }),
		toggleField("destructive", "Only tools that may destroy something, or with false only those that are said not to. A tool whose server does not say counts as destructive, unless it is read-only.", func(r *Rule) **bool { return &r.Destructive }),
		toggleField("idempotent", "Only tools that are said to bear repetition, or with false only the others.", func(r *Rule) **bool { return &r.Idempotent }),
		toggleField("openWorld", "Only tools that may reach beyond their server, or with false only those that are said not to.", func(r *Rule) **bool { return &r.OpenWorld }),
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
		for _, g := range one.Tools {
			if text, hint := checkGlob(g); text != "" {
				problem(at+"/tools", text, hint)
			}
		}
	}
}
