package policy

import (
	"maps"
	"slices"
	"strings"
)

// Bounds of the work that HiddenFrom does: how many arguments it tries, and how
// many ways there are for the conditions on one of them to turn out.
const (
	maxTrials   = 256
	maxOutcomes = 64
)

// Hidden reports whether a query is denied whatever its arguments, so that
// there is no use in offering its subject. q.Args is not looked at. What it calls
// hidden is denied. Where it would be too much work to tell, or where it takes
// knowing what a regular expression finds, it is not hidden.
func Hidden(q *Query, sets ...*Set) bool { return HiddenFrom(Party{q, sets}) }

// Party is one of those on whose behalf something is done, and the rules that
// hold for it.
type Party struct {
	Query *Query
	Sets  []*Set
}

// HiddenFrom reports whether there are no arguments for which none of the
// parties is denied what they ask for. See Hidden.
func HiddenFrom(parties ...Party) bool {
	keys, conditions := make([]key, len(parties)), false
	for i, p := range parties {
		keys[i] = keyOf(p.Query)
		hidden, conditional := keys[i].unconditional(p.Sets)
		if hidden {
			return true
		}
		conditions = conditions || conditional
	}
	if !conditions || permitsAll(keys, parties) { // the most likely, and needs no search
		return false
	}
	t := newTrial(keys, parties)
	sites, ok := t.choose()
	if !ok {
		return false
	}
	pick := make([]int, len(sites))
	for range maxTrials {
		if t.permits(sites, pick) {
			return false
		}
		if !advance(pick, sites) {
			return true
		}
	}
	return false
}

// permitsAll reports whether none of the parties is denied what they ask for
// without arguments.
func permitsAll(keys []key, parties []Party) bool {
	for i := range keys {
		if v := keys[i].decide(&arguments{}, parties[i].Sets); v != nil && v.Action == Deny {
			return false
		}
	}
	return true
}

// advance goes on to the next choice of outcomes, and reports whether there is
// one.
func advance(pick []int, sites []*site) bool {
	for i := range pick {
		if pick[i]++; pick[i] < len(sites[i].outcomes) {
			return true
		}
		pick[i] = 0
	}
	return false
}

// unconditional reports whether arguments make a difference, and if they do
// not, whether the query is denied.
func (k *key) unconditional(sets []*Set) (denied, conditional bool) {
	for _, s := range sets {
		if s == nil {
			continue
		}
		permitted := false // by a rule that does not deny, at least for some arguments
		for _, r := range s.rulesFor(k) {
			if r.action == Deny && len(r.args) == 0 {
				return true, false
			}
			permitted = permitted || r.action != Deny
			conditional = conditional || len(r.args) > 0
		}
		if v := s.fallback(k.kind); v != nil && v.Action == Deny && !permitted {
			return true, false
		}
	}
	return false, conditional
}

// trial is what has to be decided, as far as the conditions on arguments go.
type trial struct {
	sets  []tried // of all parties: none of them may deny
	sites map[string]*site
	known map[*rule][]condAt
}

// tried are the rules of a set that apply to one of the parties.
type tried struct {
	rules  []*rule
	denies bool // where no rule matches
}

// condAt is where the outcome of a rule's condition stands.
type condAt struct {
	site *site
	cond int
}

// site is an argument that conditions are about, and the ways in which these can
// turn out.
type site struct {
	steps    []string
	conds    []argument
	strict   []bool
	asks     bool     // a rule that asks looks at it
	at       int      // in the list of sites
	outcomes []string // a byte for each condition: 1 if it holds
}

func newTrial(keys []key, parties []Party) *trial {
	t := &trial{sites: map[string]*site{}, known: map[*rule][]condAt{}}
	for i := range keys {
		for _, s := range parties[i].Sets {
			if s == nil {
				continue
			}
			v := s.fallback(keys[i].kind)
			one := tried{rules: s.rulesFor(&keys[i]), denies: v != nil && v.Action == Deny}
			for _, r := range one.rules {
				t.note(r)
			}
			t.sets = append(t.sets, one)
		}
	}
	return t
}

// note adds the arguments that a rule looks at to those that are known.
func (t *trial) note(r *rule) {
	if _, ok := t.known[r]; ok {
		return
	}
	at := []condAt{}
	for _, a := range r.args {
		name := strings.Join(a.steps, "\x00")
		one := t.sites[name]
		if one == nil {
			one = &site{steps: a.steps}
			t.sites[name] = one
		}
		at = append(at, condAt{one, len(one.conds)})
		one.conds, one.strict = append(one.conds, a), append(one.strict, r.action == Allow)
		one.asks = one.asks || r.action == Ask
	}
	t.known[r] = at
}

// choose finds the outcomes to try for each argument. ok is false where they may
// not be all.
func (t *trial) choose() (out []*site, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(t.sites)) {
		one := t.sites[name]
		if one.at = len(out); slices.ContainsFunc(out, one.overlaps) || !one.choose() {
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

// permits reports whether nobody is denied where conditions turn out as picked.
func (t *trial) permits(sites []*site, pick []int) bool {
	for _, s := range t.sets {
		matched := false
		for _, r := range s.rules {
			if matched && r.action != Deny {
				continue
			}
			if slices.ContainsFunc(t.known[r], func(c condAt) bool { return c.site.outcomes[pick[c.site.at]][c.cond] == 0 }) {
				continue
			}
			if r.action == Deny {
				return false
			}
			matched = true
		}
		if s.denies && !matched {
			return false
		}
	}
	return true
}

// overlaps reports whether one of the arguments may be part of the other.
func (s *site) overlaps(other *site) bool {
	for i := range min(len(s.steps), len(other.steps)) {
		if !strings.EqualFold(s.steps[i], other.steps[i]) {
			return false
		}
	}
	return true
}

// choose finds the outcomes to try.
func (s *site) choose() (ok bool) {
	var p parts
	for i := range s.conds {
		p.collect(&s.conds[i].cond)
	}
	samples, ok := p.samples(s.asks)
	if !ok {
		return false
	}
	seen := map[string]bool{}
	add := func(outcome []byte) {
		if !seen[string(outcome)] {
			seen[string(outcome)] = true
			s.outcomes = append(s.outcomes, string(outcome))
		}
	}
	for i := range samples {
		outcome := make([]byte, len(s.conds))
		for j := range s.conds {
			if s.conds[j].cond.holds(&samples[i], s.strict[j]) {
				outcome[j] = 1
			}
		}
		add(outcome)
	}
	if !s.asks {
		return len(s.outcomes) <= maxOutcomes
	}
	broken := make([]byte, len(s.conds)) // what cannot be read meets every condition but those that allow
	for j := range broken {
		if !s.strict[j] {
			broken[j] = 1
		}
	}
	add(broken)
	return s.combine(add)
}

// combine adds what several values together come to, as in an array: conditions
// that are read strictly have to hold for each of them, others for one.
func (s *site) combine(add func([]byte)) (ok bool) {
	for i := 1; i < len(s.outcomes); i++ {
		for j := range i {
			both := []byte(s.outcomes[i])
			for k := range both {
				if s.strict[k] {
					both[k] &= s.outcomes[j][k]
				} else {
					both[k] |= s.outcomes[j][k]
				}
			}
			if add(both); len(s.outcomes) > maxOutcomes {
				return false
			}
		}
	}
	return true
}
