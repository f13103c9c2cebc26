package policy

import (
	"strings"
	"sync"
)

// Set is a list of rules, compiled. It does not change, and may be used by many
// goroutines.
type Set struct {
	otherwise  *Verdict // the default; nil where nothing is said
	rules      []*rule
	sampling   *Verdict // the default for sampling
	applicable memo
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
}

func keyOf(q *Query) key {
	k := key{kind: q.Kind, tool: q.Tool, upstream: q.Upstream, ref: q.Ref, principal: q.Principal, annotations: q.annotations()}
	if k.kind == "" {
		k.kind = KindTool
	}
	return k
}

// Bounds of a memo: clients choose the names in its keys. At the worst it holds
// some megabytes.
const (
	maxMemo    = 4096
	maxMemoKey = 1024 // bytes
)

// memo remembers which rules of a Set apply, by key. It begins anew when it is
// full.
type memo struct {
	mu   sync.RWMutex
	seen map[key][]*rule
}

// rulesFor returns the rules that apply to what the key says and can make a
// difference, in order: rules behind an unconditional deny cannot, nor can
// those that do not deny behind an unconditional rule.
func (s *Set) rulesFor(k *key) []*rule {
	if len(s.rules) == 0 {
		return nil
	}
	m := &s.applicable
	m.mu.RLock()
	out, ok := m.seen[*k]
	m.mu.RUnlock()
	if ok {
		return out
	}
	settled := false
	for _, r := range s.rules {
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
	m.add(*k, out)
	return out
}

func (m *memo) add(k key, rules []*rule) {
	if len(k.kind)+len(k.tool)+len(k.upstream)+len(k.ref)+len(k.principal) > maxMemoKey {
		return
	}
	// The names may be parts of a message, which must not be kept for them.
	k.kind, k.tool, k.upstream = strings.Clone(k.kind), strings.Clone(k.tool), strings.Clone(k.upstream)
	k.ref, k.principal = strings.Clone(k.ref), strings.Clone(k.principal)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen) >= maxMemo {
		m.seen = map[key][]*rule{}
	}
	m.seen[k] = rules
}
