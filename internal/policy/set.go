package policy

import "strings"

// Set is a list of rules, compiled. It does not change, and may be used by many
// goroutines.
type Set struct {
	otherwise *Verdict // the default; nil where nothing is said
	rules     []*rule
	sampling  *Verdict // the default for sampling

	tools, prompts, resources, principals index
}

// Compile makes rules ready to decide by. groups has the patterns of
// principals' names that each group stands for. A flawed rule (an unknown
// action or group, a pattern or expression that is none) denies what it may
// have been meant for: a mistake never allows anything.
func Compile(r Rules, groups map[string][]string) *Set {
	s := &Set{}
	regexps := 0
	for i := range r.Rules {
		one := r.Rules[i].compile(groups, &regexps, "", func(string, string) {})
		one.verdict = Verdict{Action: one.action, Reason: r.Rules[i].Reason, Rule: r.Rules[i].label(r.Name, i)}
		if one.verdict.Reason == "" {
			one.verdict.Reason = one.verdict.Rule + " " + one.action.verb()
		}
		s.rules = append(s.rules, one)
	}
	s.prepare()
	if r.Default == "" {
		return s
	}
	v := Verdict{Action: r.Default, Rule: strings.TrimPrefix(r.Name+" default", " ")}
	if !v.Action.Valid() {
		v.Action = Deny
	}
	v.Reason = "the " + v.Rule + " " + v.Action.verb()
	s.otherwise = &v
	if v.Action != Allow { // which is said of tools
		s.sampling = &v
	}
	return s
}

// verb is what a rule with the action does to a call.
func (a Action) verb() string {
	switch a {
	case Allow:
		return "allows it"
	case Ask:
		return "requires approval"
	}
	return "does not allow it"
}

// Empty reports whether nothing is said. A nil Set is empty.
func (s *Set) Empty() bool { return s == nil || s.otherwise == nil && len(s.rules) == 0 }

// fallback is the verdict where no rule matches, or nil.
func (s *Set) fallback(kind string) *Verdict {
	if kind == KindSampling {
		return s.sampling
	}
	return s.otherwise
}

// key is everything of a query that decides which rules apply, but the
// arguments.
type key struct {
	kind, tool, upstream, ref, principal string
	annotations                          [4]bool
	uri                                  spellings // of a resource
	alike                                []string  // other names by which something may be meant
}

func keyOf(q *Query) key {
	k := key{kind: q.Kind, tool: q.Tool, upstream: q.Upstream, ref: q.Ref, principal: q.Principal, annotations: q.annotations()}
	if k.kind == "" {
		k.kind = KindTool
	}
	if k.alike = q.alike(); k.kind == KindResource {
		k.uri = spellingsOf(k.tool)
	}
	return k
}

// rulesFor returns the rules that apply to what the key says and can make a
// difference, in order: rules behind an unconditional deny cannot, nor can
// those that do not deny behind an unconditional rule.
func (s *Set) rulesFor(k *key) (out []*rule) {
	if len(s.rules) == 0 {
		return nil
	}
	var space [64]uint64 // enough for two sets of 2,048 rules
	size := len(s.tools.always)
	room := space[:]
	if 2*size > len(room) {
		room = make([]uint64, 2*size)
	}
	about, who := ruleSet(room[:size]), ruleSet(room[size:2*size])
	names := s.named(k.kind)
	copy(about, names.always)
	for _, name := range [...]string{k.tool, k.ref, k.upstream} {
		if name != "" {
			names.find(name, about)
		}
	}
	for _, list := range [...][]string{k.alike, k.uri.whole, k.uri.bare} {
		for _, name := range list {
			names.find(name, about)
		}
	}
	copy(who, s.principals.always)
	s.principals.find(k.principal, who)
	n := about.keep(who)
	if n == 0 {
		return nil
	}
	out = make([]*rule, 0, n)
	settled := false
	for i := range about.all {
		r := s.rules[i]
		if settled && r.action != Deny || !r.applies(k) {
			continue
		}
		out = append(out, r)
		if len(r.args) > 0 {
			continue
		}
		if settled = true; r.action == Deny {
			break
		}
	}
	return out
}

// named is the index of what the patterns of a kind name.
func (s *Set) named(kind string) *index {
	switch kind {
	case KindPrompt:
		return &s.prompts
	case KindResource:
		return &s.resources
	}
	return &s.tools
}

// prepare makes the indices.
func (s *Set) prepare() {
	by := func(patterns func(r *rule) (globs, bool)) index {
		return newIndex(len(s.rules), func(i int) (globs, bool) { return patterns(s.rules[i]) })
	}
	s.tools = by(func(r *rule) (globs, bool) { return r.tools, r.anyKind })
	s.prompts = by(func(r *rule) (globs, bool) { return r.prompts, r.anyKind })
	s.resources = by(func(r *rule) (globs, bool) { return r.forms, r.anyKind })
	s.principals = by(func(r *rule) (globs, bool) { return r.principals, r.anyone })
}
