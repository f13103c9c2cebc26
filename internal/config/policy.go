package config

import "time"

// Policy says what may be called, and by whom.
type Policy struct {
	Rules  Rules
	Groups map[string][]string // patterns of principals' names, by the name of the group
	Expiry time.Duration       // of a question to a person
}

func defaultPolicy() Policy { return Policy{Expiry: 5 * time.Minute} }

const maxPolicyExpiry = 24 * time.Hour

// policyField is rules with something beside them.
func policyField() field[Config] {
	const doc = "Who may use which tools, prompts and resources, and which calls need approval. Where neither a rule nor `default` applies, MCP clients may call anything (they ask their own users); for the hub's own agents see [chat.approvals](#chatapprovals). The rules may change while the hub runs. See [policy.md](policy.md)."
	table := within(func(p *Policy) *Rules { return &p.Rules }, rulesFields())
	expiry := durationField("expiry", "How long a person has to answer; after that the call is refused. At most 24h.", func(p *Policy) *time.Duration { return &p.Expiry })
	decode := expiry.decode
	expiry.decode = func(d *decoder, n *node, path string, p *Policy) {
		before := len(d.problems)
		decode(d, n, path, p)
		if text, hint := checkExpiry(p.Expiry); text != "" && len(d.problems) == before {
			d.problem(n.at, n.ptr, hint, "%s", text)
		}
	}
	f := objectField("policy", doc, func(c *Config) *Policy { return &c.Policy }, append(table, groupsField(), expiry))
	whole, members := f.schema, f.decode
	f.schema = func(def *Config) *schema {
		return &schema{AnyOf: []*schema{whole(def), {Type: "string", Enum: actions}}}
	}
	f.decode = func(d *decoder, n *node, path string, c *Config) {
		if n.kind == text {
			c.Policy.Rules = Rules{}
			d.trace.forget(path)
			table[0].decode(d, n, under(path, "default"), &c.Policy)
			return
		}
		members(d, n, path, c)
	}
	return f
}

// groupsField is a map of patterns by the names of groups.
func groupsField() field[Policy] {
	member := textsField("", "", asWritten, true, func(p *[]string) *[]string { return p }, checkGlob)
	return field[Policy]{
		key: "groups", doc: "Names for several principals, which rules then name in `groups`: patterns of the principals' names, as in `{staff: [alice, \"ci-*\"]}`.",
		schema: func(*Policy) *schema {
			return &schema{Type: "object", Values: member.schema(new([]string))}
		},
		decode: func(d *decoder, n *node, path string, p *Policy) {
			if !d.want(n, object, `write it as {"staff": ["alice", "ci-*"]}`) {
				return
			}
			d.record(path, n)
			whole := d.trace.places[path]
			d.trace.forget(path)
			d.trace.places[path] = whole
			p.Groups = map[string][]string{}
			for _, m := range n.members {
				patterns := []string{}
				if m.value.kind != null {
					member.decode(d, m.value, under(path, m.name), &patterns)
				}
				if p.Groups[m.name] = patterns; m.name == "" {
					d.problem(m.at, m.value.ptr, `give it a name such as "staff"`, "the group has no name")
				}
			}
		},
		show: func(s *shower, path string, p *Policy) {
			for _, name := range sortedKeys(p.Groups) {
				s.put(under(path, name), p.Groups[name])
			}
		},
	}
}

func checkExpiry(d time.Duration) (string, string) {
	if d < time.Second || d > maxPolicyExpiry {
		return "the time for an answer is out of bounds", `allowed: "1s" to "24h"`
	}
	return "", ""
}

// within makes fields of a part of T fields of T.
func within[T, U any](p func(*T) *U, table []field[U]) []field[T] {
	out := make([]field[T], len(table))
	for i, f := range table {
		out[i] = field[T]{
			key: f.key, doc: f.doc, foreign: f.foreign,
			schema: func(def *T) *schema { return f.schema(p(def)) },
			decode: func(d *decoder, n *node, path string, t *T) { f.decode(d, n, path, p(t)) },
		}
		if f.show != nil {
			out[i].show = func(s *shower, path string, t *T) { f.show(s, path, p(t)) }
		}
	}
	return out
}

// checkPolicy looks at a policy made by hand.
func checkPolicy(p *Policy, problem func(path, text, hint string)) {
	checkRules(p.Rules, "/policy", problem)
	for _, name := range sortedKeys(p.Groups) {
		for _, g := range p.Groups[name] {
			if text, hint := checkGlob(g); text != "" {
				problem(under("/policy/groups", name), text, hint)
			}
		}
	}
	if text, hint := checkExpiry(p.Expiry); text != "" {
		problem("/policy/expiry", text, hint)
	}
}
