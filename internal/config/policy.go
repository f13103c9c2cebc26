package config

import "time"

// Policy says which tools may be called, on all faces.
type Policy struct {
	Rules  Rules
	Expiry time.Duration // of a question to a person
}

func defaultPolicy() Policy { return Policy{Expiry: 5 * time.Minute} }

const maxPolicyExpiry = 24 * time.Hour

// policyField is rules with something beside them.
func policyField() field[Config] {
	const doc = "Which tools may be called, on all faces, and for which calls a person is asked first. Where no rule matches and no default is said, calls of MCP clients are made (they ask their own users), and for those of the hub's own agents see [chat.approvals](#chatapprovals). The rules may change while the hub runs. See [policy.md](policy.md)."
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
	f := objectField("policy", doc, func(c *Config) *Policy { return &c.Policy }, append(table, expiry))
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
	if text, hint := checkExpiry(p.Expiry); text != "" {
		problem("/policy/expiry", text, hint)
	}
}
